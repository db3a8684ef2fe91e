// The map of one head, or of two side by side: zoom, move, point, choose, and say the number under the cursor.
const canvases = { a: document.getElementById("map-a"), b: document.getElementById("map-b") };
let cursor = null; // { q, k, which }: the cell under the mouse or the keyboard
let drawn = null; // what the last drawing showed, for the exports

function drawMaps() {
  const { a, b } = heads, view = state.view, chosen = options();
  document.getElementById("figure-b").hidden = b === null;
  const step = stepFor(view, plotSize(canvases.a));
  const difference = state.difference && sameSizes();
  const first = valuesInView(a, view, step, chosen);
  let scale = headScale(a, chosen);
  const viewB = b ? viewFor(b) : null, second = b ? valuesInView(b, viewB, stepFor(viewB, plotSize(canvases.a)), chosen) : null;
  if (b && !scale.difference && scale.map === "sequential" && headScale(b, chosen).high > scale.high) scale = headScale(b, chosen);
  let shown = first, shownScale = scale;
  if (difference) {
    shown = { ...first, values: first.values.map((value, i) => value - second.values[i]) };
    shownScale = differenceScale(chosen);
  }
  drawMap(canvases.a, a, view, shown, shownScale, cursor?.which === "a" ? cursor : null);
  if (b) drawMap(canvases.b, b, viewB, second, scale, cursor?.which === "b" ? cursor : null);
  const name = difference ? "A − B" : state.lift ? word("lift") : word(a.exact ? "weight" : state.pool === "max" && a.peak ? "binPeak" : "binMass");
  drawColourBar(document.getElementById("colour-bar"), shownScale, name + (step > 1 && a.exact ? ` (${word("drawn", { how: word(`${state.pool}Of`), p: step })})` : ""));
  drawn = { map: a, view, values: shown, scale: shownScale, step, name };
  captions(difference);
}

function differenceScale(chosen) {
  const step = Math.max(1, Math.ceil(Math.max(heads.a.T, heads.a.S) / 512)), [one, two] = [heads.a, heads.b].map((map) => valuesInView(map, whole(map), step, chosen));
  return scaleFor(one.values.map((value, i) => value - two.values[i]), { difference: true });
}

// B moves with A where both have the same tokens; else it shows all of its own.
function viewFor(b) {
  return b.T === heads.a.T && b.S === heads.a.S ? state.view : whole(b);
}

function captions(difference) {
  const name = headName(state);
  document.getElementById("map-title").textContent = name;
  const other = state.other ? headName(state.other) : "";
  document.getElementById("caption-a").textContent = state.other ? (difference ? `A − B: ${name} − ${other}` : `A: ${name} · ${word("sharedScale")}`) : "";
  document.getElementById("caption-b").textContent = other && `B: ${other}${sameSizes() ? "" : ` · ${word("sameSizes")}`}`;
  const { a } = heads, bins = a.exact ? "" : word("pooledFormat", { a: a.entry.queryEdges.length - 1, b: a.entry.keyEdges.length - 1, t: a.T, s: a.S });
  const rows = a.rows.size ? ` ${word("rowsExact", { list: [...a.rows.keys()].slice(0, 12).join(", ") })}` : "";
  document.getElementById("format").textContent = bins + formatText(a.about) + rows;
  document.getElementById("difference").disabled = !sameSizes();
}

// What is known of a cell: the stored weight and its error, and what is shown of it now.
function cellFacts(map, q, k) {
  if (!map.exact) return binFacts(map, q, k);
  if (!isAllowed(map, q, k)) return { hidden: true };
  const weight = map.weights[q * map.S + k];
  return { weight, error: errorOf(map.about, weight), shown: shownBin(map, q, q + 1, k, k + 1, { ...options(), pool: "mean" }), sink: map.weights[q * map.S] };
}

