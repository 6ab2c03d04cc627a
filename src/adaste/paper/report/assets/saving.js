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

const LINE = 18;

/* A text in lines that fit into some room, about: no letter of this size is wider on average. */
function wrapped(text, room, letter = 6.6) {
  const most = Math.floor(room / letter);
  const words = text.split(" ").flatMap((word) => word.match(new RegExp(`.{1,${most}}`, "gu")) ?? []);
  const lines = [];
  for (const word of words) {
    const longer = lines.length ? `${lines.at(-1)} ${word}` : word;
    if (lines.length && longer.length <= most) lines[lines.length - 1] = longer;
    else lines.push(word);
  }
  return lines;
}

const linesAt = (kind, lines, x, y) =>
  lines.map((text, index) => draw("text", { class: kind, x, y: y + index * LINE }, text));

/* In columns as wide as the longest name; one that fits into no column has several lines. */
function legendOf(series, width, top) {
  const longest = Math.max(...series.map(({ title }) => title.length));
  const column = Math.min(width - 24, longest * 6.6 + 58);
  const columns = Math.max(1, Math.floor((width - 24) / column));
  const entries = [];
  let height = 0;
  for (let first = 0; first < series.length; first += columns) {
    const row = series.slice(first, first + columns).map(({ slot, title }) => [slot, wrapped(title, column - 44)]);
    row.forEach(([slot, lines], index) =>
      entries.push(
        draw(
          "g",
          { transform: `translate(${16 + index * column},${top + height})` },
          swatch(slot),
          linesAt("name", lines, 36, 4),
        ),
      ),
    );
    height += LINE * Math.max(...row.map(([, lines]) => lines.length)) + 2;
  }
  return { entries, height: height + 8 };
}

/* A picture as it is now: with its zoom and its visible curves, but always in light colours, as paper is. */
function standalone(picture, { series = [], title, about = "" }) {
  const [, , width, height] = picture.getAttribute("viewBox").split(" ").map(Number);
  const heading = wrapped(title, width - 32, 8);
  const subtitle = about ? wrapped(about, width - 32) : [];
  const top = 14 + LINE * (heading.length + subtitle.length);
  const legend = series.length ? legendOf(series, width, top + height + 12) : { entries: [], height: 8 };
  const whole = top + height + legend.height;
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
    draw("title", {}, about ? `${title}: ${about}` : title),
    draw("rect", { class: "paper", width, height: whole }),
    linesAt("heading", heading, 16, 22),
    linesAt("name", subtitle, 16, 22 + LINE * heading.length),
    draw("g", { transform: `translate(0,${top})` }, ...copy.childNodes),
    legend.entries,
  );
  return styled(svg);
}

/* The text of a picture that has its styles inside. */
function styled(svg) {
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
    { type: "button", class: "quiet small", on: { click: () => chart.zoom([chart.end / 2, chart.end]) } },
    "Last half",
  );

/*
 * What can be done with a chart beyond pointing at it. title: of the saved picture; about: what it has to say below its
 * title; name: of its file; zooms: buttons that zoom the chart.
 */
function chartButtons(chart, { title, about = () => "", name, zooms = [] }) {
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
    saveButton(title, name, () => standalone(chart.svg, { series: chart.shown, title, about: about() })),
  );
}
