// The what-if panel: costs and priors in, decisions on every embedded trial out.

// Trials of a pair: LLRs, and e^(−LLR) so that a move of a slider needs no exponential.
class Trials {
  constructor(a, c, sizes) {
    Object.assign(this, { a, c, sizes });
    const inverse = (x) => Math.exp(-Math.max(-700, Math.min(700, x)));
    this.ea = Float64Array.from(a, inverse);
    this.ec = Float64Array.from(c, inverse);
    this.ranges = sizes.map((size, k) => {
      const start = sizes.slice(0, k).reduce((x, y) => x + y, 0);
      return [start, start + size];
    });
  }
}

// Share of accepted trials and mean posterior risk of each class (target, nontarget, spoof), for
// each policy. The posterior risk is C_fa,non P_non + C_fa,spf P_spf of an accepted trial and
// C_miss P_tar of a rejected one.
function decide(trials, m) {
  const w = weightsOf(m);
  const { a, c, ea, ec } = trials;
  const linear = Math.log(w.nontarget) + Math.log(w.spoof) - 2 * Math.log(w.target);
  const left = Math.log(w.nontarget) - Math.log(w.target);
  const bottom = Math.log(w.spoof) - Math.log(w.target);
  const result = { bayes: [], linear: [], utility: [] };
  for (const [start, end] of trials.ranges) {
    const counts = [0, 0, 0];
    const risks = [0, 0, 0];
    for (let i = start; i < end; i += 1) {
      const spread = m.p_target + m.p_nontarget * ea[i] + m.p_spoof * ec[i];
      const costAccept = (w.nontarget * ea[i] + w.spoof * ec[i]) / spread;
      const costReject = w.target / spread;
      const some = w.target > 0;
      const accepted = [
        w.nontarget * ea[i] + w.spoof * ec[i] < w.target,
        some && a[i] + c[i] > linear,
        some && a[i] > left && c[i] > bottom,
      ];
      for (let p = 0; p < 3; p += 1) {
        if (accepted[p]) counts[p] += 1;
        risks[p] += accepted[p] ? costAccept : costReject;
      }
    }
    const size = Math.max(end - start, 1);
    Object.values(result).forEach((rows, p) => rows.push({ accepted: counts[p] / size, risk: risks[p] / size, size: end - start }));
  }
  return result;
}

// Error rates and costs of a policy from its decisions by class.
function priceOf([target, nontarget, spoof], m) {
  const w = weightsOf(m);
  const rates = { miss: 1 - target.accepted, nontarget: nontarget.accepted, spoof: spoof.accepted };
  const parts = [w.target * rates.miss, w.nontarget * rates.nontarget, w.spoof * rates.spoof];
  const cost = parts[0] + parts[1] + parts[2];
  const blind = Math.min(w.target, w.nontarget + w.spoof);
  const normalised = blind > 0 ? cost / blind : cost > 0 ? Infinity : 0;
  const expected = m.p_target * target.risk + m.p_nontarget * nontarget.risk + m.p_spoof * spoof.risk;
  const all = target.size + nontarget.size + spoof.size;
  const mean = (target.risk * target.size + nontarget.risk * nontarget.size + spoof.risk * spoof.size) / all;
  return { ...rates, parts, blind, cost, normalised, expected, mean };
}

// EER (asvspoof convention) of classes given as ascending e^(−score): rejected from the last on.
function eerOf(positive, negatives) {
  const left = negatives.map((part) => part.length - 1);
  const total = negatives.reduce((sum, part) => sum + part.length, 0);
  let [i, kept, least, value] = [positive.length - 1, total, 1, 0.5];
  let [frr, far] = [0, 1];
  while (frr < far && (i >= 0 || kept > 0)) {
    let most = -1;
    let from = -1;
    negatives.forEach((part, k) => { if (left[k] >= 0 && part[left[k]] > most) { most = part[left[k]]; from = k; } });
    if (i >= 0 && positive[i] >= most) { i -= 1; frr = (positive.length - 1 - i) / positive.length; }
    else { left[from] -= 1; kept -= 1; far = kept / total; }
    if (Math.abs(frr - far) < least) { least = Math.abs(frr - far); value = (frr + far) / 2; }
  }
  return value;
}

