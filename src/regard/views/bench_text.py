"""Rows of the bench as text of at most 80 columns: what, against whom, the ratio with its target, quartiles, memory, share of the limit."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

WIDTH = 80


def suite_text(suite: str, rows: Sequence[dict]) -> str:
    """The rows of one suite, and how many passed."""
    lines = [suite]
    for row in rows:
        lines += row_lines(row)
    return "\n".join([*lines, f"{suite}: {counts(rows)}", ""])


def counts(rows: Sequence[dict]) -> str:
    """ "12 rows: 9 pass, 3 fall-short"."""
    found: dict[str, int] = {}
    for row in rows:
        found[row["verdict"]] = found.get(row["verdict"], 0) + 1
    return f"{len(rows)} rows: " + ", ".join(f"{n} {verdict}" for verdict, n in found.items())


def row_lines(row: dict) -> list[str]:
    """What was compared; then the numbers, indented."""
    lines = _wrapped(row["name"], 2)
    if row["verdict"] in ("missing", "failed"):
        why = f"not installed: {', '.join(row['missing'])}" if row["verdict"] == "missing" else row["reason"]
        return [*lines, *_wrapped(f"against {row['against']}: {row['verdict']}, {why}", 4)]
    if "measured" in row:
        return [*lines, *_wrapped(f"measured: {row['measured']}", 4), *_wrapped(f"verdict: {row['verdict']}", 4)]
    lines += _wrapped(f"against {row['against']}: {headline(row)}", 4)
    return [*lines, *_wrapped("   ".join(details(row)), 6)]


def headline(row: dict) -> str:
    """The number that is held against the target, the target, the verdict."""
    if "value" in row:
        allowed = "" if row["target"] is None else f", at most {row['allowed']:g}"
        return f"{figure(row['value'])} {row['unit']}{allowed}  {row['verdict']}"
    times = f"{row['ratio']:.2f}x {'faster' if row['sense'] == 'at least' else 'its time'}"
    target = "" if row["target"] is None else f", {row['sense']} {row['target']:g}x"
    return f"{times}{target}  {row['verdict']}"


def details(row: dict) -> list[str]:
    """Quartiles, memory, share of the limit: what of it the row has."""
    made = []
    if spread := row.get("quartiles"):
        unit = row.get("unit", "ms") if "peer" not in spread else "ms"
        made.append(
            f"quartiles {' | '.join(' '.join(map(figure, spread[x])) for x in ('ours', 'peer') if x in spread)} {unit}"
        )
    held = row.get("memory")
    if held and None not in held.values():
        made.append(f"memory {figure(held['ours'])} | {figure(held['peer'])} MiB")
    if row.get("share"):
        made.append(f"{row['share']:.0%} of the limit")
    return made


def figure(value: float) -> str:
    """Three digits, no exponent."""
    if value >= 99.5:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 9.95 else f"{value:.2f}"


def machine_text(machine: dict) -> str:
    """What it was measured on."""
    versions = ", ".join(f"{name} {version}" for name, version in machine["versions"].items())
    gemm = ", ".join(f"{kind} {rate / 1e9:,.0f} GFLOP/s" for kind, rate in machine["limits"]["gemm"].items())
    lines = [
        f"{machine['cpu']}, {machine['cores']} cores, {machine['threads']} used, load {machine['load']}, {machine['date']}",
        f"Python {machine['python']}, {versions}",
        f"limits: {gemm}, copy {machine['limits']['copy'] / 1e9:.1f} GB/s",
        "A ratio is of the 25th percentiles of CPU times, taken in turn: ours | the peer's.",
    ]
    if machine["quick"]:
        lines.append("Quick: small sizes and few rounds. The targets are meant for full sizes.")
    return "\n".join(line for text in lines for line in _wrapped(text, 0)) + "\n"


def curve_text(curve: dict) -> str:
    """A curve of cost against length."""
    points = "  ".join(f"{n:,}: {figure(ms)}" for n, ms in zip(curve["lengths"], curve["ms"], strict=True))
    return "\n".join(_wrapped(f"{curve['name']}: slope {curve['slope']:.2f}, ms at {points}", 2))


def _wrapped(text: str, indent: int) -> list[str]:
    return textwrap.wrap(text, WIDTH, initial_indent=" " * indent, subsequent_indent=" " * (indent + 2)) if text else []
