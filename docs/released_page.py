"""Writes docs/released.md and docs/released.zh-CN.md from what the other commands of make_released.py left in docs/released/.

verdicts.json is written by hand after reading the source: one entry for each error and warning, right or wrong, and why.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

LEVELS = ("error", "warning")

HEAD = """---
orphan: true
---

# What we found in released code

`regard check`, without configuration, on every attention class (and attention function) of public packages. The packages were chosen
and written down before the first run, in `docs/make_released.py`. Each error and warning was then judged by reading the package's source; each that is
called right was confirmed by a short script in `docs/released/` that uses the package and torch, and not `regard`.
None of their code is in this repository.

What looks like attention is read from the syntax tree (`regard.checks.discover`), before anything is imported: the name of a layer, or
what its forward reaches: a softmax with a matrix product or a weighted sum, a fused call, a gate. Left out by rule are samplers
(a softmax that only `generate` reaches), entropies, classes that return a loss over squashed predictions, forwards that return
nothing, and plain classes that look at a model. No class was taken off the list by hand.

All classes were checked with one version; those that a cure told below concerns, and some others, again with the version that has it. The
results are therefore of several versions of one day.

Made by `python docs/make_released.py page` from `docs/released/results.json`, which `python docs/make_released.py check FOLDER` writes.
"""

HEAD_ZH = """---
orphan: true
---

# 已发布代码中的发现

对公开软件包中的每个注意力类（和函数）运行 `regard check`，不作任何配置。软件包清单在第一次运行之前就写在 `docs/make_released.py` 里。
每个错误和警告都通过阅读源码判断；判为正确的，都用 `docs/released/` 中一个只用该软件包和 torch 的短脚本确认过。详细内容见[英文页面](released.md)。

“看起来是注意力”由语法树判断（`regard.checks.discover`），不导入任何代码：层的名字，或其 forward 所到达的运算。只在 `generate` 中采样的、
计算熵的、返回损失的、什么都不返回的，以及只观察模型的普通类，都按规则排除；没有任何类被手工移出清单。

所有类都用同一版本检查过；与修正有关的类以及另外一些类，又用包含该修正的版本重新检查。因此结果来自同一天的几个版本。

由 `python docs/make_released.py page` 生成。
"""


def load(place: Path) -> dict[str, Any]:
    """{package: {"version", "classes": {"file.py:Class": ...}}} and the verdicts and confirmations beside it."""

    def read(name: str, empty: Any) -> Any:
        return json.loads((place / name).read_text()) if (place / name).is_file() else empty

    return {
        "results": read("results.json", {}),
        "held_out": read("held_out.json", {}),
        "verdicts": read("verdicts.json", []),
        "confirmed": read("confirmed.json", {}),
    }


def verdict(data: dict[str, Any], package: str, key: str, finding: dict[str, Any]) -> dict[str, Any]:
    """The hand-written verdict for a finding; empty where nobody has judged it yet."""
    name = key.rpartition(":")[2]
    for v in data["verdicts"]:
        if v["package"] == package and v["rule"] == finding["rule"] and v["class"] in (key, name, "*"):
            return v
    return {}


def rows(data: dict[str, Any], levels: tuple[str, ...]) -> list[tuple[str, str, dict[str, Any], dict[str, Any]]]:
    """(package, class, finding, verdict), the same rule of one class once."""
    out, seen = [], set()
    for package, entry in data["results"].items():
        for key, c in entry["classes"].items():
            for f in c["findings"]:
                if f["level"] in levels and (package, key, f["rule"]) not in seen:
                    seen.add((package, key, f["rule"]))
                    out.append((package, key, f, verdict(data, package, key, f)))
    return out


def totals(data: dict[str, Any]) -> dict[str, int]:
    """The counts of the page."""
    classes = [c for e in data["results"].values() for c in e["classes"].values()]
    found = rows(data, LEVELS)
    return {
        "packages": sum(bool(e["classes"]) for e in data["results"].values()),
        "classes": len(classes),
        "exercised": sum(c["status"] == "checked" for c in classes),
        "findings": len(found),
        "right": sum(v.get("right") is True for *_, v in found),
        "wrong": sum(v.get("right") is False for *_, v in found),
        "unjudged": sum("right" not in v for *_, v in found),
        "questions": len(rows(data, ("question",))),
        "cured": len(cured(data)),
    }


def cured(data: dict[str, Any]) -> list[dict[str, Any]]:
    """Verdicts on wrong findings of earlier versions that are not found any more."""
    held_out = data.get("held_out", {})
    now = {id(v) for *_, v in rows(data, (*LEVELS, "question")) if v}
    asked = {(p, k.rpartition(":")[2], f["rule"]) for p, k, f, _ in rows(data, ("question",))}
    wrong = [v for v in data["verdicts"] if not v["right"] and v["package"] not in held_out]
    lowered = [v for v in wrong if (v["package"], v["class"].rpartition(":")[2], v["rule"]) in asked]
    return [
        {**v, "now": "a question" if v in lowered else "nothing is said"}
        for v in wrong
        if v in lowered or id(v) not in now
    ]


def summary(n: dict[str, int]) -> str:
    return f"""
