import { checkSize, compile, Engine } from "./engine.js";
import { pixelsOf } from "./pictures.js";

const MODULES = new Map();

async function read(source) {
  if (source instanceof Uint8Array) return source;
  if (source instanceof ArrayBuffer) return new Uint8Array(source);
  if (typeof Blob === "function" && source instanceof Blob) {
    checkSize(source.size);
    return new Uint8Array(await source.arrayBuffer());
  }
  if (source instanceof Response) return body(source, source.url);
  if (typeof source !== "string" && !(source instanceof URL))
    throw new Error("a network is loaded from an address, a Response, a Blob or bytes");
  const address = String(source);
  if (address.startsWith("file:") && typeof process === "object") {
    const { readFile } = await import(/* @vite-ignore */ "node:fs/promises");
    return readFile(new URL(address));
  }
  return body(
    await fetch(address).catch((error) => {
      throw new Error(`${address}: cannot be fetched (${error.message})`);
    }),
    address,
  );
}

async function body(response, address) {
  if (!response.ok) throw new Error(`${address}: ${response.status} ${response.statusText}`.trim());
  checkSize(Number(response.headers.get("content-length")));
  return new Uint8Array(await response.arrayBuffer());
}

/** The compiled runtime, once for each address; after a failure the next call tries again. */
function runtime(wasm) {
  if (wasm instanceof WebAssembly.Module) return wasm;
  const key = String(wasm);
  if (!MODULES.has(key)) {
    const module = read(wasm).then(compile);
    module.catch(() => MODULES.delete(key));
    MODULES.set(key, module);
  }
  return MODULES.get(key);
}

/** Asks an engine in a Worker as if it were here. */
class Remote {
  #worker = new Worker(new URL("./worker.js", import.meta.url), { type: "module" });
  #waiting = new Map();
  #count = 0;

  constructor() {
    this.#worker.onmessage = ({ data: { id, result, problem } }) => {
      const { resolve, reject } = this.#waiting.get(id);
      this.#waiting.delete(id);
      if (problem === undefined) resolve(result);
      else reject(new Error(problem));
    };
    this.#worker.onerror = (event) => {
      event.preventDefault?.();
      this.close(`the Worker cannot run: ${event.message ?? "its script was not found"}`);
    };
  }

  ask(method, values, transfer = []) {
    if (this.#worker === undefined) return Promise.reject(new Error("the network is closed"));
    return new Promise((resolve, reject) => {
      this.#waiting.set(++this.#count, { resolve, reject });
      this.#worker.postMessage({ id: this.#count, method, values }, transfer);
    });
  }

  close(reason = "the network is closed") {
    this.#worker?.terminate();
    this.#worker = undefined;
    for (const { reject } of this.#waiting.values()) reject(new Error(reason));
    this.#waiting.clear();
  }
}

/** An engine in this thread, with the same interface. */
class Local {
  #engine;

  async ask(method, values) {
    if (method === "load") this.#engine = new Engine(...values);
    if (this.#engine === undefined) throw new Error("the network is closed");
    return method === "load" ? this.#engine.facts() : this.#engine[method](...values);
  }

  close() {
    this.#engine = undefined;
  }
}

function softmax(logits) {
  const most = logits.reduce((a, b) => Math.max(a, b));
  const powers = Array.from(logits, (logit) => Math.exp(logit - most));
  const sum = powers.reduce((a, b) => a + b);
  return powers.map((power) => power / sum);
}

export class Network {
  #engine;

  constructor(engine, facts) {
    this.#engine = engine;
    Object.assign(this, facts);
  }

  async run(picture, { top = 5 } = {}) {
    const pixels = await pixelsOf(picture);
    const { logits, milliseconds } = await this.#engine.ask("classify", [pixels], [pixels.data.buffer]);
    if (!logits.every(Number.isFinite)) throw new Error("the outputs are not finite");
    const found = softmax(logits)
      .map((probability, index) => ({ index, name: this.classes?.[index] ?? String(index), probability }))
      .sort((a, b) => b.probability - a.probability)
      .slice(0, top);
    return Object.assign(found, { milliseconds });
  }

  logits(images) {
    return this.#engine.ask("logits", [images]);
  }

  async calibrate(images) {
    await this.#engine.ask("calibrate", [images]);
  }

  close() {
    this.#engine.close();
  }
}

export async function load(
  source,
  {
    int8 = false,
    worker = typeof Worker === "function" && typeof document === "object",
    wasm = new URL("../dist/adaste_runtime.wasm", import.meta.url),
  } = {},
) {
  const [module, file] = await Promise.all([runtime(wasm), read(source)]);
  const engine = worker ? new Remote() : new Local();
  try {
    const facts = await engine.ask("load", [module, file, int8]);
    return new Network(engine, { ...facts, int8, bytes: file.length });
  } catch (error) {
    engine.close();
    throw error;
  }
}
