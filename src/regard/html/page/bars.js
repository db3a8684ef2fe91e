// One row as bars: the keys that the chosen query reads most, or the keys that are read most on average.
const MOST_BARS = 20;

function rowShown() {
  const map = heads.a;
  if (state.query !== null) return { ...rowOf(map, state.query), title: word("barsOf", { p: tokenName(map.entry.queries, state.query) }) };
  return { values: map.received, exact: true, hidden: () => false, title: word("barsNone") };
}

function drawBars() {
  const row = rowShown(), list = document.getElementById("bars"), rest = document.getElementById("bar-rest");
  document.getElementById("bar-title").textContent = row.title;
  if (!row.values) return void list.replaceChildren();
  const without = (at) => row.hidden(at) || (state.noSink && at === 0);
  if (!row.exact) return drawBinBars(list, rest);
  const keep = state.noSink && state.query !== null ? 1 - row.values[0] : 1, scaled = (at) => (keep > 1e-6 ? row.values[at] / keep : 0);
  const best = largest(row.values, MOST_BARS, without), top = best.length ? scaled(best[0]) : 1;
  list.replaceChildren(...best.map((at) => bar(labels("key")[at], String(at), scaled(at), top, () => choosePosition("key", at), { position: at, value: scaled(at) })));
  let others = 0, total = 0;
  for (let at = 0; at < row.values.length; at++) if (!without(at)) (total += scaled(at)), others++;
  const left = total - best.reduce((sum, at) => sum + scaled(at), 0);
  rest.textContent = others > best.length && state.query !== null ? word("rest", { n: others - best.length, v: number(Math.max(0, left)) }) : "";
}

// A pooled row: the bins of keys with the most mass.
function drawBinBars(list, rest) {
  const map = heads.a, edges = map.entry.keyEdges, a = binOf(map.entry.queryEdges, state.query), B = edges.length - 1;
  const mass = map.pooled.slice(a * B, (a + 1) * B), best = largest(mass, MOST_BARS, (b) => state.noSink && b === 0);
  list.replaceChildren(...best.map((b) => bar("", `${edges[b]}–${edges[b + 1] - 1}`, mass[b], mass[best[0]], () => change({ view: { ...state.view, k0: edges[b], k1: Math.max(edges[b + 1], edges[b] + 4) } }), { position: edges[b], value: mass[b] })));
  rest.textContent = word("pooledRow");
}

function bar(text, place, value, top, onclick, data) {
  const name = element("span", { className: "name" }, element("bdi", { textContent: visible(text || " ").replace(/^␣$/, text ? "␣" : "") }), element("span", { className: "place", textContent: place }));
  const line = element("div", { className: "bar" });
  line.style.width = `${(100 * value) / top}%`;
  const item = element("li", { onclick, title: text }, name, element("div", {}, line), element("span", { className: "value", textContent: number(value) }));
  Object.assign(item.dataset, data);
  return item;
}

function startBars() {
  listen(["heads", "query", "noSink", "language"], drawBars);
}