| | |
|---|---|
| packages with attention in them | {n["packages"]} |
| classes and functions that look like attention | {n["classes"]} |
| of these built, called and probed | {n["exercised"]} ({n["exercised"] / n["classes"]:.1%}) |
| errors and warnings | {n["findings"]} |
| of these right | {n["right"]} |
| of these wrong | {n["wrong"]} |
| of these not judged yet | {n["unjudged"]} |
| questions (a design choice or a fault; the author knows) | {n["questions"]} |
| wrong findings of earlier versions, cured (listed below) | {n["cured"]} |
"""


def cell(text: Any) -> str:
    return str(text).replace("|", "/").replace("\n", " ")


def found_table(data: dict[str, Any], right: bool) -> str:
    lines = [
        "| package | class | rule | what was measured | " + ("confirmed by |" if right else "why it is wrong |"),
        "|---|---|---|---|---|",
    ]
    for package, key, f, v in rows(data, (*LEVELS, "question")):
        if v.get("right") is not right or (f["level"] == "question" and not right):
            continue
        version = data["results"][package]["version"]
        script = data["confirmed"].get(v.get("script", ""), {})
        last = (
            f"`docs/released/{v['script']}`: {script.get('said', 'not run')}{'' if script.get('confirmed') else ' (NOT confirmed)'}"
            if v.get("script")
            else cell(v["why"])
        )
        lines.append(
            f"| {package} {version} | `{key}` | {f['rule']} {f['name']}, {f['level']} | {cell(f['message'])} | {cell(last)} |"
        )
    return "\n".join(lines)


def right_notes(data: dict[str, Any]) -> str:
    seen, lines = set(), []
    for package, key, f, v in rows(data, (*LEVELS, "question")):
        if v.get("right") and v["why"] not in seen:
            seen.add(v["why"])
            lines.append(f"- **{package}**, `{key.rpartition(':')[2]}`, {f['rule']}: {v['why']}")
    return "\n".join(lines)


def left_out(data: dict[str, Any]) -> str:
    lines = ["| package | class | reason |", "|---|---|---|"]
    for package, entry in data["results"].items():
        for key, c in entry["classes"].items():
            if c["status"] != "checked":
                lines.append(f"| {package} | `{key}` | {cell(c['reason'])[:200]} |")
    return "\n".join(lines)


def cured_table(data: dict[str, Any]) -> str:
    lines = ["| package | class | rule | what was wrong | now |", "|---|---|---|---|---|"]
    lines += [
        f"| {v['package']} | `{v['class'].rpartition('/')[2]}` | {v['rule']} | {cell(v['why'])} | {v['now']} |"
        for v in cured(data)
    ]
    return "\n".join(lines)


def packages_table(data: dict[str, Any], authors: dict[str, str]) -> str:
    lines = ["| package | version | author | classes | exercised |", "|---|---|---|---|---|"]
    for package, author in authors.items():
        entry = data["results"].get(package, {"version": None, "classes": {}})
        done = sum(c["status"] == "checked" for c in entry["classes"].values())
        what = entry["version"] or "nothing to install"
        lines.append(f"| {package} | {what} | {author} | {len(entry['classes'])} | {done} |")
    return "\n".join(lines)


def wrong_findings(data: dict[str, Any], count: int) -> list[str]:
    if not count:
        return ["\n## Wrong findings\n\nNone of the errors and warnings of this run was judged wrong."]
    text = "\n## Wrong findings\n\nThe checker said more than the code deserves. Each is a task for a rule or for inference.\n"
    return [text, found_table(data, False)]


FRESH = """
## Packages that no rule was tried on

