// Figures 1 and 2 of the paper: functions, which need no runs.

function renderFunctions() {
  for (const figure of report.functions)
    find(figure.name)
      .querySelector(".panels")
      .append(...figure.panels.map((panel) => functionPanel(figure, panel)));
}

function functionPanel(figure, { name, title, setting, series, ...rest }) {
  const whole = `${figure.heading}: ${title}`;
  const chart = new Chart({
    label: `${whole}, ${setting}`,
    series: series.map(({ values, ...entry }) => ({
      ...entry,
      key: entry.title,
      curve: { mean: values },
    })),
    ...rest,
  });
  return chartPanel({
    heading: make("h4", {}, title),
    chart,
    buttons: chartButtons(chart, { title: whole, about: () => setting, name: `${figure.name}-${name}` }),
    note: () => setting,
  });
}
