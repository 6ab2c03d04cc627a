// The histogram of a run's latents.

const BIN = 4;

/* At the end of the run. */
function latentsOf(run) {
  if (!run.latents) return make("p", { class: "empty" }, "This run wrote no histogram of latents.");
  const title = "Latents at the end";
  const total = run.latents.counts.reduce((sum, count) => sum + count, 0);
  const note = `${plural(total, "latent")}; the outermost bins hold all beyond.`;
  const picture = histogramOf(run.latents, total);
  const saved = saveButton(title, `${run.key}-latents`, () =>
    standalone(picture, { title, about: `${inWords(run)}. ${note}` }),
  );
  return make(
    "figure",
    { class: "panel" },
    make("div", { class: "panel-head" }, make("h4", {}, title), make("div", { class: "actions" }, saved)),
    picture,
    make("figcaption", { class: "lacking" }, note),
  );
}

function histogramOf({ reach, counts }, total) {
  const most = Math.max(...counts, 1);
  const box = { left: 56, right: 56 + counts.length * BIN, top: 24, bottom: 198 };
  const domain = { x: [-reach, reach], y: [0, most] };
  const [x, y] = [scale(domain.x, [box.left, box.right]), scale(domain.y, [box.bottom, box.top])];
  const bar = (count, index) => {
    const [from, to] = [index, index + 1].map((edge) => significant(-reach + (2 * reach * edge) / counts.length));
    return draw(
      "rect",
      { class: "bin", x: box.left + index * BIN + 0.25, y: y(count), width: BIN - 0.5, height: box.bottom - y(count) },
      draw(
        "title",
        {},
        `${from} to ${to}: ${count.toLocaleString("en")} latents, ${written((100 * count) / total, 2)} %`,
      ),
    );
  };
  return draw(
    "svg",
    {
      class: "chart-part histogram",
      viewBox: `0 0 ${box.right + 24} ${box.bottom + 42}`,
      role: "img",
      "aria-label": `Histogram of ${plural(total, "latent")} from ${significant(-reach)} to ${significant(reach)}`,
    },
    axes(box, x, y, domain, { x: "latent", y: "latents in a bin" }, false),
    counts.map(bar),
  );
}
