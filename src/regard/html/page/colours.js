// Two colour maps that are even in lightness and safe for all kinds of colour vision, and the scale from values to them.
// Samples of matplotlib's cividis (Nunez, Anderton, Renslow 2018) and reversed PuOr (ColorBrewer), both free to use.
const MAPS = { sequential: table("00224e002e6a1a386f32436d434e6c535a6d61656f6f70737d7c788c88789b9476aba072bcae6ccdbb63dec958f0d846fee838"), diverging: table("2d004b4518715f3a917b6aa89990bfb7b1d5cfcfe5e4e5f0f7f7f6fce8cdfed59ffdbc6bee9b39d97b12bd61099e4c077f3b08") };

function table(text) {
  const stops = text.match(/.{6}/g).map((hex) => [0, 2, 4].map((at) => parseInt(hex.slice(at, at + 2), 16)));
  const colours = new Uint8ClampedArray(256 * 3);
  for (let i = 0; i < 256; i++) {
    const at = (i / 255) * (stops.length - 1), low = Math.min(Math.floor(at), stops.length - 2), share = at - low;
    for (let c = 0; c < 3; c++) colours[3 * i + c] = stops[low][c] * (1 - share) + stops[low + 1][c] * share;
  }
  return colours;
}

// A scale: { map, low, high, log }. On a log scale `low` is positive and everything below it has the first colour.
function place(scale, value) {
  const share = scale.log
    ? Math.log(Math.max(value, scale.low) / scale.low) / Math.log(scale.high / scale.low)
    : (value - scale.low) / (scale.high - scale.low);
  return Math.max(0, Math.min(255, Math.round(255 * share)));
}

function colour(scale, value) {
  const at = 3 * place(scale, value), from = MAPS[scale.map];
  return [from[at], from[at + 1], from[at + 2]];
}

function css(rgb) {
  return `rgb(${rgb[0]},${rgb[1]},${rgb[2]})`;
}

// Black or white, whichever is easier to read on the colour.
function inkOn(rgb) {
  const light = [0.2126, 0.7152, 0.0722].reduce((sum, share, c) => sum + share * (rgb[c] / 255) ** 2.2, 0);
  return light > 0.18 ? "#000" : "#fff";
}

function scaleFor(values, options) {
  let top = 0, low = Infinity, high = -Infinity;
  for (const value of values) {
    if (!Number.isFinite(value)) continue;
    if (value > top) top = value;
    if (value < low) low = value;
    if (value > high) high = value;
  }
  if (options.difference) {
    const limit = Math.max(Math.abs(low), Math.abs(high), 1e-9);
    return { map: "diverging", low: -limit, high: limit, log: false };
  }
  if (options.lift) return { map: "diverging", low: -6, high: 6, log: false };
  top = top || 1;
  return options.log ? { map: "sequential", low: top * 1e-4, high: top, log: true } : { map: "sequential", low: 0, high: top, log: false };
}

function look(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}
