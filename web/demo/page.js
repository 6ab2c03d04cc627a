import { load } from "./adaste-runtime-web/src/index.js";
import { cells, Pad } from "./drawing.js";

const WASM = new URL("./adaste-runtime-web/dist/adaste_runtime.wasm", import.meta.url);
const $ = (id) => document.getElementById(id);
const kilobytes = (bytes) =>
  bytes < 1e6 ? `${(bytes / 1e3).toFixed(bytes < 1e5 ? 1 : 0)} KB` : `${(bytes / 1e6).toFixed(2)} MB`;

let networks = [];
let chosen; // what load() takes: an entry of networks.json, or the visitor's file
let network;
let input; // what was given last, to compute again when the network changes

function complain(error) {
  $("problem").textContent = error.message;
  $("problem").hidden = false;
}

function show(predictions) {
  $("problem").hidden = true;
  $("bars").replaceChildren(
    ...predictions.map(({ name, probability }) => {
      const item = document.createElement("li");
      item.innerHTML =
        '<span class="name"></span><span class="track"><div class="bar"></div></span><span class="share"></span>';
      item.querySelector(".name").textContent = item.querySelector(".name").title = name;
      item.querySelector(".bar").style.width = `${100 * probability}%`;
      item.querySelector(".share").textContent = `${(100 * probability).toFixed(1)} %`;
      return item;
    }),
  );
  const tick = 0.1; // of a page's clock
  const { milliseconds } = predictions;
  $("time").textContent = milliseconds < tick ? `below ${tick} ms` : `${milliseconds.toFixed(1)} ms`;
}

let busy; // the promise of what is being computed

/** Shows what the network says of the last input; of those that come while it computes only the last counts. */
async function compute() {
  while (network !== undefined && input !== undefined && !input.done) {
    input.done = true;
    try {
      const predictions = await network.run(input.picture);
      if (input !== undefined) show(predictions);
    } catch (error) {
      complain(error);
    }
  }
  busy = undefined;
}

function give(picture) {
  input = { picture };
  return (busy ??= compute());
}

let opened = 0;

async function open(choice) {
  const turn = ++opened;
  try {
    const int8 = document.querySelector("[name=kind]:checked").value === "int8";
    const next = await load(choice.file, { int8, wasm: WASM });
    await busy;
    if (turn !== opened) return next.close(); // something else was chosen since
    network?.close();
    [network, chosen] = [next, choice];
    if (!networks.includes(chosen)) list([...networks.filter(({ about }) => about !== undefined), chosen]);
    $("problem").hidden = true;
    $("size").textContent = kilobytes(network.bytes);
    const [channels, height, width] = network.inputShape;
    $("about").textContent = choice.about ?? `${channels} x ${height} x ${width} numbers in, ${network.outputs} classes`;
    if (input !== undefined) await give(input.picture);
  } catch (error) {
    complain(choice.name ? new Error(`${choice.name}: ${error.message}`) : error);
  }
  $("network").value = networks.indexOf(chosen);
}

function openOwn(file) {
  return open({ name: file.name, file });
}

function list(known) {
  networks = known;
  $("network").replaceChildren(...networks.map(({ name }, number) => new Option(name, number)));
}

// --- the kinds of input

const tabs = [...document.querySelectorAll("[role=tab]")];

function select(tab) {
  for (const other of tabs) {
    other.setAttribute("aria-selected", other === tab);
    other.tabIndex = other === tab ? 0 : -1;
    $(other.getAttribute("aria-controls")).hidden = other !== tab;
  }
  if (tab.id !== "tab-camera") stopCamera();
}

for (const [number, tab] of tabs.entries()) {
  tab.addEventListener("click", () => select(tab));
  tab.addEventListener("keydown", ({ key }) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[key];
    if (step === undefined) return;
    const next = tabs[(number + step + tabs.length) % tabs.length];
    select(next);
    next.focus();
  });
}

function see(image) {
  $("seen").getContext("2d").putImageData(image, 0, 0);
  give(image);
}

const pad = new Pad($("drawing"), () => {
  $("drawing-hint").hidden = !pad.empty;
  if (!pad.empty) see(pad.cells());
});

