"""A table of variants: each trained with several seeds, at equal steps; mean, spread, cost, as JSON, Markdown and a picture.

What is done already in the folder is not done again, and what was cut short is resumed: so the table can be filled over several sittings.
"""

from __future__ import annotations

import json
import platform
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from regard.core.errors import DataError
from regard.recipes import checkpoint
from regard.recipes.asked import Asked
from regard.recipes.journal import tell
from regard.recipes.run import RESULT, recipe, run

TABLE = "table.json"


def compare(task: str, asked: Asked, *, seeds: int, only: list[str] | None = None) -> dict[str, Any]:
    """Train all variants of a recipe; returns what is written to table.json.

    Args:
        task: The recipe.
        asked: As for one run; `out` is the folder of the table, `seed` the first seed.
        seeds: How many seeds for each variant.
        only: Names of variants; None: all.

    Raises:
        DataError: The recipe has no variants, or none of that name.
    """
    module = recipe(task)
    variants: dict[str, dict] = getattr(module, "VARIANTS_LONG" if asked.long else "VARIANTS", None) or getattr(
        module, "VARIANTS", {}
    )
    unknown = [name for name in only or [] if name not in variants]
    if not variants or unknown:
        raise DataError(
            f"{task} has the variants {', '.join(variants) or 'none'}" + (f", not {unknown[0]!r}" if unknown else "")
        )
    rows: dict[str, list[dict[str, Any]]] = {}
    for seed in range(asked.seed, asked.seed + seeds):  # seed by seed: a table that is cut short has all variants
        for name, settings in variants.items():
            if only and name not in only:
                continue
            result = _one(task, asked, name, settings, seed)
            if result["interrupted"]:
                raise KeyboardInterrupt
            rows.setdefault(name, []).append(result)
            tell(f"{name}, seed {seed}: {result['metric']} {result['test'][result['metric']]:.2f}")
    table = {
        "task": task, "data": asked.data, "seeds": seeds, "steps": next(iter(rows.values()))[0]["plan"]["steps"],
        "torch": torch.__version__, "machine": f"{platform.machine()}, {torch.get_num_threads()} threads",
        "metric": next(iter(rows.values()))[0]["metric"], "rows": [_row(name, results) for name, results in rows.items()],
    }  # fmt: skip
    checkpoint.write_json(asked.out / TABLE, table)
    return table


def _one(task: str, asked: Asked, name: str, settings: dict, seed: int) -> dict[str, Any]:
    out = asked.out / "".join(c if c.isalnum() else "-" for c in name) / f"seed-{seed}"
    if (out / RESULT).is_file():
        return json.loads((out / RESULT).read_text(encoding="utf-8"))
    words = (*(f"{key}={value}" for key, value in settings.items()), *asked.settings)
    started = (out / "journal.jsonl").is_file()
    return run(task, replace(asked, out=out, seed=seed, settings=words, resume=started, baselines=False))


def _row(name: str, results: list[dict[str, Any]]) -> dict[str, Any]:
    scores = torch.tensor([result["test"][result["metric"]] for result in results], dtype=torch.float64)
    seconds = torch.tensor([result["cpu_seconds"] for result in results], dtype=torch.float64)
    return {
        "name": name, "scores": scores.tolist(), "mean": float(scores.mean()),
        "spread": float(scores.std()) if len(scores) > 1 else None, "parameters": results[0]["parameters"],
        "cost": results[0].get("cost"), "seconds": float(seconds.median()),
    }  # fmt: skip


def markdown(table: dict[str, Any]) -> str:
    """The table for a page: mean and standard deviation over seeds, what was added, the median CPU time of training."""
    first = table["rows"][0]
    lines = [
        f"| variant | test {table['metric']}, mean of {table['seeds']} seeds | spread (standard deviation) | minus {first['name']} | "
        "parameters | FLOPs added | CPU seconds |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in table["rows"]:
        spread = "-" if row["spread"] is None else f"{row['spread']:.2f}"
        flops = "-" if not row["cost"] else f"{row['cost']['flops']:,}"
        more = "" if row is first else f"{row['mean'] - first['mean']:+.2f}"
        lines.append(
            f"| {row['name']} | {row['mean']:.2f} | {spread} | {more} | {row['parameters']:,} | {flops} | {row['seconds']:.0f} |"
        )
    return "\n".join(lines) + "\n"


def picture(table: dict[str, Any], path: Path) -> None:
    """The scores of the variants as points with their mean, drawn by views.

    Raises:
        MissingExtraError: matplotlib is not installed.
    """
    from regard.views.plots.scores_of_variants import scores

    ax = scores({row["name"]: row["scores"] for row in table["rows"]}, metric=f"test {table['metric']}")
    ax.figure.savefig(path, dpi=150)  # type: ignore[union-attr]
