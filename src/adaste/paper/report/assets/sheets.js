// Sheets over the page: a cell with its runs, a run with all it wrote. Each has an address of its own.

const sheet = () => find("sheet");

/* What makes the parts of a sheet, by the first word of its address. */
const SHEETS = new Map([
  ["run", runSheet],
  ["cell", cellSheet],
]);

/* Shows what the address names, and hides the sheet where it names nothing. */
function route() {
  const [kind, ...names] = location.hash.slice(1).split("/");
  const parts = SHEETS.has(kind) ? SHEETS.get(kind)(...names) : null;
  if (!parts) {
    if (sheet().open) sheet().close();
    return;
  }
  sheet().replaceChildren(make("div", { class: "sheet-inner" }, parts));
  if (!sheet().open) sheet().showModal();
  sheet().scrollTop = 0;
  find("sheet-title").focus();
}

function startSheets() {
  sheet().addEventListener("close", () => {
    const [kind] = location.hash.slice(1).split("/");
    if (SHEETS.has(kind)) history.replaceState(null, "", location.pathname + location.search);
  });
  let pressed = null; // text that is selected may end beside the sheet
  sheet().addEventListener("pointerdown", (event) => {
    pressed = event.target;
  });
  sheet().addEventListener("click", (event) => {
    if (event.target === sheet() && pressed === sheet()) sheet().close();
  });
  window.addEventListener("hashchange", route);
  route();
}

function sheetHead(title, subtitle) {
  const copied = (event) =>
    navigator.clipboard?.writeText(location.href).then(() => {
      event.target.textContent = "Copied";
    });
  return make(
    "div",
    { class: "sheet-head" },
    make("div", {}, make("h2", { id: "sheet-title", tabindex: "-1" }, title), make("p", { class: "muted" }, subtitle)),
    make(
      "div",
      { class: "actions" },
      make("button", { type: "button", class: "quiet small", on: { click: copied } }, "Copy link"),
      make(
        "button",
        { type: "button", class: "quiet small", "aria-label": "Close", on: { click: () => sheet().close() } },
        "Close",
      ),
    ),
  );
}

const factsOf = (pairs) =>
  pairs
    .filter(([, value]) => value !== null)
    .map(([name, value]) => make("div", {}, make("dt", {}, name), make("dd", {}, value)));

function unknown(what) {
  return [sheetHead(`No such ${what}`, "The address names nothing in this report.")];
}

function cellSheet(family, method, setup) {
  const lengths = families.has(family) && setups.has(setup) ? lengthsOf(family, setup, method) : [];
  if (!lengths.length) return unknown("cell");
  const rows = report.tables
    .filter((table) => table.families.includes(family))
    .flatMap((table) => table.rows.filter((row) => row.method === method && row.published[setup]));
  const told = [
    ...new Set(
      rows.map((row) => `${accuracy(row.published[setup][0])}${spreadText(row.published[setup][1])}${row.mark}`),
    ),
  ];
  return [
    sheetHead(
      methodOf(family, method).title,
      `${setups.get(setup).title}, family ${family}: ${families.get(family).about}`,
    ),
    make(
      "dl",
      { class: "facts" },
      factsOf([
        ["published", told.length ? told.join("; ") : "nothing"],
        ["lengths", `${lengths.join(", ")} epochs`],
      ]),
    ),
    lengths.map((length) =>
      cellRuns(
        runsOf(recipeOf([family, setup, method], length)),
        length,
        `${methodOf(family, method).title}, ${setups.get(setup).title}, ${family}, ${length} epochs`,
      ),
    ),
  ];
}

