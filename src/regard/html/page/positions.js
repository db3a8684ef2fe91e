// A score along the text, as a line: one point per query, or per bin of queries.
let seriesName = null;

async function drawSeries() {
  const entry = PAGE.layers[state.layer], names = Object.keys(entry.series), panel = document.getElementById("position-panel"), choice = document.getElementById("series");
  panel.hidden = names.length === 0;
  document.getElementById("bar-panel").classList.toggle("wide", panel.hidden);
  if (!names.length) return;
  if (!names.includes(seriesName)) seriesName = names[0];
  choice.replaceChildren(...names.map((name) => element("option", { value: name, textContent: scoreName(name), selected: name === seriesName })));
  const { edges, name } = entry.series[seriesName], head = state.head;
  const values = await readBlock(entry[name][head]);
  if (entry !== PAGE.layers[state.layer] || head !== state.head) return; // another head was chosen meanwhile
  drawLine(document.getElementById("series-chart"), values, edges);
}

function drawLine(canvas, values, edges) {
  const width = Math.max(200, canvas.parentElement.clientWidth - 24), height = 200, left = 52, bottom = 26, right = 14;
  const context = sharp(canvas, width, height), known = [...values].filter(Number.isFinite), count = edges[edges.length - 1];
  const high = Math.max(...known, 1e-9), low = Math.min(0, ...known);
  const x = (at) => left + (at / count) * (width - left - right), y = (value) => 10 + (1 - (value - low) / (high - low)) * (height - bottom - 16);
  context.font = `11px ${FONT}`;
  context.fillStyle = look("soft");
  context.strokeStyle = look("line");
  context.textBaseline = "middle";
  context.textAlign = "right";
  for (const share of [0, 0.5, 1]) {
    const value = low + share * (high - low);
    context.fillText(String(Number(value.toPrecision(3))), left - 6, y(value));
    context.strokeRect(left, y(value), width - left - right, 0);
  }
  context.textAlign = "center";
  const step = roundStep(count / Math.max(2, width / 90));
  for (let at = 0; at < count; at += step) context.fillText(String(at), x(at), height - 10);
  context.strokeStyle = look("accent");
  context.lineWidth = 1.5;
  context.beginPath();
  values.forEach((value, i) => Number.isFinite(value) && context.lineTo(x((edges[i] + edges[i + 1]) / 2), y(value)));
  context.stroke();
  if (state.query !== null) {
    context.strokeStyle = look("mark");
    context.strokeRect(x(state.query + 0.5), 10, 0, height - bottom - 16);
  }
  const readout = document.getElementById("series-readout");
  readout.textContent = state.query === null ? "" : `${word("query")} ${state.query}: ${number(values[binOf(edges, state.query)])}`;
  canvas.setAttribute("aria-label", `${scoreName(seriesName)}: ${number(Math.min(...known))} – ${number(Math.max(...known))}`);
}

function startPositions() {
  document.getElementById("series").addEventListener("change", (event) => {
    seriesName = event.target.value;
    drawSeries().catch(fail);
  });
  listen(["heads", "query", "language", "theme"], () => drawSeries().catch(fail));
}
