// The report's data, and how runs are found in it.

const report = JSON.parse(find("contents").textContent);

const QUANTITIES = {
  test_accuracy: { title: "Test accuracy", axis: "test accuracy, %", scale: 1 },
  train_accuracy: { title: "Training accuracy", axis: "training accuracy, %", scale: 1 },
  loss: { title: "Training loss", axis: "training loss", scale: 1 },
  test_loss: { title: "Test loss", axis: "test loss", scale: 1 },
  flipped: { title: "Flips per epoch", axis: "weights that flipped, %", scale: 100 },
};

/* Beyond the ones above, what a single run shows. */
const DETAILS = {
  holdout_accuracy: { title: "Accuracy on images held out", axis: "accuracy, %", scale: 1 },
  latent: { title: "Mean |latent|", axis: "mean |latent|", scale: 1 },
  lr: { title: "Learning rate", axis: "learning rate", scale: 1 },
};

const named = (list) => new Map(list.map((entry) => [entry.name, entry]));
const places = named(report.places);
const families = named(report.families);
const runs = new Map(report.runs.map((run) => [run.digest, run]));

const methodOf = (family, method) => families.get(family).methods.find((entry) => entry.name === method);

/* Runs by family, place and method, then by length: they differ in their seeds alone. */
const groups = new Map();
const keyOf = (family, place, method) => [family, place, method].join(" ");
for (const run of report.runs) {
  for (const [family, method, place] of run.addresses) {
    const key = keyOf(family, place, method);
    if (!groups.has(key)) groups.set(key, new Map());
    const lengths = groups.get(key);
    if (!lengths.has(run.epochs)) lengths.set(run.epochs, []);
    lengths.get(run.epochs).push(run);
  }
}
for (const lengths of groups.values())
  for (const list of lengths.values()) list.sort((one, other) => one.seed - other.seed);

const lengthsOf = (family, place, method) =>
  [...(groups.get(keyOf(family, place, method)) ?? new Map()).keys()].sort((one, other) => other - one);

/* The runs of that length; where none is given, of the usual one if there are some, else of the longest. */
function runsOf(family, place, method, length = null, usual = null) {
  const lengths = lengthsOf(family, place, method);
  const epochs = length ?? (lengths.includes(usual) ? usual : lengths[0]);
  return groups.get(keyOf(family, place, method))?.get(epochs) ?? [];
}

/* The wanted length if any of these methods has it at a place, else the longest that all with runs have, or null. */
function sharedLength(family, place, methods, wanted) {
  const lengths = methods.map((method) => lengthsOf(family, place, method)).filter((found) => found.length);
  if (lengths.some((found) => found.includes(wanted))) return wanted;
  return (lengths[0] ?? []).find((length) => lengths.every((found) => found.includes(length))) ?? null;
}

const epochsUpTo = (last) => Array.from({ length: last }, (_, index) => index + 1);

const runsIn = (family) => report.runs.filter((run) => run.addresses.some(([name]) => name === family)).length;

/* Mean, lowest and highest value of some runs at every epoch, null where nothing was measured, and how many they are. */
function curveOf(list, quantity) {
  const { scale } = QUANTITIES[quantity] ?? DETAILS[quantity];
  const columns = list.map((run) => run.curves[quantity]).filter(Boolean);
  if (!columns.length) return null;
  const curve = { mean: [], low: [], high: [], count: columns.length };
  for (let epoch = 0; epoch < columns[0].length; epoch += 1) {
    const values = columns.map((column) => column[epoch]).filter((value) => value !== null);
    const told = values.length > 0;
    curve.mean.push(told ? (scale * values.reduce((sum, value) => sum + value, 0)) / values.length : null);
    curve.low.push(told ? scale * Math.min(...values) : null);
    curve.high.push(told ? scale * Math.max(...values) : null);
  }
  return curve;
}

/* What a run is, in words: its first address, or its parts where it has none. */
function titleOf(run) {
  if (run.addresses.length) {
    const [family, method, place] = run.addresses[0];
    return [methodOf(family, method).title, places.get(place).title];
  }
  const { estimator, network, data } = run.recipe;
  return [estimator.kind, `${data} ${network.kind}`];
}

const inWords = (run) => `${titleOf(run).join(", ")}, seed ${run.seed}, ${run.epochs} epochs, run ${run.digest}`;
