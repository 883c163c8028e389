// Puts the page together.

function refresh() {
  const ids = ["dist-class", "dist-attack", "simplex-raw", "simplex-llr", "det", "ece", "pav", "teer-value", "teer-plane", "dcf"];
  for (const id of ids) if (host(id)) redraw(host(id));
  for (const place of document.querySelectorAll("[data-shows='system']")) place.textContent = selection.system.name;
  for (const row of document.querySelectorAll("tr[data-system]")) {
    row.classList.toggle("current", row.dataset.system === selection.system.name);
  }
  const pair = report.pairs[selection.system.pair === null ? 0 : selection.system.pair];
  if (host("simplex-warning")) host("simplex-warning").hidden = pair.is_llr;
  host("system").value = selection.system.name;
}

function start() {
  const chooser = host("system");
  for (const system of report.systems) chooser.append(element("option", { value: system.name }, system.name));
  chooser.addEventListener("change", () => select(chooser.value));
  const least = report.systems.reduce((a, b) => (b.det.sasv.eer < a.det.sasv.eer ? b : a));
  selection.system = least;
  for (const row of document.querySelectorAll("tr[data-system]")) {
    row.addEventListener("click", () => select(row.dataset.system));
  }
  chips(host("dist-chips"), "column", [["sasv", "SASV score"], ["asv", "ASV score"], ["cm", "CM score"]], "sasv", (value) => {
    shown.column = value;
    for (const id of ["dist-class", "dist-attack"]) if (host(id)) redraw(host(id));
  });
  chips(host("det-chips"), "task", [["sasv", "SASV"], ["sv", "SV"], ["spf", "SPF"]], "sasv", (value) => {
    shown.task = value;
    caption("det-task", TASK_NAMES[value]);
    fillDetLegend();
    redraw(host("det"));
  });
  chips(host("dcf-chips"), "preset", Object.keys(report.presets).map((name) => [name, name]), shown.preset, (value) => {
    shown.preset = value;
    redraw(host("dcf"));
  });
  startWhatif();
  show("dist-class", paintClasses);
  show("dist-attack", paintAttacks);
  buildPanels();
  show("simplex-raw", paintSimplex(true));
  show("simplex-llr", paintSimplex(false));
  show("det", paintDet);
  fillDetLegend();
  show("ece", paintEce);
  show("pav", paintPav);
  show("teer-value", paintTandem("value"));
  show("teer-plane", paintTandem("plane"));
  show("dcf", paintDcf);
  for (const legend of document.querySelectorAll("[data-legend='classes']")) classLegend(legend);
  if (host("simplex-legend")) classLegend(host("simplex-legend"), SIMPLEX_LINES);
  onSelect(refresh);
  refresh();
}

start();
