// Recipes of no table of the paper, as one's own: what each reaches over its seeds, and their curves side by side.

SHEETS.set("recipe", recipeSheet);

/* Per data and network a table and a chart; before the paper's tables where these would all be empty. */
function renderOthers() {
  if (!report.others.length) return;
  const settings = [...new Set(report.others.map(({ setting }) => setting))];
  const block = make(
    "div",
    { class: "table-block", id: "others" },
    make("div", { class: "table-head" }, make("h3", {}, "Other recipes")),
    settings.map((setting) =>
      settingOf(
        setting,
        report.others.filter((other) => other.setting === setting),
      ),
    ),
  );
  if (report.runs.some((run) => run.addresses.length)) find("table-list").after(block);
  else find("table-controls").before(block);
}

const recipeAddress = ({ cell }) => `#recipe/${cell.runs[0]}`;

function settingOf(setting, list) {
  const row = (other) =>
    make(
      "tr",
      {},
      make("th", { scope: "row" }, make("a", { href: recipeAddress(other) }, other.title)),
      cellColumns(other.cell),
    );
  return [
    make("h4", { class: "setting" }, setting),
    listTable(`Other recipes, ${setting}`, ["Recipe", ...CELL_COLUMNS], list.map(row)),
    make("div", { class: "panels" }, chartOf(setting, list)),
  ];
}

/* One curve per recipe: the mean over its seeds. */
function chartOf(setting, list) {
  const series = list.map(({ title, cell }, index) => ({
    key: cell.runs[0],
    title: `${title}, ${cell.epochs} epochs`,
    slot: slotOf(index),
    curve: curveOf(
      cell.runs.map((digest) => runs.get(digest)),
      "test_accuracy",
    ),
  }));
  const longest = Math.max(...list.map(({ cell }) => cell.epochs));
  return chartFigure("Test accuracy", QUANTITIES.test_accuracy.axis, series, longest, `others-${list[0].cell.runs[0]}`);
}

/* The sheet of one recipe: its runs, seed by seed. */
function recipeSheet(digest) {
  const other = report.others.find(({ cell }) => cell.runs[0] === digest);
  if (!other) return unknown("recipe");
  const list = other.cell.runs.map((run) => runs.get(run));
  return [
    sheetHead(other.title, other.setting),
    cellRuns(list, other.cell.epochs),
    folded("Recipe, of the first seed", list[0].recipe),
  ];
}
