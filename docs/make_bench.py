"""Write docs/bench.md and docs/zh/bench.md from the results in docs/bench/. Run: python docs/make_bench.py

Each file there is what one `regard bench SUITE --json docs/bench/SUITE.json` wrote: its machine, versions, date and rows.
"""

from __future__ import annotations

import json
from pathlib import Path

HERE = Path(__file__).parent
ORDER = (
    "attention", "window", "decode", "linear", "vision", "statistics", "capture", "check", "precision", "plan", "claims",
)  # fmt: skip
PICTURES = ("attention", "window", "linear", "statistics")

WORDS = {
    "en": {
        "title": "What it costs, against whom",
        "intro": (
            "Every line of the bench, also those that fall short. A ratio is of the 25th percentiles of CPU times of one thread; "
            "ours and the peer take turns in one process, so that a busy machine slows both. Read differences under 1.2 as noise. "
            "Outputs (and gradients) of the two are compared before they are timed; `difference` in the stored results is the largest. "
            "Memory is the high-water mark beyond inputs; limit is the share of what the machine can do, matrix product or memory, "
            "measured in the same run."
        ),
        "again": "Measured by `./scripts/bench`, which writes docs/bench/ and this page; `regard bench SUITE` prints one part.",
        "machine": "Measured on {cpu}, {cores} cores, 1 thread, Python {python}, {date}; load of the machine at the start {load}.",
        "shared": "Others used the machine at the same time.",
        "took": "All suites took {minutes:.0f} minutes beside that load.",
        "versions": "Versions: {versions}.",
        "limits": "Limits of one thread: {gemm}; copy {copy:.1f} GB/s.",
        "counts": "{n} lines: {counts}.",
        "head": ["what", "against", "ratio", "target", "quartiles, ms: ours / peer", "MiB: ours / peer", "limit", ""],
        "claims_head": ["claim", "measured", ""],
        "suite": {
            "attention": "Attention against torch and against layers", "window": "Sliding windows", "decode": "Decoding",
            "linear": "Linear, random-feature and hashed attention", "vision": "Vision", "statistics": "Statistics without the matrix",
            "capture": "Capture", "check": "The checker", "precision": "Precision", "plan": "Planned memory against measured memory",
            "claims": "The claims of the founding documents",
        },
        "claims_note": (
            "The largest weight of a softmax depends on the number of keys: the documents' own table gives no such number, and its values "
            "are not in this repository, so both 10 and 512 keys are printed and nothing stands beside them."
        ),
        "vision_note": (
            "The targets of shifted windows come from processors on which the subnormal weights of timm's mask of -100 are slow; the last "
            "line says how slow they are here."
        ),
        "plan_note": (
            "`regard plan` foretells the peak by walking through the tensors of the layers; nothing is fitted. The works were drawn from a "
            "seed; each was run in a process of its own, with an allocator that returns freed memory at once."
        ),
        "curve": "Cost against length on logarithmic axes; the legend has the slopes",
        "faster": "{:.2f}x faster", "cost": "{:.2f}x its time", "at least": "≥ {:g}", "at most": "≤ {:g}",
        "missing": "not installed: {}",
    },
    "zh": {
        "title": "开销：与谁相比，多少",
        "intro": (
            "bench 的每一行，未达标的也列出。比值取单线程 CPU 时间的第 25 百分位；我们的实现与对手在同一进程中轮流运行，机器繁忙时两者同样变慢。"
            "小于 1.2 的差异请视为噪声。计时之前先比较两者的输出（和梯度）。内存是超出输入的峰值；“极限”是占本机上限（矩阵乘或内存带宽，同一次运行中测得）的份额。"
        ),
        "again": "由 `./scripts/bench` 测得并写出；`regard bench SUITE` 打印其中一部分。各行的英文名称与命令输出一致。",
        "machine": "机器：{cpu}，{cores} 核，1 线程，Python {python}，{date}；开始时负载 {load}。",
        "shared": "测量时有其他进程在使用这台机器。",
        "took": "在这样的负载下，全部测量用了 {minutes:.0f} 分钟。",
        "versions": "版本：{versions}。",
        "limits": "单线程上限：{gemm}；复制 {copy:.1f} GB/s。",
        "counts": "{n} 行：{counts}。",
        "head": ["内容", "对手", "比值", "目标", "四分位数（ms）：我们 / 对手", "MiB：我们 / 对手", "极限", ""],
        "claims_head": ["说法", "测得", ""],
        "suite": {
            "attention": "注意力：与 torch 及各种层相比", "window": "滑动窗口", "decode": "解码", "linear": "线性、随机特征与哈希注意力",
            "vision": "视觉", "statistics": "不写出矩阵的统计量", "capture": "捕获", "check": "检查器", "precision": "精度",
            "plan": "预测的内存与实测的内存", "claims": "起始文档中的说法",
        },
        "claims_note": "softmax 的最大权重取决于键的个数：文档中的表没有给出个数，其数值也不在本仓库中，因此这里打印 10 个和 512 个键的结果，旁边不列文档的数值。",
        "vision_note": "移位窗口的目标来自这样的处理器：timm 的掩码常数 -100 产生的非规格化权重在其上很慢；最后一行是它在本机上的代价。",
        "plan_note": "`regard plan` 按层中张量的顺序推算峰值，没有拟合任何系数。配置由种子抽取，每个在单独的进程中运行。",
        "curve": "开销随长度的变化（对数坐标），图例中有斜率",
        "faster": "快 {:.2f} 倍", "cost": "其时间的 {:.2f} 倍", "at least": "≥ {:g}", "at most": "≤ {:g}",
        "missing": "未安装：{}",
    },
}  # fmt: skip


