// The two languages of the interface. A word in an element's data-word is replaced when the language changes.
const WORDS = {
  en: {
    language: "Language", theme: "Colours", auto: "as the system", light: "light", dark: "dark", overview: "All heads", score: "Score",
    overviewHint: "Click: show a head. Shift-click: compare with it. Arrow keys, Enter and C do the same.",
    trust: "How far to trust this head", trustHint: "A weight says what was read, not what decided the output. These figures are measured on this input.",
    noSink: "without the first key", lift: "lift over an even spread", log: "log colours", pool: "when small, show", mean: "mean of cells", max: "largest cell",
    zoomIn: "zoom in", zoomOut: "zoom out", fit: "whole map", compare: "Compare with", none: "no other", difference: "A − B", export: "Save the view as",
    mapHint: "Wheel or + and −: zoom. Drag: move. Arrows: step. Click or Enter: choose query and key. 0: whole map.",
    tokens: "Tokens", search: "Find", searchIn: "in", queries: "queries", keys: "keys", previous: "previous occurrence", next: "next occurrence", clear: "clear the choice",
    tokenHint: "Point at a query to colour the keys it reads; point at a key to colour the queries that read it. Click keeps it.",
    positions: "Along the text", segments: "Between segments", segmentHint: "Mean share of attention from a row's segment to a column's segment. Click a cell to see it in the map.",
    tables: "The same as text tables", help: "Keys and reading", none_found: "not found", found: "{n} of {all}, position {p}",
    helpText: "Rows of the map are queries, columns are keys. Grey cells may not be attended to; that is not a weight of zero. Lift is log2(weight ÷ even spread over the allowed keys). “Without the first key” removes key 0 and renormalises each row; the mass removed is shown. Tab moves between parts, arrow keys move inside a part, Enter chooses, Escape clears.",
    layer: "layer", head: "head", binMass: "mean mass in a bin of keys", binPeak: "largest weight in a bin", headName: "layer {layer}, head {head}", module: "module", range: "{low} (dark) to {high} (bright)", meanOf: "mean", maxOf: "largest", query: "query", key: "key", weight: "weight", exact: "exact", within: "± {e}", hidden: "not allowed", shown: "shown", liftIs: "lift {v}", noSinkIs: "without the first key {v}", removed: "(mass of key 0: {v})",
    binned: "queries {a}, keys {b}: mean mass {v}", peakIs: "largest weight {v}", drawn: "drawn: {how} of {p} × {p} cells", differenceIs: "A − B {v}",
    barsOf: "What query {p} reads", barsNone: "What is read most", rest: "{n} other keys: {v}", others: "exact row", pooledRow: "from the pooled map: bins of keys",
    received: "weight received", readBy: "key {k} is read by", reads: "query {q} reads", mostly: "most: {list}", empty: "nothing chosen: colours show the weight each key receives on average",
    formatF32: "Values are exact (float32).", formatF16: "Values are stored in half precision: error at most 1/2048 of the value.",
    formatSqrt: "Values are stored in {n} steps (square-root scale up to {top}): the error stands beside each value, and is at most {e}.",
    pooledFormat: "Pooled map of {a} × {b} bins over {t} × {s} tokens. ", noSegments: "no segments were given", tokensOf: "tokens {a}–{b} of {n}",
    heads: "All heads, {score}", rowTable: "Keys of query {p}, largest first", cellTable: "Largest cells of this head", value: "value", rank: "rank", missed: "Seen and not captured: {what}",
    channel: "channel attention", cross: "cross-attention", self: "self-attention", sharedScale: "A and B share one colour scale", sameSizes: "A and B have different sizes: no difference", rowsExact: "Exact rows: {list}", sinkBin: "without the first bin of keys {v}",
  },
  zh: {
    language: "语言", theme: "配色", auto: "跟随系统", light: "浅色", dark: "深色", overview: "全部注意力头", score: "指标",
    overviewHint: "单击：查看该头。Shift 加单击：与其比较。方向键、回车键和 C 键亦可。",
    trust: "这个头可信到什么程度", trustHint: "权重说明读取了什么，并不说明是什么决定了输出。以下数值在本输入上测得。",
    noSink: "去掉首个键", lift: "相对均匀分布的提升", log: "对数配色", pool: "缩小时显示", mean: "单元均值", max: "最大单元",
    zoomIn: "放大", zoomOut: "缩小", fit: "整图", compare: "对比", none: "不对比", difference: "A − B", export: "将当前视图存为",
    mapHint: "滚轮或 + − 键：缩放。拖动：平移。方向键：移动光标。单击或回车：选定查询与键。0：整图。",
    tokens: "词元", search: "查找", searchIn: "范围", queries: "查询", keys: "键", previous: "上一处", next: "下一处", clear: "清除选择",
    tokenHint: "指向一个查询，为它读取的键着色；指向一个键，为读取它的查询着色。单击可固定。",
    positions: "沿文本变化", segments: "分段之间", segmentHint: "行所在分段给予列所在分段的平均注意力份额。单击单元格可在图中查看。",
    tables: "以文字表格查看", help: "按键与读图说明", none_found: "未找到", found: "第 {n} 处，共 {all} 处，位置 {p}",
    helpText: "图中行为查询，列为键。灰色单元不允许被注意，与权重为零不同。提升 = log2(权重 ÷ 允许键上的均匀分布)。“去掉首个键”会移除 0 号键并将每行重新归一，同时显示移除的质量。Tab 键在各部分间移动，方向键在部分内移动，回车选定，Esc 清除。",
    layer: "层", head: "头", binMass: "键区间内的平均质量", binPeak: "区间内的最大权重", headName: "第 {layer} 层 · 头 {head}", module: "模块", range: "{low}（暗）到 {high}（亮）", meanOf: "均值", maxOf: "最大值", query: "查询", key: "键", weight: "权重", exact: "精确", within: "± {e}", hidden: "不允许", shown: "显示值", liftIs: "提升 {v}", noSinkIs: "去掉首个键后 {v}", removed: "（0 号键的质量：{v}）",
    binned: "查询 {a}，键 {b}：平均质量 {v}", peakIs: "最大权重 {v}", drawn: "绘制：{p} × {p} 个单元的{how}", differenceIs: "A − B {v}",
    barsOf: "查询 {p} 读取了什么", barsNone: "哪些键被读取最多", rest: "其余 {n} 个键：{v}", others: "精确的行", pooledRow: "来自池化图：按键的区间",
    received: "接收的权重", readBy: "读取键 {k} 的查询", reads: "查询 {q} 读取", mostly: "最多：{list}", empty: "未选择：颜色表示每个键平均接收的权重",
    formatF32: "数值精确（float32）。", formatF16: "数值以半精度存储：误差不超过数值的 1/2048。",
    formatSqrt: "数值以 {n} 级存储（平方根刻度，上限 {top}）：误差标在每个数值旁，最大为 {e}。",
    pooledFormat: "{t} × {s} 个词元上的 {a} × {b} 池化图。", noSegments: "未给出分段", tokensOf: "词元 {a}–{b}，共 {n} 个",
    heads: "全部注意力头，{score}", rowTable: "查询 {p} 的键，由大到小", cellTable: "此头中最大的单元", value: "数值", rank: "名次", missed: "发现但未捕获：{what}",
    channel: "通道注意力", cross: "交叉注意力", self: "自注意力", sharedScale: "A 与 B 共用一个色标", sameSizes: "A 与 B 尺寸不同，无法相减", rowsExact: "精确的行：{list}", sinkBin: "去掉首个键区间后 {v}",
  },
};

