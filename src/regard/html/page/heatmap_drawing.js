// Draws a head on a canvas: cells, rulers with token labels where they fit, the crosshair, and the colour bar.
const LEFT = 84, TOP = 66, LABEL = 11; // CSS pixels: room for labels, and the height of one

function plotSize(canvas) {
  const width = Math.max(160, canvas.parentElement.clientWidth);
  const side = Math.max(80, Math.min(width - LEFT - 4, heads.b ? 520 : 680));
  return { width: side, height: side };
}

// The cells joined per drawn cell so that a drawn cell has at least one pixel.
function stepFor(view, size) {
  const ratio = window.devicePixelRatio || 1;
  return Math.max(1, Math.ceil((view.q1 - view.q0) / (size.height * ratio)), Math.ceil((view.k1 - view.k0) / (size.width * ratio)));
}

function drawMap(canvas, map, view, values, scale, cursor) {
  const size = plotSize(canvas);
  const context = sharp(canvas, LEFT + size.width + 4, TOP + size.height + 4);
  const x = (k) => LEFT + ((k - view.k0) / (view.k1 - view.k0)) * size.width;
  const y = (q) => TOP + ((q - view.q0) / (view.q1 - view.q0)) * size.height;
  context.save();
  context.beginPath();
  context.rect(LEFT, TOP, size.width, size.height);
  context.clip();
  context.fillStyle = look("hidden");
  context.fillRect(LEFT, TOP, size.width, size.height);
  drawCells(context, values, scale, x, y);
  drawChosen(context, x, y, size, cursor);
  context.restore();
  const sequences = PAGE.sequences;
  ruler(context, "down", sequences[map.entry.queries], view.q0, view.q1, y, size.height);
  ruler(context, "across", sequences[map.entry.keys], view.k0, view.k1, x, size.width);
}

// Even bins are one image, scaled without smoothing; uneven bins (a pooled map) are rectangles.
function drawCells(context, shown, scale, x, y) {
  const { rows, columns, values } = shown, high = rows.length - 1, wide = columns.length - 1;
  if (high * wide > 20000) {
    const key = JSON.stringify(scale);
    if (shown.sheetScale !== key) Object.assign(shown, { sheet: sheetOf(values, wide, high, scale), sheetScale: key });
    context.imageSmoothingEnabled = false;
    const step = { q: rows[1] - rows[0], k: columns[1] - columns[0] };
    context.drawImage(shown.sheet, x(columns[0]), y(rows[0]), x(columns[0] + wide * step.k) - x(columns[0]), y(rows[0] + high * step.q) - y(rows[0]));
    return;
  }
  const ratio = window.devicePixelRatio || 1, whole = (at) => Math.round(at * ratio) / ratio;
  for (let a = 0, i = 0; a < high; a++)
    for (let b = 0; b < wide; b++, i++) {
      if (Number.isNaN(values[i])) continue;
      context.fillStyle = css(colour(scale, values[i]));
      const left = whole(x(columns[b])), top = whole(y(rows[a])); // whole pixels: no seams between cells
      context.fillRect(left, top, whole(x(columns[b + 1])) - left, whole(y(rows[a + 1])) - top);
    }
}

// One pixel per cell; a cell that may not be attended to stays transparent, so that the grey below shows.
function sheetOf(values, wide, high, scale) {
  const image = new ImageData(wide, high), from = MAPS[scale.map], pixels = image.data;
  for (let i = 0; i < values.length; i++) {
    if (Number.isNaN(values[i])) continue;
    const at = 3 * place(scale, values[i]);
    pixels[4 * i] = from[at];
    pixels[4 * i + 1] = from[at + 1];
    pixels[4 * i + 2] = from[at + 2];
    pixels[4 * i + 3] = 255;
  }
  const sheet = Object.assign(document.createElement("canvas"), { width: wide, height: high });
  sheet.getContext("2d").putImageData(image, 0, 0);
  return sheet;
}

