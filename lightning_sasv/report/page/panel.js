// The what-if panel's controls, planes and read-outs.

const whatif = { pair: null, trials: null, model: null, waiting: false };
function pairOptions() {
  const shownPairs = report.pairs.map((pair, number) => ({ pair, number })).filter(({ pair }) => pair.systems.length);
  return shownPairs.map(({ pair, number }) => {
    const names = pair.systems.join(", ");
    return element("option", { value: number }, pair.is_llr ? names : `${names} (raw scores, not LLRs)`);
  });
}

function setPair(number) {
  whatif.pair = report.pairs[number];
  host("whatif-pair").value = String(number);
  whatif.trials = once(`pair${number}`, () =>
    new Trials(...pairColumns(whatif.pair, packedBase("trials", whatif.pair.base)), report.trials.sizes));
  whatif.grid = gridOf(whatif.pair);
  host("whatif-warning").hidden = whatif.pair.is_llr;
  update();
}

function setModel(model) {
  whatif.model = model;
  for (const [name, kind] of Object.entries(CONTROLS)) {
    const place = Math.max(SCALES[kind].min, Math.min(SCALES[kind].max, SCALES[kind].place(model[name])));
    host(`slide-${name}`).value = String(place);
    const box = host(`value-${name}`);
    box.dataset.value = String(model[name]);
    if (document.activeElement !== box) box.value = String(+model[name].toPrecision(4));
  }
  const same = (preset) => Object.entries(preset).every(([key, value]) => Math.abs(model[key] - value) < 1e-9);
  for (const button of document.querySelectorAll("[data-preset]")) {
    button.setAttribute("aria-pressed", String(same(report.presets[button.dataset.preset])));
  }
  update();
}

function update() {
  if (whatif.waiting || !whatif.model || !whatif.trials) return;
  whatif.waiting = true;
  requestAnimationFrame(() => {
    whatif.waiting = false;
    const decisions = decide(whatif.trials, whatif.model);
    const ranking = rank(whatif.trials, whatif.model);
    const prices = Object.fromEntries(Object.entries(decisions).map(([policy, rows]) => [policy, priceOf(rows, whatif.model)]));
    readOut(prices, ranking);
    for (const id of ["whatif-llr", "whatif-raw"]) redraw(host(id));
  });
}

function put(id, value, text) {
  const place = host(id);
  place.dataset.value = String(value);
  place.textContent = text;
}

function readOut(prices, ranking) {
  const m = whatif.model;
  const w = weightsOf(m);
  const best = prices.bayes;
  put("out-miss", best.miss, percent(best.miss));
  put("out-fa-nontarget", best.nontarget, percent(best.nontarget));
  put("out-fa-spoof", best.spoof, percent(best.spoof));
  put("out-normalised", best.normalised, best.normalised.toFixed(4));
  put("out-expected", best.expected, best.expected.toFixed(4));
  put("out-rho", w.spoof / (w.nontarget + w.spoof), (w.spoof / (w.nontarget + w.spoof)).toFixed(4));
  const threshold = -Math.log(w.target / (w.nontarget + w.spoof));
  put("out-threshold", threshold, asMinus(threshold.toFixed(4)));
  put("out-min", ranking.min_a_dcf, ranking.min_a_dcf.toFixed(4));
  for (const key of ["sasv_eer", "sv_eer", "spf_eer"]) put(`out-${key}`, ranking[key], percent(ranking[key], 3));
  for (const [policy, price] of Object.entries(prices)) {
    put(`${policy}-miss`, price.miss, percent(price.miss));
    put(`${policy}-nontarget`, price.nontarget, percent(price.nontarget));
    put(`${policy}-spoof`, price.spoof, percent(price.spoof));
    for (const key of ["cost", "normalised", "expected", "mean"]) put(`${policy}-${key}`, price[key], price[key].toFixed(4));
    const bar = host(`${policy}-bar`);
    bar.replaceChildren(...price.parts.map((part, k) => {
      const piece = element("i", { class: `c-${report.classes[k]}`, title: `${report.parts[k]}: ${part.toFixed(4)}` });
      piece.style.width = `${price.cost > 0 ? (100 * part) / price.cost : 0}%`;
      return piece;
    }));
  }
}

