// Recipes of no table of the paper, as one's own: what each reaches over its seeds, and their curves side by side.

SHEETS.set("recipe", recipeSheet);

/* Per data and network a table and a chart; before the paper's tables where these would all be empty. */
function renderOthers() {
  if (!report.others.length) return;
  const settings = [...new Set(report.others.map(({ setting }) => setting))];
  const block = make(
    "div",
    { class: "table-block", id: "others" },
    make("div", { class: "table-head" }, make("h3", {}, report.paper ? "Other recipes" : "Recipes")),
    settings.map((setting) =>
      settingOf(
        setting,
        report.others.filter((other) => other.setting === setting),
      ),
    ),
  );
  if (!report.paper || report.runs.some((run) => run.cells.length)) find("table-list").after(block);
  else find("table-controls").before(block);
}

/* Of a recipe: the key of its first run. */
const keyOfOther = ({ cell }) => cell.runs[0];

const recipeAddress = (other) => `#recipe/${keyOfOther(other)}`;

function settingOf(setting, list) {
  const row = (other) =>
    make(
      "tr",
      {},
      make("th", { scope: "row" }, make("a", { href: recipeAddress(other) }, other.title)),
      cellColumns(other.cell),
    );
  const columns = [
    { name: "Recipe", value: ({ title }) => title },
    ...CELL_COLUMNS.map((name, index) => ({ name, value: ({ cell }) => CELL_VALUES[index](cell) })),
  ];
  return [
    make("h4", { class: "setting" }, setting),
    sortableTable(`Other recipes, ${setting}`, columns, list, row, { column: null, turned: false }),
    ownCurves(setting, list),
  ];
}

/* One curve per recipe of a quantity that can be chosen; what is switched off stays so. */
function ownCurves(setting, list) {
  const holder = make("div", { class: "own-curves" });
  const shown = new Set(list.map(keyOfOther));
  const known = report.quantities.filter(({ name }) => seriesOf(list, name).length);
  const render = (quantity) =>
    keepingFocus(holder, () =>
      holder.replaceChildren(
        make(
          "div",
          { class: "controls" },
          choice(
            "Quantity",
            known.map(({ name, title }) => [name, title]),
            quantity,
            render,
          ),
        ),
        make("div", { class: "panels single" }, ownPanel(setting, list, quantity, shown)),
      ),
    );
  render(known[0].name);
  return holder;
}

const recipeWith = (key) => report.recipes.find((recipe) => recipe.runs.includes(key));

const seriesOf = (list, quantity) =>
  list.flatMap((other, index) => {
    const curve = curveOf(recipeWith(keyOfOther(other)), quantity);
    const { title, cell } = other;
    return curve ? [{ key: keyOfOther(other), title, slot: slotOf(index), curve, length: cell.epochs }] : [];
  });

function ownPanel(setting, list, quantity, shown) {
  const { title, axis } = quantities.get(quantity);
  const series = seriesOf(list, quantity);
  const longest = Math.max(...series.map(({ length }) => length));
  const chart = new Chart({
    label: `${title} over epochs, ${setting}`,
    axis,
    series,
    stops: epochsUpTo(longest),
    height: 400,
  });
  const note = () => lengthsNote(chart.shown);
  return chartPanel({
    heading: make("h4", {}, title),
    chart,
    buttons: chartButtons(chart, {
      title: `${title}, ${setting}`,
      about: note,
      name: `others-${keyOfOther(list[0])}-${quantity}`,
      zooms: [lastHalf(chart)],
    }),
    shown,
    all: list.map(keyOfOther),
    note,
  });
}

/* The sheet of one recipe: its runs, seed by seed. */
function recipeSheet(key) {
  const other = report.others.find((entry) => keyOfOther(entry) === key);
  if (!other) return unknown("recipe");
  const list = runsOf(other.cell);
  return [
    sheetHead(other.title, other.setting),
    cellRuns(list, other.cell.epochs, `${other.title}, ${other.setting}, ${other.cell.epochs} epochs`),
    folded("Recipe, of the first seed", list[0].recipe),
  ];
}
