// The paper's figures of runs, as presets for the curves of any family.

/* A figure shows runs of its own length where there are some. Else it compares runs of one length, if it can. */
const lengthLike = (figure, family, place) => sharedLength(family, place, figure.methods, figure.epochs);

/* Without any of its methods, a figure is none. */
const fitsFamily = (figure, family) => figure.methods.some((name) => methodOf(family, name));

/* What the figure has and these curves have not: methods, and their length. */
function differencesFrom(figure, family, series) {
  const there = new Map(series.map(({ key, length }) => [key, length]));
  const lacking = figure.methods.filter((name) => !there.has(name));
  const found = figure.methods.filter((name) => there.has(name));
  const odd = found.filter((name) => there.get(name) !== figure.epochs);
  const others = [...new Set(odd.map((name) => there.get(name)))].sort((one, other) => one - other);
  const whose = odd.length < found.length ? `: ${titlesIn(family, odd)}` : "";
  const said = others.map((length) => (length > figure.epochs ? `${length} (first ${figure.epochs})` : length));
  const parts = [
    ...(lacking.length ? [`Missing: ${titlesIn(family, lacking)}.`] : []),
    ...(others.length ? [`Runs of ${said.join(" and ")} epochs instead of ${figure.epochs}${whose}.`] : []),
  ];
  return parts.join(" ");
}
