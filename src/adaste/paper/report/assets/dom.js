// How elements are made and numbers are written. Text is set as text, never as HTML.

const MINUS = "\u2212";
const THIN = "\u2009";

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "on") for (const [event, act] of Object.entries(value)) node.addEventListener(event, act);
    else node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined));
  return node;
}

const make = (tag, attributes = {}, ...children) => fill(document.createElement(tag), attributes, children);

const draw = (tag, attributes = {}, ...children) =>
  fill(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);

const tableHead = (names) =>
  make(
    "thead",
    {},
    make(
      "tr",
      {},
      names.map((name) => (name instanceof Element ? name : make("th", { scope: "col" }, name))),
    ),
  );

/* A table in a box that scrolls by itself; `rows` are its finished rows. */
const listTable = (label, columns, rows) =>
  make(
    "div",
    { class: "table-box", tabindex: 0, role: "region", "aria-label": label },
    make("table", { class: "list" }, tableHead(columns), make("tbody", {}, rows)),
  );

/*
 * A list that its columns sort: {name, value}; `rowOf` makes the row of an entry. Numbers begin with the highest, words
 * with the first letter; once more turns them. `order`: what was chosen, {column, turned}, which is changed here.
 */
function sortableTable(label, columns, entries, rowOf, order) {
  const holder = make("div", {});
  const choose = (name) => () => {
    Object.assign(order, { column: name, turned: order.column === name && !order.turned });
    keepingFocus(holder, render);
  };
  const heading = ({ name }) => {
    const current = order.column === name;
    const up = current && (typeof valueOf(name)(entries[0]) === "number") === order.turned;
    return make(
      "th",
      { scope: "col", "aria-sort": current ? (up ? "ascending" : "descending") : "none" },
      make("button", { type: "button", class: "sort", "data-value": name, on: { click: choose(name) } }, name),
    );
  };
  const valueOf = (name) => columns.find((column) => column.name === name).value;
  const render = () => {
    const list = order.column === null ? entries : sorted(entries, valueOf(order.column), order.turned);
    holder.replaceChildren(listTable(label, columns.map(heading), list.map(rowOf)));
  };
  render();
  return holder;
}

/* What has no value comes last. */
function sorted(entries, value, turned) {
  const compared = (one, other) => {
    const [first, second] = [value(one), value(other)];
    if (first === null || second === null) return (first === null) - (second === null);
    const usual = typeof first === "number" ? second - first : first.localeCompare(second, "en", { numeric: true });
    return turned ? -usual : usual;
  };
  return [...entries].sort(compared);
}

const find = (id) => document.getElementById(id);

const written = (value, digits) =>
  value === null || value === undefined
    ? "\u2013"
    : value.toLocaleString("en", { minimumFractionDigits: digits, maximumFractionDigits: digits }).replace("-", MINUS);

const accuracy = (value) => written(value, 2);

const signed = (value) => (value > 0 ? "+" : "") + written(value, 2);

const plural = (count, word) => `${count.toLocaleString("en")} ${word}${count === 1 ? "" : "s"}`;

/* As many digits as tell numbers of this size apart. */
function significant(value) {
  if (value === null || value === undefined) return "\u2013";
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size < 1e-3 || size >= 1e5) return value.toExponential(2).replaceAll("-", MINUS);
  return written(value, size >= 10 ? 2 : size >= 1 ? 3 : 4);
}

function duration(seconds) {
  if (seconds === null) return "\u2013";
  if (seconds > 0 && seconds < 0.1) return "< 0.1 s";
  if (seconds > 0 && seconds < 10) return `${written(seconds, 1)} s`;
  if (seconds < 60) return `${written(seconds, 0)} s`;
  if (seconds < 3600) return `${written(seconds / 60, 1)} min`;
  return `${written(seconds / 3600, 1)} h`;
}

/* A row of buttons of which one is pressed. */
function choice(label, options, current, choose) {
  const buttons = options.map(([value, title, hint]) =>
    make(
      "button",
      {
        type: "button",
        "aria-pressed": String(value === current),
        title: hint,
        "data-value": value,
        on: { click: () => choose(value) },
      },
      title,
    ),
  );
  return make(
    "div",
    { class: "choice", role: "group", "aria-label": label },
    make("span", { class: "choice-label", "aria-hidden": "true" }, label),
    make("div", { class: "segments" }, buttons),
  );
}

/* After what renders controls anew, the one with the same value has the focus again. */
function keepingFocus(holder, render) {
  const held = document.activeElement?.dataset?.value;
  render();
  if (held) [...holder.querySelectorAll("button")].find((button) => button.dataset.value === held)?.focus();
}

function save(name, kind, text) {
  const link = make("a", { href: URL.createObjectURL(new Blob([text], { type: kind })), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}
