// The plane of two scores or log-likelihood ratios: points, boundaries, level lines.

// Level lines of a function on a grid by marching squares, joined into polylines.
function contour({ n, xs, ys }, values, level) {
  const above = (k) => values[k] > level;
  const links = new Map();
  const points = new Map();
  const link = (from, to) => {
    for (const [a, b] of [[from, to], [to, from]]) {
      if (!links.has(a)) links.set(a, []);
      links.get(a).push(b);
    }
  };
  const cross = (k, vertical) => {
    const id = 2 * k + (vertical ? 1 : 0);
    if (!points.has(id)) {
      const next = k + (vertical ? n : 1);
      const t = (level - values[k]) / (values[next] - values[k]);
      const [i, j] = [k % n, Math.floor(k / n)];
      points.set(id, vertical
        ? [xs[i], ys[j] + t * (ys[j + 1] - ys[j])] : [xs[i] + t * (xs[i + 1] - xs[i]), ys[j]]);
    }
    return id;
  };
  for (let j = 0; j + 1 < n; j += 1) {
    for (let i = 0; i + 1 < n; i += 1) {
      const k = j * n + i;
      const corners = [above(k), above(k + 1), above(k + n + 1), above(k + n)];
      const edges = [];
      if (corners[0] !== corners[1]) edges.push(cross(k, false));
      if (corners[1] !== corners[2]) edges.push(cross(k + 1, true));
      if (corners[2] !== corners[3]) edges.push(cross(k + n, false));
      if (corners[3] !== corners[0]) edges.push(cross(k, true));
      if (edges.length === 2) link(edges[0], edges[1]);
      if (edges.length === 4) {
        const middle = (values[k] + values[k + 1] + values[k + n] + values[k + n + 1]) / 4 > level;
        const apart = middle === corners[0] ? [[0, 1], [2, 3]] : [[0, 3], [1, 2]];
        for (const [a, b] of apart) link(edges[a], edges[b]);
      }
    }
  }
  return joined(links, points);
}

function joined(links, points) {
  const lines = [];
  const follow = (start) => {
    const line = [points.get(start)];
    let here = start;
    for (;;) {
      const next = (links.get(here) || []).pop();
      if (next === undefined) break;
      const back = links.get(next);
      back.splice(back.indexOf(here), 1);
      line.push(points.get(next));
      here = next;
    }
    return line;
  };
  const ends = [...links.keys()].filter((id) => links.get(id).length === 1);
  for (const id of [...ends, ...links.keys()]) {
    if (links.get(id).length) lines.push(follow(id));
  }
  return lines;
}

// Weights and thresholds of the three policies for given costs and priors.
function weightsOf(model) {
  return {
    target: model.c_miss * model.p_target,
    nontarget: model.c_fa_nontarget * model.p_nontarget,
    spoof: model.c_fa_spoof * model.p_spoof,
  };
}

// Signed distance-like function of each policy: accepted where it is positive.
const POLICY_VALUE = {
  bayes: (w) => (a, c) => {
    const [x, y] = [Math.log(w.nontarget) - a, Math.log(w.spoof) - c];
    const most = Math.max(x, y);
    if (most === -Infinity) return Math.log(w.target) === -Infinity ? -1e6 : 1e6;
    return Math.log(w.target) - most - Math.log(Math.exp(x - most) + Math.exp(y - most));
  },
  linear: (w) => (a, c) => a + c - (Math.log(w.nontarget) + Math.log(w.spoof) - 2 * Math.log(w.target)),
  utility: (w) => (a, c) => Math.min(
    a - Math.log(w.nontarget) + Math.log(w.target), c - Math.log(w.spoof) + Math.log(w.target),
  ),
};
const bounded = (v) => (Number.isNaN(v) ? -1e6 : Math.max(-1e6, Math.min(1e6, v)));

// Lines of a policy in the plane of the raw scores.
function rawBoundary(grid, policy, weights) {
  const value = POLICY_VALUE[policy](weights);
  const values = Float64Array.from(grid.a, (a, k) => bounded(value(a, grid.c[k])));
  return contour(grid, values, 0).map((line) => [line.map((p) => p[0]), line.map((p) => p[1])]);
}

// Lines of a policy in the plane of the two LLRs, as [xs, ys].
function llrBoundary(policy, w, [[xLow, xHigh], [yLow, yHigh]]) {
  const left = Math.log(w.nontarget) - Math.log(w.target);
  const bottom = Math.log(w.spoof) - Math.log(w.target);
  if (Number.isNaN(left) || Number.isNaN(bottom)) return [[], []];
  const [xEnd, yEnd] = [Math.max(2 * xHigh - xLow, left), Math.max(2 * yHigh - yLow, bottom)];
  if (policy === "linear") return [[xLow, xHigh], [left + bottom - xLow, left + bottom - xHigh]];
  if (policy === "utility") return [[left, left, xEnd], [yEnd, bottom, bottom]];
  if (bottom === -Infinity) return [[left, left], [2 * yLow - yHigh, yEnd]];
  if (left === -Infinity) return [[xLow, xHigh], [bottom, bottom]];
  const start = Math.min(Math.max(xLow, left), xHigh);
  const xs = [];
  const ys = [];
  if (left > xLow && left < xHigh) { xs.push(left); ys.push(yEnd); }
  for (let k = 1; k <= 240; k += 1) {
    const x = start + (xHigh - start) * (k / 240) ** 3;
    if (x <= left) continue;
    xs.push(x);
    ys.push(bottom - Math.log(-Math.expm1(left - x)));
  }
  return [xs, ys];
}

// Points of a sample by class; those that a test calls wrong are drawn strongly.
function scatter(plot, sample, wrong) {
  for (const k of [2, 1, 0]) {
    const name = report.classes[k];
    const [xs, ys] = sample[k];
    const parts = { right: [[], []], wrong: [[], []] };
    for (let i = 0; i < xs.length; i += 1) {
      const part = parts[wrong(k, i) ? "wrong" : "right"];
      part[0].push(xs[i]);
      part[1].push(ys[i]);
    }
    marks(plot, ...parts.right, name, "faint");
    marks(plot, ...parts.wrong, name, "strong", 3.4);
  }
}

// Lines of a policy in the plane of a pair or, through its grid, in that of the raw scores.
function policyLines(plot, style, lines) {
  for (const [xs, ys] of lines) dress(plot.line(xs, ys, { class: `line ${style}` }), style);
}