/* The runs of one recipe, seed by seed; `of`: what they are of, in words. */
function cellRuns(list, length, of) {
  const series = list.map((run, index) => ({
    key: run.key,
    title: `seed ${run.seed}`,
    slot: slotOf(index),
    curve: curveOfRun(run, "test_accuracy"),
  }));
  const columns = ["Run", "Last", "Best", "Best epoch", "Time", "Hardware"];
  const row = (run) =>
    make(
      "tr",
      {},
      make("th", { scope: "row" }, make("a", { href: `#run/${run.key}` }, `Seed ${run.seed}`)),
      [accuracy(run.last), accuracy(run.best), run.best_epoch + 1, duration(run.seconds), run.hardware].map((text) =>
        make("td", {}, String(text)),
      ),
    );
  return [
    make("h3", {}, `${plural(list.length, "run")} of ${length} epochs`),
    listTable(`Runs of ${length} epochs`, columns, list.map(row)),
    chartFigure("Test accuracy", of, quantities.get("test_accuracy").axis, series, length, `runs-${list[0].key}`),
  ];
}

/* A small chart over epochs; `of` tells those who meet its picture elsewhere what it is of. */
function chartFigure(title, of, axis, series, epochs, name) {
  const chart = new Chart({ label: `${title} over epochs`, axis, series, stops: epochsUpTo(epochs), height: 240 });
  return chartPanel({
    heading: make("h4", {}, title),
    chart,
    buttons: chartButtons(chart, { title, about: () => of, name, zooms: [lastHalf(chart)] }),
  });
}

function runSheet(key) {
  const run = runs.get(key);
  if (!run) return unknown("run");
  const [method, setup] = run.title;
  const cells = run.cells.map(([family, name, where]) =>
    make("a", { href: `#cell/${family}/${name}/${where}` }, `${family} / ${methodOf(family, name).title}`),
  );
  return [
    sheetHead(method, `${setup}, seed ${run.seed}`),
    make(
      "dl",
      { class: "facts" },
      factsOf([
        ["last epoch", `${accuracy(run.last)} %`],
        ["best epoch", `${accuracy(run.best)} % in epoch ${run.best_epoch + 1}`],
        ["epochs", run.epochs],
        ["duration", duration(run.seconds)],
        ["hardware", run.hardware],
        ["threads of the CPU", run.threads.length ? run.threads.join(", then ") : "not recorded"],
        ["digest", make("code", {}, run.digest)],
        ["folder", make("code", {}, run.folder)],
      ]),
    ),
    make(
      "p",
      { class: "belongs" },
      cells.length
        ? ["Belongs to ", cells.flatMap((link, index) => (index ? [", ", link] : [link])), "."]
        : "Belongs to no table of the paper.",
    ),
    make("div", { class: "panels" }, runCharts(run), latentsOf(run)),
    folded("Result", run.result),
    folded("Recipe", run.recipe, true),
    folded(run.environments.length > 1 ? "Environments, one per start" : "Environment", run.environments),
  ];
}

/* Whatever is measured, the same images have the same colour. */
const SPLITS = ["test", "training", "held out"];

function runCharts(run) {
  const one = (title, axis, quantities) => {
    const series = quantities.flatMap(([name, key]) => {
      const curve = curveOfRun(run, name);
      return curve ? [{ key: name, title: key, slot: slotOf(Math.max(0, SPLITS.indexOf(key))), curve }] : [];
    });
    const name = `${run.key}-${quantities[0][0]}`;
    return series.length ? chartFigure(title, inWords(run), axis, series, run.epochs, name) : null;
  };
  return [
    one("Accuracy", "accuracy, %", [
      ["test_accuracy", "test"],
      ["train_accuracy", "training"],
      ["holdout_accuracy", "held out"],
    ]),
    one("Loss", "loss", [
      ["loss", "training"],
      ["test_loss", "test"],
    ]),
    one("Flips per epoch", quantities.get("flipped").axis, [["flipped", "flips"]]),
    one("Mean |latent|", "mean |latent|", [["latent", "latent"]]),
    one("Learning rate", "learning rate", [["lr", "rate"]]),
  ];
}

function folded(title, value, open = false) {
  return make(
    "details",
    { class: "plain", open },
    make("summary", {}, title),
    make("pre", { tabindex: 0 }, JSON.stringify(value, null, 2)),
  );
}
