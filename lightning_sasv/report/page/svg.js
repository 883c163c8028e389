// Drawing: a small set of SVG helpers. Colours and fonts come from the style sheet.
const SVG_NS = "http://www.w3.org/2000/svg";
const drawings = new Map();
let plotNumber = 0;

function svgElement(name, attributes, parent) {
  const node = document.createElementNS(SVG_NS, name);
  for (const [key, value] of Object.entries(attributes || {})) node.setAttribute(key, value);
  if (parent) parent.appendChild(node);
  return node;
}

function element(name, attributes, ...children) {
  const node = document.createElement(name);
  for (const [key, value] of Object.entries(attributes || {})) node.setAttribute(key, value);
  for (const child of children) node.append(child);
  return node;
}

// Drawings wait in a queue that is worked off in small portions, so that the page answers at once.
const queue = new Set();
let working = false;

function work(patience) {
  const start = performance.now();
  for (const host of queue) {
    queue.delete(host);
    paint(host);
    if (performance.now() - start > patience) break;
  }
  working = queue.size > 0;
  if (working) setTimeout(work, 0, patience);
  else document.documentElement.dataset.ready = "true";
}

function redraw(host) {
  if (!host || !drawings.has(host)) return;
  queue.add(host);
  if (!working) setTimeout(work, 0, 12);
  working = true;
}

// On paper figures are smaller: they are drawn anew, so that their text keeps its size.
let printing = false;
const tall = (height) => (printing ? 0.74 * height : height);
function print(on) {
  printing = on;
  for (const host of drawings.keys()) queue.add(host);
  work(Infinity);
}
window.addEventListener("beforeprint", () => print(true));
window.addEventListener("afterprint", () => print(false));

// Draw into a host soon, and again whenever its width changes.
const observer = new ResizeObserver((entries) => {
  for (const { target } of entries) {
    const drawing = drawings.get(target);
    if (drawing && !printing && Math.abs(target.clientWidth - drawing.width) > 1) redraw(target);
  }
});

function draw(host, painter) {
  drawings.set(host, { painter, width: 0 });
  redraw(host);
  observer.observe(host);
}

function paint(host) {
  const drawing = drawings.get(host);
  if (host.clientWidth === 0) return;
  const paper = host.closest(".wide-left") ? 520 : host.closest(".columns") ? 390 : 720;
  drawing.width = printing ? Math.min(host.clientWidth, paper) : host.clientWidth;
  host.replaceChildren();
  drawing.painter(host, drawing.width);
}

function formatTick(value) {
  if (Math.abs(value) < 1e-12) return "0";
  const text = Math.abs(value) >= 1e4 || Math.abs(value) < 1e-3
    ? value.toExponential(0) : String(+value.toPrecision(4));
  return text.replace("-", "−");
}

function niceTicks(low, high, wanted) {
  const rough = (high - low) / Math.max(wanted, 1);
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].map((m) => m * power).find((s) => s >= rough * 0.999);
  const ticks = [];
  for (let k = Math.ceil(low / step - 1e-9); k * step <= high + 1e-9 * step; k += 1) {
    ticks.push([k * step, formatTick(k * step)]);
  }
  return ticks;
}

const SHAPES = {
  circle: (x, y, r) => `M${x - r} ${y}a${r} ${r} 0 1 0 ${2 * r} 0a${r} ${r} 0 1 0 ${-2 * r} 0z`,
  plus: (x, y, r) => `M${x - r} ${y}h${2 * r}M${x} ${y - r}v${2 * r}`,
  triangle: (x, y, r) =>
    `M${x} ${(y - 1.15 * r).toFixed(1)}l${(1.1 * r).toFixed(1)} ${(1.95 * r).toFixed(1)}h${(-2.2 * r).toFixed(1)}z`,
  diamond: (x, y, r) => `M${x} ${y - 1.3 * r}l${1.3 * r} ${1.3 * r}l${-1.3 * r} ${1.3 * r}l${-1.3 * r} ${-1.3 * r}z`,
  square: (x, y, r) => `M${x - r} ${y - r}h${2 * r}v${2 * r}h${-2 * r}z`,
  cross: (x, y, r) => `M${x - r} ${y - r}l${2 * r} ${2 * r}M${x - r} ${y + r}l${2 * r} ${-2 * r}`,
};

