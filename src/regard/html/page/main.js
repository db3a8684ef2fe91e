// Starts the parts, shows the first head, and says when the page is ready.
async function main() {
  if (typeof DecompressionStream === "undefined") throw new Error("This browser cannot unpack the page (no DecompressionStream). Chrome 80, Firefox 113, Safari 16.4 or later can.");
  const wanted = document.documentElement.dataset.language;
  state.language = wanted === "auto" ? (navigator.language.toLowerCase().startsWith("zh") ? "zh" : "en") : wanted;
  state.score = scoreNames()[0] ?? null;
  applyTheme();
  setLanguage(state.language);
  document.getElementById("title").textContent = PAGE.title;
  for (const start of [startControls, startOverview, startMaps, startTokens, startSearch, startBars, startSegments, startPositions, startTables, startExports]) start();
  listen(["heads", "language"], showNotes);
  state.layer = -1; // so that the first choice is a change
  await change({ layer: 0, head: 0 });
  if (!heads.a) return; // what went wrong is on the page
  document.getElementById("failure").hidden = true;
  let width = window.innerWidth;
  window.addEventListener("resize", () => {
    if (window.innerWidth !== width) announce(["theme"]);
    width = window.innerWidth;
  });
  document.documentElement.dataset.ready = "yes";
}

function showNotes() {
  const texts = [...PAGE.notes, ...PAGE.missed.map((what) => word("missed", { what }))];
  document.getElementById("notes").replaceChildren(...texts.map((text) => element("li", { textContent: text, dir: "auto" })));
}

main().catch(fail);
