// The switches and menus: each changes one part of the state and shows it.
const BOXES = { "no-sink": "noSink", lift: "lift", log: "log", difference: "difference" };

function showControls() {
  for (const [id, name] of Object.entries(BOXES)) document.getElementById(id).checked = state[name];
  document.getElementById("log").disabled = state.lift;
  document.getElementById("pool").value = state.pool;
  document.getElementById("language").value = state.language;
  document.getElementById("theme").value = state.theme;
  fillMenu("score", scoreNames().map((name) => [name, scoreName(name)]), state.score);
  const other = state.other ? `${state.other.layer},${state.other.head}` : "";
  fillMenu("other", [["", word("none")], ...allHeads().map((where) => [`${where.layer},${where.head}`, headName(where)])], other);
}

const menus = {};

// Fill a menu only when its entries changed: a thousand heads are not rebuilt at every click.
function fillMenu(id, entries, value) {
  const menu = document.getElementById(id), key = `${state.language}|${entries.length}`;
  if (menus[id] !== key) menu.replaceChildren(...entries.map(([name, text]) => element("option", { value: name, textContent: text })));
  menus[id] = key;
  menu.value = value ?? "";
}

function applyTheme() {
  const dark = state.theme === "dark" || (state.theme === "auto" && matchMedia("(prefers-color-scheme: dark)").matches);
  document.documentElement.dataset.theme = dark ? "dark" : "light";
}

function startControls() {
  for (const [id, name] of Object.entries(BOXES)) document.getElementById(id).addEventListener("change", (event) => change({ [name]: event.target.checked }));
  document.getElementById("pool").addEventListener("change", (event) => change({ pool: event.target.value }));
  document.getElementById("score").addEventListener("change", (event) => change({ score: event.target.value }));
  document.getElementById("other").addEventListener("change", (event) => {
    const [layer, head] = event.target.value.split(",").map(Number);
    change({ other: event.target.value ? { layer, head } : null, ...(event.target.value ? {} : { difference: false }) });
  });
  document.getElementById("fit").addEventListener("click", () => change({ view: whole(heads.a) }));
  const middle = () => [(state.view.q0 + state.view.q1) / 2, (state.view.k0 + state.view.k1) / 2];
  document.getElementById("zoom-in").addEventListener("click", () => zoom(1.5, ...middle()));
  document.getElementById("zoom-out").addEventListener("click", () => zoom(1 / 1.5, ...middle()));
  document.getElementById("theme").addEventListener("change", (event) => {
    state.theme = event.target.value;
    applyTheme();
    announce(["theme"]);
  });
  document.getElementById("language").addEventListener("change", (event) => {
    setLanguage(event.target.value);
    change({ language: event.target.value });
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
    applyTheme();
    announce(["theme"]);
  });
  listen(["heads", "other", "score", "noSink", "lift", "log", "pool", "difference", "language", "theme"], showControls);
}