// Scales of axes. The probit of a rate in per cent is right to 5e-4 (Abramowitz and Stegun 26.2.23).
const SCALE = {
  linear: (v) => v,
  probit: (percent) => {
    const p = percent / 100;
    const t = Math.sqrt(-2 * Math.log(Math.min(p, 1 - p)));
    const z = t - (2.515517 + t * (0.802853 + t * 0.010328)) / (1 + t * (1.432788 + t * (0.189269 + t * 0.001308)));
    return p < 0.5 ? -z : z;
  },
};

// A frame with two axes as descriptions of figures have them; those with `hidden` are not shown.
class Plot {
  constructor(host, width, options) {
    const o = { height: tall(340), left: 54, right: 14, top: 12, bottom: 44, ...options };
    Object.assign(this, { o, width, height: o.height });
    this.inner = {
      left: o.left, top: o.top,
      width: Math.max(width - o.left - o.right, 10), height: o.height - o.top - o.bottom,
    };
    this.svg = svgElement("svg", {
      viewBox: `0 0 ${width} ${o.height}`, role: "img", "aria-label": o.label || "", class: "plot",
    }, host);
    plotNumber += 1;
    const clip = svgElement("clipPath", { id: `clip${plotNumber}` }, this.svg);
    const { left, top, width: w, height: h } = this.inner;
    svgElement("rect", { x: left, y: top, width: w, height: h }, clip);
    for (const which of ["x", "y"]) if (!o[which].hidden) this.axis(which, o[which]);
    this.body = svgElement("g", { "clip-path": `url(#clip${plotNumber})` }, this.svg);
    if (o.frame !== false) {
      svgElement("rect", { x: left, y: top, width: w, height: h, class: "frame" }, this.svg);
    }
  }

  share(v, { low, high, scale }) {
    const at = SCALE[scale || "linear"];
    return (at(v) - at(low)) / (at(high) - at(low));
  }

  X(v) { return this.inner.left + this.share(v, this.o.x) * this.inner.width; }

  Y(v) { return this.inner.top + (1 - this.share(v, this.o.y)) * this.inner.height; }

  axis(which, { low, high, label, ticks, grid }) {
    const { left, top, width, height } = this.inner;
    const horizontal = which === "x";
    const shown = ticks || niceTicks(low, high, Math.max(2, (horizontal ? width / 64 : height / 52)));
    let taken = -Infinity; // end of the last label, so that labels never touch
    for (const [at, text] of shown) {
      if (at < low - 1e-9 || at > high + 1e-9) continue;
      const p = horizontal ? this.X(at) : this.Y(at);
      const half = horizontal ? 3.6 * text.length : 7;
      const along = horizontal ? p : top + height - p;
      const ends = horizontal
        ? { x1: p, x2: p, y1: top, y2: top + height } : { x1: left, x2: left + width, y1: p, y2: p };
      if (grid !== false) svgElement("line", { ...ends, class: "grid" }, this.svg);
      if (along - half < taken) continue;
      taken = along + half + 2;
      const place = horizontal
        ? { x: p, y: top + height + 16, "text-anchor": "middle" }
        : { x: left - 7, y: p + 4, "text-anchor": "end" };
      svgElement("text", { ...place, class: "tick" }, this.svg).textContent = text;
    }
    if (!label) return;
    const place = horizontal
      ? { x: left + width / 2, y: this.height - 6, "text-anchor": "middle" }
      : { transform: `translate(13 ${top + height / 2}) rotate(-90)`, "text-anchor": "middle" };
    svgElement("text", { ...place, class: "axis" }, this.svg).textContent = label;
  }