// Smallest normalised a-DCF over all thresholds of the nonlinear score.
function leastCost(parts, w) {
  const weights = [w.target, w.nontarget, w.spoof];
  const blind = Math.min(w.target, w.nontarget + w.spoof);
  if (!(blind > 0)) return NaN;
  const heads = parts.map((part) => part.length - 1);
  let least = w.nontarget + w.spoof;
  for (;;) {
    let top = -1;
    parts.forEach((part, k) => { if (heads[k] >= 0 && part[heads[k]] > top) top = part[heads[k]]; });
    if (top < 0) break;
    parts.forEach((part, k) => { while (heads[k] >= 0 && part[heads[k]] === top) heads[k] -= 1; });
    const cost = weights[0] * (1 - (heads[0] + 1) / parts[0].length)
      + weights[1] * ((heads[1] + 1) / parts[1].length) + weights[2] * ((heads[2] + 1) / parts[2].length);
    if (cost < least) least = cost;
  }
  return least / blind;
}

// EERs and least cost of the score −log[w_non e^(−a) + w_spf e^(−c)].
function rank(trials, m) {
  const w = weightsOf(m);
  const parts = trials.ranges.map(([start, end]) => {
    const r = new Float64Array(end - start);
    for (let i = start; i < end; i += 1) r[i - start] = w.nontarget * trials.ea[i] + w.spoof * trials.ec[i];
    return r.sort();
  });
  const [target, nontarget, spoof] = parts;
  return {
    sasv_eer: eerOf(target, [nontarget, spoof]), sv_eer: eerOf(target, [nontarget]),
    spf_eer: eerOf(target, [spoof]), min_a_dcf: leastCost(parts, w),
  };
}

// Sliders: how a position becomes a value and back.
const logistic = (x) => 1 / (1 + Math.exp(-x));
const SCALES = {
  prior: { min: -7, max: 7, step: 0.05, value: logistic, place: (v) => Math.log(v / (1 - v)) },
  rho: { min: 0, max: 1, step: 0.005, value: (x) => x, place: (v) => v },
  cost: { min: -1, max: 2, step: 0.01, value: (x) => 10 ** x, place: (v) => Math.log10(v) },
};
const CONTROLS = { rho: "rho", p_target: "prior", p_nontarget: "prior", p_spoof: "prior", c_miss: "cost", c_fa_nontarget: "cost", c_fa_spoof: "cost" };
const BOUNDS = { prior: [0, 1], rho: [0, 1], cost: [0, 1000] };

// The model after one of its values was set: priors stay a distribution, ρ is their spoof share.
function withValue(model, name, value) {
  const m = { ...model };
  const split = (rest, rho) => { m.p_nontarget = rest * (1 - rho); m.p_spoof = rest * rho; };
  if (name === "rho") { m.rho = value; split(1 - m.p_target, value); }
  else if (name === "p_target") { m.p_target = value; split(1 - value, m.rho); }
  else if (CONTROLS[name] === "prior") {
    const other = name === "p_spoof" ? "p_nontarget" : "p_spoof";
    const rest = m.p_target + m[other];
    const share = rest > 0 ? m.p_target / rest : 0.5;
    m[name] = value;
    m.p_target = (1 - value) * share;
    m[other] = (1 - value) * (1 - share);
    const negative = m.p_nontarget + m.p_spoof;
    if (negative > 0) m.rho = m.p_spoof / negative;
  } else m[name] = value;
  return m;
}
const fromPreset = (preset) => ({ ...preset, rho: preset.p_spoof / (preset.p_nontarget + preset.p_spoof) });
