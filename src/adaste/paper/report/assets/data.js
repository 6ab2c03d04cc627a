// The report's data, and how runs are found in it.

const report = JSON.parse(find("contents").textContent);

/* By name, as all that is looked up below. */
const named = (list) => new Map(list.map((entry) => [entry.name, entry]));
const quantities = named(report.quantities);
const setups = named(report.setups);
const families = named(report.families);
const runs = new Map(report.runs.map((run) => [run.key, run]));

const methodOf = (family, method) => families.get(family).methods.find((entry) => entry.name === method);

/* Recipes by family, setup and method, the longest runs first. */
const recipes = new Map();
const keyOf = (...parts) => parts.join(" ");
for (const recipe of report.recipes)
  for (const [family, method, setup] of recipe.cells) {
    const key = keyOf(family, setup, method);
    recipes.set(key, [...(recipes.get(key) ?? []), recipe]);
  }

const recipesOf = (family, setup, method) => recipes.get(keyOf(family, setup, method)) ?? [];
const lengthsOf = (...cell) => recipesOf(...cell).map(({ epochs }) => epochs);

/* The recipe of that length; where none is given, of the usual one if there is one, else the longest. */
function recipeOf(cell, length = null, usual = null) {
  const every = recipesOf(...cell);
  const longAs = (wanted) => every.find(({ epochs }) => epochs === wanted);
  return length === null ? (longAs(usual) ?? every[0]) : longAs(length);
}

const runsOf = (recipe) => recipe.runs.map((key) => runs.get(key));

const epochsUpTo = (last) => Array.from({ length: last }, (_, index) => index + 1);

/* A quantity over the epochs of a run, or of the runs of a recipe; null where it was not measured. */
const curveOfRun = (run, quantity) => (run.curves[quantity] ? { mean: run.curves[quantity], count: 1 } : null);
const curveOf = (recipe, quantity) =>
  recipe.curves ? (recipe.curves[quantity] ?? null) : curveOfRun(runs.get(recipe.runs[0]), quantity);

const inWords = (run) => `${run.title.join(", ")}, seed ${run.seed}, ${run.epochs} epochs, run ${run.key}`;
