// What the reader has chosen, and who must draw again when it changes.
const state = {
  layer: 0, head: 0, other: null, difference: false, score: null, query: null, key: null, noSink: false, lift: false, log: false, pool: "mean",
  language: "en", theme: "auto", view: null,
};
const heads = { a: null, b: null }; // the loaded maps
const listeners = [];
let loads = 0;

// `names` are the parts of the state that matter to `draw`; "heads" stands for loaded maps.
function listen(names, draw) {
  listeners.push({ names: new Set(names), draw });
}

function announce(changed) {
  if (!heads.a) return; // still loading
  for (const { names, draw } of listeners) if (changed.some((name) => names.has(name))) draw(changed);
}

// Change some of the state. Heads are loaded first, so that nothing is drawn half old and half new.
async function change(patch) {
  const changed = Object.keys(patch).filter((name) => patch[name] !== state[name]);
  if (!changed.length) return;
  Object.assign(state, patch);
  if (!changed.some((name) => name === "layer" || name === "head" || name === "other")) return announce(changed);
  const mine = ++loads;
  try {
    const a = await loadHead({ layer: state.layer, head: state.head });
    const b = state.other ? await loadHead(state.other) : null;
    if (mine !== loads) return; // a later choice is on its way
    const before = heads.a;
    Object.assign(heads, { a, b });
    if (before === null || before.entry.queries !== a.entry.queries || before.entry.keys !== a.entry.keys) Object.assign(state, { view: whole(a), query: null, key: null });
    if (!sameSizes()) state.difference = false;
    announce([...changed, "heads", "view", "query", "key"]);
  } catch (error) {
    fail(error);
  }
}

function whole(map) {
  return { q0: 0, q1: map.T, k0: 0, k1: map.S };
}

function sameSizes() {
  return heads.b !== null && heads.a.T === heads.b.T && heads.a.S === heads.b.S && heads.a.exact === heads.b.exact && (heads.a.exact || sameBins());
}

function sameBins() {
  const same = (x, y) => x.length === y.length && x.every((edge, i) => edge === y[i]);
  return same(heads.a.entry.queryEdges, heads.b.entry.queryEdges) && same(heads.a.entry.keyEdges, heads.b.entry.keyEdges);
}

function options() {
  return { noSink: state.noSink, lift: state.lift, log: state.log, pool: state.pool };
}

function labels(side) {
  return PAGE.sequences[side === "query" ? heads.a.entry.queries : heads.a.entry.keys].labels;
}

function headName(where) {
  const entry = PAGE.layers[where.layer];
  const kind = entry.kind === "self" ? "" : ` · ${word(entry.kind)}`;
  return word("headName", { layer: entry.layer, head: entry.heads[where.head] }) + kind;
}

// Latin letters, Chinese, Arabic in one line: each label is isolated, so that none turns its neighbours around.
function isolated(text) {
  return `\u2068${text}\u2069`;
}

function tokenName(sequence, position) {
  return `${position} ${isolated(PAGE.sequences[sequence].labels[position])}`;
}

function fail(error) {
  const place = document.getElementById("failure");
  place.hidden = false;
  place.textContent = String(error);
  console.error(error);
}

function element(tag, properties = {}, ...children) {
  const made = Object.assign(document.createElement(tag), properties);
  made.append(...children);
  return made;
}

// A canvas of that size in CSS pixels, sharp on any screen; returns its context.
function sharp(canvas, width, height) {
  const ratio = window.devicePixelRatio || 1;
  if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
    canvas.style.width = `${width}px`;
    canvas.style.height = `${height}px`;
  }
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, height);
  return context;
}

const FONT = 'system-ui, "Noto Sans CJK SC", "PingFang SC", "Microsoft YaHei", "Droid Sans Fallback", sans-serif';