def main() -> None:
    results = {
        name: json.loads(path.read_text()) for name in ORDER if (path := HERE / "bench" / f"{name}.json").is_file()
    }
    for language, place in (("en", HERE / "bench.md"), ("zh", HERE / "zh" / "bench.md")):
        place.write_text(page(results, language), encoding="utf-8")
        print(f"written: {place.relative_to(HERE.parent)}")


def page(results: dict, language: str) -> str:
    """The page in one language."""
    word = WORDS[language]
    parts = [f"# {word['title']}", word["intro"], word["again"]]
    every = [row for found in results.values() for name, rows in found["suites"].items() for row in rows]
    parts += [word["counts"].format(n=len(every), counts=counts(every)), *machines(results, word)]
    up = "../" if language == "zh" else ""
    for name, found in results.items():
        rows = [row for made in found["suites"].values() for row in made]
        parts += [f"## {word['suite'][name]}", word["counts"].format(n=len(rows), counts=counts(rows))]
        parts += [word[f"{name}_note"]] if f"{name}_note" in word else []
        parts.append(table(rows, word))
        if name in PICTURES and found.get("curves"):
            parts.append(f"![{word['curve']}]({up}pictures/bench_{name}.png)")
    return "\n\n".join(parts) + "\n"


def machines(results: dict, word: dict) -> list[str]:
    """The machine of the first result, and the dates and loads of all."""
    first = next(iter(results.values()))["machine"]
    dates = sorted({found["machine"]["date"] for found in results.values()})
    loads = [found["machine"]["load"] or 0 for found in results.values()]
    said = {**first, "date": " – ".join(dict.fromkeys((dates[0], dates[-1]))), "load": f"{min(loads)} – {max(loads)}"}
    lines = [word["machine"].format(**said)]
    lines += [word["shared"]] if max(loads) > first["cores"] else []
    lines.append(word["took"].format(minutes=sum(found["seconds"] for found in results.values()) / 60))
    versions = {k: v for found in results.values() for k, v in found["machine"]["versions"].items()}
    gemm = ", ".join(f"{kind} {rate / 1e9:,.0f} GFLOP/s" for kind, rate in first["limits"]["gemm"].items())
    lines.append(word["versions"].format(versions=", ".join(f"{k} {v}" for k, v in versions.items())))
    lines.append(word["limits"].format(gemm=gemm, copy=first["limits"]["copy"] / 1e9))
    return lines


def counts(rows: list[dict]) -> str:
    found: dict[str, int] = {}
    for row in rows:
        found[row["verdict"]] = found.get(row["verdict"], 0) + 1
    return ", ".join(f"{n} {verdict}" for verdict, n in sorted(found.items(), key=lambda item: -item[1]))


def table(rows: list[dict], word: dict) -> str:
    """Claims have three columns, all else eight."""
    if all("measured" in row for row in rows):
        lines = [word["claims_head"], *([row["name"], row["measured"], row["verdict"]] for row in rows)]
    else:
        lines = [word["head"], *(cells(row, word) for row in rows)]
    lines.insert(1, ["---"] * len(lines[0]))
    return "\n".join("| " + " | ".join(cell.replace("|", "/") for cell in line) + " |" for line in lines)


def cells(row: dict, word: dict) -> list[str]:
    if row["verdict"] in ("missing", "failed"):
        why = word["missing"].format(", ".join(row["missing"])) if row["verdict"] == "missing" else row["reason"]
        return [row["name"], row["against"], "", "", "", "", "", f"{row['verdict']}: {why}"]
    if "measured" in row:
        return [row["name"], row["against"], row["measured"], "", "", "", "", row["verdict"]]
    target = "" if row["target"] is None else word[row["sense"]].format(row["target"])
    ratio = word["faster" if row["sense"] == "at least" else "cost"].format(row["ratio"])
    if "value" in row:
        ratio = f"{row['value']:.3g} {row['unit']}"
        target = "" if row["target"] is None else word["at most"].format(row["allowed"])
    if "predicted" in row:
        ratio = f"{row['predicted']:.0f} / {row['found']:.0f} MiB ({row['error']:+.1%})"
        target = "± 15 %"
    spread, held = row.get("quartiles") or {}, row.get("memory") or {}
    times = " / ".join(" ".join(f"{t:.3g}" for t in spread[x]) for x in ("ours", "peer") if x in spread)
    memory = " / ".join(f"{held[x]:.0f}" for x in ("ours", "peer") if held.get(x) is not None)
    share = f"{row['share']:.0%}" if row.get("share") and "predicted" not in row else ""
    return [row["name"], row["against"], ratio, target, times, memory, share, row["verdict"]]


if __name__ == "__main__":
    main()
