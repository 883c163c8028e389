// Figures of the fused scores: distributions, attacks, DET, calibration, costs, tandem.

function chips(host, name, options, chosen, onChange) {
  for (const [value, label] of options) {
    const input = element("input", { type: "radio", name, value });
    input.checked = value === chosen;
    input.addEventListener("change", () => onChange(value));
    host.append(element("label", { class: "chip" }, input, element("span", {}, label)));
  }
}

const host = (id) => document.getElementById(id);
const show = (id, painter) => { if (host(id)) draw(host(id), painter); };
const caption = (id, text) => { if (host(id)) host(id).textContent = text; };
const column = (name) => report.columns.find((c) => c.name === name);

// ---- Distributions -------------------------------------------------------------------------
const shown = { column: "sasv", task: "sasv", preset: "a-dcf1", hidden: new Set() };

function shownColumn() {
  const fixed = { asv: report.columns[0], cm: report.columns[1] }[shown.column];
  return fixed || report.columns[2 + selection.system.index];
}

function densities(counts, sizes) {
  return counts.map((row, k) => row.map((count) => count / Math.max(sizes[k], 1)));
}

const attackStep = (rows) => tall(Math.max(20, Math.min(30, 420 / rows)));
const attackHeight = (rows) => attackStep(rows) * (rows + 0.35) + 78;

function paintClasses(target, width) {
  const data = shownColumn();
  const rows = densities(data.counts, data.sizes);
  const top = Math.max(...rows.map((row) => Math.max(...row))) * 1.08;
  const [low, high] = data.limits;
  const label = shown.column === "sasv" ? `SASV score of ${data.name}` : data.name;
  const plot = new Plot(target, width, {
    height: report.attacks.length ? attackHeight(report.attacks.length + 2) : 340, left: 22, right: 14, label: `Distribution of the ${label} by class`,
    x: { low, high, label }, y: { low: 0, high: top, label: "density", ticks: [] },
  });
  for (const k of [2, 1, 0]) {
    const { key, dash } = CLASSES[k];
    plot.steps(low, high, rows[k], { class: `area c-${key}` });
    plot.steps(low, high, rows[k], { class: `line c-${key}`, "stroke-dasharray": dash });
  }
  if (shown.column !== "sasv") return;
  const { eer, threshold } = selection.system.det.sasv;
  plot.vline(threshold, { class: "rule" });
  const x = plot.X(threshold);
  const leftward = x > width / 2;
  plot.text(x + (leftward ? -6 : 6), 28, `SASV-EER ${percent(eer)}`, { "text-anchor": leftward ? "end" : "start", class: "note bold" });
  plot.text(x + (leftward ? -6 : 6), 44, `threshold ${asMinus(threshold.toPrecision(4))}`, { "text-anchor": leftward ? "end" : "start" });
}

function paintAttacks(target, width) {
  const data = shownColumn();
  const rows = [
    { name: "target", key: "target", counts: data.counts[0], size: data.sizes[0] },
    { name: "nontarget", key: "nontarget", counts: data.counts[1], size: data.sizes[1] },
    ...report.attacks.map((name, k) => ({
      name, key: "spoof", counts: data.attacks[k], size: data.attack_sizes[k], eer: data.attack_eers[k],
    })),
  ];
  const height = attackHeight(rows.length);
  const [low, high] = data.limits;
  const labels = Math.min(150, 10 + 7 * Math.max(...rows.map((row) => row.name.length)));
  const bars = 118;
  const label = shown.column === "sasv" ? `SASV score of ${data.name}` : data.name;
  const plot = new Plot(target, width, {
    height, left: labels, right: bars, top: 30, label: `Distribution of the ${label} by attack`,
    x: { low, high, label }, y: { low: 0, high: rows.length + 0.35, ticks: null },
  });
  const worst = Math.max(...rows.map((row) => row.eer || 0), 1e-9);
  if (shown.column === "sasv") plot.vline(selection.system.det.sasv.threshold, { class: "rule" });
  plot.text(width - 4, 20, "EER against targets", { "text-anchor": "end" });
  rows.forEach((row, i) => {
    const base = rows.length - 1 - i;
    const peak = Math.max(...row.counts, 1);
    const heights = row.counts.map((count) => (1.25 * count) / peak);
    plot.steps(low, high, heights, { class: `ridge c-${row.key}`, transform: `translate(0 ${plot.Y(base) - plot.Y(0)})` });
    const y = plot.Y(base) - 4;
    const name = row.name.length > 20 ? `${row.name.slice(0, 19)}…` : row.name;
    plot.text(labels - 8, y, name, { "text-anchor": "end" });
    if (row.eer === undefined) return;
    svgElement("rect", {
      x: width - bars + 10, y: y - 9, height: 10, width: Math.max(1, (row.eer / worst) * 46), class: "bar c-spoof",
    }, plot.svg);
    plot.text(width - 4, y, percent(row.eer), { "text-anchor": "end" });
  });
}

