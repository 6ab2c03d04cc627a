// A chart as a file of its own: an SVG with title, legend and all its styles inside.

const STYLED = [
  "fill",
  "fill-opacity",
  "stroke",
  "stroke-width",
  "stroke-dasharray",
  "stroke-linejoin",
  "stroke-linecap",
  "opacity",
  "font-family",
  "font-size",
  "font-weight",
];

function legendOf(series, width, top) {
  const longest = Math.max(...series.map(({ title }) => title.length));
  const column = Math.min(width - 24, longest * 6.6 + 58);
  const columns = Math.max(1, Math.floor((width - 24) / column));
  const entries = series.map(({ slot, title }, index) =>
    draw(
      "g",
      { transform: `translate(${16 + (index % columns) * column},${top + Math.floor(index / columns) * 20})` },
      swatch(slot),
      draw("text", { class: "name", x: 36, y: 4 }, title),
    ),
  );
  return { entries, height: Math.ceil(series.length / columns) * 20 + 8 };
}

/* A picture as it is now: with its zoom, its visible curves and the colours of the page. */
function standalone(picture, series, title, margin = 0) {
  const [, , inner, height] = picture.getAttribute("viewBox").split(" ").map(Number);
  const width = inner + 2 * margin;
  const legend = series.length ? legendOf(series, width, height + 44) : { entries: [], height: 8 };
  const whole = height + 32 + legend.height;
  const copy = picture.cloneNode(true);
  copy.querySelector(".over")?.remove();
  const svg = draw(
    "svg",
    {
      class: "chart-part",
      xmlns: "http://www.w3.org/2000/svg",
      viewBox: `0 0 ${width} ${whole}`,
      width,
      height: whole,
    },
    draw("title", {}, title),
    draw("rect", { class: "paper", width, height: whole }),
    draw("text", { class: "heading", x: 16, y: 22 }, title),
    draw("g", { transform: `translate(${margin},32)` }, ...copy.childNodes),
    legend.entries,
  );
  const backstage = make("div", { class: "backstage", "aria-hidden": "true" }, svg);
  document.body.append(backstage);
  for (const part of svg.querySelectorAll("rect, line, path, circle, text, g")) {
    const style = getComputedStyle(part);
    for (const name of STYLED)
      if (part.tagName !== "g" || name === "opacity") part.setAttribute(name, style.getPropertyValue(name));
  }
  for (const part of [svg, ...svg.querySelectorAll("[class]")]) part.removeAttribute("class");
  backstage.remove();
  return new XMLSerializer().serializeToString(svg);
}

const saveButton = (title, name, drawn) =>
  make(
    "button",
    {
      type: "button",
      class: "quiet small save",
      "aria-label": `Save ${title} as SVG`,
      on: { click: () => save(`${name}.svg`, "image/svg+xml", drawn()) },
    },
    "SVG",
  );

const lastHalf = (chart) =>
  make(
    "button",
    { type: "button", class: "quiet small", on: { click: () => chart.zoom([chart.last / 2, chart.last]) } },
    "Last half",
  );

/* What can be done with a chart beyond pointing at it; `zooms` are buttons that zoom it. */
function chartButtons(chart, title, name, ...zooms) {
  const back = () => {
    chart.svg.focus({ preventScroll: true }); // the button is about to be disabled
    chart.reset();
  };
  const reset = make(
    "button",
    { type: "button", class: "quiet small reset", disabled: true, on: { click: back } },
    "Reset",
  );
  chart.onzoom = (zoomed) => {
    reset.disabled = !zoomed;
  };
  return make(
    "div",
    { class: "actions" },
    zooms,
    reset,
    saveButton(title, name, () => standalone(chart.svg, chart.shown, title)),
  );
}
