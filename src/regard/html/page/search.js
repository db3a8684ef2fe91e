// Find a token by its text and step through all its occurrences; each is chosen by its position, never by its text.
const search = document.getElementById("search"), searchIn = document.getElementById("search-in");
let foundAt = -1;

function places() {
  const text = search.value;
  if (!text) return [];
  const found = [];
  labels(searchIn.value).forEach((label, at) => {
    if (label.includes(text) || visible(label).includes(text)) found.push(at);
  });
  return found;
}

// Step to the next (or previous) occurrence; `by` 0 only marks them.
function step(by) {
  const found = places(), side = searchIn.value, out = document.getElementById("found");
  matches = { side, places: new Set(found) };
  if (!found.length) {
    foundAt = -1;
    out.textContent = search.value ? word("none_found") : "";
    return paintTokens();
  }
  foundAt = by === 0 ? 0 : (foundAt + by + found.length) % found.length;
  const at = found[foundAt];
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
