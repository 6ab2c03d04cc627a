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
  const shape = table.places.length === 1 && !isPublished(table) ? listed : gridded;
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
    chosen.flatMap((family) => table.places.map((place) => pick(row, place, family, length).cell)),
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

/* How many cells have runs of each length, the longest first. */
function lengthsIn(table, chosen) {
  const counts = new Map();
  for (const row of table.rows)
    for (const family of chosen)
      for (const { epochs } of Object.values(row.cells[family]).flatMap((cells) => cells ?? []))
        counts.set(epochs, (counts.get(epochs) ?? 0) + 1);
  return [...counts].sort(([one], [other]) => other - one);
}

/* Beside published numbers the longest runs count. Where rows are compared with each other, all have one length. */
function lengthOf(table, chosen) {
  const lengths = lengthsIn(table, chosen);
  const wanted = tables.lengths[table.name];
  if (wanted === null || lengths.some(([epochs]) => epochs === wanted)) return wanted;
  return isPublished(table) ? null : (lengths.sort(([, one], [, other]) => other - one)[0]?.[0] ?? null);
}

function tableLengths(table, chosen) {
  const lengths = lengthsIn(table, chosen).map(([epochs]) => epochs);
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
function pick(row, place, family, length) {
  const cells = row.cells[family][place] ?? [];
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
      table.places.map(() => make("col")),
    ),
    tableHead(["Method", ...table.places.map((name) => places.get(name).title)]),
    make(
      "tbody",
      {},
      table.rows.map((row) =>
        make(
          "tr",
          { "data-method": row.method },
          marked(row),
          table.places.map((place) => make("td", { "data-place": place }, boxOf(row, place, chosen, length))),
        ),
      ),
    ),
  );
  made.style.minWidth = `${132 + 188 * table.places.length}px`; // narrower than that, it scrolls in its box
  return made;
}

/* The contents of one box: a line or a block for each family, and what was published. */
function boxOf(row, place, chosen, length) {
  const [value, spread] = row.published[place] ?? [null, null];
  const published = make(
    "span",
    { class: "published" },
    value === null ? "not published" : `published ${accuracy(value)}${spreadText(spread)}`,
  );
  if (chosen.length === 1) return cellOf(row, place, chosen[0], length, null, published);
  return [
    make("p", { class: "cell over-all" }, published),
    chosen.map((family) => cellOf(row, place, family, length, make("span", { class: "family" }, family), null)),
  ];
}

const spreadText = (spread) => (spread === null ? "" : ` ±${THIN}${accuracy(spread)}`);

function cellOf(row, place, family, length, label, published) {
  const { cell, others } = pick(row, place, family, length);
  if (!cell) {
    const [word, hint] = row.cells[family][place]
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
      href: `#cell/${family}/${row.method}/${place}`,
      "data-family": family,
      "aria-label": spokenCell(row, place, family, cell),
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

function spokenCell(row, place, family, cell) {
  const { mean, difference } = cell[tables.epoch];
  const beside = difference === null ? "" : `, ${signed(difference)} points from the published number`;
  const reached = `${accuracy(mean)} percent in the ${tables.epoch} epoch${beside}`;
  const counts = `${plural(cell.runs.length, "run")} of ${cell.epochs} epochs`;
  return `${row.title}, ${places.get(place).title}, ${family}: ${reached}, ${counts}. Show runs`;
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

/* One place and nothing published: the parts of a cell become columns. */
function listed(table, [family]) {
  const [place] = table.places;
  const length = lengthOf(table, [family]);
  return make(
    "table",
    { class: "list" },
    make("caption", {}, `${places.get(place).title}, family ${family}`),
    tableHead(["Variant", ...CELL_COLUMNS]),
    make(
      "tbody",
      {},
      table.rows.map((row) => {
        const { cell, others } = pick(row, place, family, length);
        const href = `#cell/${family}/${row.method}/${place}`;
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
