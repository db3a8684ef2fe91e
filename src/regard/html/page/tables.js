// The same facts as text: heads by score, keys of the chosen query, largest cells. Built only while they are open.
const MOST_ROWS = 200;

function drawTables() {
  if (!document.getElementById("tables").open) return;
  document.getElementById("table-room").replaceChildren(headsTable(), rowTable(), cellTable());
}

function textTable(title, columns, rows) {
  const head = element("tr", {}, ...columns.map((name) => element("th", { scope: "col", textContent: name })));
  const body = rows.map((row) => element("tr", {}, ...row.map((value) => element("td", { className: typeof value === "number" ? "number" : "", textContent: typeof value === "number" ? number(value) : value, dir: "auto" }))));
  return element("div", {}, element("table", {}, element("caption", { textContent: title }), head, ...body));
}

function headsTable() {
  const places = allHeads().filter((where) => scoreOf(where) !== null).sort((a, b) => scoreOf(b) - scoreOf(a));
  const rows = places.slice(0, MOST_ROWS).map((where, i) => [String(i + 1), headName(where), scoreOf(where)]);
  return textTable(word("heads", { score: scoreName(state.score ?? "") }), [word("rank"), word("head"), word("value")], rows);
}

function rowTable() {
  const row = rowShown();
  const rows = row.values ? largest(row.values, 50, row.hidden).map((at) => [String(at), visible(labels("key")[at]), row.values[at]]) : [];
  return textTable(row.title, [word("key"), word("tokens"), word("weight")], rows);
}

function cellTable() {
  const map = heads.a, entry = map.entry;
  const from = map.exact ? map.weights : map.pooled, wide = map.exact ? map.S : entry.keyEdges.length - 1;
  const best = largest(from, 50, (at) => map.exact && !isAllowed(map, Math.floor(at / wide), at % wide));
  const rows = best.map((at) => {
    const i = Math.floor(at / wide), j = at % wide;
    if (!map.exact) return [`${entry.queryEdges[i]}–${entry.queryEdges[i + 1] - 1}`, `${entry.keyEdges[j]}–${entry.keyEdges[j + 1] - 1}`, from[at]];
    return [tokenName(entry.queries, i), tokenName(entry.keys, j), from[at]];
  });
  return textTable(word("cellTable"), [word("query"), word("key"), word("weight")], rows);
}

function startTables() {
  document.getElementById("tables").addEventListener("toggle", drawTables);
  listen(["heads", "query", "score", "language"], drawTables);
}
