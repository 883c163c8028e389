// The report's data: plain values as JSON, trials as packed little-endian float32.
const report = JSON.parse(document.getElementById("report-data").textContent);

function unpack(text) {
  const binary = atob(text);
  const bytes = new Uint8Array(binary.length);
  for (let i = 0; i < binary.length; i += 1) bytes[i] = binary.charCodeAt(i);
  if (new Uint8Array(new Uint16Array([1]).buffer)[0] === 1) return new Float32Array(bytes.buffer);
  const view = new DataView(bytes.buffer);
  return Float32Array.from({ length: bytes.length / 4 }, (_, i) => view.getFloat32(4 * i, true));
}

// Both columns of a pair: an affine map of its base's columns, in double precision.
function pairColumns(pair, packed) {
  const half = packed.length / 2;
  return pair.affine.map(([fromAsv, fromCm, constant]) => {
    const column = new Float64Array(half);
    for (let i = 0; i < half; i += 1) {
      column[i] = fromAsv * packed[i] + fromCm * packed[half + i] + constant;
    }
    return column;
  });
}

const unpacked = new Map();
function once(key, make) {
  if (!unpacked.has(key)) unpacked.set(key, make());
  return unpacked.get(key);
}

function packedBase(kind, number) {
  return once(`${kind}${number}`, () => unpack(report[kind].bases[number]));
}

// Columns of a pair split by class: [[x, y] of targets, nontargets, spoofs].
function sampleOf(pair) {
  const [x, y] = pairColumns(pair, packedBase("sample", pair.base));
  let start = 0;
  return report.sample.sizes.map((size) => {
    const part = [x.subarray(start, start + size), y.subarray(start, start + size)];
    start += size;
    return part;
  });
}

// Values of a pair on a grid over the plane of the raw scores.
function gridOf(pair) {
  const n = report.grid.points;
  const [[xLow, xHigh], [yLow, yHigh]] = report.pairs[0].window;
  const at = (low, high, i) => low + ((high - low) * i) / (n - 1);
  const xs = Float64Array.from({ length: n }, (_, i) => at(xLow, xHigh, i));
  const ys = Float64Array.from({ length: n }, (_, i) => at(yLow, yHigh, i));
  const base = report.grid.bases[pair.base] === null
    ? Float64Array.from({ length: 2 * n * n }, (_, k) =>
      (k < n * n ? xs[k % n] : ys[Math.floor((k - n * n) / n)]))
    : packedBase("grid", pair.base);
  const [a, c] = pairColumns(pair, base);
  return { n, xs, ys, a, c };
}

// Numbers of a description.
const numbers = (k) => once(`array${k}`, () => unpack(report.arrays[k]));

const percent = (rate, digits = 2) => `${(100 * rate).toFixed(digits)} %`;
const asMinus = (text) => String(text).replace("-", "−");
const host = (id) => document.getElementById(id);
const all = (selector) => document.querySelectorAll(selector);

// What is chosen: the system, its pair, and what the chips of figures offer.
const state = { preset: report.costs };
const listeners = [];
function choose(change) {
  Object.assign(state, change);
  if (change.system) state.pair = report.systems.find((system) => system.name === change.system).pair;
  for (const listener of listeners) listener(change);
}
