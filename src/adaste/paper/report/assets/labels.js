// What curves are called beside each other, and what has to be said about them.

/* Names of curves that are seen together: with the length of their runs where that differs, and n above one. */
function labelled(series) {
  const mixed = lengthsAmong(series).length > 1;
  return series.map((entry) => {
    const parts = [
      ...(mixed ? [`${entry.length} ep.`] : []),
      ...(entry.curve.count > 1 ? [`n=${entry.curve.count}`] : []),
    ];
    return parts.length ? { ...entry, title: `${entry.title} (${parts.join(", ")})` } : entry;
  });
}

const lengthsAmong = (series) => [...new Set(series.map(({ length }) => length))].sort((one, other) => other - one);

/* The beginning of a long run is no match for the end of a short one: where curves differ in length, a note tells. */
function lengthsNote(series) {
  const lengths = lengthsAmong(series);
  return lengths.length > 1 ? `Runs of ${lengths.join(" and ")} epochs stand side by side.` : "";
}
