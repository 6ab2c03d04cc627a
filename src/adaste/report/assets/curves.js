// The curves of a family at some places: controls, legend, one panel per place.

const busiest = [...report.families].sort((one, other) => runsIn(other.name) - runsIn(one.name))[0].name;

/* figure: the preset that is in force, if any; length: null for what usualLengthAt chooses; limit: last epoch. */
const curves = {
  family: busiest,
  places: [],
  quantity: "test_accuracy",
  length: null,
  shown: new Set(),
  limit: null,
  figure: null,
  charts: [],
};

const methodsWithRuns = () =>
  families
    .get(curves.family)
    .methods.filter(({ name }) => curves.places.some((place) => lengthsOf(curves.family, place, name).length));

const placesWithRuns = (family) =>
  report.places.filter(({ name }) =>
    families.get(family).methods.some((method) => lengthsOf(family, name, method.name).length),
  );

function useFigure(figure) {
  Object.assign(curves, {
    figure: figure.name,
    places: [...figure.places],
    quantity: figure.quantity,
    limit: figure.epochs,
    length: null,
    shown: new Set(figure.methods),
  });
}

const figureInForce = () => report.figures.find(({ name }) => name === curves.figure);

/* A figure shows runs of its own length where there are some. Else it compares runs of one length, if it can. */
function usualLengthAt(place) {
  const figure = figureInForce();
  return figure && sharedLength(curves.family, place, figure.methods, figure.epochs);
}

function startCurves() {
  const [first] = report.figures;
  useFigure(first);
  const filled = placesWithRuns(curves.family).map(({ name }) => name);
  if (!first.places.every((place) => filled.includes(place))) leaveFigure({ places: filled.slice(0, 1) });
  if (!methodsWithRuns().some(({ name }) => curves.shown.has(name))) showAll();
  renderCurves();
}

/* Any choice of one's own leaves the preset, and what only the preset had decided. */
function leaveFigure(changes) {
  Object.assign(curves, { figure: null, limit: null }, changes);
}

function showAll() {
  curves.shown = new Set(families.get(curves.family).methods.map(({ name }) => name));
}

function chooseFamily(family) {
  Object.assign(curves, { family, length: null });
  const filled = placesWithRuns(family).map(({ name }) => name);
  if (!curves.figure && !curves.places.some((place) => filled.includes(place))) curves.places = filled.slice(0, 1);
  if (!methodsWithRuns().some(({ name }) => curves.shown.has(name))) showAll();
}

function changed(act) {
  return (value) => {
    const held = document.activeElement?.dataset?.value;
    act(value);
    renderCurves();
    const again =
      held &&
      [...find("curve-controls").querySelectorAll("button, select")].find((entry) => entry.dataset.value === held);
    if (again) again.focus();
  };
}

function renderCurves() {
  renderCurveControls();
  renderLegend();
  renderPanels();
}

