// The paper's two figures from these data: every system's plane, and the policies' boundaries.

const RULE_NAMES = {
  sum: "sum", linear: "sum / √6", nonlinear: "nonlinear, ρ ", sigmoid_sum: "a + σ(c)",
  sigmoid_product: "σ(a) · σ(c)", cascade: "smaller of the two",
};

function peak(rows) {
  return Math.max(...rows.map((row) => Math.max(...row)), 1e-12) * 1.05;
}

// One system: the pair it fuses with marginal densities, and below it the fused score.
function paintSystem(system) {
  return (target, width) => {
    const pair = report.pairs[system.pair === null ? 0 : system.pair];
    const [[xLow, xHigh], [yLow, yHigh]] = pair.window;
    const side = 34;
    const sizes = report.columns[0].sizes;
    const box = { left: 44, right: side + 8, top: side + 8, bottom: 40 };
    const square = width - box.left - box.right;
    const axes = planeAxes(pair, pair.window);
    axes.x.label = pair.is_llr ? "ASV LLR" : "ASV score";
    axes.y.label = pair.is_llr ? "CM LLR" : "CM score";
    const plot = new Plot(target, width, { ...box, ...axes, height: square + box.top + box.bottom, label: `Scores that ${system.name} fuses` });
    scatter(plot, sampleOf(pair));
    if (system.boundary) plot.line(...system.boundary, { class: "line boundary" });
    const rows = pair.marginals.map((counts) => densities(counts, sizes));
    const top = new Plot(target, width, {
      left: box.left, right: box.right, top: 2, bottom: 0, height: side + 4, frame: false,
      x: { low: xLow, high: xHigh, ticks: null }, y: { low: 0, high: peak(rows[0]), ticks: null },
    });
    const edge = new Plot(target, width, {
      left: width - side - 4, right: 2, top: box.top, bottom: box.bottom, height: square + box.top + box.bottom, frame: false,
      x: { low: 0, high: peak(rows[1]), ticks: null }, y: { low: yLow, high: yHigh, ticks: null },
    });
    for (const k of [2, 1, 0]) {
      const { key, dash } = CLASSES[k];
      for (const cls of ["area", "line thin"]) {
        const attributes = { class: `${cls} c-${key}`, "stroke-dasharray": cls === "area" ? "" : dash };
        top.steps(xLow, xHigh, rows[0][k], attributes);
        edge.steps(yLow, yHigh, rows[1][k], attributes, true);
      }
    }
    for (const extra of [top, edge]) extra.svg.classList.add("overlay");
    paintFused(target, width, system, box);
  };
}

function paintFused(target, width, system, box) {
  const data = column(system.name);
  const rows = densities(data.counts, data.sizes);
  const [low, high] = data.limits;
  const plot = new Plot(target, width, {
    left: box.left, right: box.right, top: 20, bottom: 40, height: 132, label: `Fused score of ${system.name}`,
    x: { low, high, label: "fused SASV score" }, y: { low: 0, high: peak(rows), ticks: [] },
  });
  for (const k of [2, 1, 0]) {
    const { key, dash } = CLASSES[k];
    plot.steps(low, high, rows[k], { class: `area c-${key}` });
    plot.steps(low, high, rows[k], { class: `line thin c-${key}`, "stroke-dasharray": dash });
  }
  const { threshold, eer } = system.det.sasv;
  plot.vline(threshold, { class: "rule" });
  const x = Math.min(Math.max(plot.X(threshold), box.left + 62), width - box.right - 62);
  plot.text(x, 14, `SASV-EER ${percent(eer)}`, { "text-anchor": "middle", class: "note bold" });
}

function buildPanels() {
  const grid = host("panels");
  if (!grid) return;
  grid.classList.toggle("few", report.systems.length < 4);
  for (const system of report.systems) {
    const place = element("div", { class: "plot-host stack" });
    const rule = system.rule === null ? "" : RULE_NAMES[system.rule] + (system.rho === null ? "" : system.rho.toFixed(3));
    grid.append(element("figure", { class: "panel" }, element("h3", {}, system.name, element("small", {}, rule)), place));
    draw(place, paintSystem(system));
  }
}

// The boundaries of the linear and the Bayes policy for the flat prior, and of mismatched priors.
const SIMPLEX_LINES = [
  { prior: "flat", policy: "linear", cls: "boundary", dash: "8 5", text: "linear, flat prior" },
  { prior: "flat", policy: "bayes", cls: "boundary", dash: "", text: "nonlinear (Bayes), flat prior" },
  { prior: "mismatched", policy: "bayes", cls: "mismatched", dash: "10 3 2 3", text: "nonlinear, priors 0.9 / 0.05 / 0.05" },
];

function paintSimplex(raw) {
  return (target, width) => {
    const pair = report.pairs[selection.system.pair === null ? 0 : selection.system.pair];
    const shownPair = raw ? report.pairs[0] : pair;
    const plot = new Plot(target, width, {
      height: tall(Math.min(520, Math.max(340, width * 0.78))), ...planeAxes(shownPair, shownPair.window),
      label: "Trials and decision boundaries",
    });
    scatter(plot, sampleOf(shownPair));
    const grid = raw ? gridOf(pair) : null;
    const flat = { target: 1, nontarget: 1, spoof: 1 };
    const weights = { flat, mismatched: { target: 0.9, nontarget: 0.05, spoof: 0.05 } };
    for (const { prior, policy, cls, dash } of SIMPLEX_LINES) {
      const attributes = { class: `line ${cls}`, "stroke-dasharray": dash };
      if (!raw) plot.line(...pair.boundaries[prior][policy], attributes);
      else {
        for (const line of rawBoundary(grid, policy, weights[prior])) {
          plot.line(line.map((p) => p[0]), line.map((p) => p[1]), attributes);
        }
      }
    }
  };
}