// ---- DET -----------------------------------------------------------------------------------
const TASK_NAMES = {
  sasv: "targets against nontargets and spoofs", sv: "targets against nontargets", spf: "targets against spoofs",
};

function normalShare(z) {
  const t = 1 / (1 + 0.2316419 * Math.abs(z));
  const tail = 0.3989422804014327 * Math.exp((-z * z) / 2) * t
    * (0.31938153 + t * (-0.356563782 + t * (1.781477937 + t * (-1.821255978 + t * 1.330274429))));
  return z > 0 ? 1 - tail : tail;
}

function paintDet(target, width) {
  const { limits: [low, high], ticks, labels } = report.det;
  const marks = ticks.map((at, i) => ({ at, text: labels[i] }));
  const plot = new Plot(target, width, {
    height: tall(Math.min(620, Math.max(380, width * 0.8))), label: `DET curves, ${TASK_NAMES[shown.task]}`,
    x: { low, high, ticks: marks, label: "false-acceptance rate, per cent" },
    y: { low, high, ticks: marks, label: "miss rate, per cent" },
  });
  plot.line([low, high], [low, high], { class: "line diagonal" });
  const points = [];
  for (const system of report.systems) {
    if (shown.hidden.has(system.name)) continue;
    const { fa, miss, eer } = system.det[shown.task];
    const bold = system === selection.system ? " bold" : "";
    const line = plot.line(fa, miss, { class: `line system${bold}`, "stroke-dasharray": system.dash });
    line.style.setProperty("--c", system.colour);
    const z = crossing(fa, miss);
    const mark = plot.marks([z], [z], system.shape, { class: `marks ${system.shape} system strong` }, 4.6);
    mark.style.setProperty("--c", system.colour);
    points.push({ x: z, y: z, label: `${system.name}: EER ${percent(eer)}` });
    fa.forEach((x, i) => {
      if (x < low || miss[i] < low || i % 4) return;
      points.push({ x, y: miss[i], label: `${system.name}: FA ${percent(normalShare(x))}, miss ${percent(normalShare(miss[i]))}` });
    });
  }
  plot.hover(points);
}

function crossing(fa, miss) {
  const k = fa.findIndex((x, i) => miss[i] >= x);
  return k < 0 ? fa[fa.length - 1] : (fa[k] + miss[k]) / 2;
}

function fillDetLegend() {
  const legend = host("det-legend");
  if (!legend) return;
  legend.replaceChildren();
  const order = [...report.systems].sort((a, b) => a.det[shown.task].eer - b.det[shown.task].eer);
  for (const system of order) {
    const glyph = svgElement("svg", { viewBox: "0 0 40 14", class: "glyph widest" });
    for (const node of [
      svgElement("path", { d: "M1 7H39", class: "line system", "stroke-dasharray": system.dash }, glyph),
      svgElement("path", { d: SHAPES[system.shape](20, 7, 4.6), class: `marks ${system.shape} system strong` }, glyph),
    ]) node.style.setProperty("--c", system.colour);
    const box = element("input", { type: "checkbox" });
    box.checked = !shown.hidden.has(system.name);
    box.addEventListener("change", () => {
      if (box.checked) shown.hidden.delete(system.name); else shown.hidden.add(system.name);
      redraw(host("det"));
    });
    const name = element("span", { class: "name" }, system.name);
    legend.append(element("label", {}, box, glyph, name, element("b", {}, percent(system.det[shown.task].eer))));
  }
}

