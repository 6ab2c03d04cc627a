// Lets the page open without a network: what was fetched once is kept, and used where it cannot be fetched again.
const CACHE = "one-bit-networks";

addEventListener("install", (event) => {
  const files = [
    "./", "page.css", "page.js", "drawing.js", "networks/networks.json", "networks/digits-vgg-small.safetensors",
    ...["src/index.js", "src/engine.js", "src/pictures.js", "src/worker.js", "dist/adaste_runtime.wasm"].map(
      (file) => `adaste-runtime-web/${file}`,
    ),
  ];
  event.waitUntil(caches.open(CACHE).then((cache) => cache.addAll(files)));
});

addEventListener("fetch", (event) => {
  if (event.request.method !== "GET" || new URL(event.request.url).origin !== location.origin) return;
  event.respondWith(
    fetch(event.request)
      .then((answer) => {
        if (!answer.ok) return answer;
        const copy = answer.clone();
        event.waitUntil(caches.open(CACHE).then((cache) => cache.put(event.request, copy)));
        return answer;
      })
      .catch(async () => (await caches.match(event.request)) ?? Response.error()),
  );
});
