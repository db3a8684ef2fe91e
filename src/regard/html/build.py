"""The explorer: one HTML file that opens from disk, with its data, script and style inside, and nothing from a network.

Axes: H heads, T queries, S keys.
"""

from __future__ import annotations

import html
import json
import os
import tempfile
from dataclasses import replace
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

from regard.core.errors import CaptureError
from regard.html.blocks import encode, encode_bits
from regard.html.page_data import LayerMaps, PageData, check_page
from regard.html.quality import (
    LADDER,
    Quality,
    even_spread,
    first_that_may_fit,
    pooled_instead,
    received_of,
    short_series,
)

SCRIPTS = (
    "words.js", "blocks.js", "colours.js", "head_map.js", "state.js", "overview.js", "heatmap.js", "heatmap_drawing.js",
    "tokens.js", "search.js", "bars.js", "segments.js", "positions.js", "tables.js", "exports.js", "controls.js", "main.js",
)  # fmt: skip
FULL_BYTES, SUMMARY_BYTES = 12_000_000, 25_000_000
LANGUAGES = ("auto", "en", "zh")


def build_page(data: PageData, *, max_bytes: int | None = None, language: str = "auto") -> str:
    """The whole page as text.

    Args:
        data: What to show; see `page_data`.
        max_bytes: Size of the file at most. None: 12 MB with full weights, 25 MB without. Numbers are stored as exactly as that
            allows, and the page states the format and the error beside every value.
        language: The interface: "en", "zh", or "auto" for the reader's own. It can be changed on the page.

    Raises:
        CaptureError: There is nothing to show, arrays do not fit their tokens, or not even coarse pooled maps fit `max_bytes`.
    """
    check_page(data)
    if language not in LANGUAGES:
        raise CaptureError(f"language {language!r} is not one of {', '.join(LANGUAGES)}")
    if max_bytes is None:
        max_bytes = FULL_BYTES if any(entry.weights is not None for entry in data.layers) else SUMMARY_BYTES
    fixed = len(_fill("", "", data.title, language).encode()) + len(_json(_texts(data)).encode())
    for quality in LADDER[first_that_may_fit(data, max_bytes - fixed) :]:
        page = _page_at(data, quality, language)
        if len(page.encode()) <= max_bytes:
            return page
    raise CaptureError(
        f"the page needs {len(page.encode()):,} bytes at the coarsest and max_bytes is {max_bytes:,}; "
        "capture fewer layers or heads, or allow more"
    )


def write_page(data: PageData, path: str | Path, *, max_bytes: int | None = None, language: str = "auto") -> Path:
    """Write the page to a file, whole or not at all, and return its path. Arguments as for `build_page`."""
    path = Path(path)
    page = build_page(data, max_bytes=max_bytes, language=language)
    if not path.parent.is_dir():
        raise CaptureError(f"there is no folder {path.parent}; make it first")
    handle, beside = tempfile.mkstemp(prefix=path.name, suffix=".part", dir=path.parent)
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as file:
            file.write(page)
        os.chmod(beside, 0o644)
        os.replace(beside, path)
    except BaseException:
        os.unlink(beside)
        raise
    return path


def iframe(page: str, height: int = 820) -> str:
    """The page inside a notebook cell: an iframe of its own, so that two of them never share a name or a style."""
    return (
        f'<iframe srcdoc="{html.escape(page, quote=True)}" width="100%" height="{height}" '
        'style="border:0" sandbox="allow-scripts allow-downloads" title="attention explorer"></iframe>'
    )


def _page_at(data: PageData, quality: Quality, language: str) -> str:
    blocks: dict[str, str] = {}
    meta = _texts(data)
    meta["layers"] = [_layer(place, entry, quality, blocks) for place, entry in enumerate(data.layers)]
    if quality.weights is None and any(entry.weights is not None for entry in data.layers):
        meta["notes"].append("Full weights did not fit into the size of this page; maps are pooled.")
    stored = "\n".join(
        f'<script type="text/plain" data-block="{name}">{text}</script>' for name, text in blocks.items()
    )
    return _fill(_json(meta), stored, data.title, language)


def _texts(data: PageData) -> dict[str, Any]:
    sequences = [
        {
            "name": s.name,
            "labels": [str(label) for label in s.labels],
            "segments": [[g.name, int(g.start), int(g.stop)] for g in s.segments],
        }
        for s in data.sequences
    ]
    return {"title": data.title, "sequences": sequences, "notes": list(data.notes), "missed": list(data.missed)}


