// Lists of runs: those of the paper's cells, all others, and what was left out.

const listing = { text: "", order: { column: null, turned: false } };

function renderRuns() {
  const known = report.runs.filter((run) => run.cells.length);
  const others = report.runs.filter((run) => !run.cells.length);
  const field = make("input", {
    type: "search",
    id: "filter",
    placeholder: "method, setting, family, digest",
    autocomplete: "off",
  });
  const holder = make("div", {});
  const show = () => {
    listing.text = field.value.trim().toLowerCase();
    const all = [
      ["Runs in the tables", "Each has the recipe of a cell.", known],
      ["Other runs", "Their recipes belong to no cell of the paper: they are in the table of other recipes.", others],
    ];
    const own = [["All runs", "Each leads to its recipe, environment and curves.", others]];
    holder.replaceChildren(
      ...(report.paper ? all : own).map(([title, about, list]) =>
        runTable(title, about, list.filter(matches), list.length),
      ),
    );
  };
  field.addEventListener("input", show);
  find("run-list").replaceChildren(make("label", { class: "search" }, make("span", {}, "Find"), field), holder);
  show();
}

const wordsOf = (run) =>
  [...run.title, ...run.cells.flat(), run.folder, run.key, `seed ${run.seed}`, `${run.epochs} epochs`]
    .join(" ")
    .toLowerCase();

const matches = (run) => listing.text.split(/\s+/).every((word) => wordsOf(run).includes(word));

function runTable(title, about, list, count) {
  const shown = list.length === count ? String(count) : `${list.length} of ${count}`;
  return make(
    "details",
    { class: "run-block", open: count <= 24 || listing.text !== "" },
    make("summary", {}, make("h3", {}, title), make("span", { class: "count" }, shown)),
    make("p", { class: "about" }, about),
    list.length
      ? sortableTable(title, RUN_COLUMNS.filter(isUseful), list, runRow, listing.order)
      : make("p", { class: "empty" }, "None."),
  );
}

const familiesOf = (run) => [...new Set(run.cells.map(([family]) => family))].join(", ") || "none";

const RUN_COLUMNS = [
  { name: "Run", value: (run) => run.title.join(" "), text: null },
  { name: "Families", value: familiesOf, text: familiesOf },
  { name: "Seed", value: (run) => run.seed, text: (run) => run.seed },
  { name: "Epochs", value: (run) => run.epochs, text: (run) => run.epochs },
  { name: "Last", value: (run) => run.last, text: (run) => accuracy(run.last) },
  { name: "Best", value: (run) => run.best, text: (run) => accuracy(run.best) },
  { name: "Time", value: (run) => run.seconds, text: (run) => duration(run.seconds) },
];

const isUseful = ({ name }) => report.paper || name !== "Families";

function runRow(run) {
  const [method, setup] = run.title;
  return make(
    "tr",
    {},
    make(
      "th",
      { scope: "row" },
      make("a", { href: `#run/${run.key}` }, method),
      make("span", { class: "muted block" }, run.cells.length ? setup : run.folder),
    ),
    RUN_COLUMNS.filter(({ text }) => text)
      .filter(isUseful)
      .map(({ text }) => make("td", {}, String(text(run)))),
  );
}

function renderProblems() {
  const about =
    "Folders with a recipe that hold no finished, whole run, or one that is shown already. " +
    "None of them is in any number above.";
  find("problem-list").replaceChildren(
    report.problems.length
      ? make(
          "div",
          {},
          make("p", { class: "about" }, about),
          make(
            "ul",
            { class: "problems" },
            report.problems.map(({ folder, reason }) =>
              make("li", {}, make("code", {}, folder || "."), make("span", {}, reason)),
            ),
          ),
        )
      : make("p", { class: "empty" }, "Nothing: every folder with a recipe holds a finished run of its own."),
  );
}
