// All layers and heads by one score; a click chooses a head, a shift-click the head to compare with.
const overview = document.getElementById("overview");
const OVERVIEW_LEFT = 46, OVERVIEW_TOP = 18;
let overviewCursor = null; // { layer, head } under the keyboard

function scoreNames() {
  return [...new Set(PAGE.layers.flatMap((entry) => [...Object.keys(entry.scores), ...Object.keys(entry.trust)]))];
}

function scoreOf(where, name = state.score) {
  const entry = PAGE.layers[where.layer];
  return (entry.scores[name] ?? entry.trust[name])?.[where.head] ?? null;
}

function overviewGeometry() {
  const columns = Math.max(...PAGE.layers.map((entry) => entry.heads.length));
  const wide = Math.max(1, overview.parentElement.clientWidth - 24 - OVERVIEW_LEFT);
  const cell = Math.min(26, wide / columns), high = Math.max(6, Math.min(26, cell, 560 / PAGE.layers.length));
  return { columns, cell, high };
}

function drawOverview() {
  const { columns, cell, high } = overviewGeometry();
  const context = sharp(overview, OVERVIEW_LEFT + columns * cell + 2, OVERVIEW_TOP + PAGE.layers.length * high + 2);
  const places = allHeads(), scale = scaleFor(places.map((where) => scoreOf(where) ?? NaN), { log: false });
  const low = Math.min(...places.map((where) => scoreOf(where) ?? Infinity));
  scale.low = Number.isFinite(low) && low < scale.high ? low : 0;
  for (const where of places) {
    const value = scoreOf(where);
    context.fillStyle = value === null ? look("hidden") : css(colour(scale, value));
    context.fillRect(OVERVIEW_LEFT + where.head * cell, OVERVIEW_TOP + where.layer * high, cell - (cell > 6 ? 1 : 0), high - (high > 6 ? 1 : 0));
  }
  overviewLabels(context, columns, cell, high);
  frame(context, state, cell, high, look("mark"), "A");
  if (state.other) frame(context, state.other, cell, high, look("accent"), "B");
  if (overviewCursor && document.activeElement === overview) frame(context, overviewCursor, cell, high, look("ink"), "");
  document.getElementById("overview-range").textContent = word("range", { low: number(scale.low), high: number(scale.high) });
  overview.setAttribute("aria-label", `${word("overview")}: ${scoreName(state.score ?? "")}, ${number(scale.low)} – ${number(scale.high)}`);
}

function overviewLabels(context, columns, cell, high) {
  context.fillStyle = look("soft");
  context.font = `11px ${FONT}`;
  context.textBaseline = "middle";
  context.textAlign = "right";
  const everyRow = Math.ceil(13 / high), everyColumn = Math.ceil(22 / cell);
  PAGE.layers.forEach((entry, row) => {
    const mark = entry.kind === "cross" ? "×" : entry.kind === "channel" ? "c" : "";
    if (row % everyRow === 0) context.fillText(`${entry.layer}${mark}`, OVERVIEW_LEFT - 5, OVERVIEW_TOP + (row + 0.5) * high);
  });
  context.textAlign = "center";
  const numbers = PAGE.layers[0].heads;
  for (let head = 0; head < columns; head += everyColumn) context.fillText(String(numbers[head] ?? head), OVERVIEW_LEFT + (head + 0.5) * cell, 9);
}

function frame(context, where, cell, high, ink, name) {
  const x = OVERVIEW_LEFT + where.head * cell, y = OVERVIEW_TOP + where.layer * high;
  context.strokeStyle = ink;
  context.lineWidth = 2;
  context.strokeRect(x, y, Math.max(4, cell - 1), Math.max(4, high - 1));
  if (cell < 16 || high < 16 || !name) return;
  context.fillStyle = look("back");
  context.fillRect(x + cell / 2 - 6, y + high / 2 - 7, 12, 13);
  context.fillStyle = look("ink");
  context.fillText(name, x + cell / 2 - 0.5, y + high / 2);
}

function allHeads() {
  return PAGE.layers.flatMap((entry, layer) => entry.heads.map((_, head) => ({ layer, head })));
}

function overviewAt(event) {
  const { cell, high } = overviewGeometry(), box = overview.getBoundingClientRect();
  const head = Math.floor((event.clientX - box.left - OVERVIEW_LEFT) / cell), layer = Math.floor((event.clientY - box.top - OVERVIEW_TOP) / high);
  return PAGE.layers[layer]?.heads[head] === undefined || head < 0 ? null : { layer, head };
}

function tellOverview(where) {
  const readout = document.getElementById("overview-readout");
  readout.textContent = where ? `${headName(where)}: ${scoreName(state.score ?? "")} ${number(scoreOf(where))}` : "";
}

function chooseHead(where, compare) {
  if (compare) return change({ other: where });
  return change({ layer: where.layer, head: where.head });
}

function startOverview() {
  overview.addEventListener("pointermove", (event) => tellOverview(overviewAt(event)));
  overview.addEventListener("pointerleave", () => tellOverview(state));
  overview.addEventListener("click", (event) => {
    const where = overviewAt(event);
    if (where) chooseHead(where, event.shiftKey);
  });
  overview.addEventListener("keydown", (event) => {
    const moves = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
    overviewCursor ??= { layer: state.layer, head: state.head };
    if (moves[event.key]) {
      const layer = Math.max(0, Math.min(PAGE.layers.length - 1, overviewCursor.layer + moves[event.key][0]));
      const last = PAGE.layers[layer].heads.length - 1;
      overviewCursor = { layer, head: Math.max(0, Math.min(last, overviewCursor.head + moves[event.key][1])) };
    } else if (event.key === "Enter" || event.key === " ") chooseHead(overviewCursor, event.shiftKey);
    else if (event.key.toLowerCase() === "c") chooseHead(overviewCursor, true);
    else return;
    event.preventDefault();
    tellOverview(overviewCursor);
    drawOverview();
  });
  overview.addEventListener("focus", drawOverview);
  overview.addEventListener("blur", drawOverview);
  listen(["heads", "other", "score", "language", "theme"], () => {
    drawOverview();
    tellOverview(state);
    drawTrust();
  });
}

function drawTrust() {
  const entry = PAGE.layers[state.layer], rows = [];
  for (const [name, values] of Object.entries(entry.trust)) rows.push([scoreName(name), number(values[state.head])]);
  for (const [name, text] of Object.entries(entry.facts)) rows.push([scoreName(name), text]);
  rows.push([word("module"), `${entry.path} · ${word(entry.kind)}`]);
  document.getElementById("trust").replaceChildren(...rows.map(([name, text]) => element("tr", {}, element("th", { scope: "row", textContent: name }), element("td", { textContent: text }))));
}