  path(xs, ys) {
    const far = 4 * (this.width + this.height);
    const bound = (v) => Math.max(-far, Math.min(far, v)).toFixed(1);
    let text = "";
    let pen = "M";
    for (let i = 0; i < xs.length; i += 1) {
      if (Number.isNaN(xs[i]) || Number.isNaN(ys[i])) { pen = "M"; continue; }
      text += `${pen}${bound(this.X(xs[i]))} ${bound(this.Y(ys[i]))}`;
      pen = "L";
    }
    return text;
  }

  line(xs, ys, attributes) {
    return svgElement("path", { d: this.path(xs, ys), class: "line", ...attributes }, this.body);
  }

  // Histogram as a stepped area: density of each bin, scaled so that `top` reaches the frame.
  steps(low, high, heights, attributes, horizontal) {
    const width = (high - low) / heights.length;
    const along = [low];
    const up = [0];
    heights.forEach((h, i) => {
      along.push(low + i * width, low + (i + 1) * width);
      up.push(h, h);
    });
    along.push(high);
    up.push(0);
    const d = horizontal ? this.path(up, along) : this.path(along, up);
    return svgElement("path", { d, ...attributes }, this.body);
  }

  // Points, one path for all; those outside the frame are drawn on its edge.
  marks(xs, ys, shape, attributes, size) {
    const { left, top, width, height } = this.inner;
    const r = size || 2.4;
    let d = "";
    for (let i = 0; i < xs.length; i += 1) {
      const x = Math.max(left + 1.5, Math.min(left + width - 1.5, this.X(xs[i])));
      const y = Math.max(top + 1.5, Math.min(top + height - 1.5, this.Y(ys[i])));
      d += SHAPES[shape](+x.toFixed(1), +y.toFixed(1), r);
    }
    return svgElement("path", { d, class: `marks ${shape}`, ...attributes }, this.body);
  }

  vline(at, attributes) {
    const { top, height } = this.inner;
    const x = this.X(at);
    return svgElement("line", { x1: x, x2: x, y1: top, y2: top + height, ...attributes }, this.body);
  }

  text(x, y, content, attributes) {
    const node = svgElement("text", { x, y, class: "note", ...attributes }, this.svg);
    node.textContent = content;
    return node;
  }

  // Nearest of some labelled points under the pointer, in a small box.
  hover(points) {
    if (!points.length) return;
    const box = svgElement("g", { class: "hover", visibility: "hidden" }, this.svg);
    const dot = svgElement("circle", { r: 4.5 }, box);
    const plate = svgElement("rect", { rx: 4, height: 22 }, box);
    const text = svgElement("text", { class: "note" }, box);
    const places = points.map((p) => ({ px: this.X(p.x), py: this.Y(p.y), label: p.label }));
    this.svg.addEventListener("pointermove", (event) => {
      const bounds = this.svg.getBoundingClientRect();
      const scale = this.width / bounds.width;
      const x = (event.clientX - bounds.left) * scale;
      const y = (event.clientY - bounds.top) * scale;
      let best = null;
      let least = 30 ** 2;
      for (const place of places) {
        const distance = (place.px - x) ** 2 + (place.py - y) ** 2;
        if (distance < least) { least = distance; best = place; }
      }
      box.setAttribute("visibility", best ? "visible" : "hidden");
      if (!best) return;
      text.textContent = best.label();
      const length = text.getComputedTextLength() + 12;
      const start = Math.max(2, Math.min(this.width - length - 2, best.px + 8));
      const row = best.py > 34 ? best.py - 30 : best.py + 10;
      dot.setAttribute("cx", best.px);
      dot.setAttribute("cy", best.py);
      for (const [key, value] of Object.entries({ x: start, y: row, width: length })) plate.setAttribute(key, value);
      text.setAttribute("x", start + 6);
      text.setAttribute("y", row + 15);
    });
    this.svg.addEventListener("pointerleave", () => box.setAttribute("visibility", "hidden"));
  }
}
