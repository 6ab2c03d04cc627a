// The page as a whole: its facts, colours and parts.

const remembered = {
  read: () => {
    try {
      return localStorage.getItem("adaste-theme");
    } catch {
      return null;
    }
  },
  write: (theme) => {
    try {
      localStorage.setItem("adaste-theme", theme);
    } catch {
      /* not allowed here: forgotten with the page */
    }
  },
};

function startTheme() {
  const button = find("theme");
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const root = document.documentElement;
  let chosen = remembered.read();
  const show = () => {
    const theme = chosen ?? (dark.matches ? "dark" : "light");
    root.dataset.theme = theme;
    button.textContent = theme === "dark" ? "Light" : "Dark";
    button.setAttribute("aria-label", theme === "dark" ? "Use light colours" : "Use dark colours");
  };
  button.addEventListener("click", () => {
    chosen = root.dataset.theme === "dark" ? "light" : "dark";
    remembered.write(chosen);
    show();
  });
  dark.addEventListener("change", show);
  show();
}

function renderFacts() {
  const boxes = report.tables.flatMap((table) =>
    table.rows.flatMap((row) => Object.values(row.cells).flatMap((cells) => Object.values(cells))),
  );
  const possible = boxes.filter((cells) => cells !== null);
  const seconds = report.runs.reduce((sum, run) => sum + (run.seconds ?? 0), 0);
  const epochs = report.runs.reduce((sum, run) => sum + run.epochs, 0);
  const others = report.runs.filter((run) => !run.cells.length).length;
  const cells = `${possible.filter((cells) => cells.length).length} of ${possible.length}`;
  find("facts").append(
    ...factsOf([
      ["finished runs", report.runs.length.toLocaleString("en")],
      ["cells filled", report.paper ? cells : null],
      ["epochs", epochs.toLocaleString("en")],
      ["training time", duration(seconds)],
      ["of other recipes", report.paper ? others.toLocaleString("en") : null],
      ["left out", report.problems.length.toLocaleString("en")],
    ]),
  );
}

function renderColophon() {
  const { version, made, root } = report.about;
  const hardware =
    Object.entries(report.hardware)
      .map(([name, count]) => `${name} (${plural(count, "run")})`)
      .join(", ") || "none";
  const foreign = Object.entries(report.foreign).map(([folder, version]) => `${folder || "."} (${version})`);
  const when = `${made.slice(0, 10)} ${made.slice(11, 16)} UTC`;
  find("colophon").append(
    make("p", {}, `Made by adaste ${version} on ${when} from ${plural(report.runs.length, "run")} in ${root}.`),
    make("p", {}, `Hardware: ${hardware}.`),
    foreign.length ? make("p", {}, `Runs of other versions of adaste: ${foreign.join(", ")}.`) : "",
  );
}

/* Runs of one's own say nothing in the paper's tables and figures: without them the page is about the runs alone. */
function leavePaperOut() {
  for (const part of document.querySelectorAll(".of-paper")) part.remove();
  for (const part of document.querySelectorAll(".of-own")) part.hidden = false;
  if (!report.others.length) find("table-list").append(make("p", { class: "empty" }, "No run is finished."));
}

startTheme();
renderFacts();
if (report.paper) renderTables();
else leavePaperOut();
renderOthers();
if (report.paper) {
  startCurves();
  renderFunctions();
}
renderRuns();
renderProblems();
renderColophon();
startSheets();