// ---- Calibration ---------------------------------------------------------------------------
const entropy = (odds) => {
  const p = 1 / (1 + 10 ** -odds);
  return -(p * Math.log2(p) + (1 - p) * Math.log2(1 - p));
};

function paintEce(target, width) {
  const { ece, ece_min: least, name } = selection.system;
  const odds = report.ece_odds;
  const high = Math.min(1.6, Math.max(1.1, 1.05 * Math.max(...ece.filter((v) => v !== null).map((v) => Math.min(v, 1.6)))));
  const plot = new Plot(target, width, {
    label: `Empirical cross-entropy of ${name}`,
    x: { low: odds[0], high: odds[odds.length - 1], label: "prior log10 odds of a target" },
    y: { low: 0, high, label: "empirical cross-entropy, bits" },
  });
  plot.line(odds, odds.map(entropy), { class: "line reference", "stroke-dasharray": "2 3" });
  plot.line(odds, least, { class: "line best", "stroke-dasharray": "8 4" });
  plot.line(odds, ece, { class: "line actual" });
  const middle = (odds.length - 1) / 2;
  plot.vline(0, { class: "zero" });
  const cllr = ece[middle];
  const end = { "text-anchor": "end" };
  plot.text(width - 24, 32, `Cllr ${cllr.toFixed(3)} bit${cllr > high ? " (above the frame)" : ""}`, { ...end, class: "note bold" });
  plot.text(width - 24, 49, `Cllr min ${least[middle].toFixed(3)} bit`, end);
  plot.hover(odds.map((x, i) => ({
    x, y: Math.min(ece[i], high), label: `odds 10^${asMinus(x.toFixed(1))}: ${ece[i].toFixed(3)}, min ${least[i].toFixed(3)} bit`,
  })));
}

function paintPav(target, width) {
  const { pav: { start, end, llr }, name } = selection.system;
  const finite = llr.filter((v) => v !== null);
  const mixed = llr.map((value, i) => i).filter((i) => llr[i] !== null);
  const ends = mixed.length ? [start[mixed[0]], end[mixed[mixed.length - 1]]] : [-Infinity, Infinity];
  const margin = 0.1 * Math.max(ends[1] - ends[0], 1e-9);
  const low = Math.max(column(name).limits[0], ends[0] - margin);
  const high = Math.min(column(name).limits[1], ends[1] + margin);
  const reach = Math.max(3, ...finite.map((v) => Math.min(Math.abs(v), 14))) * 1.12;
  const xs = [];
  const ys = [];
  llr.forEach((value, i) => {
    const pure = i < llr.length / 2 ? -2 * reach : 2 * reach;
    xs.push(start[i], end[i]);
    ys.push(value === null ? pure : value, value === null ? pure : value);
  });
  const plot = new Plot(target, width, {
    label: `Calibration of ${name}`,
    x: { low, high, label: `SASV score of ${name}` }, y: { low: -reach, high: reach, label: "LLR by pooling, nats" },
  });
  plot.line([low, high], [low, high], { class: "line diagonal", "stroke-dasharray": "2 3" });
  plot.line(xs, ys, { class: "line actual" });
  plot.hover(llr.map((v, i) => (v === null ? null : {
    x: (start[i] + end[i]) / 2, y: v, label: `score ${asMinus(start[i].toPrecision(3))}…${asMinus(end[i].toPrecision(3))}: LLR ${asMinus(v.toFixed(2))}`,
  })).filter(Boolean));
}

// ---- t-EER ---------------------------------------------------------------------------------
const PATH_DASHES = ["2 3", "", "8 4"];

