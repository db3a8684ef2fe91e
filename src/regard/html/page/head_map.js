// One head: its weights by cell, row and column, exact or pooled, and what is shown of them (sink removed, lift).
// Axes: T queries, S keys; a pooled map has A x B bins. NaN stands for a cell that may not be attended to.
const LIFT_LIMIT = 20;

async function loadHead(where) {
  const entry = PAGE.layers[where.layer], h = where.head;
  const one = async (name) => (entry[name] ? readBlock(entry[name][h]) : null);
  const map = {
    where, entry, T: PAGE.sequences[entry.queries].labels.length, S: PAGE.sequences[entry.keys].labels.length,
    weights: await one("weights"), pooled: await one("pooled"), peak: await one("peak"), received: await one("received"),
    about: (entry.weights || entry.pooled)[h], allowed: entry.allowed ? await readBlock(entry.allowed) : null,
    even: entry.even ? await readBlock(entry.even[0]) : null, rows: new Map(), scales: new Map(),
  };
  for (const at of entry.rows) map.rows.set(at, await one(`row${at}`));
  map.exact = map.weights !== null;
  map.counts = countAllowed(map);
  return map;
}

function countAllowed(map) {
  const counts = new Int32Array(map.T).fill(map.S);
  if (!map.allowed) return counts;
  for (let i = 0; i < map.T; i++) {
    let count = 0;
    for (let j = 0; j < map.S; j++) count += map.allowed[i * map.S + j];
    counts[i] = count;
  }
  return counts;
}

function isAllowed(map, i, j) {
  return !map.allowed || map.allowed[i * map.S + j] === 1;
}

// What is drawn for the bin of cells [i0, i1) x [j0, j1) of an exact map: the mean (or largest) of its allowed cells.
function shownBin(map, i0, i1, j0, j1, options) {
  let total = 0, even = 0, count = 0, largest = -Infinity;
  for (let i = i0; i < i1; i++) {
    const start = i * map.S, keep = options.noSink ? 1 - map.weights[start] : 1;
    const share = 1 / Math.max(1, map.counts[i] - (options.noSink && isAllowed(map, i, 0) ? 1 : 0));
    for (let j = options.noSink ? Math.max(1, j0) : j0; j < j1; j++) {
      if (map.allowed && !map.allowed[start + j]) continue;
      const weight = keep > 1e-6 ? map.weights[start + j] / keep : 0;
      total += weight;
      even += share;
      count += 1;
      const value = options.lift ? weight / share : weight;
      if (value > largest) largest = value;
    }
  }
  if (!count) return NaN;
  if (options.pool === "max") return options.lift ? log2(largest) : largest;
  return options.lift ? log2(total / even) : total / count;
}

function log2(value) {
  return value > 0 ? Math.max(-LIFT_LIMIT, Math.log2(value)) : -LIFT_LIMIT;
}

// What is drawn for bin (a, b) of a pooled map. Its first key bin stands for the sink.
function shownPooled(map, a, b, options) {
  const B = map.entry.keyEdges.length - 1, at = a * B + b;
  if (options.noSink && b === 0) return NaN;
  const even = evenMass(map, a, b);
  if (!(even > 0)) return NaN;
  if (options.pool === "max" && map.peak && !options.lift) return map.peak[at];
  const keep = options.noSink ? 1 - map.pooled[a * B] : 1, rest = options.noSink ? 1 - evenMass(map, a, 0) : 1;
  const mass = keep > 1e-6 ? map.pooled[at] / keep : 0;
  return options.lift ? log2(mass / (even / Math.max(rest, 1e-9))) : mass;
}

function evenMass(map, a, b) {
  const edges = map.entry.keyEdges;
  return map.even ? map.even[a * (edges.length - 1) + b] : (edges[b + 1] - edges[b]) / map.S;
}

