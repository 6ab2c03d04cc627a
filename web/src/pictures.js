// Pictures as networks take them: scaled so that they just cover the input, and their middle kept. The numbers are those
// of Pillow, with which adaste trains and adaste-run reads pictures: its bilinear filter in whole numbers.
const PRECISION = 22;

function roundedHalfToEven(value) {
  const rounded = Math.round(value);
  return Math.abs(value % 1) === 0.5 && rounded % 2 !== 0 ? rounded - 1 : rounded;
}

/** For `count` places from `first` on of an axis scaled from `before` to `after`: where each begins, and its weights. */
function filter(before, after, first, count) {
  const scale = before / after;
  const support = Math.max(1, scale);
  return Array.from({ length: count }, (_, i) => {
    const center = (first + i + 0.5) * scale;
    const begin = Math.max(0, Math.trunc(center - support + 0.5));
    const end = Math.min(before, Math.trunc(center + support + 0.5));
    const weights = [];
    for (let place = begin; place < end; ++place)
      weights.push(Math.max(0, 1 - Math.abs((place - center + 0.5) / support)));
    const sum = weights.reduce((a, b) => a + b, 0);
    return { begin, weights: weights.map((weight) => Math.trunc(0.5 + (weight / sum) * 2 ** PRECISION)) };
  });
}

/** Scales one axis: `lines` lines whose neighbouring places are `step` apart and which begin `apart` apart. */
function scaled(from, filters, { lines, step, apart, to, toStep, toApart, channels }) {
  for (let line = 0; line < lines; ++line)
    for (let i = 0; i < filters.length; ++i) {
      const { begin, weights } = filters[i];
      for (let channel = 0; channel < channels; ++channel) {
        let sum = 1 << (PRECISION - 1);
        let place = line * apart + begin * step + channel;
        for (let k = 0; k < weights.length; ++k, place += step) sum += from[place] * weights[k];
        to[line * toApart + i * toStep + channel] = Math.min(255, sum >> PRECISION);
      }
    }
  return to;
}

/** RGBA as RGB, or as grey for one channel. */
function withChannels({ data, width, height }, channels) {
  const result = new Uint8Array(width * height * channels);
  for (let from = 0, to = 0; to < result.length; from += 4, to += channels) {
    const [red, green, blue] = [data[from], data[from + 1], data[from + 2]];
    if (channels === 1) result[to] = (red * 19595 + green * 38470 + blue * 7471 + 0x8000) >> 16;
    else [result[to], result[to + 1], result[to + 2]] = [red, green, blue];
  }
  return result;
}

/** Bytes (height, width, channels) of a picture {data (RGBA), width, height}. */
export function covering(picture, [channels, height, width]) {
  if (channels !== 1 && channels !== 3)
    throw new Error(`the network takes images of ${channels} channels, pictures have 1 or 3`);
  if (!(picture.width > 0 && picture.height > 0 && picture.data?.length === 4 * picture.width * picture.height))
    throw new Error("the picture must have data (RGBA), width and height");
  const bytes = withChannels(picture, channels);
  if (picture.width === width && picture.height === height) return bytes;
  const scale = Math.max(width / picture.width, height / picture.height);
  const wide = Math.max(width, roundedHalfToEven(picture.width * scale));
  const high = Math.max(height, roundedHalfToEven(picture.height * scale));
  const columns = filter(picture.width, wide, Math.floor((wide - width) / 2), width);
  const rows = filter(picture.height, high, Math.floor((high - height) / 2), height);
  const row = width * channels;
  const narrow = scaled(bytes, columns, {
    lines: picture.height, step: channels, apart: picture.width * channels,
    to: new Uint8Array(picture.height * row), toStep: channels, toApart: row, channels,
  });
  return scaled(narrow, rows, {
    lines: width, step: row, apart: channels,
    to: new Uint8Array(height * row), toStep: row, toApart: channels, channels,
  });
}

/** RGBA pixels of whatever a page calls a picture, in memory that may be given away. */
export async function pixelsOf(picture) {
  if (picture?.data !== undefined)
    return { data: picture.data.slice(), width: picture.width, height: picture.height };
  if (typeof Blob === "function" && picture instanceof Blob) {
    let bitmap;
    try {
      bitmap = await createImageBitmap(picture);
    } catch {
      throw new Error("this is no picture that can be read");
    }
    const pixels = drawn(bitmap, bitmap.width, bitmap.height);
    bitmap.close();
    return pixels;
  }
  const width = picture?.videoWidth || picture?.naturalWidth || picture?.displayWidth || picture?.width;
  const height = picture?.videoHeight || picture?.naturalHeight || picture?.displayHeight || picture?.height;
  if (!(width > 0 && height > 0)) throw new Error("this is no picture, or it has not been loaded yet");
  return drawn(picture, width, height);
}

function drawn(picture, width, height) {
  const canvas =
    typeof OffscreenCanvas === "function"
      ? new OffscreenCanvas(width, height)
      : Object.assign(document.createElement("canvas"), { width, height });
  const context = canvas.getContext("2d", { willReadFrequently: true });
  if (context === null) throw new Error(`a picture of ${width} x ${height} pixels is too large for this browser`);
  try {
    context.drawImage(picture, 0, 0, width, height);
    return context.getImageData(0, 0, width, height);
  } catch (error) {
    throw new Error(`the picture cannot be read: ${error.message}`);
  }
}
