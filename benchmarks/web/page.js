// Called by measure.py: measure(size, rounds, runs) and start(name).
const bytes = async (address) => new Uint8Array(await (await fetch(address)).arrayBuffer());

/** Loads a packed network; its function computes the logits of one image. */
async function adaste(size, { int8, images }) {
  const { load } = await import("/runtime/src/index.js");
  const net = await load(`/networks/${size}.safetensors`, { int8, worker: false });
  if (int8 && images) await net.calibrate(images);
  return (image) => net.logits(image);
}

let peer;

async function onnx(size, { int8 }) {
  peer ??= import("/peer/ort.wasm.min.mjs");
  const ort = await peer;
  Object.assign(ort.env.wasm, { numThreads: 1, wasmPaths: "/peer/" });
  const session = await ort.InferenceSession.create(await bytes(`/networks/${size}${int8 ? "-int8" : ""}.onnx`), {
    executionProviders: ["wasm"],
  });
  const [input] = session.inputNames;
  const [output] = session.outputNames;
  return async (image) =>
    (await session.run({ [input]: new ort.Tensor("float32", image, [1, 3, size, size]) }))[output].data;
}

window.measure = async (size, rounds, runs) => {
  const images = new Float32Array((await bytes(`/networks/${size}.f32`)).buffer);
  const image = images.slice(0, 3 * size * size);
  const engines = {
    adaste: await adaste(size, {}),
    "onnxruntime-web": await onnx(size, {}),
    "adaste int8": await adaste(size, { int8: true, images }),
    "onnxruntime-web int8": await onnx(size, { int8: true }),
  };
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
};

window.start = async (name) => {
  const began = performance.now();
  await (name === "adaste" ? adaste(32, {}) : onnx(32, { int8: name.endsWith("int8") }));
  return performance.now() - began;
};
