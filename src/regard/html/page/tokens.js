// The tokens of both sides. Pointing at a query colours the keys it reads; pointing at a key colours the queries that read it.
const PER_PAGE = 400; // tokens in the document at once, so that 32,768 stay light
const strips = { query: document.getElementById("query-strip"), key: document.getElementById("key-strip") };
const firstShown = { query: 0, key: 0 };
const active = { query: 0, key: 0 }; // where the keyboard is
let pointed = null; // { side, at } under the mouse or keyboard
let matches = { side: "query", places: new Set() };

function fillStrip(side) {
  const texts = labels(side), strip = strips[side], start = firstShown[side];
  const shown = texts.slice(start, start + PER_PAGE).map((text, i) => {
    const token = element("span", { className: "token", textContent: visible(text), dir: "auto", title: String(start + i) });
    token.dataset.position = start + i;
    token.setAttribute("role", "option");
    token.setAttribute("aria-label", `${start + i} ${text}`);
    return token;
  });
  strip.replaceChildren(...shown);
  fillPager(side, texts.length);
}

function fillPager(side, count) {
  const pager = document.querySelector(`.pager[data-side="${side}"]`), start = firstShown[side];
  if (count <= PER_PAGE) return pager.replaceChildren();
  const turn = (by) => () => showPage(side, start + by);
  const back = element("button", { textContent: "‹", disabled: start === 0, onclick: turn(-PER_PAGE) });
  const on = element("button", { textContent: "›", disabled: start + PER_PAGE >= count, onclick: turn(PER_PAGE) });
  const last = Math.min(count, start + PER_PAGE) - 1;
  pager.replaceChildren(back, element("span", { textContent: word("tokensOf", { a: start, b: last, n: count }) }), on);
}

function showPage(side, position) {
  const start = Math.floor(position / PER_PAGE) * PER_PAGE;
  if (start === firstShown[side] || start < 0 || start >= labels(side).length) return;
  firstShown[side] = start;
  fillStrip(side);
  paintTokens();
}

// What colours each side now: { query, key } of { values, hidden } or null.
function tokenColours() {
  const map = heads.a, chosen = pointed ?? (state.query !== null ? { side: "query", at: state.query } : state.key !== null ? { side: "key", at: state.key } : null);
  if (!chosen) return { from: null, key: map.received ? { values: map.received, hidden: () => false, exact: true } : null, query: null };
  const away = chosen.side === "query" ? rowOf(map, chosen.at) : columnOf(map, chosen.at);
  return chosen.side === "query" ? { from: chosen, key: away, query: null } : { from: chosen, query: away, key: null };
}

function paintTokens() {
  const colours = tokenColours();
  for (const side of ["query", "key"]) {
    const painted = colours[side], scale = painted && scaleFor(state.noSink && side === "key" ? painted.values.subarray(1) : painted.values, { log: state.log });
    for (const token of strips[side].children) {
      const at = Number(token.dataset.position), out = painted && (painted.hidden(at) || (state.noSink && side === "key" && at === 0));
      const rgb = painted && !out ? colour(scale, painted.values[at]) : null;
      token.style.background = rgb ? css(rgb) : "";
      token.style.color = rgb ? inkOn(rgb) : "";
      token.classList.toggle("hidden-key", Boolean(out));
      token.classList.toggle("chosen", at === state[side] || (pointed?.side === side && pointed.at === at));
      token.classList.toggle("match", matches.side === side && matches.places.has(at));
      token.setAttribute("aria-selected", String(at === state[side]));
    }
  }
  tellTokens(colours);
}

function tellTokens({ from, query, key }) {
  const readout = document.getElementById("token-readout"), entry = heads.a.entry;
  if (!from) return void (readout.textContent = heads.a.received ? word("empty") : "");
  const away = query ?? key, side = query ? entry.queries : entry.keys;
  const list = largest(away.values, 5, away.hidden).map((at) => `${tokenName(side, at)} ${number(away.values[at])}`);
  const start = from.side === "query" ? word("reads", { q: tokenName(entry.queries, from.at) }) : word("readBy", { k: tokenName(entry.keys, from.at) });
  readout.textContent = `${start} — ${word("mostly", { list: list.join(" · ") })}${away.exact ? "" : ` (${word("pooledRow")})`}`;
}

// Positions of the n largest values, largest first, without those that are hidden or zero.
function largest(values, n, hidden) {
  const best = [];
  for (let at = 0; at < values.length; at++) {
    const value = values[at];
    if (!(value > 0) || (best.length === n && value <= values[best[n - 1]]) || hidden(at)) continue;
    let place = best.length;
    while (place > 0 && values[best[place - 1]] < value) place--;
    best.splice(place, 0, at);
    if (best.length > n) best.pop();
  }
  return best;
}

function choosePosition(side, at) {
  change({ query: null, key: null, [side]: state[side] === at ? null : at });
}

function startStrip(side) {
  const strip = strips[side];
  const tokenOf = (event) => event.target.closest?.(".token");
  strip.addEventListener("pointerover", (event) => {
    const token = tokenOf(event);
    pointed = token ? { side, at: Number(token.dataset.position) } : null;
    paintTokens();
  });
  strip.addEventListener("pointerleave", () => {
    pointed = null;
    paintTokens();
  });
  strip.addEventListener("click", (event) => {
    const token = tokenOf(event);
    if (token) choosePosition(side, Number(token.dataset.position));
  });
  strip.addEventListener("keydown", (event) => stripKey(event, side));
  strip.addEventListener("blur", () => {
    pointed = null;
    paintTokens();
  });
}

function stripKey(event, side) {
  const by = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -10, ArrowDown: 10 }[event.key];
  if (by) {
    active[side] = Math.max(0, Math.min(labels(side).length - 1, active[side] + by));
    pointed = { side, at: active[side] };
    showPage(side, active[side]);
    reveal(side, active[side]);
    paintTokens();
  } else if (event.key === "Enter" || event.key === " ") choosePosition(side, active[side]);
  else if (event.key === "Escape") change({ query: null, key: null });
  else return;
  event.preventDefault();
}

// Scroll the strip, and not the page, so that a token can be seen.
function reveal(side, at) {
  showPage(side, at);
  const strip = strips[side], token = strip.children[at - firstShown[side]];
  if (!token) return;
  const top = token.offsetTop - strip.offsetTop;
  if (top < strip.scrollTop || top + token.offsetHeight > strip.scrollTop + strip.clientHeight) strip.scrollTop = top - strip.clientHeight / 2;
}

function startTokens() {
  startStrip("query");
  startStrip("key");
  let sides = "";
  listen(["heads", "language"], (changed) => {
    const now = `${heads.a.entry.queries},${heads.a.entry.keys}`, names = PAGE.sequences;
    if (now === sides && !changed.includes("language")) return; // the same tokens: they and their scrolling stay
    if (now !== sides) {
      Object.assign(firstShown, { query: 0, key: 0 });
      Object.assign(active, { query: 0, key: 0 });
    }
    sides = now;
    document.getElementById("query-name").textContent = `${word("queries")}: ${isolated(names[heads.a.entry.queries].name)}`;
    document.getElementById("key-name").textContent = `${word("keys")}: ${isolated(names[heads.a.entry.keys].name)}`;
    fillStrip("query");
    fillStrip("key");
  });
  listen(["heads", "query", "key", "noSink", "log", "language", "theme"], paintTokens);
}
