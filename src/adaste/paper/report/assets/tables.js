// The tables: what runs reach, beside what the paper prints.

const shared = report.tables[0].families;
const filled = (family) =>
  report.tables[0].rows.reduce(
    (sum, row) => sum + Object.values(row.cells[family]).filter((cells) => cells?.length).length,
    0,
  );

/* family: one, or "all" side by side; epoch: "last" or "best"; lengths: of runs, by table; null for the longest. */
const tables = { family: [...shared].sort((one, other) => filled(other) - filled(one))[0], epoch: "last", lengths: {} };

function renderTables() {
  const again = (change) => (value) => {
    tables[change] = value;
    renderTables();
    find("table-controls").querySelector(`[data-value="${value}"]`).focus();
  };
  const about =
    tables.family === "all" ? "All families side by side." : `${tables.family}: ${families.get(tables.family).about}`;
  find("table-controls").replaceChildren(
    choice(
      "Recipes",
      [...shared.map((name) => [name, name, families.get(name).about]), ["all", "all families"]],
      tables.family,
      again("family"),
    ),
    choice(
      "Epoch",
      [
        ["last", "last"],
        ["best", "best"],
      ],
      tables.epoch,
      again("epoch"),
    ),
    make("p", { class: "hint", id: "family-about", "aria-live": "polite" }, about),
  );
  find("table-list").replaceChildren(...report.tables.map(tableOf));
}

const isPublished = (table) => table.rows.some((row) => Object.keys(row.published).length);

function tableOf(table) {
  const chosen = table.families.includes(tables.family) ? [tables.family] : table.families;
  const shape = table.setups.length === 1 && !isPublished(table) ? listed : gridded;
  return make(
    "div",
    { class: "table-block", id: table.name },
    make("div", { class: "table-head" }, make("h3", {}, table.heading), tableLengths(table, chosen)),
    mixedNote(table, chosen),
    make("div", { class: "table-box", tabindex: 0, role: "region", "aria-label": table.title }, shape(table, chosen)),
    notesOf(table),
  );
}

/* A long run beside a short one says nothing about methods: where cells differ in length, a note tells. */
function mixedNote(table, chosen) {
  const length = lengthOf(table, chosen);
  const picked = table.rows.flatMap((row) =>
    chosen.flatMap((family) => table.setups.map((setup) => pick(row, setup, family, length).cell)),
  );
  const lengths = [...new Set(picked.filter(Boolean).map(({ epochs }) => epochs))].sort((one, other) => other - one);
  return lengths.length < 2
    ? null
    : make(
        "p",
        { class: "hint mixed" },
        `Each cell shows its longest runs, here of ${lengths.join(" and ")} epochs. ` +
          "To compare methods with each other, choose one length above.",
      );
}

/* Of all runs in the table, the longest first. */
const lengthsIn = (table, chosen) => {
  const cells = table.rows.flatMap((row) => chosen.flatMap((family) => Object.values(row.cells[family]).flat()));
  return [...new Set(cells.filter(Boolean).map(({ epochs }) => epochs))].sort((one, other) => other - one);
};

/* The one that was chosen, null for the longest of each cell; else the table's own. */
function lengthOf(table, chosen) {
  const wanted = tables.lengths[table.name];
  return wanted === null || lengthsIn(table, chosen).includes(wanted) ? wanted : table.length;
}

function tableLengths(table, chosen) {
  const lengths = lengthsIn(table, chosen);
  if (lengths.length < 2) return null;
  const current = lengthOf(table, chosen);
  const choose = (value) => {
    tables.lengths[table.name] = value === "longest" ? null : Number(value);
    const made = tableOf(table);
    find(table.name).replaceWith(made);
    made.querySelector(`[data-value="${value}"]`).focus();
  };
  return choice(
    "Epochs",
    [["longest", "longest"], ...lengths.map((length) => [String(length), String(length)])],
    current === null ? "longest" : String(current),
    choose,
  );
}

/* The cell of the length in force, and all others. */
function pick(row, setup, family, length) {
  const cells = row.cells[family][setup] ?? [];
  const cell = length === null ? cells[0] : cells.find(({ epochs }) => epochs === length);
  return { cell, others: cells.filter((other) => other !== cell) };
}

function gridded(table, chosen) {
  const length = lengthOf(table, chosen);
  const marked = (row) =>
    make("th", { scope: "row" }, row.title, row.mark ? make("sup", { title: table.notes[row.mark] }, row.mark) : null);
  const made = make(
    "table",
    { class: "numbers" },
    make(
      "colgroup",
      {},
      make("col", { class: "methods" }),
      table.setups.map(() => make("col")),
    ),
    tableHead(["Method", ...table.setups.map((name) => setups.get(name).title)]),
    make(
      "tbody",
      {},
      table.rows.map((row) =>
        make(
          "tr",
          { "data-method": row.method },
          marked(row),
          table.setups.map((setup) => make("td", { "data-setup": setup }, boxOf(row, setup, chosen, length))),
        ),
      ),
    ),
  );
  made.style.minWidth = `${132 + 188 * table.setups.length}px`; // narrower than that, it scrolls in its box
  return made;
}