function paintTandem(which) {
  return (target, width) => {
    const pair = report.pairs[selection.system.pair === null ? 0 : selection.system.pair];
    const { tandem, window: [xs, ys] } = pair;
    const kind = pair.is_llr ? "LLR" : "score";
    const values = tandem.paths.flatMap((path) => path.value.filter((v) => v !== null));
    const least = Math.min(...values);
    const high = Math.min(Math.max(...values), Math.max(6 * least, 0.02)) * 108;
    const y = which === "value"
      ? { low: 0, high, label: "t-EER, per cent" } : { low: ys[0], high: ys[1], label: `threshold on the CM ${kind}` };
    const plot = new Plot(target, width, {
      label: "t-EER path", x: { low: xs[0], high: xs[1], label: `threshold on the ASV ${kind}` }, y,
    });
    tandem.paths.forEach((path, i) => {
      const up = which === "value" ? path.value.map((v) => (v === null ? null : 100 * v)) : path.cm;
      plot.line(path.asv, up, { class: `line path${i}`, "stroke-dasharray": PATH_DASHES[i] });
    });
    plot.hover(tandem.paths.flatMap((path) => path.asv.map((x, i) => ({
      x, y: which === "value" ? 100 * path.value[i] : path.cm[i],
      label: `ρ ${path.rho}: t-EER ${percent(path.value[i])} at (${asMinus(x.toPrecision(3))}, ${asMinus(path.cm[i].toPrecision(3))})`,
    }))));
    const place = which === "value" ? 100 * tandem.closest : tandem.cm_threshold;
    const shape = tandem.exists ? "circle" : "cross";
    if (tandem.asv_threshold !== null && place !== null) {
      plot.marks([tandem.asv_threshold], [place], shape, { class: `marks ${shape} strong ink` }, 5);
    }
    caption("teer-text", tandem.exists ? `● concurrent t-EER ${percent(tandem.value, 3)}`
      : `no concurrent point exists; × closest: ${percent(tandem.closest, 3)} at ρ = 0.5`);
  };
}

// ---- a-DCF ---------------------------------------------------------------------------------
function paintDcf(target, width) {
  const { dcf, name } = selection.system;
  const model = report.presets[shown.preset];
  const found = dcf.presets[shown.preset];
  const w = weightsOf(model);
  const scale = Math.min(w.target, w.nontarget + w.spoof);
  const parts = [dcf.miss.map((v) => (w.target * v) / scale),
    dcf.nontarget.map((v) => (w.nontarget * v) / scale), dcf.spoof.map((v) => (w.spoof * v) / scale)];
  const total = parts[0].map((v, i) => v + parts[1][i] + parts[2][i]);
  const [low, high] = column(name).limits;
  const plot = new Plot(target, width, {
    height: tall(360), label: `a-DCF of ${name} over thresholds`,
    x: { low, high, label: `threshold on the SASV score of ${name}` }, y: { low: 0, high: 1.25, label: "normalised a-DCF" },
  });
  parts.forEach((part, k) => plot.line(dcf.thresholds, part, { class: `line thin c-${CLASSES[k].key}`, "stroke-dasharray": CLASSES[k].dash }));
  plot.line(dcf.thresholds, total, { class: "line total" });
  const bayes = found.bayes_threshold;
  plot.vline(bayes, { class: "rule" });
  if (found.min_threshold !== null) plot.marks([found.min_threshold], [found.min], "circle", { class: "marks circle strong ink" }, 5);
  plot.marks([bayes], [Math.min(found.actual, 1.24)], "diamond", { class: "marks diamond strong ink" }, 5);
  caption("dcf-values", `● minimum ${found.min.toFixed(4)} at threshold ${found.min_threshold === null ? "−∞" : asMinus(found.min_threshold.toPrecision(4))}; `
    + `◆ actual ${found.actual.toFixed(4)} at the Bayes threshold −log β̃ = ${asMinus(bayes.toFixed(3))}. `
    + `Costs ${model.c_miss} / ${model.c_fa_nontarget} / ${model.c_fa_spoof} and priors `
    + `${+model.p_target.toFixed(4)} / ${+model.p_nontarget.toFixed(4)} / ${+model.p_spoof.toFixed(4)} of target / nontarget / spoof.`);
  plot.hover(dcf.thresholds.map((x, i) => ({ x, y: Math.min(total[i], 1.25), label: `threshold ${asMinus(x.toPrecision(3))}: a-DCF ${total[i].toFixed(3)}` })));
}
