// A chart of curves, over epochs or anything else, that can be read, zoomed and saved.

const MARGIN = { left: 46, right: 12, top: 24, bottom: 42 };
let charts = 0;

class Chart {
  /*
   * stops: the places across that have values, ascending; last: the last one to show; range: of heights, where given.
   * series: {key, title, slot, curve, length, marks}; length: of the runs, where it is of runs; marks: {stop, text}, by
   * the number of a stop, or else its end.
   */
  constructor({ label, axis, across = "epoch", stops, last = stops.at(-1), range = null, series, height = 320 }) {
    Object.assign(this, { label, axis, across, stops, last, range, series, height });
    this.number = charts += 1;
    this.keys = new Set(series.map(({ key }) => key)); // of the curves that are shown
    this.emphasised = null;
    this.view = null;
    this.cursor = null; // the number of a stop
    this.brush = null;
    this.svg = draw("svg", { class: "chart-part chart", tabindex: 0, role: "img", "aria-label": label });
    this.tip = make("div", { class: "tip", hidden: true });
    this.spoken = make("p", { class: "spoken", "aria-live": "polite" });
    this.element = make("div", { class: "chart-box" }, this.svg, this.tip, this.spoken);
    this.onzoom = () => {};
    this.listen();
    new ResizeObserver(() => this.draw()).observe(this.element);
  }

  get shown() {
    return labelled(this.series.filter(({ key }) => this.keys.has(key)));
  }

  /* As far as visible curves reach, but not beyond the last stop to show. */
  get end() {
    const ends = this.shown.map(({ curve }) => this.stops[curve.mean.length - 1]);
    return ends.length ? Math.min(this.last, Math.max(...ends)) : this.last;
  }

  get whole() {
    const [first] = this.stops;
    return [first, this.end > first ? this.end : first + 1];
  }

  /* From one stop to the next, on average. */
  get stride() {
    return (this.stops.at(-1) - this.stops[0]) / (this.stops.length - 1) || 1;
  }

  get domain() {
    const x = this.view?.x ?? this.whole;
    return { x, y: (this.view ? this.view.y : this.range) ?? this.heights(x) };
  }

  /* The range of all visible values between two places; where there are none, of more. */
  heights([first, last]) {
    const all = [-Infinity, Infinity];
    const near = [first - this.stride, last + this.stride]; // lines come from stops just outside
    const found =
      reachOf(this.shown, this.stops, near) ??
      reachOf(this.shown, this.stops, all) ??
      reachOf(this.series, this.stops, all);
    return found ? aired(found) : [0, 1];
  }

  draw() {
    const width = this.element.clientWidth;
    if (!width) return;
    const height = Math.round(Math.min(this.height, Math.max(220, width * 0.72)));
    const domain = this.domain;
    const [top, bottom] = [MARGIN.top, height - MARGIN.bottom];
    const left = Math.max(MARGIN.left, widthOf(ticksUp(domain.y, bottom - top)) + 12);
    const box = { left, right: width - MARGIN.right, top, bottom };
    this.box = box;
    this.x = scale(domain.x, [box.left, box.right]);
    this.y = scale(domain.y, [box.bottom, box.top]);
    const clip = `clip-${this.number}`;
    this.over = draw("g", { class: "over" });
    fill(this.svg, { viewBox: `0 0 ${width} ${height}`, width, height }, []);
    this.svg.replaceChildren(
      draw(
        "clipPath",
        { id: clip },
        draw("rect", {
          x: box.left,
          y: box.top - 6,
          width: box.right - box.left + 6,
          height: box.bottom - box.top + 6,
        }),
      ),
      axes(box, this.x, this.y, domain, { x: this.across, y: this.axis }, this.stops.every(Number.isInteger)),
      draw(
        "g",
        { class: "curves", "clip-path": `url(#${clip})` },
        this.shown.map((entry) => this.curve(entry)),
      ),
      this.over,
    );
    this.drawCursor();
  }