/* The contents of one box: a line or a block for each family, and what was published. */
function boxOf(row, setup, chosen, length) {
  const [value, spread] = row.published[setup] ?? [null, null];
  const published = make(
    "span",
    { class: "published" },
    value === null ? "not published" : `published ${accuracy(value)}${spreadText(spread)}`,
  );
  if (chosen.length === 1) return cellOf(row, setup, chosen[0], length, null, published);
  return [
    make("p", { class: "cell over-all" }, published),
    chosen.map((family) => cellOf(row, setup, family, length, make("span", { class: "family" }, family), null)),
  ];
}

const spreadText = (spread) => (spread === null ? "" : ` ±${THIN}${accuracy(spread)}`);

function cellOf(row, setup, family, length, label, published) {
  const { cell, others } = pick(row, setup, family, length);
  if (!cell) {
    const [word, hint] = row.cells[family][setup]
      ? ["missing", "no finished run of this recipe"]
      : ["no recipe", "this family has no recipe for the cell"];
    return make(
      "p",
      { class: "cell absent", "data-family": family, title: hint },
      label,
      make("em", {}, word),
      published,
    );
  }
  const { mean, spread, difference } = cell[tables.epoch];
  const other = tables.epoch === "last" ? "best" : "last";
  const also = others.length ? ` (also ${others.map(({ epochs }) => epochs).join(", ")})` : "";
  const counts = `${plural(cell.runs.length, "run")}, ${cell.epochs} epochs${also}`;
  return make(
    "a",
    {
      class: "cell",
      href: `#cell/${family}/${row.method}/${setup}`,
      "data-family": family,
      "aria-label": spokenCell(row, setup, family, cell),
    },
    label,
    make(
      "span",
      { class: "value" },
      make("b", {}, accuracy(mean)),
      make("span", { class: "spread" }, spreadText(spread)),
      differenceOf(difference),
    ),
    published,
    make("span", { class: "more" }, `${other} ${accuracy(cell[other].mean)}${spreadText(cell[other].spread)}`),
    make("span", { class: "more" }, counts),
    cell.versions.length ? make("span", { class: "more" }, `by adaste ${cell.versions.join(", ")}`) : null,
  );
}

function differenceOf(difference) {
  if (difference === null) return null;
  const rounded = Math.round(difference * 100) / 100;
  const side = rounded > 0 ? "above" : rounded < 0 ? "below" : "equal";
  const sign = { above: "\u25b2", below: "\u25bc", equal: "=" }[side];
  return make(
    "span",
    { class: `difference ${side}`, title: "difference from the published number, in points" },
    make("i", { "aria-hidden": "true" }, sign),
    signed(rounded),
  );
}

function spokenCell(row, setup, family, cell) {
  const { mean, difference } = cell[tables.epoch];
  const beside = difference === null ? "" : `, ${signed(difference)} points from the published number`;
  const reached = `${accuracy(mean)} percent in the ${tables.epoch} epoch${beside}`;
  const counts = `${plural(cell.runs.length, "run")} of ${cell.epochs} epochs`;
  return `${row.title}, ${setups.get(setup).title}, ${family}: ${reached}, ${counts}. Show runs`;
}

/* The parts of a cell as columns. */
const CELL_COLUMNS = ["Last epoch", "Best epoch", "Runs", "Epochs", "Time of a run"];
const cellColumns = (cell) => [
  make("td", {}, make("b", {}, accuracy(cell.last.mean)), spreadText(cell.last.spread)),
  make("td", {}, accuracy(cell.best.mean), spreadText(cell.best.spread)),
  make("td", {}, cell.runs.length),
  make("td", {}, cell.epochs),
  make("td", {}, duration(cell.seconds)),
];

/* What sorts the parts of a cell. */
const CELL_VALUES = [
  (cell) => cell.last.mean,
  (cell) => cell.best.mean,
  (cell) => cell.runs.length,
  (cell) => cell.epochs,
  (cell) => cell.seconds,
];

/* One setup and nothing published: the parts of a cell become columns. */
function listed(table, [family]) {
  const [setup] = table.setups;
  const length = lengthOf(table, [family]);
  return make(
    "table",
    { class: "list" },
    make("caption", {}, `${setups.get(setup).title}, family ${family}`),
    tableHead(["Variant", ...CELL_COLUMNS]),
    make(
      "tbody",
      {},
      table.rows.map((row) => {
        const { cell, others } = pick(row, setup, family, length);
        const href = `#cell/${family}/${row.method}/${setup}`;
        const title = cell || others.length ? make("a", { href }, row.title) : row.title;
        return make(
          "tr",
          { "data-method": row.method },
          make("th", { scope: "row" }, title),
          cell
            ? cellColumns(cell)
            : make("td", { class: "absent", colspan: CELL_COLUMNS.length }, make("em", {}, "missing")),
        );
      }),
    ),
  );
}

function notesOf(table) {
  const notes = Object.entries(table.notes);
  return notes.length
    ? make(
        "p",
        { class: "notes" },
        notes.map(([mark, text]) => make("span", {}, make("sup", {}, mark), ` ${text}. `)),
      )
    : null;
}
