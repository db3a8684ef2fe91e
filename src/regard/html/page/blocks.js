// Reads the arrays inside the page: base64, gzip, then one of four number formats (see blocks.py for the formulas).
const PAGE = JSON.parse(document.getElementById("page-data").textContent);
const KEEP = 64; // decoded arrays that stay in memory
const decoded = new Map();

function readBlock(about) {
  if (!decoded.has(about.block)) decoded.set(about.block, decode(about));
  const array = decoded.get(about.block);
  decoded.delete(about.block); // last used goes last
  decoded.set(about.block, array);
  if (decoded.size > KEEP) decoded.delete(decoded.keys().next().value);
  return array;
}

async function decode(about) {
  const text = document.querySelector(`script[data-block="${about.block}"]`).textContent;
  const stream = new Blob([bytesOf(text)]).stream().pipeThrough(new DecompressionStream("gzip"));
  const buffer = await new Response(stream).arrayBuffer();
  const count = about.shape.reduce((a, b) => a * b, 1);
  if (about.format === "f32") return new Float32Array(buffer);
  if (about.format === "f16") return halves(new Uint16Array(buffer));
  const bytes = new Uint8Array(buffer);
  if (about.format === "bits") {
    const bits = new Uint8Array(count);
    for (let i = 0; i < count; i++) bits[i] = (bytes[i >> 3] >> (i & 7)) & 1;
    return bits;
  }
  const table = Float32Array.from({ length: 256 }, (_, q) => (q === 255 ? NaN : about.top * (q / about.levels) ** 2));
  const values = new Float32Array(count);
  for (let i = 0; i < count; i++) values[i] = table[bytes[i]];
  return values;
}

function bytesOf(text) {
  if (Uint8Array.fromBase64) return Uint8Array.fromBase64(text);
  const letters = atob(text), bytes = new Uint8Array(letters.length);
  for (let i = 0; i < letters.length; i++) bytes[i] = letters.charCodeAt(i);
  return bytes;
}

let halfTable = null;

function halves(codes) {
  if (!halfTable) {
    halfTable = new Float32Array(65536);
    for (let code = 0; code < 65536; code++) {
      const sign = code & 0x8000 ? -1 : 1, power = (code >> 10) & 31, rest = code & 1023;
      if (power === 0) halfTable[code] = sign * rest * 2 ** -24;
      else if (power === 31) halfTable[code] = rest ? NaN : sign * Infinity;
      else halfTable[code] = sign * (1 + rest / 1024) * 2 ** (power - 15);
    }
  }
  const values = new Float32Array(codes.length);
  for (let i = 0; i < codes.length; i++) values[i] = halfTable[codes[i]];
  return values;
}

// The largest possible difference between a shown value and the captured one.
function errorOf(about, value) {
  if (about.format === "f32") return 0;
  if (about.format === "f16") return Math.max(Math.abs(value) * 2 ** -11, 2 ** -25);
  if (!about.top || Number.isNaN(value)) return 0;
  const code = Math.round(about.levels * Math.sqrt(value / about.top));
  return (about.top * (code + 0.25)) / about.levels ** 2;
}

function formatText(about) {
  if (about.format === "f32") return word("formatF32");
  if (about.format === "f16") return word("formatF16");
  return word("formatSqrt", { n: about.levels + 1, top: number(about.top), e: number(errorOf(about, about.top)) });
}

function number(value) {
  if (value === null || value === undefined) return "–";
  if (Number.isNaN(value)) return "NaN";
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size >= 0.001 && size < 100000) return String(Number(value.toPrecision(4)));
  return value.toExponential(2);
}