  curve({ key, slot, curve, marks = [{ stop: curve.mean.length - 1 }] }) {
    const dim = this.emphasised && this.emphasised !== key ? " dim" : "";
    return draw(
      "g",
      { class: `${lookOf(slot)}${dim}`, "data-method": key },
      curve.low ? draw("path", { class: "band", d: band(curve, this.stops, this.x, this.y) }) : null,
      draw("path", { class: "line", d: line(curve.mean, this.stops, this.x, this.y) }),
      marks
        .filter(({ stop }) => curve.mean[stop] !== null)
        .map((mark) => marked(mark, slot, curve.mean, this.stops, this.x, this.y)),
    );
  }

  drawCursor() {
    const told = this.cursor === null || this.brush ? [] : valuesAt(this.shown, this.cursor);
    this.over.replaceChildren();
    this.tip.hidden = !told.length;
    if (!told.length) return;
    const at = this.x(this.stops[this.cursor]);
    const [low, high] = this.domain.y; // beyond a zoom there is no chart to put a dot on
    this.over.append(
      draw("line", { class: "cursor", x1: at, x2: at, y1: this.box.top, y2: this.box.bottom }),
      ...told
        .filter(({ value }) => low <= value && value <= high)
        .map(({ slot, value }) =>
          draw("circle", { class: `dot ${lookOf(slot)}`, cx: at, cy: this.y(value), r: 3.5 }),
        ),
    );
    this.tip.replaceChildren(...tipLines(this.stopText(), told));
    this.placeTip(at);
  }

  /* On the side of the cursor that has more room, or below the chart where neither has enough. */
  placeTip(at) {
    const [room, wide] = [this.element.clientWidth, this.tip.offsetWidth];
    const beside = at > (this.box.left + this.box.right) / 2 ? at - 14 - wide : at + 14;
    const fits = beside >= 0 && beside + wide <= room;
    this.tip.classList.toggle("under", !fits);
    this.tip.style.left = `${fits ? beside : Math.max(0, Math.min(at - wide / 2, room - wide))}px`;
  }

  stopText() {
    const digits = { maximumFractionDigits: 4, useGrouping: false };
    return `${this.across} ${this.stops[this.cursor].toLocaleString("en", digits).replace("-", MINUS)}`;
  }

  show(keys, emphasised = null) {
    this.keys = keys;
    this.emphasised = emphasised;
    this.draw();
  }

  zoom(x, y = null) {
    const [first, last] = this.whole;
    const from = Math.max(first, Math.min(x[0], last - this.stride));
    const to = Math.min(last, Math.max(x[1], from + this.stride));
    this.view = { x: [from, to], y };
    this.onzoom(true);
    this.draw();
  }

  reset() {
    this.view = null;
    this.onzoom(false);
    this.draw();
  }

  /* By a factor around the cursor, or around the middle. */
  zoomBy(factor) {
    const [first, last] = this.domain.x;
    const centre = this.cursor === null ? (first + last) / 2 : this.stops[this.cursor];
    const [from, to] = [centre - (centre - first) * factor, centre + (last - centre) * factor];
    if (from <= this.whole[0] && to >= this.whole[1]) this.reset();
    else this.zoom([from, to]);
  }

  placeAt(point) {
    const [first, last] = this.domain.x;
    const share = (point - this.box.left) / (this.box.right - this.box.left);
    return first + Math.max(0, Math.min(1, share)) * (last - first);
  }

  /* The number of the stop that is next to a place, of those in view; null where a zoom lies between two. */
  nearest(place) {
    const [first, last] = this.domain.x;
    const away = (stop) => Math.abs(this.stops[stop] - place);
    return this.stops.reduce(
      (best, at, stop) => (at < first || at > last || (best !== null && away(stop) > away(best)) ? best : stop),
      null,
    );
  }

  valueAt(point) {
    const [low, high] = this.domain.y;
    const share = (this.box.bottom - point) / (this.box.bottom - this.box.top);
    return low + Math.max(0, Math.min(1, share)) * (high - low);
  }

