// Draws descriptions of figures (description.py); knows nothing of what they are about.

const hidden = new Set(); // names of series that the reader has switched off

// The panel of a figure that is chosen, in one of its views.
function panelOf(name, view) {
  const wanted = { ...state, view };
  const fits = ([key, value]) => wanted[key] === undefined || wanted[key] === value;
  return report.figures[name].panels.find((panel) => Object.entries(panel.of).every(fits));
}

function dress(node, key) {
  const { colour, dash, width } = report.styles[key];
  node.style.setProperty("--c", `var(--${colour})`);
  node.style.strokeWidth = width;
  node.setAttribute("stroke-dasharray", dash);
  return node;
}

function marks(plot, xs, ys, key, look, size, shape = report.styles[key].mark) {
  const node = plot.marks(xs, ys, shape, { class: `marks ${shape} ${look} c-${key}` }, size);
  node.style.setProperty("--c", `var(--${report.styles[key].colour})`);
}

// Trials lie below lines, single points above them; of each the first is on top.
const many = (s) => Boolean(s.source) || numbers(s.x).length > 1;
const layer = (s) => (s.kind === "density" || s.kind === "area" ? 0 : s.kind === "points" ? (many(s) ? 0 : 2) : 1);

const PAINT = {
  line(plot, s) {
    const [x, y] = [numbers(s.x), numbers(s.y)];
    const line = dress(plot.line(x, y, { class: `line ${s.style}` }), s.style);
    if (s.value !== undefined && s.label === state.system) line.style.strokeWidth = 2 * report.styles[s.style].width;
    for (const k of s.marked || []) marks(plot, [x[k]], [y[k]], s.style, "strong", 4.6, s.mark);
  },
  points(plot, s) {
    const [x, y] = s.source ? sampleOf(report.pairs[s.source.pair])[report.classes.indexOf(s.style)] : [numbers(s.x), numbers(s.y)];
    const sizes = s.more && s.more.size !== undefined ? numbers(s.more.size) : null;
    if (sizes) for (let k = 0; k < x.length; k += 1) marks(plot, [x[k]], [y[k]], s.style, "", 1.4 + 3.2 * sizes[k], s.mark);
    else marks(plot, x, y, s.style, many(s) ? "" : "strong", many(s) ? 2.4 : 5, s.mark);
  },
  area(plot, s) {
    if (s.of && s.of !== state.system) return;
    dress(plot.line(numbers(s.x), numbers(s.y), { class: "area" }), s.style);
  },
  rule(plot, s) {
    for (const at of numbers(s.x)) dress(plot.vline(at, { class: "rule" }), s.style);
  },
  density(plot, s) {
    const [[low, high], heights] = [numbers(s.x), numbers(s.y)];
    dress(plot.steps(low, high, heights, { class: "area" }), s.style);
    dress(plot.steps(low, high, heights, { class: "line" }), s.style);
  },
  // A density that stands on its row; its value is a bar and a number on the right.
  ridge(plot, s, panel) {
    const [[low, high], heights] = [numbers(s.x), numbers(s.y)];
    const transform = `translate(0 ${plot.Y(s.base) - plot.Y(0)})`;
    const shape = plot.steps(low, high, heights, { class: "ridge", transform });
    shape.style.setProperty("--c", `var(--${report.styles[s.style].colour})`);
    if (s.value === undefined) return;
    const worst = Math.max(...panel.series.map((other) => other.value || 0), 1e-9);
    const [right, y] = [plot.width, plot.Y(s.base) - 4];
    const size = { x: right - RIGHT + 10, y: y - 9, height: 10, width: Math.max(1, (s.value / worst) * 46) };
    svgElement("rect", { ...size, class: `bar c-${s.style}` }, plot.svg);
    plot.text(right - 4, y, `${s.value.toFixed(2)} %`, { "text-anchor": "end" });
    if (s.base === 0) plot.text(right - 4, 20, s.label, { "text-anchor": "end" });
  },
  level(plot, s) {
    const { pair, policy, costs } = s.source;
    policyLines(plot, s.style, rawBoundary(gridOf(report.pairs[pair]), policy, weightsOf(report.presets[costs])));
  },
};
const RIGHT = 118; // pixels for the values of ridges

function paintPanel(target, width, panel, box) {
  const [share, least, most] = panel.height;
  const ridges = panel.series.some((s) => s.kind === "ridge");
  const { ticks, label } = panel.y;
  const names = ticks && ticks.length && !label;
  const beside = width > 520 ? panel.beside : [];
  const plot = new Plot(target, width, {
    height: tall(Math.min(most, Math.max(least, share * width))),
    left: names ? Math.min(150, 10 + 7 * Math.max(...ticks.map(([, text]) => text.length))) : ticks && !ticks.length ? 22 : 54,
    right: ridges ? RIGHT : beside.length ? 12 + 6.6 * Math.max(...beside.map(([, text]) => text.length)) : 14,
    top: ridges ? 30 : 12,
    label: [panel.title, panel.x.label, panel.y.label].filter(Boolean).join(", "),
    x: panel.x,
    y: { ...panel.y, grid: !ridges },
    ...box,
  });
  const shown = panel.series.filter((s) => s.value === undefined || !hidden.has(s.label));
  const order = [...shown].reverse().sort((a, b) => layer(a) - layer(b));
  for (const s of order) PAINT[s.kind](plot, s, panel);
  for (const [at, text] of beside) plot.text(plot.inner.left + plot.inner.width + 7, plot.Y(at) + 4, text, { class: "tick" });
  writeNotes(plot, panel, box);
  plot.hover(shown.flatMap((s) => hoverPoints(s, panel)));
  return plot;
}

