// The other side of a network that runs in a Worker (index.js).
import { Engine } from "./engine.js";

let engine;

self.onmessage = ({ data: { id, method, values } }) => {
  try {
    if (method === "load") engine = new Engine(...values);
    self.postMessage({ id, result: method === "load" ? engine.facts() : engine[method](...values) });
  } catch (error) {
    self.postMessage({ id, problem: error.message });
  }
};
