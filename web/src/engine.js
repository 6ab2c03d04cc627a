// A network in a WebAssembly instance of its own: closing it gives its memory back, and nothing that goes wrong in it
// reaches another network.
import { covering } from "./pictures.js";

// A function that makes a vector, as smallest module: browsers without SIMD do not accept it.
const SIMD = Uint8Array.of(
  0, 97, 115, 109, 1, 0, 0, 0, 1, 5, 1, 96, 0, 1, 123, 3, 2, 1, 0, 10, 10, 1, 8, 0, 65, 0, 253, 15, 253, 98, 11,
);
const MOST_MEMORY = 2 ** 32; // of an instance
const NOT_HERE = 52; // ENOSYS

/** An Error where a file has more bytes than this. */
export function checkSize(bytes, most = 2 ** 30) {
  if (bytes > most) throw new Error(`the file has ${bytes} bytes; allowed are ${most}`);
}

/** Compile the runtime; an Error where the browser lacks what it needs. */
export async function compile(bytes) {
  if (typeof WebAssembly !== "object" || !WebAssembly.validate(SIMD))
    throw new Error("this browser has no WebAssembly with SIMD, which the runtime needs");
  try {
    return await WebAssembly.compile(bytes);
  } catch (error) {
    throw new Error(`the runtime cannot be compiled: ${error.message}`);
  }
}

/** The C interface of the runtime (adaste_runtime.h) for one network. */
class Instance {
  constructor(module, file, int8) {
    // What C's library asks of a system: there are no files, and the environment is empty.
    const system = Object.fromEntries(WebAssembly.Module.imports(module).map(({ name }) => [name, () => NOT_HERE]));
    system.environ_get = () => 0;
    system.environ_sizes_get = (count, size) => {
      for (const place of [count, size]) new DataView(this.c.memory.buffer).setUint32(place, 0, true);
      return 0;
    };
    this.c = new WebAssembly.Instance(module, { wasi_snapshot_preview1: system }).exports;
    this.c._initialize();
    this.network = this.with(file, (place) => this.c.adaste_load_memory(place, file.length, 1, Number(int8)) >>> 0);
    if (this.network === 0) throw new Error(this.problem());
    this.inputShape = this.with(new Uint8Array(12), (place) => {
      this.c.adaste_input_shape(this.network, place);
      return [...new Int32Array(this.c.memory.buffer, place, 3)];
    });
    this.outputs = this.c.adaste_output_size(this.network);
    const classes = Array.from({ length: this.outputs }, (_, number) =>
      this.text(this.c.adaste_class_name(this.network, number)),
    );
    this.classes = classes[0] === null ? null : classes;
  }

  /** A string of C; null for NULL. */
  text(place) {
    if (place === 0) return null;
    const memory = new Uint8Array(this.c.memory.buffer, place >>> 0);
    return new TextDecoder().decode(memory.slice(0, memory.indexOf(0)));
  }

  problem() {
    return this.text(this.c.adaste_last_error());
  }

  /** Memory of so many bytes. */
  memory(bytes) {
    const place = bytes < MOST_MEMORY ? this.c.malloc(Math.max(1, bytes)) >>> 0 : 0;
    if (place === 0) throw new Error(`not enough memory for ${bytes} bytes`);
    return place;
  }

  /** What a function of the address of a copy of the array returns. */
  with(array, use) {
    const place = this.memory(array.byteLength);
    new Uint8Array(this.c.memory.buffer).set(new Uint8Array(array.buffer, array.byteOffset, array.byteLength), place);
    const result = use(place);
    this.c.free(place);
    return result;
  }

  run(images, count) {
    const numbers = count * this.outputs;
    const outputs = this.memory(4 * numbers);
    const function_ = images instanceof Float32Array ? this.c.adaste_run : this.c.adaste_run_bytes;
    try {
      if (this.with(images, (place) => function_(this.network, place, count, outputs)) !== 0)
        throw new Error(this.problem());
      return new Float32Array(this.c.memory.buffer, outputs, numbers).slice();
    } finally {
      this.c.free(outputs);
    }
  }

  calibrate(images, count) {
    if (this.with(images, (place) => this.c.adaste_calibrate(this.network, place, count)) !== 0)
      throw new Error(this.problem());
  }
}

/** A network and all that may be asked of it, here or in a Worker. */
export class Engine {
  #module;
  #file;
  #int8;
  #instance;

  constructor(module, file, int8) {
    checkSize(file.length);
    [this.#module, this.#file, this.#int8] = [module, file, int8];
    this.#use(() => {});
  }

  /** After a trap an instance cannot be relied on: the next call makes another, without its calibration. */
  #use(use) {
    try {
      this.#instance ??= new Instance(this.#module, this.#file, this.#int8);
      return use(this.#instance);
    } catch (error) {
      if (error.constructor === Error) throw error;
      this.#instance = undefined;
      throw new Error(`the runtime failed: ${error.message}`);
    }
  }

  facts() {
    return this.#use(({ inputShape, outputs, classes }) => ({ inputShape, outputs, classes }));
  }

  #count(images) {
    const [channels, height, width] = this.facts().inputShape;
    const size = channels * height * width;
    if (images.length % size === 0) return images.length / size;
    throw new Error(`images of this network have ${channels} x ${height} x ${width} numbers, got ${images.length}`);
  }

  logits(images) {
    if (!(images instanceof Float32Array || images instanceof Uint8Array || images instanceof Uint8ClampedArray))
      throw new Error("images must be a Float32Array (N, C, H, W) or a Uint8Array (N, H, W, C)");
    const count = this.#count(images);
    return this.#use((instance) => instance.run(images, count));
  }

  /** Logits and the milliseconds they took, for RGBA pixels of any size. */
  classify(pixels) {
    const image = covering(pixels, this.facts().inputShape);
    const began = performance.now();
    const logits = this.logits(image);
    return { logits, milliseconds: performance.now() - began };
  }

  calibrate(images) {
    if (!(images instanceof Float32Array)) throw new Error("calibration needs a Float32Array (N, C, H, W)");
    const count = this.#count(images);
    this.#use((instance) => instance.calibrate(images, count));
  }
}