function clear() {
  pad.clear();
  input = undefined;
  $("seen").getContext("2d").clearRect(0, 0, 8, 8);
  $("bars").replaceChildren();
  $("time").textContent = "–";
}

$("clear").addEventListener("click", clear);

function showSamples(samples) {
  $("samples").replaceChildren(
    ...samples.map(({ digit, pixels }) => {
      const image = cells((row, column) => Math.round((parseInt(pixels[8 * row + column], 17) * 255) / 16));
      const canvas = Object.assign(document.createElement("canvas"), { width: 8, height: 8 });
      canvas.getContext("2d").putImageData(image, 0, 0);
      const button = document.createElement("button");
      button.setAttribute("aria-label", `Test image of a ${digit}`);
      button.append(canvas);
      button.addEventListener("click", () => {
        pad.clear();
        see(image);
      });
      return button;
    }),
  );
}

async function givePicture(blob) {
  if (blob.name?.endsWith(".safetensors")) return openOwn(blob);
  select($("tab-picture"));
  URL.revokeObjectURL($("shown").src);
  $("shown").src = URL.createObjectURL(blob);
  $("shown").hidden = false;
  $("picture-hint").hidden = true;
  $("shown").onerror = () => {
    $("shown").hidden = true;
    $("picture-hint").hidden = false;
  };
  await give(blob);
}

$("picture").addEventListener("change", ({ target }) => target.files[0] && givePicture(target.files[0]));
$("own").addEventListener("change", ({ target }) => {
  if (target.files[0]) openOwn(target.files[0]);
  target.value = "";
});
addEventListener("paste", (event) => {
  const file = event.clipboardData?.files[0];
  if (file) givePicture(file);
});
addEventListener("dragover", (event) => {
  event.preventDefault();
  $("drop").classList.add("over");
});
addEventListener("dragleave", () => $("drop").classList.remove("over"));
addEventListener("drop", (event) => {
  event.preventDefault();
  $("drop").classList.remove("over");
  if (event.dataTransfer.files[0]) givePicture(event.dataTransfer.files[0]);
});

async function startCamera() {
  try {
    if (!navigator.mediaDevices) throw new Error("this browser gives no camera to pages without https");
    const stream = await navigator.mediaDevices.getUserMedia({ video: { facingMode: "environment" } });
    $("video").srcObject = stream;
    await $("video").play();
  } catch (error) {
    return complain(new Error(`The camera cannot be used: ${error.message}`));
  }
  $("camera-hint").hidden = true;
  $("camera").textContent = "Stop the camera";
  while ($("video").srcObject !== null) {
    await give($("video"));
    await new Promise(requestAnimationFrame);
  }
}

function stopCamera() {
  for (const track of $("video").srcObject?.getTracks() ?? []) track.stop();
  $("video").srcObject = null;
  $("camera-hint").hidden = false;
  $("camera").textContent = "Start the camera";
}

$("camera").addEventListener("click", () => ($("video").srcObject === null ? startCamera() : stopCamera()));

// --- the start

$("network").addEventListener("change", ({ target }) => {
  const choice = networks[target.value];
  if (choice.input !== undefined && $(`panel-${choice.input}`).hidden) {
    clear(); // a digit is no photo
    select($(`tab-${choice.input}`));
  }
  open(choice);
});
for (const kind of document.querySelectorAll("[name=kind]")) kind.addEventListener("change", () => open(chosen));

async function start() {
  const answer = await fetch("networks/networks.json");
  const known = await answer.json();
  list(known.networks.map((each) => ({ ...each, file: new URL(`networks/${each.file}`, document.baseURI) })));
  showSamples(known.samples);
  await open(networks[0]);
  const bytes = performance.getEntriesByName(WASM.href)[0]?.decodedBodySize;
  if (bytes) $("runtime").textContent = kilobytes(bytes);
  document.documentElement.dataset.ready = performance.now().toFixed(1);
  if ("serviceWorker" in navigator) navigator.serviceWorker.register("offline.js").catch(() => {});
}

start().catch(complain);