The rules were improved on the packages above, so that few wrong findings there say little of other code. These were chosen and written down
afterwards (`HELD_OUT` in `docs/make_released.py`) and run once; the tables say what that run said. The causes of its wrong findings were cured later.
"""


def held_out(data: dict[str, Any], authors: dict[str, str]) -> list[str]:
    """The section on packages that no rule was tried on."""
    fresh = {**data, "results": data["held_out"], "held_out": {}}
    n = totals(fresh)
    counts = [
        ("classes and functions that look like attention", n["classes"]),
        ("of these built, called and probed", f"{n['exercised']} ({n['exercised'] / max(n['classes'], 1):.1%})"),
        ("errors and warnings", n["findings"]), ("of these right", n["right"]), ("of these wrong", n["wrong"]),
        ("of these not judged", n["unjudged"]), ("questions", n["questions"]),
    ]  # fmt: skip
    lines = ["| | |", "|---|---|", *(f"| {what} | {count} |" for what, count in counts)]
    return [FRESH, "\n".join(lines), "", right_notes(fresh), "", found_table(fresh, True), "", found_table(fresh, False), "",
            packages_table(fresh, authors), "", left_out(fresh)]  # fmt: skip


def write_pages(docs: Path, authors: dict[str, str], fresh: dict[str, str]) -> None:
    """docs/released.md and its short Chinese form."""
    data = load(docs / "released")
    n = totals(data)
    unjudged = [
        f"- {p} `{k}` {f['rule']} ({f['level']}): {cell(f['message'])}"
        for p, k, f, v in rows(data, LEVELS)
        if "right" not in v
    ]
    parts = [
        HEAD, summary(n), "## Faults, confirmed\n", right_notes(data), "", found_table(data, True),
        *wrong_findings(data, n["wrong"]),
        "\n## Wrong in earlier versions\n\nEach was cured by a relation that holds for any code; no rule knows a package, a file or a class. `tests/checks/test_checks_false_alarms.py` has a module of our own for each kind.\n", cured_table(data),
        "\n## Not judged yet\n" if unjudged else "", "\n".join(unjudged),
        "\n## Packages\n\nA package without a version has nothing in the registry that installs, or an empty wheel.\n", packages_table(data, authors),
        "\n## Not exercised\n", left_out(data),
        *(held_out(data, fresh) if data["held_out"] else []),
    ]  # fmt: skip
    (docs / "released.md").write_text("\n".join(parts) + "\n")
    chinese = [HEAD_ZH, summary_zh(n), packages_table(data, authors)]
    if data["held_out"]:
        other = {**data, "results": data["held_out"], "held_out": {}}
        chinese += [FRESH_ZH, summary_zh(totals(other)), packages_table(other, fresh)]
    (docs / "released.zh-CN.md").write_text("\n".join(chinese) + "\n")
    print(n)


FRESH_ZH = """
## 没有用来改进规则的软件包

上面的软件包曾用来改进规则，因此那里的误报数说明不了其他代码。下面的软件包在此之后选定并写下，只运行一次；表中是那一次的结果，其误报的原因后来才修正。
"""


def summary_zh(n: dict[str, int]) -> str:
    return f"""
| | |
|---|---|
| 含注意力的软件包 | {n["packages"]} |
| 看起来是注意力的类和函数 | {n["classes"]} |
| 其中已构造、调用并检查 | {n["exercised"]} ({n["exercised"] / n["classes"]:.1%}) |
| 错误和警告 | {n["findings"]} |
| 其中正确 | {n["right"]} |
| 其中误报 | {n["wrong"]} |
| 其中尚未判断 | {n["unjudged"]} |
| 问题（设计选择或缺陷，由作者回答） | {n["questions"]} |
| 早期版本的误报，现已修正 | {n["cured"]} |
"""