function binFacts(map, q, k) {
  const rows = map.entry.queryEdges, columns = map.entry.keyEdges, a = binOf(rows, q), b = binOf(columns, k), at = a * (columns.length - 1) + b;
  const range = (edges, i) => (edges[i + 1] - edges[i] > 1 ? `${edges[i]}–${edges[i + 1] - 1}` : `${edges[i]}`);
  const exact = map.rows.has(q) ? map.rows.get(q)[k] : undefined;
  return {
    bin: { a: range(rows, a), b: range(columns, b) }, hidden: !(evenMass(map, a, b) > 0), mass: map.pooled[at], error: errorOf(map.about, map.pooled[at]),
    peak: map.peak?.[at], weight: exact, shown: shownPooled(map, a, b, options()), sink: map.pooled[a * (columns.length - 1)],
  };
}

function describe(map, q, k) {
  const facts = cellFacts(map, q, k), entry = map.entry;
  const where = `${word("query")} ${tokenName(entry.queries, q)} → ${word("key")} ${tokenName(entry.keys, k)}: `;
  if (facts.hidden) return { facts, text: where + word("hidden") };
  const parts = [];
  const error = facts.error > 0 ? ` ${word("within", { e: number(facts.error) })}` : "";
  if (facts.bin) parts.push(word("binned", { ...facts.bin, v: number(facts.mass) }) + error);
  if (facts.peak !== undefined) parts.push(word("peakIs", { v: number(facts.peak) }));
  if (facts.weight !== undefined) parts.push(`${word("weight")} ${number(facts.weight)}${facts.bin ? "" : error}`);
  if (state.noSink) parts.push(`${word(facts.bin ? "sinkBin" : "noSinkIs", { v: state.lift ? "" : number(facts.shown) })} ${word("removed", { v: number(facts.sink) })}`);
  if (state.lift) parts.push(word("liftIs", { v: number(facts.shown) }));
  if (state.difference && sameSizes()) {
    const other = cellFacts(heads.b, q, k);
    if (!other.hidden) parts.push(word("differenceIs", { v: number(facts.shown - other.shown) }));
  }
  return { facts, text: where + parts.join(" · ") };
}

function tellCell() {
  const readout = document.getElementById("readout");
  for (const name of ["query", "key", "weight", "error", "shown", "mass"]) delete readout.dataset[name];
  if (!cursor) return void (readout.textContent = "");
  const map = heads[cursor.which], { facts, text } = describe(map, cursor.q, cursor.k);
  readout.textContent = text;
  Object.assign(readout.dataset, { query: cursor.q, key: cursor.k });
  for (const name of ["weight", "error", "shown", "mass"]) if (facts[name] !== undefined && !facts.hidden) readout.dataset[name] = facts[name];
}

function cellAt(event, which) {
  const box = canvases[which].getBoundingClientRect(), size = plotSize(canvases[which]), map = heads[which], view = which === "a" ? state.view : viewFor(map);
  const across = (event.clientX - box.left - LEFT) / size.width, down = (event.clientY - box.top - TOP) / size.height;
  const k = view.k0 + across * (view.k1 - view.k0), q = view.q0 + down * (view.q1 - view.q0);
  const inside = across >= 0 && across < 1 && down >= 0 && down < 1;
  return { which, inside, exactQ: q, exactK: k, q: Math.max(0, Math.min(map.T - 1, Math.floor(q))), k: Math.max(0, Math.min(map.S - 1, Math.floor(k))) };
}

// Zoom about a point (in cells), keeping it where it is; at least 4 cells and at most the whole map.
function zoom(factor, q, k) {
  const { q0, q1, k0, k1 } = state.view, { T, S } = heads.a;
  change({ view: { ...span(q0, q1, q, factor, T, "q"), ...span(k0, k1, k, factor, S, "k") } });
}

function span(low, high, middle, factor, count, name) {
  const length = Math.max(Math.min(4, count), Math.min(count, (high - low) / factor));
  const start = middle - ((middle - low) * length) / (high - low);
  return kept(start, length, count, name);
}

function kept(start, length, count, name) {
  const first = Math.max(0, Math.min(count - length, start));
  return { [`${name}0`]: first, [`${name}1`]: first + length };
}

