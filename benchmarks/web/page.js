// Called by measure.py: measure(size, rounds, runs), threaded(size, rounds, runs, threads) and start(name).
const bytes = async (address) => new Uint8Array(await (await fetch(address)).arrayBuffer());

/** Loads a packed network; its function computes the logits of one image. */
async function adaste(size, { int8, images }) {
  const { load } = await import("/runtime/src/index.js");
  const net = await load(`/networks/${size}.safetensors`, { int8, worker: false });
  if (int8 && images) await net.calibrate(images);
  return (image) => net.logits(image);
}

let peer;

async function onnx(size, { int8, threads = 1 }) {
  peer ??= import("/peer/ort.wasm.min.mjs");
  const ort = await peer;
  Object.assign(ort.env.wasm, { numThreads: threads, wasmPaths: "/peer/" });
  const session = await ort.InferenceSession.create(await bytes(`/networks/${size}${int8 ? "-int8" : ""}.onnx`), {
    executionProviders: ["wasm"],
  });
  const [input] = session.inputNames;
  const [output] = session.outputNames;
  return async (image) =>
    (await session.run({ [input]: new ort.Tensor("float32", image, [1, 3, size, size]) }))[output].data;
}

/** Lets engines take turns with one image: milliseconds and logits of each. */
async function takeTurns(engines, image, rounds, runs) {
  const told = {};
  for (const [name, run] of Object.entries(engines)) {
    for (let i = 0; i < 5; ++i) await run(image); // browsers compile again what is used
    told[name] = [[], [...(await run(image))]];
  }
  for (let round = 0; round < rounds; ++round)
    for (const [name, run] of Object.entries(engines))
      for (let i = 0; i < runs; ++i) {
        const began = performance.now();
        await run(image);
        told[name][0].push(performance.now() - began);
      }
  return told;
}

const imagesOf = async (size) => new Float32Array((await bytes(`/networks/${size}.f32`)).buffer);

window.measure = async (size, rounds, runs) => {
  const images = await imagesOf(size);
  const engines = {
    adaste: await adaste(size, {}),
    "onnxruntime-web": await onnx(size, {}),
    "adaste int8": await adaste(size, { int8: true, images }),
    "onnxruntime-web int8": await onnx(size, { int8: true }),
  };
  return takeTurns(engines, images.slice(0, 3 * size * size), rounds, runs);
};

/** The same for the engine that has threads, in a page of its own: their number is that of the first session. */
window.threaded = async (size, rounds, runs, threads) => {
  const image = (await imagesOf(size)).slice(0, 3 * size * size);
  const engines = {
    "onnxruntime-web": await onnx(size, { threads }),
    "onnxruntime-web int8": await onnx(size, { int8: true, threads }),
  };
  return takeTurns(engines, image, rounds, runs);
};

window.start = async (name) => {
  const began = performance.now();
  await (name === "adaste" ? adaste(32, {}) : onnx(32, { int8: name.endsWith("int8") }));
  return performance.now() - began;
};