// Names of scores that regard itself gives; any other name is shown as it came.
const SCORE_NAMES_ZH = {
  entropy: "熵", "entropy share": "熵占比", span: "有效跨度", max: "最大权重", sink: "首个键占比", "sink share": "首个键占比", "sink column": "最大汇聚列占比",
  self: "自身", previous: "前一词元", "previous token": "前一词元", next: "后一词元", distance: "平均距离", local: "局部质量", first: "开头质量", last: "结尾质量",
  duplicate: "重复词元", induction: "归纳", "nucleus rows": "九成质量的键数", vertical: "竖条占比", slash: "斜条占比", "row sum": "行和", hidden: "被遮蔽键的质量",
  output: "输出占比", "output share": "输出占比", agreement: "与遮蔽效果的秩相关", "rank correlation with masking": "与遮蔽效果的秩相关",
  kernel: "内核", source: "来源", where: "位置", dtype: "数据类型", mask: "掩码", level: "级别", steps: "步数",
};

let language = "en";

function word(name, values = {}) {
  const text = WORDS[language][name] ?? WORDS.en[name] ?? name;
  return text.replace(/\{(\w+)\}/g, (_, key) => String(values[key] ?? ""));
}

function scoreName(name) {
  const plain = name.replaceAll("_", " ");
  return (language === "zh" && SCORE_NAMES_ZH[plain]) || plain;
}

function setLanguage(chosen) {
  language = chosen;
  document.documentElement.lang = chosen === "zh" ? "zh-CN" : "en";
  for (const element of document.querySelectorAll("[data-word]")) element.textContent = word(element.dataset.word);
  for (const element of document.querySelectorAll("[data-title]")) {
    element.title = word(element.dataset.title);
    element.setAttribute("aria-label", element.title);
  }
}
