// Find a token by its text and step through all its occurrences; each is chosen by its position, never by its text.
const search = document.getElementById("search"), searchIn = document.getElementById("search-in");
let foundAt = -1;

// Runs of tokens that match, as [first, last]: a token that contains the text, or whole neighbours that spell it ("注" "意" "力").
function places() {
  const text = search.value.trim() || search.value, found = [];
  if (!text) return found;
  const texts = labels(searchIn.value), whole = texts.map((label, at) => bare(label, texts[at - 1]));
  for (let at = 0; at < texts.length; at++) {
    if (whole[at] === "") continue;
    if (texts[at].includes(text) || visible(texts[at]).includes(text)) found.push([at, at]);
    else {
      const last = spelled(whole, at, text);
      if (last > at) found.push([at, last]);
    }
  }
  return found;
}

// A label without the marks of tokenizers; "" for the second and later tokens of one character (注₂ after 注₁).
function bare(label, before) {
  const part = /^(.+?)([₁-₉])$/.exec(label);
  if (part && part[2] === "₁") return part[1];
  if (part && before === part[1] + String.fromCharCode(part[2].charCodeAt(0) - 1)) return "";
  return label.replace(/^(?:##|[▁Ġ␣\s])+|[␣\s]+$/g, "") || label;
}

// The last of the whole tokens from `first` that spell the text, with or without spaces between them; -1 if none do.
function spelled(whole, first, text) {
  let plain = "", spaced = "";
  for (let at = first; at < whole.length && plain.length < text.length; at++) {
    spaced += (spaced && whole[at] ? " " : "") + whole[at];
    plain += whole[at];
    if (plain === text || spaced === text) return at;
    if (!text.startsWith(plain) && !text.startsWith(spaced)) return -1;
  }
  return -1;
}

// Step to the next (or previous) occurrence; `by` 0 only marks them.
function step(by) {
  const found = places(), side = searchIn.value, out = document.getElementById("found");
  matches = { side, places: new Set(found.flatMap(([first, last]) => Array.from({ length: last - first + 1 }, (_, i) => first + i))) };
  if (!found.length) {
    foundAt = -1;
    out.textContent = search.value ? word("none_found") : "";
    return paintTokens();
  }
  foundAt = by === 0 ? 0 : (foundAt + by + found.length) % found.length;
  const at = found[foundAt][0];
  out.textContent = word("found", { n: foundAt + 1, all: found.length, p: at });
  active[side] = at;
  reveal(side, at);
  if (state[side] === at) paintTokens();
  else change({ query: null, key: null, [side]: at });
  intoView(side, at);
}

// Bring the found row or column into a zoomed map.
function intoView(side, at) {
  const { q0, q1, k0, k1 } = state.view;
  if (side === "query" && (at < q0 || at >= q1)) follow(at, Math.ceil(k0));
  if (side === "key" && (at < k0 || at >= k1)) follow(Math.ceil(q0), at);
}

function startSearch() {
  search.addEventListener("input", () => {
    foundAt = -1;
    step(0);
  });
  searchIn.addEventListener("change", () => step(0));
  search.addEventListener("keydown", (event) => {
    if (event.key === "Enter") step(event.shiftKey ? -1 : 1);
    else return;
    event.preventDefault();
  });
  document.getElementById("next").addEventListener("click", () => step(1));
  document.getElementById("previous").addEventListener("click", () => step(-1));
  document.getElementById("clear").addEventListener("click", () => {
    search.value = "";
    step(0);
    change({ query: null, key: null });
  });
  listen(["language"], () => document.getElementById("found").replaceChildren());
}