function paintWhatif(view) {
  return (target, width) => {
    const number = report.pairs.indexOf(whatif.pair);
    const { x, y } = report.figures.boundaries.panels.find(({ of }) => of.pair === number && of.view === view);
    const plot = new Plot(target, width, {
      height: tall(Math.min(440, Math.max(300, width * 1.06))), x, y, label: "Trials and the decision boundary",
    });
    const w = weightsOf(whatif.model);
    const accepts = POLICY_VALUE.bayes(w);
    const { window } = whatif.pair;
    if (view === "llr") shadeAccepted(plot, w, window);
    const llrs = sampleOf(whatif.pair);
    const places = view === "llr" ? llrs : sampleOf(report.pairs[0]);
    scatter(plot, places, (k, i) => (accepts(llrs[k][0][i], llrs[k][1][i]) > 0) !== (k === 0));
    for (const policy of Object.keys(report.policies)) {
      policyLines(plot, policy, view === "llr" ? [llrBoundary(policy, w, window)] : rawBoundary(whatif.grid, policy, w));
    }
  };
}

function shadeAccepted(plot, w, window) {
  const [xs, ys] = llrBoundary("bayes", w, window);
  const [[xLow, xHigh], [yLow, yHigh]] = window;
  if (xs.length < 2) return;
  const far = [2 * xHigh - xLow, 2 * yHigh - yLow];
  const left = Math.max(xLow, Math.min(...xs));
  svgElement("path", { d: `${plot.path([...xs, far[0], far[0], left], [...ys, ys[ys.length - 1], far[1], far[1]])}z`, class: "accepted" }, plot.body);
}

// A row of the table of policies; the read-outs are filled in by `put`.
function policyRow(policy, name) {
  const cells = (...keys) => keys.map((key) => element("td", { id: `${policy}-${key}` }));
  const bar = element("td", { class: "wide" }, element("div", { class: "stacked", id: `${policy}-bar` }));
  return element("tr", {}, element("td", {}, name), ...cells("miss", "nontarget", "spoof", "cost"), bar, ...cells("normalised", "expected", "mean"));
}

function startWhatif() {
  if (!host("whatif-pair")) return;
  for (const entry of Object.entries(report.policies)) host("whatif-policies").append(policyRow(...entry));
  host("whatif-pair").append(...pairOptions());
  host("whatif-pair").addEventListener("change", (event) => setPair(Number(event.target.value)));
  for (const [name, kind] of Object.entries(CONTROLS)) {
    const slider = host(`slide-${name}`);
    Object.assign(slider, { min: SCALES[kind].min, max: SCALES[kind].max, step: SCALES[kind].step });
    slider.addEventListener("input", () => {
      const value = +SCALES[kind].value(Number(slider.value)).toPrecision(4);
      setModel(withValue(whatif.model, name, value));
    });
    const box = host(`value-${name}`);
    box.addEventListener("change", () => {
      const [low, high] = BOUNDS[kind];
      const value = Number(box.value);
      const valid = box.value !== "" && Number.isFinite(value) && value >= low && value <= high;
      box.blur();
      setModel(valid ? withValue(whatif.model, name, value) : whatif.model);
    });
  }
  for (const button of document.querySelectorAll("[data-preset]")) {
    button.addEventListener("click", () => setModel(fromPreset(report.presets[button.dataset.preset])));
  }
  whatif.model = fromPreset(report.presets[report.costs]);
  const first = report.pairs.findIndex((pair) => pair.systems.includes(state.system) && pair.is_llr);
  const any = report.pairs.findIndex((pair) => pair.systems.length && pair.is_llr);
  setPair([first, any, 0].find((k) => k >= 0));
  for (const view of ["llr", "raw"]) draw(host(`whatif-${view}`), paintWhatif(view));
  const keys = report.classes.map((name) => ({ kind: "points", style: name, label: name }));
  for (const [style, label] of Object.entries(report.policies)) keys.push({ kind: "line", style, label });
  host("whatif-legend").append(element("div", { class: "legend" }, ...keys.map((key) => keyOf(key))));
  setModel(whatif.model);
  listeners.push(({ system }) => { if (system && report.pairs[state.pair].systems.length) setPair(state.pair); });
}
