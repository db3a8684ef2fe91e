// Attention between named parts of the input: a small table whose cells lead into the map.
function segmentMass() {
  const map = heads.a, entry = map.entry, rows = PAGE.sequences[entry.queries].segments, columns = PAGE.sequences[entry.keys].segments;
  if (!rows.length || !columns.length) return null;
  if (entry.segmentMass) return { rows, columns, values: entry.segmentMass[map.where.head] };
  if (!map.exact) return null;
  const values = rows.map(([, start, stop]) => columns.map(([, first, last]) => {
    let total = 0;
    for (let i = start; i < stop; i++) for (let j = first; j < last; j++) total += map.weights[i * map.S + j];
    return total / Math.max(1, stop - start);
  }));
  return { rows, columns, values };
}

function drawSegments() {
  const mass = segmentMass(), table = document.getElementById("segments");
  document.getElementById("segment-panel").hidden = mass === null;
  if (!mass) return void table.replaceChildren();
  const scale = { map: "sequential", low: 0, high: Math.max(1e-9, ...mass.values.flat()), log: false };
  const head = element("tr", {}, element("th", { textContent: `${word("query")} ＼ ${word("key")}` }), ...mass.columns.map(([name]) => element("th", { scope: "col", dir: "auto", textContent: name })));
  const body = mass.rows.map(([name, q0, q1], g) => element("tr", {}, element("th", { scope: "row", dir: "auto", textContent: name }), ...mass.columns.map(([, k0, k1], k) => segmentCell(scale, mass.values[g][k], { q0, q1, k0, k1 }))));
  table.replaceChildren(head, ...body);
}

function segmentCell(scale, value, view) {
  const rgb = colour(scale, value), grown = { q0: view.q0, q1: Math.max(view.q1, view.q0 + 1), k0: view.k0, k1: Math.max(view.k1, view.k0 + 1) };
  const button = element("button", { textContent: `${(100 * value).toFixed(1)} %`, onclick: () => change({ view: grown }) });
  button.style.background = css(rgb);
  button.style.color = inkOn(rgb);
  button.dataset.value = value;
  return element("td", {}, button);
}

function startSegments() {
  listen(["heads", "language"], drawSegments);
}
