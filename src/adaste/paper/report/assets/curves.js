// The curves of a family at some setups: controls, legend, one panel per setup.

const busiest = [...report.families].sort((one, other) => other.runs - one.runs)[0].name;

/*
 * figure: the preset that is in force, if any; like: the figure whose lengths are shown, also after it was left.
 * length: of runs where none is like a figure's, null for the longest; shown: names of methods.
 * panels: {setup, series, chart, caption, element}; without curves there is no chart.
 */
const curves = {
  family: busiest,
  setups: [],
  quantity: "test_accuracy",
  length: null,
  shown: new Set(),
  figure: null,
  like: null,
  panels: [],
};

const methodsOf = (family) => families.get(family).methods;

/* Without any of its methods, a figure is none. */
const fitsFamily = (figure, family) => figure.methods.some((name) => methodOf(family, name));

const namesOf = (list) => list.map(({ name }) => name);

const setupsWithRuns = (family) =>
  namesOf(report.setups).filter((setup) => methodsOf(family).some(({ name }) => lengthsOf(family, setup, name).length));

const showsRuns = () =>
  curves.setups.some((setup) => [...curves.shown].some((name) => lengthsOf(curves.family, setup, name).length));

function startCurves() {
  if (!report.runs.some((run) => run.cells.length)) return renderNoCurves();
  const [first] = report.figures;
  useFigure(first);
  const filled = setupsWithRuns(curves.family);
  if (!first.setups.every((setup) => filled.includes(setup)) || !showsRuns())
    leaveFigure({ like: null, setups: filled.slice(0, 1) });
  if (!showsRuns()) showAll();
  renderCurves();
}

function renderNoCurves() {
  const others = ["Curves of all other recipes are ", make("a", { href: "#others" }, "below their table"), "."];
  find("panels").classList.add("single");
  find("panels").append(
    make(
      "p",
      { class: "empty" },
      "No run has a recipe of the paper's tables, whose curves would stand here. ",
      report.others.length ? others : null,
    ),
  );
}

function useFigure(figure) {
  Object.assign(curves, {
    figure,
    like: figure,
    setups: [...figure.setups],
    quantity: figure.quantity,
    length: null,
    shown: new Set(figure.methods),
  });
}

/* Any choice of one's own leaves the preset, but not what else it had decided: runs stay as long as they are. */
function leaveFigure(changes = {}) {
  Object.assign(curves, { figure: null }, changes);
}

function showAll() {
  curves.shown = new Set(namesOf(methodsOf(curves.family)));
}

function chooseFamily(family) {
  Object.assign(curves, { family, length: null });
  if (curves.like && !fitsFamily(curves.like, family)) leaveFigure({ like: null });
  if (curves.figure) return;
  const filled = setupsWithRuns(family);
  if (!curves.setups.some((setup) => filled.includes(setup))) curves.setups = filled.slice(0, 1);
  if (!showsRuns()) showAll();
}

const changed = (act) => (value) =>
  keepingFocus(find("curve-controls"), () => {
    act(value);
    renderCurves();
  });

function renderCurves() {
  curves.panels = curves.setups.map(panelOf);
  renderCurveControls();
  renderLegend();
  find("panels").classList.toggle("single", curves.panels.length === 1);
  find("panels").replaceChildren(
    ...(curves.panels.length
      ? curves.panels.map(({ element }) => element)
      : [make("p", { class: "empty" }, "No setting is chosen.")]),
  );
  updatePanels();
}

function renderCurveControls() {
  find("curve-controls").replaceChildren(
    choice(
      "Figure",
      report.figures.map(({ name, heading, title }) => [name, heading, title]),
      curves.figure?.name,
      changed((name) => useFigure(report.figures.find((figure) => figure.name === name))),
    ),
    choice(
      "Family",
      report.families.map((family) => [family.name, `${family.name} (${family.runs})`, family.about]),
      curves.family,
      changed(chooseFamily),
    ),
    choice(
      "Quantity",
      report.quantities.map(({ name, title }) => [name, title]),
      curves.quantity,
      changed((quantity) => leaveFigure({ quantity })),
    ),
    setupChoice(),
    lengthChoice(),
  );
}

/* Several setups may be chosen: each gets a panel. */
function setupChoice() {
  const toggle = changed((name) => {
    const chosen = curves.setups.includes(name)
      ? curves.setups.filter((setup) => setup !== name)
      : [...curves.setups, name];
    leaveFigure({ setups: namesOf(report.setups).filter((setup) => chosen.includes(setup)) });
  });
  const row = choice(
    "Settings, a panel each",
    report.setups.map(({ name, title }) => [name, title]),
    null,
    toggle,
  );
  for (const button of row.querySelectorAll("button"))
    button.setAttribute("aria-pressed", String(curves.setups.includes(button.dataset.value)));
  return row;
}

