"""The page of claims, in English and Chinese, from stored numbers only: a claim that was not run is listed as not run yet.

Rows of `regard bench claims` (speed and memory) stand beside ours where their JSON is given; they are not measured again.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

from regard.core.errors import MissingExtraError
from regard.recipes.experiments.claim import NOT_RUN, VERDICTS, Claim, Found
from regard.recipes.experiments.every import GROUPS, NOTES
from regard.recipes.experiments.stored import stored, verdict_of

PAGES = {"en": "claims.md", "zh": "zh/claims.md"}
WORDS = {
    "en": {
        "title": "The claims of the founding tutorials, put to the test",
        "intro": "Each claim has a protocol, its numbers come from real runs, and a rule that was written down decides the verdict. "
        "\"Not confirmed here\" is a result: on this protocol the claim did not show. It does not say that the claim is false elsewhere. "
        "A number with ± is the mean and standard deviation over seeds. Short runs compare at equal steps; what they cannot decide is listed as a long run.",
        "again": "`regard experiment run all` measures what is missing (`--long` for the long runs), `regard experiment report` writes this page from `docs/claims/`.",
        "counts": "{n} claims: {counts}.", "head": ["claim", "measured", "verdict"], "not_run": "no numbers yet",
        "details": "Protocols", "protocol": "Protocol", "decides": "Confirmed if", "source": "Claimed by", "command": "Command",
        "seeds": "Seeds", "when": "Measured", "plot": "Every run a point", "some": "{done} of {all} seeds so far, no verdict",
        "bench": "Speed and memory, by the bench",
        "bench_note": "These rows were measured by `regard bench claims` and stand in docs/bench/claims.json; the page of the bench has them too.",
        "versions": "Versions: {versions}.", "machine": "{cpu}, {cores} cores, shared with others; load {load}; CPU time {seconds:.0f} s; {dates}",
    },
    "zh": {
        "title": "起始教程的说法，逐一检验",
        "intro": "每条说法都有实验方案，数字来自真实运行，结论由写明的规则得出。“此处未能证实”也是结果：在该方案下没有看到；并不表示在别处不成立。"
        "带 ± 的数字是各种子的平均值与标准差。短训练在相同步数下比较；短训练无法判定的列为长时间训练。",
        "again": "`regard experiment run all` 测量缺少的部分（长时间训练加 `--long`），`regard experiment report` 由 `docs/claims/` 写出本页。",
        "counts": "{n} 条说法：{counts}。", "head": ["说法", "测得", "结论"], "not_run": "尚无数字",
        "details": "实验方案", "protocol": "方案", "decides": "证实的条件", "source": "来源", "command": "命令",
        "seeds": "种子", "when": "测量", "plot": "每个点是一次运行", "some": "{all} 个种子中已有 {done} 个，尚无结论",
        "bench": "速度与内存（来自 bench）",
        "bench_note": "这些行由 `regard bench claims` 测得，存于 docs/bench/claims.json；bench 页也列出。各行为英文原文。",
        "versions": "版本：{versions}。", "machine": "{cpu}，{cores} 核，与他人共用；负载 {load}；CPU 时间 {seconds:.0f} 秒；{dates}",
    },
}  # fmt: skip
BENCH_VERDICTS = {
    "understated": "低估",
    "memory confirmed, latency not": "内存证实，延迟未证实",
    "not measured": "未测量",
}


def write(groups: dict[str, list[Claim]], folder: Path, docs: Path, bench: Path | None = None) -> list[Path]:
    """Write both pages, and a plot for each claim that has one.

    Args:
        groups: The claims of each group, by the names of `every.GROUPS`.
        folder: Of the stored numbers.
        docs: Where the pages go; plots go to its `pictures`.
        bench: The JSON of `regard bench claims`; None or absent: left out.
    """
    plots = [draw(claim, folder, docs / "pictures") for group in groups.values() for claim in group]
    written = [path for path in plots if path is not None]
    rows = _bench_rows(bench)
    for language, name in PAGES.items():
        path = docs / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(page(groups, folder, language, rows, {path.name for path in written}), encoding="utf-8")
        written.append(path)
    return written


def page(
    groups: dict[str, list[Claim]], folder: Path, language: str, bench: list[dict[str, Any]], plots: set[str]
) -> str:
    """One page, as Markdown."""
    word, at = WORDS[language], 0 if language == "en" else 1
    every = [claim for group in groups.values() for claim in group]
    verdicts = {claim.name: verdict_of(claim, folder) for claim in every}
    counted = Counter(verdict for verdict, _ in verdicts.values())
    counts = ("; " if at == 0 else "，").join(
        f"{said(verdict, at)} {counted[verdict]}" for verdict in VERDICTS if counted[verdict]
    )
    parts = [f"# {word['title']}", word["intro"], word["again"], word["counts"].format(n=len(every), counts=counts)]
    for name, group in groups.items():
        lines = [_row(word["head"]), _row(["---"] * 3)]
        lines += [
            _row([claim.says[at], measured(claim, verdicts[claim.name], word, at), said(verdicts[claim.name][0], at)])
            for claim in group
        ]
        parts += [f"## {GROUPS[name][at]}", *([NOTES[name][at]] if name in NOTES else []), "\n".join(lines)]
        up = "../" if at else ""
        parts += [
            f"![{claim.says[at]}. {word['plot']}.]({up}pictures/{file})"
            for claim in group
            if (file := plot_name(claim)) in plots
        ]
    if bench:
        lines = [_row(word["head"]), _row(["---"] * 3)]
        lines += [_row([row["name"], row["measured"], bench_said(row["verdict"], at)]) for row in bench]
        parts += [f"## {word['bench']}", word["bench_note"], "\n".join(lines)]
    parts.append(f"## {word['details']}")
    parts += [details(claim, folder, word, at) for claim in every]
    return "\n\n".join(parts) + "\n"


def measured(claim: Claim, found: tuple[str, Found | None], word: dict[str, Any], at: int) -> str:
    """The sentence of a claim with its numbers, or that there are none."""
    verdict, numbers = found
    if numbers is None:
        return word["not_run"]
    if verdict == NOT_RUN:
        return word["some"].format(done=len(numbers.rows), all=claim.seeds)
    return claim.measured[at].format_map(numbers.spreads)


def details(claim: Claim, folder: Path, word: dict[str, Any], at: int) -> str:
    """Protocol, rule, source, command, seeds, machine and date of one claim."""
    lines = [f"### {claim.name}", ""]
    lines += [
        f"- {word['protocol']}: {claim.protocol[at]}",
        f"- {word['decides']}: {claim.decides[at]}",
        f"- {word['source']}: {claim.source[at]}",
    ]
    lines.append(f"- {word['command']}: `regard experiment run {claim.name}{' --long' if claim.long else ''}`")
    found = stored(claim, folder)
    if found is not None:
        runs = found["runs"]
        loads = [run["load"] for run in runs if run.get("load") is not None]
        load = f"{min(loads)} – {max(loads)}" if loads else "?"
        dates = ", ".join(sorted({run["date"] for run in runs}))
        seconds = sum(run.get("cpu_seconds", 0.0) for run in runs)
        lines.append(f"- {word['seeds']}: {', '.join(str(run['seed']) for run in runs)}")
        lines.append(
            f"- {word['when']}: " + word["machine"].format(**found["machine"], load=load, seconds=seconds, dates=dates)
        )
        lines.append(
            f"- {word['versions'].format(versions=', '.join(f'{k} {v}' for k, v in found['versions'].items()))}"
        )
    return "\n".join(lines)


def said(verdict: str, at: int) -> str:
    """A verdict in English (0) or Chinese (1)."""
    return VERDICTS[verdict] if at else verdict


def bench_said(verdict: str, at: int) -> str:
    """A verdict of the bench; one without a translation is left as it is."""
    return BENCH_VERDICTS.get(verdict, VERDICTS.get(verdict, verdict)) if at else verdict


def plot_name(claim: Claim) -> str:
    """The file of a claim's plot."""
    return f"claims_{claim.name.replace('-', '_')}.png"


def draw(claim: Claim, folder: Path, pictures: Path) -> Path | None:
    """The runs of a claim as points, drawn by views; None: nothing to draw, not all seeds run, or no matplotlib."""
    verdict, found = verdict_of(claim, folder)
    if not claim.drawn or found is None or verdict == NOT_RUN:
        return None
    try:
        from regard.views.plots.scores_of_variants import scores
    except MissingExtraError:
        return None
    ax = scores(
        {label: found[name].values for label, name in claim.drawn.items()}, metric=claim.unit, title=claim.says[0]
    )
    path = pictures / plot_name(claim)
    path.parent.mkdir(parents=True, exist_ok=True)
    ax.figure.savefig(path, dpi=110, bbox_inches="tight")  # type: ignore[union-attr]
    from matplotlib import pyplot

    pyplot.close(ax.figure)  # type: ignore[arg-type]
    return path


def _bench_rows(path: Path | None) -> list[dict[str, Any]]:
    if path is None or not path.is_file():
        return []
    found = json.loads(path.read_text(encoding="utf-8"))
    return [row for rows in found["suites"].values() for row in rows if "measured" in row]


def _row(cells: list[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