  listen() {
    this.svg.addEventListener("pointerdown", (event) => this.press(event));
    this.svg.addEventListener("pointermove", (event) => this.move(event));
    this.svg.addEventListener("pointerup", (event) => this.release(event));
    this.svg.addEventListener("pointercancel", () => this.forget());
    this.svg.addEventListener("pointerleave", (event) => this.leave(event));
    this.svg.addEventListener("dblclick", () => this.reset());
    this.svg.addEventListener("blur", () => this.forget());
    this.svg.addEventListener("keydown", (event) => this.key(event));
  }

  place(event) {
    const frame = this.svg.getBoundingClientRect();
    return [event.clientX - frame.left, event.clientY - frame.top];
  }

  press(event) {
    if (event.button !== 0) return;
    this.svg.setPointerCapture(event.pointerId);
    this.pressed = this.place(event);
    this.cursor = this.nearest(this.placeAt(this.pressed[0])); // a finger that taps does not move
    this.drawCursor();
  }

  move(event) {
    const [across, down] = this.place(event);
    if (this.pressed && Math.abs(across - this.pressed[0]) > 5) this.brush = [...this.pressed, across, down];
    this.cursor = this.nearest(this.placeAt(across));
    this.drawCursor();
    if (this.brush) this.over.replaceChildren(draw("rect", { class: "brush", ...this.brushed() }));
  }

  /* The rectangle that is being drawn; all of the height as long as it is flat. */
  brushed() {
    const [x0, y0, x1, y1] = this.brush;
    const { left, right, top, bottom } = this.box;
    const [from, to] = [Math.max(left, Math.min(x0, x1)), Math.min(right, Math.max(x0, x1))];
    const flat = Math.abs(y1 - y0) < 24;
    const [high, low] = flat ? [top, bottom] : [Math.max(top, Math.min(y0, y1)), Math.min(bottom, Math.max(y0, y1))];
    return { x: from, y: high, width: Math.max(0, to - from), height: Math.max(0, low - high) };
  }

  release({ pointerType }) {
    const drawn = this.brush && this.brushed();
    const flat = drawn && drawn.height >= this.box.bottom - this.box.top;
    this.pressed = this.brush = null;
    if (!drawn) return;
    if (pointerType === "touch") this.cursor = null; // it drew a rectangle and pointed at nothing
    const x = [this.placeAt(drawn.x), this.placeAt(drawn.x + drawn.width)];
    const y = flat ? null : [this.valueAt(drawn.y + drawn.height), this.valueAt(drawn.y)];
    const holds = (heights) => passesThrough(this.shown, this.stops, x, heights);
    // Nothing but empty paper is no place to go to: above or below curves the zoom is as high as they are.
    if (holds([-Infinity, Infinity])) this.zoom(x, y && holds(y) ? y : null);
    else this.drawCursor();
  }

  /* A finger leaves whenever it is lifted: what it pointed at stays until another place is tapped. */
  leave({ pointerType }) {
    if (!this.brush && pointerType !== "touch") this.forget();
  }

  forget() {
    this.pressed = this.brush = this.cursor = null;
    this.drawCursor();
  }

  key(event) {
    const [first, last] = this.domain.x.map((place) => this.nearest(place));
    const step = event.shiftKey ? 10 : 1;
    const here = this.cursor ?? last + 1;
    const acts = {
      ArrowLeft: () => this.point(Math.max(first, Math.min(last, here - step))),
      ArrowRight: () => this.point(this.cursor === null ? first : Math.min(last, here + step)),
      Home: () => this.point(first),
      End: () => this.point(last),
      "+": () => this.zoomBy(0.5),
      "=": () => this.zoomBy(0.5),
      "-": () => this.zoomBy(2),
      0: () => this.reset(),
      Escape: this.view && (() => this.reset()),
    };
    const reads = ["ArrowLeft", "ArrowRight", "Home", "End"].includes(event.key);
    const act = event.ctrlKey || event.metaKey || event.altKey || (reads && first === null) ? null : acts[event.key];
    if (!act) return;
    event.preventDefault();
    act();
  }

  point(stop) {
    this.cursor = stop;
    this.drawCursor();
    this.spoken.textContent = spokenLine(this.stopText(), valuesAt(this.shown, stop));
  }
}