def _layer(place: int, entry: LayerMaps, quality: Quality, blocks: dict[str, str]) -> dict[str, Any]:
    """What the page must know of one layer; its arrays go to `blocks`."""
    if quality.weights is None:
        entry = pooled_instead(entry)
    meta: dict[str, Any] = {
        "layer": int(entry.layer), "path": entry.path, "kind": entry.kind, "heads": [int(h) for h in entry.heads],
        "queries": entry.queries, "keys": entry.keys, "facts": {k: str(v) for k, v in entry.facts.items()},
        "scores": {k: _numbers(v) for k, v in entry.scores.items()}, "trust": {k: _numbers(v) for k, v in entry.trust.items()},
    }  # fmt: skip

    def per_head(name: str, values: Any, form: Any) -> None:
        meta[name] = []
        for h, head in enumerate(values):
            about, text = encode(np.asarray(head), form)
            meta[name].append(about | {"block": _store(blocks, f"{name}.{place}.{h}", text)})

    if entry.weights is not None and quality.weights is not None:
        per_head("weights", entry.weights, quality.weights)
        entry = entry if entry.received is not None else _with_received(entry)
        if entry.allowed is not None and not entry.allowed.all():
            about, text = encode_bits(entry.allowed)
            meta["allowed"] = about | {"block": _store(blocks, f"allowed.{place}", text)}
    elif entry.pooled is not None:
        _pooled(meta, entry, quality, per_head)
    if entry.received is not None:
        per_head("received", entry.received, quality.maps)
    for at, row in entry.rows.items() if entry.weights is None else ():
        per_head(f"row{at}", row, quality.rest)
    meta["rows"] = sorted(int(at) for at in entry.rows) if entry.weights is None else []
    meta["series"] = {}
    for key, values in entry.series.items():
        means, limits = short_series(np.asarray(values, dtype=np.float32))
        name = f"series.{len(meta['series'])}"
        per_head(name, means, quality.rest)
        meta["series"][key] = {"edges": limits.tolist(), "name": name}
    if entry.segment_mass is not None:
        meta["segmentMass"] = np.round(np.asarray(entry.segment_mass, dtype=np.float64), 5).tolist()
    return meta


def _pooled(meta: dict[str, Any], entry: LayerMaps, quality: Quality, per_head: Any) -> None:
    assert entry.pooled is not None
    assert entry.query_edges is not None
    assert entry.key_edges is not None
    meta["queryEdges"], meta["keyEdges"] = ([int(e) for e in limits] for limits in (entry.query_edges, entry.key_edges))
    per_head("pooled", entry.pooled, quality.maps)
    if entry.peak is not None:
        per_head("peak", entry.peak, quality.maps)
    even = entry.even
    if even is None and entry.allowed is not None:
        even = even_spread(entry.allowed, np.asarray(entry.query_edges), np.asarray(entry.key_edges))
    if even is not None:
        per_head("even", even[None], quality.rest)


def _with_received(entry: LayerMaps) -> LayerMaps:
    return replace(entry, received=received_of(entry))


def _store(blocks: dict[str, str], name: str, text: str) -> str:
    """Keep a block once, however many layers have the same."""
    known = next((n for n, t in blocks.items() if t == text), None) if name.startswith("allowed") else None
    if known is None:
        blocks[name] = text
    return known or name


def _numbers(values: Any) -> list[float | None]:
    """JSON numbers with six digits; None for what is unknown."""
    return [None if v is None or not np.isfinite(float(v)) else float(f"{float(v):.6g}") for v in values]


def _json(value: Any) -> str:
    """JSON that can stand inside a script element: no `<`, and no separator that ends a line of script."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text.encode("utf-8", "replace").decode("utf-8")  # a lone surrogate becomes a question mark


def _fill(meta: str, blocks: str, title: str, language: str) -> str:
    folder = resources.files("regard.html") / "page"
    script = "\n".join((folder / name).read_text(encoding="utf-8") for name in SCRIPTS)
    parts = {
        "title": html.escape(title),
        "language": language,
        "style": (folder / "page.css").read_text(encoding="utf-8"),
        "data": meta,
        "blocks": blocks,
        "script": script,
    }
    page = (folder / "page.html").read_text(encoding="utf-8")
    head, *rest = page.split("{{")
    out = [head]
    for part in rest:  # one pass, so that braces inside the data are data
        name, after = part.split("}}", 1)
        out += [parts[name], after]
    return "".join(out)
