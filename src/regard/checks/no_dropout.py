"""Dropout turned off at the call, wherever the rate is kept."""

from __future__ import annotations

import linecache
import re
import sys
from itertools import islice
from pathlib import Path
from types import FrameType
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

DROPOUTS = (
    "dropout",
    "dropout1d",
    "dropout2d",
    "dropout3d",
    "alpha_dropout",
    "feature_dropout",
    "dropout_",
    "feature_alpha_dropout",
)


class NoDropout(TorchFunctionMode):
    """Every call of torch's dropout functions and kernels gets a rate of 0, whatever attribute the rate is kept in."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        name = getattr(func, "__name__", "")
        if name in DROPOUTS and self._concerns(name):
            return args[0] if args else kwargs["input"]
        if name == "scaled_dot_product_attention" and self._concerns(name):
            args = (*args[:4], 0.0, *args[5:]) if len(args) > 4 else args
            kwargs["dropout_p"] = 0.0
            if len(args) > 4:
                kwargs.pop("dropout_p")
        return func(*args, **kwargs)

    def _concerns(self, name: str) -> bool:
        return True


class NoChosenDropout(NoDropout):
    """The same for the calls alone whose line says training=True: dropout that the author wants in every mode."""

    def _concerns(self, name: str) -> bool:
        return name in DROPOUTS and re.search(r"\btraining\s*=\s*True\b", _call_text()) is not None


def _call_text() -> str:
    """The source of the call that led into torch."""
    frame: FrameType | None = sys._getframe(1)
    inside = (str(Path(__file__).parent), str(Path(torch.__file__).parent))  # modes of ours, and torch's own layers
    while frame is not None and frame.f_code.co_filename.startswith(inside):
        frame = frame.f_back
    if frame is None:
        return ""
    positions = getattr(frame.f_code, "co_positions", None)  # from Python 3.11 on
    place = next(islice(positions(), frame.f_lasti // 2, None), None) if positions else None
    file = frame.f_code.co_filename
    if place is None or None in place:
        return linecache.getline(file, frame.f_lineno)
    first, last, left, right = place
    lines = [linecache.getline(file, n).encode() for n in range(first, last + 1)]
    lines[-1] = lines[-1][:right]
    return b"".join([lines[0][left:], *lines[1:]]).decode(errors="replace")