function drawChosen(context, x, y, size, cursor) {
  const band = (from, to, along) => {
    context.lineWidth = 1.5;
    if (along) context.strokeRect(LEFT - 2, from, size.width + 4, Math.max(2, to - from));
    else context.strokeRect(from, TOP - 2, Math.max(2, to - from), size.height + 4);
  };
  context.strokeStyle = look("mark");
  if (state.query !== null) band(y(state.query), y(state.query + 1), true);
  if (state.key !== null) band(x(state.key), x(state.key + 1), false);
  if (!cursor) return;
  const left = x(cursor.k), top = y(cursor.q), wide = Math.max(3, x(cursor.k + 1) - left), high = Math.max(3, y(cursor.q + 1) - top);
  context.lineWidth = 3;
  context.strokeStyle = "#000";
  context.strokeRect(left - 1, top - 1, wide + 2, high + 2);
  context.lineWidth = 1.5;
  context.strokeStyle = "#fff";
  context.strokeRect(left - 1, top - 1, wide + 2, high + 2);
}

// Token texts when a cell has room for a line of text, else round positions; and a strip that shows the segments.
function ruler(context, way, sequence, low, high, at, length) {
  const cell = length / (high - low), texts = cell >= LABEL + 1;
  const need = texts ? 1 : way === "down" ? 20 : 44, step = texts ? 1 : roundStep(need / cell);
  context.font = `${LABEL}px ${FONT}`;
  context.fillStyle = look("ink");
  context.textBaseline = "middle";
  for (let p = Math.ceil(Math.max(0, low - 0.5) / step) * step; p < Math.min(high, sequence.labels.length); p += step) {
    const middle = at(p + 0.5), edge = way === "down" ? TOP : LEFT;
    if (middle < edge || middle > edge + length) continue;
    const text = texts ? fitted(context, visible(sequence.labels[p]), (way === "down" ? LEFT : TOP) - 12) : String(p);
    context.save();
    if (way === "down") context.translate(LEFT - 8, middle);
    else context.translate(middle, TOP - 8);
    if (way === "across" && texts) context.rotate(-Math.PI / 2);
    context.textAlign = way === "down" ? "right" : texts ? "left" : "center";
    context.fillText(text, 0, 0);
    context.restore();
  }
  sequence.segments.forEach(([, start, stop], place) => {
    const from = Math.max(at(start), way === "down" ? TOP : LEFT), to = Math.min(at(stop), (way === "down" ? TOP : LEFT) + length);
    if (to <= from) return;
    context.fillStyle = look(place % 2 ? "accent" : "soft");
    if (way === "down") context.fillRect(LEFT - 4, from, 3, to - from);
    else context.fillRect(from, TOP - 4, to - from, 3);
  });
}

function roundStep(least) {
  for (let power = 1; ; power *= 10) for (const factor of [1, 2, 5]) if (factor * power >= least) return factor * power;
}

function fitted(context, text, width) {
  if (context.measureText(text).width <= width) return text;
  const letters = [...text];
  while (letters.length > 1 && context.measureText(`${letters.join("")}…`).width > width) letters.pop();
  return `${letters.join("")}…`;
}

const MARKS = { "\n": "⏎", "\t": "⇥", "\r": "␍" };

function visible(text) {
  const shown = text.replace(/[\n\t\r]/g, (c) => MARKS[c]).replace(/[\u0000-\u001f\u007f\u202a-\u202e\u2066-\u2069]/g, "·");
  return shown.trim() === "" ? "␣".repeat(Math.max(1, Math.min(3, shown.length))) : shown;
}

function drawColourBar(canvas, scale, name) {
  const width = Math.min(460, canvas.parentElement.clientWidth - 24), start = 30, length = width - 60;
  const context = sharp(canvas, width, 44);
  for (let i = 0; i < length; i++) {
    const at = 3 * Math.round((255 * i) / (length - 1)), from = MAPS[scale.map];
    context.fillStyle = css([from[at], from[at + 1], from[at + 2]]);
    context.fillRect(start + i, 16, 1.5, 10);
  }
  context.fillStyle = look("ink");
  context.font = `11px ${FONT}`;
  context.textBaseline = "alphabetic";
  context.textAlign = "left";
  context.fillText(name, start, 11);
  context.textAlign = "center";
  for (const share of [0, 0.25, 0.5, 0.75, 1]) {
    const value = scale.log ? scale.low * (scale.high / scale.low) ** share : scale.low + share * (scale.high - scale.low);
    context.fillText((scale.log && share === 0 ? "≤ " : "") + String(Number(value.toPrecision(2))), start + share * length, 40);
  }
  canvas.setAttribute("aria-label", `${name}: ${number(scale.low)} – ${number(scale.high)}`);
}
