// Legends that switch curves on and off, and a chart with its own one.

/*
 * entries: {key, title, slot}; shown: the set of keys that are switched on, which is changed here.
 * all: the keys that a button for all of them switches on, where there is to be one.
 * changed: called after a switch; emphasise: called with the key that is pointed at, or null.
 */
function switches({ label, entries, shown, all = null, changed, emphasise }) {
  const one = ({ key, title, slot }) => {
    const point = () => emphasise(shown.has(key) ? key : null);
    const leave = () => emphasise(null);
    const toggle = () => {
      if (!shown.delete(key)) shown.add(key);
      act();
    };
    return make(
      "button",
      {
        type: "button",
        class: "method",
        "data-method": key,
        on: { click: toggle, pointerenter: point, pointerleave: leave, focus: point, blur: leave },
      },
      swatchPicture(slot),
      make("span", {}, title),
    );
  };
  const every = (title, keys) =>
    make(
      "button",
      {
        type: "button",
        class: "quiet small",
        on: {
          click: () => {
            shown.clear();
            for (const key of keys) shown.add(key);
            act();
          },
        },
      },
      title,
    );
  const buttons = entries.map(one);
  /* The buttons stay, and with them the focus. */
  const mark = () =>
    buttons.forEach((button, index) => button.setAttribute("aria-pressed", String(shown.has(entries[index].key))));
  const act = () => {
    mark();
    changed();
  };
  mark();
  return make(
    "div",
    { class: "legend", role: "group", "aria-label": label },
    buttons,
    all && entries.length > 1 ? [every("All", all), every("None", [])] : null,
  );
}

/* A chart below its heading and buttons, with switches where it has several curves, and a note on those that are on. */
function chartPanel({ heading, chart, buttons, shown = new Set(chart.keys), all = null, note = () => "" }) {
  const caption = make("figcaption", { class: "lacking" });
  const changed = () => {
    chart.show(shown);
    caption.textContent = note();
    caption.hidden = !caption.textContent;
  };
  const legend = () =>
    switches({
      label: `Curves of ${chart.label}`,
      entries: labelled(chart.series),
      shown,
      all,
      changed,
      emphasise: (key) => chart.show(shown, key),
    });
  changed();
  return make(
    "figure",
    { class: "panel" },
    make("div", { class: "panel-head" }, heading, buttons),
    chart.series.length > 1 || all ? legend() : null,
    chart.element,
    caption,
  );
}