function move(q, k) {
  const { q0, q1, k0, k1 } = state.view;
  change({ view: { ...kept(q0 + q, q1 - q0, heads.a.T, "q"), ...kept(k0 + k, k1 - k0, heads.a.S, "k") } });
}

function startMap(which) {
  const canvas = canvases[which];
  let grip = null;
  canvas.addEventListener("pointerdown", (event) => {
    grip = { x: event.clientX, y: event.clientY, moved: false };
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener("pointermove", (event) => {
    if (grip) {
      const dx = event.clientX - grip.x, dy = event.clientY - grip.y, size = plotSize(canvas);
      if (grip.moved || Math.hypot(dx, dy) > 3) {
        const { q0, q1, k0, k1 } = state.view;
        Object.assign(grip, { x: event.clientX, y: event.clientY, moved: true });
        move((-dy / size.height) * (q1 - q0), (-dx / size.width) * (k1 - k0));
      }
      return;
    }
    const at = cellAt(event, which);
    point(at.inside ? at : null);
  });
  canvas.addEventListener("pointerup", (event) => {
    const at = cellAt(event, which);
    if (grip && !grip.moved && at.inside) choose(at);
    grip = null;
  });
  canvas.addEventListener("pointercancel", () => (grip = null));
  canvas.addEventListener("pointerleave", () => grip || point(null));
  canvas.addEventListener("wheel", (event) => {
    const at = cellAt(event, which);
    if (!at.inside) return;
    event.preventDefault();
    zoom(event.deltaY < 0 ? 1.25 : 0.8, at.exactQ, at.exactK);
    point(cellAt(event, which));
  }, { passive: false });
  canvas.addEventListener("keydown", (event) => mapKey(event, which));
}

function point(at) {
  if (at?.q === cursor?.q && at?.k === cursor?.k && at?.which === cursor?.which) return;
  cursor = at;
  tellCell();
  requestDraw();
}

// A click chooses the query and the key; they are the same for A and B only where both have the same tokens.
function choose(at) {
  if (at.which === "b" && !(heads.b.entry.queries === heads.a.entry.queries && heads.b.entry.keys === heads.a.entry.keys)) return;
  change(state.query === at.q && state.key === at.k ? { query: null, key: null } : { query: at.q, key: at.k });
}

function mapKey(event, which) {
  const steps = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }, map = heads[which];
  const at = cursor ?? { which, q: state.query ?? Math.floor(state.view.q0), k: state.key ?? Math.floor(state.view.k0) };
  if (steps[event.key]) {
    const by = event.shiftKey ? 10 : 1, q = Math.max(0, Math.min(map.T - 1, at.q + by * steps[event.key][0])), k = Math.max(0, Math.min(map.S - 1, at.k + by * steps[event.key][1]));
    point({ which, q, k });
    follow(q, k);
  } else if (event.key === "+" || event.key === "=") zoom(1.5, at.q + 0.5, at.k + 0.5);
  else if (event.key === "-") zoom(1 / 1.5, at.q + 0.5, at.k + 0.5);
  else if (event.key === "0") change({ view: whole(heads.a) });
  else if (event.key === "Enter" || event.key === " ") choose(at);
  else if (event.key === "Escape") change({ query: null, key: null });
  else return;
  event.preventDefault();
}

// Move the view so that a cell is inside it.
function follow(q, k) {
  const { q0, q1, k0, k1 } = state.view;
  const shift = (at, low, high) => (at < low ? at - low : at + 1 > high ? at + 1 - high : 0);
  move(shift(q, q0, q1), shift(k, k0, k1));
}

let waiting = false;

function requestDraw() {
  if (waiting) return;
  waiting = true;
  requestAnimationFrame(() => {
    waiting = false;
    drawMaps();
  });
}

function startMaps() {
  startMap("a");
  startMap("b");
  listen(["heads", "view", "query", "key", "noSink", "lift", "log", "pool", "difference", "language", "theme"], () => {
    if (cursor && !heads[cursor.which]) cursor = null;
    if (cursor && (cursor.q >= heads[cursor.which].T || cursor.k >= heads[cursor.which].S)) cursor = null;
    requestDraw();
    tellCell();
  });
}
