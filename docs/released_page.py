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

Made by `python docs/make_released.py page` from `docs/released/results.json`, which `python docs/make_released.py check FOLDER` writes.
"""

HEAD_ZH = """---
orphan: true
---

# 已发布代码中的发现

对公开软件包中的每个注意力类（和函数）运行 `regard check`，不作任何配置。软件包清单在第一次运行之前就写在 `docs/make_released.py` 里。
每个错误和警告都通过阅读源码判断；判为正确的，都用 `docs/released/` 中一个只用该软件包和 torch 的短脚本确认过。详细内容见[英文页面](released.md)。

由 `python docs/make_released.py page` 生成。
"""


def load(place: Path) -> dict[str, Any]:
    """{package: {"version", "classes": {"file.py:Class": ...}}} and the verdicts and confirmations beside it."""

    def read(name: str, empty: Any) -> Any:
        return json.loads((place / name).read_text()) if (place / name).is_file() else empty

    return {
        "results": read("results.json", {}),
        "verdicts": read("verdicts.json", []),
        "confirmed": read("confirmed.json", {}),
        "others": read("not_layers.json", {}),
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
    layers = [c for e in data["results"].values() for k, c in e["classes"].items() if k not in data["others"]]
    found = rows(data, LEVELS)
    return {
        "packages": sum(bool(e["classes"]) for e in data["results"].values()),
        "classes": len(classes),
        "layers": len(layers),
        "exercised": sum(c["status"] == "checked" for c in layers),
        "all_exercised": sum(c["status"] == "checked" for c in classes),
        "findings": len(found),
        "right": sum(v.get("right") is True for *_, v in found),
        "wrong": sum(v.get("right") is False for *_, v in found),
        "unjudged": sum("right" not in v for *_, v in found),
        "questions": len(rows(data, ("question",))),
    }


def summary(n: dict[str, int]) -> str:
    share = n["exercised"] / max(n["layers"], 1)
    return f"""
| | |
|---|---|
| packages with attention in them | {n["packages"]} |
| classes and functions that look like attention | {n["classes"]} |
| of these built, called and probed | {n["all_exercised"]} ({n["all_exercised"] / n["classes"]:.1%}) |
| without wrappers and tools that hold no attention of their own (listed below) | {n["layers"]} |
| of these built, called and probed | {n["exercised"]} ({share:.1%}) |
| errors and warnings | {n["findings"]} |
| of these right | {n["right"]} |
| of these wrong | {n["wrong"]} |
| of these not judged yet | {n["unjudged"]} |
| questions (a design choice or a fault; the author knows) | {n["questions"]} |
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
    lines += ["", "Wrappers and tools:", ""]
    lines += [f"- `{key}`: {why}" for key, why in data["others"].items()]
    return "\n".join(lines)


def packages_table(data: dict[str, Any], authors: dict[str, str]) -> str:
    lines = ["| package | version | author | classes | exercised |", "|---|---|---|---|---|"]
    for package, author in authors.items():
        entry = data["results"].get(package, {"version": None, "classes": {}})
        done = sum(c["status"] == "checked" for c in entry["classes"].values())
        what = entry["version"] or "nothing to install"
        lines.append(f"| {package} | {what} | {author} | {len(entry['classes'])} | {done} |")
    return "\n".join(lines)


def write_pages(docs: Path, authors: dict[str, str]) -> None:
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
        "\n## Wrong findings\n\nThe checker said more than the code deserves. Each is a task for a rule or for inference.\n", found_table(data, False),
        "\n## Not judged yet\n" if unjudged else "", "\n".join(unjudged),
        "\n## Packages\n\nA package without a version has nothing in the registry that installs, or an empty wheel.\n", packages_table(data, authors),
        "\n## Not exercised\n", left_out(data),
    ]  # fmt: skip
    (docs / "released.md").write_text("\n".join(parts) + "\n")
    chinese = [HEAD_ZH, summary_zh(n), packages_table(data, authors)]
    (docs / "released.zh-CN.md").write_text("\n".join(chinese) + "\n")
    print(n)


def summary_zh(n: dict[str, int]) -> str:
    return f"""
| | |
|---|---|
| 含注意力的软件包 | {n["packages"]} |
| 看起来是注意力的类和函数 | {n["classes"]} |
| 其中已构造、调用并检查 | {n["all_exercised"]} ({n["all_exercised"] / n["classes"]:.1%}) |
| 去掉自身不含注意力的包装类和工具 | {n["layers"]} |
| 其中已构造、调用并检查 | {n["exercised"]} ({n["exercised"] / n["layers"]:.1%}) |
| 错误和警告 | {n["findings"]} |
| 其中正确 | {n["right"]} |
| 其中误报 | {n["wrong"]} |
| 其中尚未判断 | {n["unjudged"]} |
| 问题（设计选择或缺陷，由作者回答） | {n["questions"]} |
"""
