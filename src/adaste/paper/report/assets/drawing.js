// Scales, axes and lines: what charts are drawn with.

const COLOURS = 7;
const DASHES = 5;
const MARKERS = [
  "M-4,0a4,4 0 1,0 8,0a4,4 0 1,0 -8,0Z",
  "M-3.5,-3.5H3.5V3.5H-3.5Z",
  "M0,-4.6L4.4,3.4H-4.4Z",
  "M0,-4.8L4.8,0L0,4.8L-4.8,0Z",
  "M0,4.6L4.4,-3.4H-4.4Z",
];

/* A slot's colour, dashes and marker: no two of the first 35 lines look alike, and none by its colour alone. */
const lookOf = (slot) => `slot-${slot % COLOURS} dash-${Math.floor(slot / COLOURS) % DASHES}`;
const markerOf = (slot) => MARKERS[(slot + Math.floor(slot / COLOURS)) % MARKERS.length];

/* Colours for curves that are of no method's own. */
const slotOf = (index) => index + 3;

const scale =
  ([low, high], [from, to]) =>
  (value) =>
    from + ((value - low) / (high - low)) * (to - from);

/* About `count` round numbers from low to high. */
function ticks(low, high, count, whole = false) {
  const rough = (high - low) / Math.max(1, count);
  const power = 10 ** Math.floor(Math.log10(rough));
  let step = power * [10, 5, 2, 1].find((factor) => rough / power >= factor / Math.SQRT2 || factor === 1);
  if (whole) step = Math.max(1, Math.round(step));
  const found = [];
  for (let index = Math.ceil(low / step - 1e-9); index * step <= high + step * 1e-9; index += 1)
    found.push(index * step || 0);
  const size = Math.max(Math.abs(low), Math.abs(high));
  return { values: found, digits: Math.max(0, -Math.floor(Math.log10(step) + 1e-9)), step, powers: size >= 1e5 };
}

/* Large and small numbers as powers of ten, with the digits that tell a tick from the next. */
function tickText(value, { digits, step, powers }) {
  if (!value || (digits <= 4 && !powers)) return written(value, value ? digits : powers ? 0 : digits);
  const places = Math.floor(Math.log10(Math.abs(value)) + 1e-9) - Math.floor(Math.log10(step) + 1e-9);
  return value.toExponential(Math.max(0, places)).replace("+", "").replaceAll("-", MINUS);
}

/* How wide the texts of ticks are, at most and about. */
const widthOf = (found) => 7 * Math.max(...found.values.map((value) => tickText(value, found).length));

/* The path through values at stops. One that was not measured is passed over; where a stop comes twice, it jumps. */
function line(values, stops, x, y) {
  let path = "";
  values.forEach((value, index) => {
    if (value === null) return;
    const begins = !path || stops[index] === stops[index - 1];
    path += `${begins ? "M" : "L"}${x(stops[index]).toFixed(1)},${y(value).toFixed(1)}`;
  });
  return path;
}

/* The area between two curves. */
function band(curve, stops, x, y) {
  const there = [];
  const back = [];
  curve.low.forEach((value, index) => {
    if (value === null) return;
    there.push(`${x(stops[index]).toFixed(1)},${y(value).toFixed(1)}`);
    back.unshift(`${x(stops[index]).toFixed(1)},${y(curve.high[index]).toFixed(1)}`);
  });
  return there.length ? `M${[...there, ...back].join("L")}Z` : "";
}

/* A marker on a curve. Its text is off the curve if that rises: where it begins above, else below. */
function marked({ stop, text }, slot, values, stops, x, y) {
  const place = values[stop - 1] === null ? { x: -7, y: -7, "text-anchor": "end" } : { x: 7, y: 15 };
  return draw(
    "g",
    { transform: `translate(${x(stops[stop]).toFixed(1)},${y(values[stop]).toFixed(1)})` },
    draw("path", { class: "marker", d: markerOf(slot) }),
    text ? draw("text", { class: "name", ...place }, text) : null,
  );
}

/* Ticks whose texts do not touch each other in some room across. */
function ticksAcross([low, high], room, whole) {
  const found = ticks(low, high, Math.min(10, room / 64), whole);
  const wide = widthOf(found) + 10;
  const gap = (room * (found.values[1] - found.values[0])) / (high - low);
  return gap < wide ? ticks(low, high, room / (1.8 * wide), whole) : found; // up to 1.8 times as many may come
}

const ticksUp = ([low, high], room) => ticks(low, high, room / 40);

/* Grid, numbers and names of both axes inside of a box; `whole`: with no numbers between whole ones across. */
function axes(box, x, y, domain, names, whole) {
  const across = ticksAcross(domain.x, box.right - box.left, whole);
  const up = ticksUp(domain.y, box.bottom - box.top);
  return draw(
    "g",
    { class: "axes" },
    up.values.map((value) => [
      draw("line", { class: "grid", x1: box.left, x2: box.right, y1: y(value), y2: y(value) }),
      draw(
        "text",
        { class: "tick", x: box.left - 8, y: y(value) + 4, "text-anchor": "end" },
        tickText(value, up),
      ),
    ]),
    draw("line", { class: "base", x1: box.left, x2: box.right, y1: box.bottom, y2: box.bottom }),
    across.values.map((value) => [
      draw("line", { class: "base", x1: x(value), x2: x(value), y1: box.bottom, y2: box.bottom + 4 }),
      draw(
        "text",
        { class: "tick", x: x(value), y: box.bottom + 18, "text-anchor": "middle" },
        tickText(value, across),
      ),
    ]),
    draw("text", { class: "name", x: box.left, y: 11 }, names.y),
    draw("text", { class: "name", x: box.right, y: box.bottom + 34, "text-anchor": "end" }, names.x),
  );
}

/* A short piece of a slot's line with its marker, for legends. */
function swatch(slot) {
  return draw(
    "g",
    { class: lookOf(slot) },
    draw("path", { class: "line", d: "M0,0H22" }),
    draw("path", { class: "marker", d: markerOf(slot), transform: "translate(22,0)" }),
  );
}

const swatchPicture = (slot) =>
  draw(
    "svg",
    { class: "chart-part swatch", viewBox: "0 -6 28 12", width: 28, height: 12, "aria-hidden": "true" },
    swatch(slot),
  );
