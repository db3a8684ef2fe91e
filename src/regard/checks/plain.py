"""Any value as JSON can hold it: tensors and arrays become numbers or lists, NaN and infinity become text, the rest its repr."""

from __future__ import annotations

import math
from typing import Any


def plain(value: Any) -> Any:
    """A copy made of dict (with text keys), list, str, int, finite float, bool and None only.

    >>> plain({"gap": float("nan"), "shape": (2, 3)})
    {'gap': 'nan', 'shape': [2, 3]}
    """
    if value is None or isinstance(value, str | bool):
        return str(value) if isinstance(value, str) else value
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else str(float(value))
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, set | frozenset):
        return sorted((plain(item) for item in value), key=repr)
    if hasattr(value, "tolist"):  # a tensor or an array, of any size
        return plain(value.tolist())
    return str(value)
