"""Arrays as text inside a page: a number format whose error is known, gzip, base64.

Formats, from exact to small:
    f32    exact.
    f16    half precision: error at most max(2^-11 |a|, 2^-25).
    sqrt   8 bits: code q = round(levels sqrt(a / top)), value = top (q / levels)^2, where `top` is the largest weight of the head;
           error at most top (q + 1/4) / levels^2, so small weights are stored finely and large ones within 1/levels of themselves.
           Code 255 is "not a number". An array with a negative value is stored as f16 instead.
"""

from __future__ import annotations

import base64
import gzip
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Format:
    """How the numbers of an array are stored; `levels` counts the steps of the 8-bit format."""

    name: str  # "f32" | "f16" | "sqrt"
    levels: int = 0


EXACT, HALF = Format("f32"), Format("f16")
NOT_A_NUMBER = 255  # the code; levels end at 254


def encode(values: np.ndarray, form: Format) -> tuple[dict[str, Any], str]:
    """Store one array.

    Args:
        values: Any shape. What is not finite is kept as NaN by "sqrt".
        form: The format.

    Returns:
        What the page must know to read it, and the base64 text.
    """
    if form.name == "sqrt" and (values < 0).any():  # gates, mixed heads: no square root
        form = HALF
    meta: dict[str, Any] = {"shape": list(values.shape), "format": form.name}
    if form.name == "sqrt":
        codes, top = quantise(values, form.levels)
        meta |= {"levels": form.levels, "top": top}
        return meta, pack(codes)
    kind = "<f4" if form.name == "f32" else "<f2"
    return meta, pack(np.ascontiguousarray(values, dtype=kind))


def encode_bits(attend: np.ndarray) -> tuple[dict[str, Any], str]:
    """Store a boolean array, eight to a byte, the first in the lowest bit."""
    bits = np.packbits(attend.reshape(-1), bitorder="little")
    return {"shape": list(attend.shape), "format": "bits"}, pack(bits)


def quantise(values: np.ndarray, levels: int) -> tuple[np.ndarray, float]:
    """8-bit codes of values that are not negative, and the value of the highest level."""
    known = np.isfinite(values)
    top = float(np.float32(np.max(values, where=known, initial=0.0)))
    if top > 0:
        shares = np.clip(np.where(known, values, 0), 0, top) / np.float32(top)
        codes = np.rint(levels * np.sqrt(shares)).astype(np.uint8)
    else:
        codes = np.zeros(values.shape, np.uint8)
    codes[~known] = NOT_A_NUMBER
    return codes, top


def restore(codes: np.ndarray, top: float, levels: int) -> np.ndarray:
    """The values that the page shows for 8-bit codes."""
    return top * (codes.astype(np.float64) / levels) ** 2


def error_bound(codes: np.ndarray, top: float, levels: int) -> np.ndarray:
    """The largest difference between a value and what is shown for it, per code."""
    return top * (codes.astype(np.float64) + 0.25) / levels**2


def pack(array: np.ndarray) -> str:
    """Bytes of an array, gzip with no date in it, as base64."""
    return base64.b64encode(gzip.compress(array.tobytes(), 6, mtime=0)).decode("ascii")
