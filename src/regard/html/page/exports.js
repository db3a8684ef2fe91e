// The present view as a picture (PNG, SVG) or as numbers (CSV).
function save(name, blob) {
  const link = element("a", { href: URL.createObjectURL(blob), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

function fileName(ending) {
  const entry = PAGE.layers[state.layer];
  return `attention-layer${entry.layer}-head${entry.heads[state.head]}.${ending}`;
}

// Title, map and colour bar on the colour of the page.
function savePng() {
  const ratio = window.devicePixelRatio || 1, map = canvases.a, bar = document.getElementById("colour-bar"), top = 28 * ratio;
  const sheet = Object.assign(document.createElement("canvas"), { width: Math.max(map.width, bar.width) + 16 * ratio, height: top + map.height + bar.height + 16 * ratio });
  const context = sheet.getContext("2d");
  context.fillStyle = look("back");
  context.fillRect(0, 0, sheet.width, sheet.height);
  context.fillStyle = look("ink");
  context.font = `${14 * ratio}px ${FONT}`;
  context.fillText(`${PAGE.title} — ${headName(state)}`, 8 * ratio, 20 * ratio);
  context.drawImage(map, 8 * ratio, top);
  context.drawImage(bar, 8 * ratio, top + map.height + 6 * ratio);
  sheet.toBlob((blob) => save(fileName("png"), blob), "image/png");
}

function escapeXml(text) {
  const safe = String(text).replace(/[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\u{10000}-\u{10ffff}]/gu, "·");
  return safe.replace(/[&<>"']/g, (c) => `&#${c.charCodeAt(0)};`);
}

// Cells as rectangles up to 128 a side, else as one embedded picture; labels are text either way.
function svgText() {
  const { map, view, values, scale, name } = drawn, size = 480, left = 110, top = 110, rows = values.rows, columns = values.columns;
  const x = (k) => left + ((k - view.k0) / (view.k1 - view.k0)) * size, y = (q) => top + ((q - view.q0) / (view.q1 - view.q0)) * size;
  const parts = [`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${left + size + 20} ${top + size + 40}" font-family='${FONT.replaceAll("'", "")}'>`, '<rect width="100%" height="100%" fill="#ffffff"/>'];
  parts.push(`<text x="10" y="20" font-size="14">${escapeXml(`${PAGE.title} — ${headName(state)}`)}</text>`, `<defs><clipPath id="plot"><rect x="${left}" y="${top}" width="${size}" height="${size}"/></clipPath></defs>`);
  parts.push(`<rect x="${left}" y="${top}" width="${size}" height="${size}" fill="#dcdce2"/><g clip-path="url(#plot)" shape-rendering="crispEdges">`);
  if (rows.length <= 129 && columns.length <= 129) {
    for (let a = 0, i = 0; a + 1 < rows.length; a++)
      for (let b = 0; b + 1 < columns.length; b++, i++)
        if (!Number.isNaN(values.values[i])) parts.push(`<rect x="${x(columns[b]).toFixed(2)}" y="${y(rows[a]).toFixed(2)}" width="${(x(columns[b + 1]) - x(columns[b])).toFixed(2)}" height="${(y(rows[a + 1]) - y(rows[a])).toFixed(2)}" fill="${css(colour(scale, values.values[i]))}"/>`);
  } else parts.push(picture(values, scale, x, y));
  parts.push("</g>", svgLabels(PAGE.sequences[map.entry.queries].labels, view.q0, view.q1, y, size, "down", left), svgLabels(PAGE.sequences[map.entry.keys].labels, view.k0, view.k1, x, size, "across", top));
  const stops = Array.from({ length: 17 }, (_, i) => [i / 16, css([0, 1, 2].map((c) => MAPS[scale.map][3 * Math.round((255 * i) / 16) + c]))]);
  parts.push(`<defs><linearGradient id="scale">${stops.map(([at, ink]) => `<stop offset="${at}" stop-color="${ink}"/>`).join("")}</linearGradient></defs>`);
  parts.push(`<rect x="${left}" y="${top + size + 12}" width="160" height="10" fill="url(#scale)"/>`);
  parts.push(`<text x="${left + 170}" y="${top + size + 21}" font-size="11">${escapeXml(`${name}: ${number(scale.low)} – ${number(scale.high)}${scale.log ? " (log)" : ""}`)}</text></svg>`);
  return parts.join("\n");
}

function picture({ rows, columns, values }, scale, x, y) {
  const high = rows.length - 1, wide = columns.length - 1, sheet = sheetOf(values, wide, high, scale);
  const width = x(columns[0] + wide * (columns[1] - columns[0])) - x(columns[0]), height = y(rows[0] + high * (rows[1] - rows[0])) - y(rows[0]);
  return `<image x="${x(columns[0])}" y="${y(rows[0])}" width="${width}" height="${height}" preserveAspectRatio="none" style="image-rendering:pixelated" href="${sheet.toDataURL()}"/>`;
}

function svgLabels(texts, low, high, at, size, way, edge) {
  const cell = size / (high - low), full = cell >= 10, step = full ? 1 : roundStep(24 / cell), out = [];
  for (let p = Math.ceil(Math.max(0, low - 0.5) / step) * step; p < Math.min(high, texts.length); p += step) {
    const text = escapeXml(full ? visible(texts[p]).slice(0, 14) : p), place = at(p + 0.5);
    if (way === "down") out.push(`<text x="${edge - 6}" y="${place.toFixed(2)}" font-size="10" text-anchor="end" dominant-baseline="middle">${text}</text>`);
    else out.push(`<text transform="translate(${place.toFixed(2)} ${edge - 6}) rotate(-90)" font-size="10" dominant-baseline="middle">${text}</text>`);
  }
  return out.join("");
}

// One line per cell in view that may be attended to: the stored weights, whatever is toggled.
function csvText() {
  const map = heads.a, { q0, q1, k0, k1 } = state.view, lines = [], quote = (text) => `"${String(text).replaceAll('"', '""')}"`;
  const Q = PAGE.sequences[map.entry.queries].labels, K = PAGE.sequences[map.entry.keys].labels;
  if (map.exact) {
    lines.push("query,query_token,key,key_token,weight");
    for (let i = Math.max(0, Math.floor(q0)); i < Math.min(map.T, q1); i++)
      for (let j = Math.max(0, Math.floor(k0)); j < Math.min(map.S, k1); j++)
        if (isAllowed(map, i, j)) lines.push(`${i},${quote(Q[i])},${j},${quote(K[j])},${map.weights[i * map.S + j]}`);
  } else {
    lines.push("first_query,last_query,first_key,last_key,mean_mass");
    const rows = map.entry.queryEdges, columns = map.entry.keyEdges, B = columns.length - 1;
    map.pooled.forEach((mass, at) => lines.push(`${rows[Math.floor(at / B)]},${rows[Math.floor(at / B) + 1] - 1},${columns[at % B]},${columns[(at % B) + 1] - 1},${mass}`));
  }
  return `${lines.join("\r\n")}\r\n`;
}

function startExports() {
  document.getElementById("export-png").addEventListener("click", savePng);
  document.getElementById("export-svg").addEventListener("click", () => save(fileName("svg"), new Blob([svgText()], { type: "image/svg+xml" })));
  document.getElementById("export-csv").addEventListener("click", () => save(fileName("csv"), new Blob(["\ufeff", csvText()], { type: "text/csv" })));
}
