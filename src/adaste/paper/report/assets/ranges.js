// Where curves are: how high they reach, and whether a part of a chart holds one.

/* The lowest and the highest value of some curves around two places; null where they have none. */
function reachOf(series, stops, [first, last]) {
  let [low, high] = [Infinity, -Infinity];
  for (const { curve } of series) {
    const { mean, low: lower = mean, high: upper = mean } = curve;
    stops.forEach((stop, index) => {
      const [least, most] = [lower[index] ?? null, upper[index] ?? null];
      if (least === null || stop <= first || stop >= last) return;
      low = Math.min(low, least);
      high = Math.max(high, most);
    });
  }
  return low > high ? null : [low, high];
}

/* A range with some air, but not below zero without need. */
function aired([low, high]) {
  const air = (high - low) * 0.05 || Math.abs(high) * 0.05 || 1;
  return [low >= 0 ? Math.max(0, low - air) : low - air, high + air];
}

/* Whether the line of one of the curves passes through a rectangle. */
function passesThrough(series, stops, [first, last], [low, high]) {
  return series.some(({ curve }) => {
    const points = stops.map((stop, index) => [stop, curve.mean[index] ?? null]).filter(([, value]) => value !== null);
    return points.some(([x1, y1], index) => {
      const [x0, y0] = points[index - 1] ?? [x1, y1];
      if (x1 < first || x0 > last) return false;
      const at = (x) => (x1 > x0 ? y0 + ((y1 - y0) * (x - x0)) / (x1 - x0) : y1);
      const ends = [at(Math.max(x0, first)), at(Math.min(x1, last))];
      return Math.max(...ends) >= low && Math.min(...ends) <= high;
    });
  });
}