// The values of a view: a grid of bins with their limits. `step` is how many cells of an exact map are joined a side.
// The last answer is kept, so that moving the cursor costs no sums.
function valuesInView(map, view, step, options) {
  const key = [view.q0, view.q1, view.k0, view.k1, step, options.noSink, options.lift, options.pool].join();
  if (map.lastView?.key !== key) map.lastView = { key, found: findValues(map, view, step, options) };
  return map.lastView.found;
}

function findValues(map, view, step, options) {
  const rows = map.exact ? regular(view.q0, view.q1, step, map.T) : within(map.entry.queryEdges, view.q0, view.q1);
  const columns = map.exact ? regular(view.k0, view.k1, step, map.S) : within(map.entry.keyEdges, view.k0, view.k1);
  const values = new Float32Array((rows.edges.length - 1) * (columns.edges.length - 1));
  let at = 0;
  for (let a = 0; a + 1 < rows.edges.length; a++)
    for (let b = 0; b + 1 < columns.edges.length; b++, at++)
      values[at] = map.exact
        ? shownBin(map, rows.edges[a], rows.edges[a + 1], columns.edges[b], columns.edges[b + 1], options)
        : shownPooled(map, rows.first + a, columns.first + b, options);
  return { rows: rows.edges, columns: columns.edges, values };
}

function regular(low, high, step, count) {
  const edges = [];
  for (let at = Math.max(0, Math.floor(low / step) * step); at < Math.min(count, high); at += step) edges.push(at);
  edges.push(Math.min(count, edges[edges.length - 1] + step));
  return { first: 0, edges };
}

function within(edges, low, high) {
  let first = 0, last = edges.length - 1;
  while (first + 1 < edges.length - 1 && edges[first + 1] <= low) first++;
  while (last - 1 > first && edges[last - 1] >= high) last--;
  return { first, edges: edges.slice(first, last + 1) };
}

// The scale of a whole head, found once for each way of showing it.
function headScale(map, options) {
  const key = `${options.noSink}|${options.lift}|${options.log}|${options.pool}`;
  if (!map.scales.has(key)) {
    const step = map.exact ? Math.max(1, Math.ceil(Math.max(map.T, map.S) / 1024)) : 1;
    const all = findValues(map, { q0: 0, q1: map.T, k0: 0, k1: map.S }, step, options);
    map.scales.set(key, scaleFor(all.values, options));
  }
  return map.scales.get(key);
}

// Row of a query (or column of a key): { values, exact, hidden }. A pooled map gives the mean weight per cell of each bin.
function rowOf(map, i) {
  if (map.exact) return { values: map.weights.subarray(i * map.S, (i + 1) * map.S), exact: true, hidden: (j) => !isAllowed(map, i, j) };
  if (map.rows.has(i)) return { values: map.rows.get(i), exact: true, hidden: () => false };
  const a = binOf(map.entry.queryEdges, i), edges = map.entry.keyEdges, values = new Float32Array(map.S);
  for (let b = 0; b + 1 < edges.length; b++) values.fill(map.pooled[a * (edges.length - 1) + b] / (edges[b + 1] - edges[b]), edges[b], edges[b + 1]);
  return { values, exact: false, hidden: (j) => !(evenMass(map, a, binOf(edges, j)) > 0) };
}

function columnOf(map, j) {
  const values = new Float32Array(map.T);
  if (map.exact) {
    for (let i = 0; i < map.T; i++) values[i] = map.weights[i * map.S + j];
    return { values, exact: true, hidden: (i) => !isAllowed(map, i, j) };
  }
  const b = binOf(map.entry.keyEdges, j), rows = map.entry.queryEdges, edges = map.entry.keyEdges;
  for (let a = 0; a + 1 < rows.length; a++) values.fill(map.pooled[a * (edges.length - 1) + b] / (edges[b + 1] - edges[b]), rows[a], rows[a + 1]);
  return { values, exact: false, hidden: (i) => !(evenMass(map, binOf(rows, i), b) > 0) };
}

function binOf(edges, position) {
  let low = 0, high = edges.length - 1;
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (edges[middle] <= position) low = middle;
    else high = middle;
  }
  return low;
}