// Words in the frame: beside the threshold, or on the right; above the frame of a lower panel.
function writeNotes(plot, { notes, series }, box) {
  const rule = series.find((s) => s.style === "threshold");
  const { left, width } = plot.inner;
  const at = rule ? plot.X(numbers(rule.x)[0]) : left + width;
  const leftward = at > plot.width / 2;
  notes.forEach((text, k) => {
    const bold = { class: k ? "note" : "note bold" };
    const middle = Math.min(Math.max(at, left + 62), left + width - 62);
    if (box) plot.text(middle, 14, text, { ...bold, "text-anchor": "middle" });
    else plot.text(at + (leftward ? -6 : 6), 28 + 16 * k, text, { ...bold, "text-anchor": leftward ? "end" : "start" });
  });
}

function hoverPoints(s, { x: { low, high }, y }) {
  if (!s.hover) return [];
  const columns = { x: numbers(s.x), y: numbers(s.y) };
  for (const [name, k] of Object.entries(s.more || {})) columns[name] = numbers(k);
  const say = (i) => s.hover.replace(/\{(\w+)(?::\.(\d)([fg]))?\}/g, (_, name, digits, kind) => {
    if (name === "label") return s.label;
    const value = columns[name][i];
    return asMinus(kind === "f" ? value.toFixed(digits) : value.toPrecision(digits));
  });
  const points = [];
  const step = columns.x.length > 400 ? 4 : 1;
  for (let i = 0; i < columns.x.length; i += step) {
    const [at, up] = [columns.x[i], Math.min(columns.y[i], y.high)];
    if (at >= low && at <= high && up >= y.low) points.push({ x: at, y: up, label: () => say(i) });
  }
  for (const k of s.marked || []) points.push({ x: columns.x[k], y: columns.y[k], label: () => `${s.label}: EER ${s.value.toFixed(2)} %` });
  return points;
}

// A plane with the marginal densities of its pair beside it, and its lower panel.
function paintStack(target, width, panel) {
  const pair = report.pairs[panel.of.pair];
  const side = 34;
  const box = { left: 44, right: side + 8, top: side + 8, bottom: 40 };
  const height = width - box.left - box.right + box.top + box.bottom;
  paintPanel(target, width, panel, { ...box, height });
  const rows = pair.marginals.map((counts) => counts.map((row, k) => row.map((n) => n / Math.max(report.sizes[k], 1))));
  const along = (k) => ({ low: pair.window[k][0], high: pair.window[k][1], hidden: true });
  const up = (k) => ({ low: 0, high: 1.05 * Math.max(...rows[k].flat(), 1e-12), hidden: true });
  const top = new Plot(target, width, { ...box, top: 2, bottom: 0, height: side + 4, frame: false, x: along(0), y: up(0) });
  const edge = new Plot(target, width, { ...box, left: width - side - 4, right: 2, height, frame: false, x: up(1), y: along(1) });
  for (const k of [2, 1, 0]) {
    for (const name of ["area", "line"]) {
      dress(top.steps(...pair.window[0], rows[0][k], { class: name }), report.classes[k]);
      dress(edge.steps(...pair.window[1], rows[1][k], { class: name }, true), report.classes[k]);
    }
  }
  for (const extra of [top, edge]) extra.svg.classList.add("overlay");
  paintPanel(target, width, panel.below, { left: box.left, right: box.right, top: 20, bottom: 40, height: 132 });
}

// A key of a legend: the mark of trials, the line of curves.
function keyOf({ kind, style, label }, wide = "wide", length = 30) {
  const { mark, colour } = report.styles[style];
  const area = kind === "area";
  const trials = kind === "points" || kind === "density" || area;
  const glyph = svgElement("svg", { viewBox: `0 0 ${trials ? 16 : length} 12`, class: `glyph ${trials ? "" : wide}` });
  if (!trials) dress(svgElement("path", { d: `M1 6H${length - 1}`, class: "line" }, glyph), style);
  if (area) svgElement("path", { d: "M1 1H15V11H1z", class: "marks" }, glyph);
  else if (trials || kind === "marked") svgElement("path", { d: SHAPES[mark](trials ? 8 : length / 2, 6, trials ? 4 : 4.6), class: `marks ${mark} strong` }, glyph);
  glyph.style.setProperty("--c", `var(--${colour})`);
  return element("span", {}, glyph, label);
}

function legendOf(panel) {
  const valued = panel.series.filter((s) => s.kind === "line" && s.value !== undefined);
  if (valued.length) return switches(valued);
  const named = panel.series.filter((s) => s.label && s.kind !== "ridge");
  const remark = panel.remark ? [element("b", {}, panel.remark)] : [];
  return element("div", { class: "legend" }, ...named.map((s) => keyOf(s)), ...remark);
}

// A legend that sorts curves by their value and switches them on and off.
function switches(series) {
  const list = element("div", { class: "det-legend" });
  for (const s of [...series].sort((a, b) => a.value - b.value)) {
    const box = element("input", { type: "checkbox" });
    box.checked = !hidden.has(s.label);
    box.addEventListener("change", () => {
      hidden[box.checked ? "delete" : "add"](s.label);
      choose({});
    });
    const key = keyOf({ ...s, kind: "marked" }, "widest", 40);
    list.append(element("label", {}, box, key.firstChild, element("span", { class: "name" }, s.label), element("b", {}, `${s.value.toFixed(2)} %`)));
  }
  return list;
}