/* Those of all runs here, and the one that was chosen elsewhere. */
function lengthChoice() {
  const known = curves.setups.flatMap((setup) =>
    methodsOf(curves.family).flatMap(({ name }) => lengthsOf(curves.family, setup, name)),
  );
  const lengths = [...new Set([...known, ...(curves.length ? [curves.length] : [])])].sort(
    (one, other) => other - one,
  );
  const { like } = curves;
  return choice(
    "Length",
    [
      ...(like ? [["like", `as in ${like.heading}`]] : []),
      ["longest", "longest"],
      ...lengths.map((length) => [String(length), `${length} epochs`]),
    ],
    like ? "like" : String(curves.length ?? "longest"),
    changed((value) => {
      if (value !== "like") leaveFigure({ like: null, length: value === "longest" ? null : Number(value) });
    }),
  );
}

/* Methods that have a curve in one of the panels. */
function renderLegend() {
  const entries = methodsOf(curves.family).flatMap(({ name, title, slot }) => {
    const found = curves.panels.flatMap(({ series }) => series.filter(({ key }) => key === name));
    const counts = found.map(({ curve }) => curve.count);
    const [least, most] = [Math.min(...counts), Math.max(...counts)];
    const n = most > 1 ? ` (n=${least < most ? `${least}\u2013${most}` : most})` : "";
    return found.length ? [{ key: name, title: title + n, slot }] : [];
  });
  find("legend").replaceChildren(
    switches({
      label: "Methods shown",
      entries,
      shown: curves.shown,
      all: namesOf(methodsOf(curves.family)),
      changed: () => {
        leaveFigure();
        renderCurveControls();
        updatePanels();
      },
      emphasise: (key) => curves.panels.forEach(({ chart }) => chart?.show(curves.shown, key)),
    }),
  );
}

function updatePanels() {
  for (const { setup, chart, caption, series } of curves.panels) {
    chart?.show(curves.shown);
    caption.textContent = captionOf(setup, series);
    caption.hidden = !caption.textContent;
  }
}

function captionOf(setup, series) {
  if (curves.figure) return curves.figure.notes[curves.family][setup];
  const note = lengthsNote(series.filter(({ key }) => curves.shown.has(key)));
  return note && `${note} To compare methods with each other, choose one length above.`;
}

function seriesAt(setup) {
  const usual = curves.like && curves.like.lengths[curves.family][setup];
  return methodsOf(curves.family).flatMap(({ name, title, slot }) => {
    const recipe = recipeOf([curves.family, setup, name], curves.length, usual);
    const curve = recipe ? curveOf(recipe, curves.quantity) : null;
    return curve ? [{ key: name, title, slot, curve, length: recipe.epochs }] : [];
  });
}

function panelOf(setup) {
  const series = seriesAt(setup);
  const quantity = quantities.get(curves.quantity);
  const title = `${quantity.title}, ${setups.get(setup).title}, ${curves.family}`;
  const caption = make("figcaption", { class: "lacking" });
  const chart = series.length ? chartAt(title, series, quantity.axis) : null;
  const buttons = () =>
    chartButtons(chart, {
      title,
      about: () => caption.textContent,
      name: `${setup}-${curves.quantity}-${curves.family}`,
      zooms: [lastHalf(chart)],
    });
  const element = make(
    "figure",
    { class: "panel", "data-setup": setup },
    make(
      "div",
      { class: "panel-head" },
      make(
        "h3",
        {},
        setups.get(setup).title,
        make("span", { class: "muted block" }, `${quantity.title}, ${curves.family}`),
      ),
      chart ? buttons() : null,
    ),
    chart ? chart.element : make("p", { class: "empty" }, whyEmpty(setup)),
    caption,
  );
  return { setup, series, chart, caption, element };
}

function whyEmpty(setup) {
  if (curves.length) return `No runs of ${curves.length} epochs.`;
  return setupsWithRuns(curves.family).includes(setup) ? "No run wrote this quantity." : "No runs yet.";
}

function chartAt(title, series, axis) {
  const longest = Math.max(...series.map(({ curve }) => curve.mean.length));
  return new Chart({
    label: `${title}, over epochs`,
    axis,
    series,
    stops: epochsUpTo(longest),
    last: Math.min(longest, curves.like?.epochs ?? longest),
    height: curves.setups.length === 1 ? 440 : 340,
  });
}
