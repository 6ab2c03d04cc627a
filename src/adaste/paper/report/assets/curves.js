// The curves of a family at some places: controls, legend, one panel per place.

const busiest = [...report.families].sort((one, other) => runsIn(other.name) - runsIn(one.name))[0].name;

/*
 * figure: the preset that is in force, if any; like: the figure whose lengths are shown, also after it was left.
 * length: of runs where none is like a figure's, null for the longest; shown: names of methods.
 * panels: {series, chart, caption, element}; without curves there is no chart.
 */
const curves = {
  family: busiest,
  places: [],
  quantity: "test_accuracy",
  length: null,
  shown: new Set(),
  figure: null,
  like: null,
  panels: [],
};

const methodsOf = (family) => families.get(family).methods;

const namesOf = (list) => list.map(({ name }) => name);

const placesWithRuns = (family) =>
  namesOf(report.places).filter((place) => methodsOf(family).some(({ name }) => lengthsOf(family, place, name).length));

const showsRuns = () =>
  curves.places.some((place) => [...curves.shown].some((name) => lengthsOf(curves.family, place, name).length));

function startCurves() {
  if (!report.runs.some((run) => run.addresses.length)) return renderNoCurves();
  const [first] = report.figures;
  useFigure(first);
  const filled = placesWithRuns(curves.family);
  if (!first.places.every((place) => filled.includes(place)) || !showsRuns())
    leaveFigure({ like: null, places: filled.slice(0, 1) });
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
    places: [...figure.places],
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
  const filled = placesWithRuns(family);
  if (!curves.places.some((place) => filled.includes(place))) curves.places = filled.slice(0, 1);
  if (!showsRuns()) showAll();
}

const changed = (act) => (value) =>
  keepingFocus(find("curve-controls"), () => {
    act(value);
    renderCurves();
  });

function renderCurves() {
  curves.panels = curves.places.map(panelOf);
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
      report.families.map(({ name, about }) => [name, `${name} (${runsIn(name)})`, about]),
      curves.family,
      changed(chooseFamily),
    ),
    choice(
      "Quantity",
      Object.entries(QUANTITIES).map(([name, { title }]) => [name, title]),
      curves.quantity,
      changed((quantity) => leaveFigure({ quantity })),
    ),
    placeChoice(),
    lengthChoice(),
  );
}

/* Several places may be chosen: each gets a panel. */
function placeChoice() {
  const toggle = changed((name) => {
    const chosen = curves.places.includes(name)
      ? curves.places.filter((place) => place !== name)
      : [...curves.places, name];
    leaveFigure({ places: namesOf(report.places).filter((place) => chosen.includes(place)) });
  });
  const row = choice(
    "Settings, a panel each",
    report.places.map(({ name, title }) => [name, title]),
    null,
    toggle,
  );
  for (const button of row.querySelectorAll("button"))
    button.setAttribute("aria-pressed", String(curves.places.includes(button.dataset.value)));
  return row;
}

/* Those of all runs here, and the one that was chosen elsewhere. */
function lengthChoice() {
  const known = curves.places.flatMap((place) =>
    methodsOf(curves.family).flatMap(({ name }) => lengthsOf(curves.family, place, name)),
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
  for (const { chart, caption, series } of curves.panels) {
    chart?.show(curves.shown);
    caption.textContent = captionOf(series);
    caption.hidden = !caption.textContent;
  }
}

function captionOf(series) {
  if (curves.figure) return differencesFrom(curves.figure, curves.family, series);
  const note = lengthsNote(series.filter(({ key }) => curves.shown.has(key)));
  return note && `${note} To compare methods with each other, choose one length above.`;
}

function seriesAt(place) {
  const usual = curves.like && lengthLike(curves.like, curves.family, place);
  return methodsOf(curves.family).flatMap(({ name, title, slot }) => {
    const list = runsOf(curves.family, place, name, curves.length, usual);
    const curve = curveOf(list, curves.quantity);
    return curve ? [{ key: name, title, slot, curve, length: list[0].epochs }] : [];
  });
}

function panelOf(place) {
  const series = seriesAt(place);
  const quantity = QUANTITIES[curves.quantity];
  const title = `${quantity.title}, ${places.get(place).title}, ${curves.family}`;
  const caption = make("figcaption", { class: "lacking" });
  const chart = series.length ? chartAt(title, series, quantity.axis) : null;
  const buttons = () =>
    chartButtons(chart, {
      title,
      about: () => caption.textContent,
      name: `${place}-${curves.quantity}-${curves.family}`,
      zooms: [lastHalf(chart)],
    });
  const element = make(
    "figure",
    { class: "panel", "data-place": place },
    make(
      "div",
      { class: "panel-head" },
      make(
        "h3",
        {},
        places.get(place).title,
        make("span", { class: "muted block" }, `${quantity.title}, ${curves.family}`),
      ),
      chart ? buttons() : null,
    ),
    chart ? chart.element : make("p", { class: "empty" }, whyEmpty(place)),
    caption,
  );
  return { series, chart, caption, element };
}

function whyEmpty(place) {
  if (curves.length) return `No runs of ${curves.length} epochs.`;
  return placesWithRuns(curves.family).includes(place) ? "No run wrote this quantity." : "No runs yet.";
}

function chartAt(title, series, axis) {
  const longest = Math.max(...series.map(({ curve }) => curve.mean.length));
  return new Chart({
    label: `${title}, over epochs`,
    axis,
    series,
    stops: epochsUpTo(longest),
    last: Math.min(longest, curves.like?.epochs ?? longest),
    height: curves.places.length === 1 ? 440 : 340,
  });
}
