// What curves say at a stop: in a tip, or aloud.

const TOLD = 12; // in a tip: more would cover the chart

/* The highest first, with the lowest and the highest where a curve is a mean of several runs. */
function valuesAt(series, stop) {
  const rangeOf = ({ count, low, high }) => (count > 1 ? [low[stop], high[stop]].map(significant).join(" to ") : null);
  return series
    .map((entry) => ({ ...entry, value: entry.curve.mean[stop] ?? null, range: rangeOf(entry.curve) }))
    .filter(({ value }) => value !== null)
    .sort((one, other) => other.value - one.value);
}

function tipLines(title, told) {
  const lines = told.slice(0, TOLD).map((entry) =>
    make(
      "p",
      {},
      swatchPicture(entry.slot),
      make("span", {}, entry.title, entry.range ? make("small", { class: "block" }, entry.range) : null),
      make("b", {}, significant(entry.value)),
    ),
  );
  const rest = told.length - lines.length;
  return [
    make("p", { class: "tip-title" }, title),
    ...lines,
    ...(rest ? [make("p", { class: "tip-title" }, `and ${rest} lower`)] : []),
  ];
}

const spokenLine = (title, told) =>
  `${title}: ${
    told
      .map((entry) => `${entry.title} ${significant(entry.value)}${entry.range ? `, from ${entry.range}` : ""}`)
      .join("; ") || "no values"
  }`;
