// A pad to draw on, and the drawing as the digits were taken down that the network was trained with: it fills a square of
// 32 x 32 dots in its height, stands in the middle, and each of 8 x 8 pixels says how many of its 4 x 4 dots are ink.
const SIDE = 32;
const CELLS = 8;
const PEN = 3.4; // dots

export class Pad {
  #canvas;
  #strokes = [];
  #changed;

  constructor(canvas, changed) {
    [this.#canvas, this.#changed] = [canvas, changed];
    canvas.addEventListener("pointerdown", (event) => {
      event.preventDefault();
      canvas.setPointerCapture(event.pointerId);
      this.#strokes.push([this.#place(event)]);
      this.#draw();
    });
    canvas.addEventListener("pointermove", (event) => {
      if (!canvas.hasPointerCapture(event.pointerId)) return;
      for (const part of event.getCoalescedEvents?.() ?? [event]) this.#strokes.at(-1).push(this.#place(part));
      this.#draw();
    });
  }

  get empty() {
    return this.#strokes.length === 0;
  }

  clear() {
    this.#strokes = [];
    this.#draw();
  }

  #place(event) {
    const { left, top, width, height } = this.#canvas.getBoundingClientRect();
    return [((event.clientX - left) / width) * this.#canvas.width, ((event.clientY - top) / height) * this.#canvas.height];
  }

  #draw() {
    const { width, height } = this.#canvas;
    const context = this.#canvas.getContext("2d");
    context.clearRect(0, 0, width, height);
    lines(context, this.#strokes, ([x, y]) => [x, y], width / 14);
    this.#changed();
  }

  /** 8 x 8 pixels as ImageData. */
  cells() {
    const points = this.#strokes.flat();
    const [xs, ys] = [0, 1].map((axis) => points.map((point) => point[axis]));
    const box = (values) => [Math.min(...values), Math.max(...values)];
    const [[left, right], [top, bottom]] = [box(xs), box(ys)];
    const scale = (SIDE - PEN) / Math.max(bottom - top, right - left, this.#canvas.width / 8);
    const [x0, y0] = [(left + right) / 2, (top + bottom) / 2];
    const dots = new OffscreenCanvas(SIDE, SIDE).getContext("2d", { willReadFrequently: true });
    lines(dots, this.#strokes, ([x, y]) => [(x - x0) * scale + SIDE / 2, (y - y0) * scale + SIDE / 2], PEN);
    const ink = dots.getImageData(0, 0, SIDE, SIDE).data;
    const step = SIDE / CELLS;
    return cells((row, column) => {
      let sum = 0;
      for (let i = 0; i < step; ++i)
        for (let j = 0; j < step; ++j) sum += ink[4 * ((row * step + i) * SIDE + column * step + j) + 3];
      return sum / step ** 2;
    });
  }
}

function lines(context, strokes, to, width) {
  Object.assign(context, { lineWidth: width, lineCap: "round", lineJoin: "round", strokeStyle: "#fff" });
  for (const stroke of strokes) {
    context.beginPath();
    context.moveTo(...to(stroke[0]));
    for (const point of stroke.length > 1 ? stroke.slice(1) : stroke) context.lineTo(...to(point));
    context.stroke();
  }
}

/** ImageData of 8 x 8 greys. */
export function cells(grey) {
  const image = new ImageData(CELLS, CELLS);
  for (let place = 0; place < CELLS * CELLS; ++place) {
    const value = grey(Math.floor(place / CELLS), place % CELLS);
    image.data.set([value, value, value, 255], 4 * place);
  }
  return image;
}
