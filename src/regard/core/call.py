"""One attention call, checked: what a backend is asked to compute.

Axes: B samples, H query heads, Hkv key heads, T queries, S keys, D channels of a head, Dv channels of a value.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

from regard.core.errors import DtypeError, ShapeError
from regard.core.mask import structure
from regard.core.mask.expression import Mask
from regard.core.mask.places import Places
from regard.core.mask.structure import Structure
from regard.core.mask.table import from_bool

FLOATS = (torch.float32, torch.float64, torch.bfloat16, torch.float16)


@dataclass(frozen=True, eq=False)
class Call:
    """Checked arguments of `attention()`, with defaults filled in.

    Attributes:
        query, key, value: (B, H, T, D), (B, Hkv, S, D), (B, Hkv, S, Dv), one dtype, one device.
        mask: A Mask that fits, or None.
        structure: The form of the mask.
        bias: 4-D, broadcastable to (B, H, T, S), or None.
        sink: (H,) or None.
        rows: (t,) wanted rows; None = all.
    """

    query: Tensor
    key: Tensor
    value: Tensor
    mask: Mask | None
    structure: Structure
    bias: Tensor | None
    scale: float
    softcap: float | None
    sink: Tensor | None
    dropout: float
    rows: Tensor | None = None
    _memo: dict[str, Tensor] = field(default_factory=dict)

    @property
    def sizes(self) -> tuple[int, int, int, int]:
        """(B, H, T, S)."""
        B, H, T, _ = self.query.shape
        return B, H, T, self.key.shape[2]

    @property
    def group(self) -> int:
        """Query heads per key head."""
        return self.query.shape[1] // self.key.shape[1]

    @property
    def needs_grad(self) -> bool:
        """Whether a gradient is recorded for any input."""
        given = (self.query, self.key, self.value, self.bias, self.sink)
        return torch.is_grad_enabled() and any(x is not None and x.requires_grad for x in given)

    def unseen(self) -> Tensor:
        """(B, H, T, Dv) zeros, the output where nobody sees anything; the gradient of query, key and value is 0."""
        nothing = self.key[..., :0].sum() + self.value[..., :0].sum()
        return (
            (self.query[..., :0].sum(dim=-1, keepdim=True) + nothing)
            .expand(*self.query.shape[:3], self.value.shape[3])
            .clone()
        )

    def places(self) -> Places:
        """Where queries and keys stand, for `Mask.allowed` of one factor."""
        B, H, T, S = self.sizes
        offset = None if self.mask is None else self.mask.offset
        return Places(T, S, B, H, self.query.device, offset, self.rows)

    def attend(self) -> Tensor | None:
        """Bool, four axes, broadcastable to (B, H, T, S): the whole mask; None without one. Made once per call."""
        if self.mask is None:
            return None
        if "attend" not in self._memo:
            self._memo["attend"] = self.mask.allowed(self.places())
        return self._memo["attend"]


def prepare(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    mask: Mask | Tensor | None = None,
    bias: Tensor | None = None,
    scale: float | None = None,
    softcap: float | None = None,
    sink: Tensor | None = None,
    dropout: float = 0.0,
) -> Call:
    """Check the arguments of a call and fill in its defaults.

    Raises:
        ShapeError, DtypeError, MaskError: with the numbers and the way out.
    """
    _check_tensors(query, key, value)
    B, H, T, D = query.shape
    if softcap is not None and not softcap > 0:
        raise ShapeError(f"softcap must be None or > 0, got {softcap}")
    if not 0.0 <= dropout <= 1.0:
        raise ShapeError(f"dropout is a probability between 0 and 1, got {dropout}")
    if sink is not None and tuple(sink.shape) != (H,):
        raise ShapeError(f"sink is one logit per query head, ({H},), got {tuple(sink.shape)}")
    bias = None if bias is None else _check_bias(bias, (B, H, T, key.shape[2]))
    fitted, form = None, Structure()
    if mask is not None:
        fitted = _fit(mask, query, key)
        form = structure.of(fitted).within(T, key.shape[2])
        fitted = None if form.empty else fitted
    factor = float((D or 1) ** -0.5) if scale is None else scale
    return Call(query, key, value, fitted, form, bias, factor, softcap, sink, dropout)


def _check_tensors(query: Tensor, key: Tensor, value: Tensor) -> None:
    for name, x in (("query", query), ("key", key), ("value", value)):
        if not isinstance(x, Tensor):
            raise DtypeError(f"{name} must be a tensor, got {type(x).__name__}")
        if x.ndim != 4:
            hint = f"; {name}[None] if it is (H, T, D), {name}[:, None] if it is (B, T, D)" if x.ndim == 3 else ""
            raise ShapeError(f"{name} must be (B, H, T, D), got {tuple(x.shape)}{hint}")
        if x.dtype not in FLOATS:
            raise DtypeError(f"{name} must be float32, float64, bfloat16 or float16, got {x.dtype}")
    if not query.dtype == key.dtype == value.dtype:
        raise DtypeError(f"query, key and value must have one dtype, got {query.dtype}, {key.dtype}, {value.dtype}")
    if not query.device == key.device == value.device:
        raise DtypeError(
            f"query, key and value must be on one device, got {query.device}, {key.device}, {value.device}"
        )
    shapes = f"query {tuple(query.shape)}, key {tuple(key.shape)}, value {tuple(value.shape)}"
    if not query.shape[0] == key.shape[0] == value.shape[0]:
        raise ShapeError(f"query, key and value must have one batch size: {shapes}")
    if query.shape[3] != key.shape[3]:
        raise ShapeError(f"query has {query.shape[3]} channels per head and key has {key.shape[3]}: {shapes}")
    if key.shape[1] != value.shape[1]:
        raise ShapeError(f"key has {key.shape[1]} heads and value has {value.shape[1]}: {shapes}")
    if key.shape[2] != value.shape[2]:
        raise ShapeError(f"key has {key.shape[2]} positions and value has {value.shape[2]}: {shapes}")
    heads, kv_heads = query.shape[1], key.shape[1]
    if kv_heads == 0 or heads % kv_heads:
        raise ShapeError(f"{heads} query heads cannot share {kv_heads} key heads; num_kv_heads must divide num_heads")


def _check_bias(bias: Tensor, sizes: tuple[int, int, int, int]) -> Tensor:
    if not isinstance(bias, Tensor) or not bias.dtype.is_floating_point:
        got = bias.dtype if isinstance(bias, Tensor) else type(bias).__name__
        raise DtypeError(f"bias is a float tensor that is added to the scores, got {got}; a mask goes in as mask=")
    if bias.ndim not in (2, 4):
        hint = "; bias[None] if it is (H, T, S), bias[:, None] if it is (B, T, S)" if bias.ndim == 3 else ""
        raise ShapeError(f"bias is (T, S) or 4-D, broadcastable to (B, H, T, S), got {tuple(bias.shape)}{hint}")
    four = bias if bias.ndim == 4 else bias[None, None]
    if any(have not in (1, want) for have, want in zip(four.shape, sizes)):
        raise ShapeError(f"bias {tuple(bias.shape)} does not broadcast to (B, H, T, S) = {tuple(sizes)}")
    return four


def _fit(mask: Mask | Tensor, query: Tensor, key: Tensor) -> Mask:
    expression = mask if isinstance(mask, Mask) else from_bool(mask)
    B, H, T, _ = query.shape
    expression.places(T, key.shape[2], batch=B, heads=H, device=query.device)
    return expression