function renderCurveControls() {
  const lengths = new Set(
    curves.places.flatMap((place) =>
      families.get(curves.family).methods.flatMap(({ name }) => lengthsOf(curves.family, place, name)),
    ),
  );
  find("curve-controls").replaceChildren(
    choice(
      "Figure",
      report.figures.map(({ name, heading, title }) => [name, heading, title]),
      curves.figure,
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
    ...(lengths.size > 1 ? [lengthChoice([...lengths].sort((one, other) => other - one))] : []),
  );
}

/* Several places may be chosen: each gets a panel. */
function placeChoice() {
  const toggle = changed((name) => {
    const chosen = curves.places.includes(name)
      ? curves.places.filter((place) => place !== name)
      : [...curves.places, name];
    leaveFigure({ places: report.places.map((place) => place.name).filter((place) => chosen.includes(place)) });
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

/* While a figure decides the length, none is chosen: it need not be the longest. */
function lengthChoice(lengths) {
  const options = [["longest", "longest"], ...lengths.map((length) => [String(length), `${length} epochs`])];
  const chosen = curves.length === null ? "longest" : String(curves.length);
  return choice(
    "Length",
    options,
    figureInForce() ? null : chosen,
    changed((value) => leaveFigure({ length: value === "longest" ? null : Number(value) })),
  );
}

function renderLegend() {
  const known = methodsWithRuns();
  const entry = ({ name, title, slot }) => {
    const emphasise = (key) => () => updatePanels(curves.shown.has(name) ? key : null);
    return make(
      "button",
      {
        type: "button",
        class: "method",
        "data-method": name,
        "aria-pressed": String(curves.shown.has(name)),
        on: {
          click: () => toggleMethod(name),
          pointerenter: emphasise(name),
          pointerleave: emphasise(null),
          focus: emphasise(name),
          blur: emphasise(null),
        },
      },
      swatchPicture(slot),
      title,
    );
  };
  const every = (title, act) =>
    make(
      "button",
      {
        type: "button",
        class: "quiet small",
        on: {
          click: () => {
            act();
            markShown();
            updatePanels();
          },
        },
      },
      title,
    );
  find("legend").replaceChildren(
    ...known.map(entry),
    ...(known.length > 1
      ? [
          every("All", showAll),
          every("None", () => {
            curves.shown = new Set();
          }),
        ]
      : []),
  );
}

function toggleMethod(name) {
  if (!curves.shown.delete(name)) curves.shown.add(name);
  markShown();
  updatePanels();
}

/* The buttons stay, and with them the focus. */
function markShown() {
  for (const button of find("legend").querySelectorAll("[data-method]"))
    button.setAttribute("aria-pressed", String(curves.shown.has(button.dataset.method)));
}

function updatePanels(emphasised = null) {
  const hidden = new Set(
    families
      .get(curves.family)
      .methods.map(({ name }) => name)
      .filter((name) => !curves.shown.has(name)),
  );
  for (const chart of curves.charts) chart.show(hidden, emphasised);
}

/* Where lengths differ, titles tell them: the beginning of a long run is no match for the end of a short one. */
function seriesAt(place) {
  const usual = usualLengthAt(place);
  const found = families.get(curves.family).methods.flatMap(({ name, title, slot }) => {
    const list = runsOf(curves.family, place, name, curves.length, usual);
    const curve = curveOf(list, curves.quantity);
    return curve ? [{ key: name, title, slot, curve, length: list[0].epochs }] : [];
  });
  const mixed = new Set(found.map(({ length }) => length)).size > 1;
  return mixed ? found.map((entry) => ({ ...entry, title: `${entry.title} (${entry.length} ep.)` })) : found;
}

function renderPanels() {
  curves.charts = [];
  const made = curves.places.map((place) => panelOf(place));
  find("panels").classList.toggle("single", made.length === 1);
  find("panels").replaceChildren(...(made.length ? made : [make("p", { class: "empty" }, "No setting is chosen.")]));
  updatePanels();
}

function panelOf(place) {
  const series = seriesAt(place);
  const title = places.get(place).title;
  const quantity = QUANTITIES[curves.quantity];
  const differences = differencesAt(series);
  const heading = make("h3", {}, title, make("span", { class: "muted block" }, `${quantity.title}, ${curves.family}`));
  if (!series.length)
    return make(
      "figure",
      { class: "panel" },
      make("div", { class: "panel-head" }, heading),
      make("p", { class: "empty" }, "No runs yet."),
      differences,
    );
  const longest = Math.max(...series.map(({ curve }) => curve.mean.length));
  const chart = new Chart({
    label: `${quantity.title} over epochs, ${title}, ${curves.family}`,
    axis: quantity.axis,
    series,
    stops: epochsUpTo(longest),
    last: Math.min(longest, curves.limit ?? longest),
    height: curves.places.length === 1 ? 440 : 340,
  });
  curves.charts.push(chart);
  return make(
    "figure",
    { class: "panel", "data-place": place },
    make(
      "div",
      { class: "panel-head" },
      heading,
      chartButtons(
        chart,
        `${quantity.title}, ${title}, ${curves.family}`,
        `${place}-${curves.quantity}-${curves.family}`,
        lastHalf(chart),
      ),
    ),
    chart.element,
    differences,
  );
}

/* What the figure has and these runs have not: curves, and their length. */
function differencesAt(series) {
  const figure = figureInForce();
  if (!figure) return null;
  const there = new Map(series.map(({ key, length }) => [key, length]));
  const lacking = figure.methods.filter((name) => !there.has(name));
  const found = figure.methods.filter((name) => there.has(name));
  const odd = found.filter((name) => there.get(name) !== figure.epochs);
  const others = [...new Set(odd.map((name) => there.get(name)))].sort((one, other) => one - other);
  const whose = odd.length < found.length ? `: ${titlesIn(curves.family, odd)}` : "";
  const said = others.map((length) => (length > figure.epochs ? `${length} (first ${figure.epochs})` : length));
  const parts = [
    ...(lacking.length ? [`Missing: ${titlesIn(curves.family, lacking)}.`] : []),
    ...(others.length ? [`Runs of ${said.join(" and ")} epochs instead of ${figure.epochs}${whose}.`] : []),
  ];
  return parts.length ? make("figcaption", { class: "lacking" }, parts.join(" ")) : null;
}
