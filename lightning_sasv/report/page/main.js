// Puts the page together.

const FEW = 6; // options that stand side by side; more are a slider

function chips(place) {
  const { choices, panels } = report.figures[place.dataset.chips];
  for (const [key, options] of Object.entries(choices)) {
    if (state[key] === undefined) state[key] = panels[0].of[key] ?? Object.keys(options)[0];
    if (Object.keys(options).length > FEW) place.replaceWith(slider(key, options));
    else for (const [value, label] of Object.entries(options)) {
      const input = element("input", { type: "radio", name: key, value });
      input.checked = value === state[key];
      input.addEventListener("change", () => choose({ [key]: value }));
      place.append(element("label", { class: "chip" }, input, element("span", {}, label)));
    }
  }
}

function slider(key, options) {
  const values = Object.keys(options);
  const input = element("input", { type: "range", min: 0, max: values.length - 1, step: 1, id: `choose-${key}` });
  input.value = String(values.indexOf(state[key]));
  const shown = element("output", {}, options[state[key]]);
  input.addEventListener("input", () => {
    const value = values[Number(input.value)];
    shown.textContent = options[value];
    input.setAttribute("aria-valuetext", options[value]);
    choose({ [key]: value });
  });
  return element("label", { class: "range" }, shown, input);
}

function grid(place) {
  const { panels } = report.figures[place.dataset.grid];
  place.classList.toggle("few", panels.length < 4);
  for (const panel of panels) {
    const target = element("div", { class: "plot-host stack" });
    place.append(element("figure", { class: "panel" }, element("h3", {}, panel.title, element("small", {}, panel.subtitle)), target));
    draw(target, (node, width) => (panel.below ? paintStack : paintPanel)(node, width, panel));
  }
}

function refresh() {
  for (const place of all("[data-figure]")) {
    const { figure, view } = place.dataset;
    const texts = [report.figures[figure].caption, panelOf(figure, view).caption].filter(Boolean);
    place.parentElement.querySelector("figcaption").textContent = texts.join(" ");
    redraw(place);
  }
  for (const place of all("[data-legend]")) place.replaceChildren(legendOf(panelOf(place.dataset.legend)));
  for (const place of all("[data-shows='system']")) place.textContent = state.system;
  for (const row of all("tr[data-system]")) row.classList.toggle("current", row.dataset.system === state.system);
  if (host("simplex-warning")) host("simplex-warning").hidden = report.pairs[state.pair].is_llr;
  host("system").value = state.system;
}

function start() {
  const chooser = host("system");
  for (const { name } of report.systems) chooser.append(element("option", { value: name }, name));
  chooser.addEventListener("change", () => choose({ system: chooser.value }));
  if (host("seed")) host("seed").addEventListener("change", (event) => { window.location.href = event.target.value; });
  for (const row of all("tr[data-system]")) row.addEventListener("click", () => choose({ system: row.dataset.system }));
  for (const place of all("[data-chips]")) chips(place);
  choose({ system: report.chosen });
  startWhatif();
  for (const place of all("[data-grid]")) grid(place);
  for (const place of all("[data-figure]")) {
    const { figure, view } = place.dataset;
    place.id = view ? `${figure}-${view}` : figure;
    draw(place, (target, width) => paintPanel(target, width, panelOf(figure, view)));
  }
  listeners.push(refresh);
  refresh();
}

start();
