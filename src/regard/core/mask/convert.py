"""Foreign masks, by name: each door knows one framework's polarity, and says it.

torch.nn.MultiheadAttention: True = hidden. Hugging Face: 1 = keep in two axes; 0 = attend, very negative = hidden in four.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from regard.core.errors import MaskError, ShapeError
from regard.core.mask.expression import And, Mask
from regard.core.mask.sequences import Lengths, Padding
from regard.core.mask.table import Dense
from regard.core.mask.values import attend_from_additive, readable


class TorchMHAMask(NamedTuple):
    """The two mask arguments of `torch.nn.MultiheadAttention`; True = hidden. None where nothing is hidden."""

    attn_mask: Tensor | None  # (T, S) or (B * num_heads, T, S)
    key_padding_mask: Tensor | None  # (B, S)


def from_torch_mha(
    attn_mask: Tensor | None = None, key_padding_mask: Tensor | None = None, *, num_heads: int | None = None
) -> Mask:
    """The mask that `torch.nn.MultiheadAttention` applies for these arguments.

    Args:
        attn_mask: bool, True = hidden, or additive of 0 and c <= -80; (T, S), or (B * num_heads, T, S) with `num_heads`.
        key_padding_mask: the same dtypes, (B, S).

    Raises:
        MaskError: neither is given, an integer mask, or a float that is a bias.
        ShapeError: other axes.
    """
    parts: list[Mask] = []
    if attn_mask is not None:
        parts.append(_written(_mha_heads(_mha_attend(attn_mask, "attn_mask"), num_heads)))
    if key_padding_mask is not None:
        keep = _mha_attend(key_padding_mask, "key_padding_mask")
        if keep.ndim != 2:
            raise ShapeError(f"key_padding_mask must be (B, S), got {tuple(keep.shape)}")
        parts.append(Padding(keep, full=_all(keep)))
    if not parts:
        raise MaskError("from_torch_mha() needs attn_mask or key_padding_mask")
    return parts[0] if len(parts) == 1 else And(tuple(parts))


def from_hf(attention_mask: Tensor) -> Mask:
    """The mask that a Hugging Face model applies for this `attention_mask`.

    Args:
        attention_mask: (B, S), 1 or True = keep; or 4-D: bool or 0/1, True = attend, or additive of 0 and c <= -80.

    Raises:
        MaskError: integers other than 0 and 1, or a float that is a bias.
        ShapeError: other axes.
    """
    if attention_mask.ndim not in (2, 4):
        raise ShapeError(f"attention_mask must be (B, S) or 4-D, got {tuple(attention_mask.shape)}")
    if attention_mask.dtype.is_floating_point and attention_mask.ndim == 4:
        attend = attend_from_additive(attention_mask, "attention_mask")
    else:
        attend = _ones(attention_mask)
    if attend.ndim == 4:
        return _written(attend)
    return Padding(attend, full=_all(attend))


def to_torch_mha(mask: Mask, T: int, S: int, *, batch: int | None = None, num_heads: int | None = None) -> TorchMHAMask:
    """The arguments that make `torch.nn.MultiheadAttention` apply this mask.

    Args:
        batch, num_heads: Needed where the mask differs between samples or heads in more than key padding.

    Note: rows in which everything is hidden are NaN in torch's module, and 0 here.
    """
    factors = mask.parts if isinstance(mask, And) else (mask,)
    padding = [part for part in factors if isinstance(part, Padding | Lengths)]
    others = [part for part in factors if not isinstance(part, Padding | Lengths)]
    keys = attn = None
    if padding:
        keys = ~And(tuple(padding)).materialise(T, S, batch=batch)[:, 0, 0, :]
    if others:
        hidden = ~(others[0] if len(others) == 1 else And(tuple(others))).materialise(
            T, S, batch=batch, heads=num_heads
        )
        if hidden.shape[:2] == (1, 1):
            attn = hidden[0, 0].expand(T, S)
        elif batch is None or num_heads is None:
            raise MaskError(f"{mask!r} differs between samples or heads: give batch= and num_heads=")
        else:
            attn = hidden.expand(batch, num_heads, T, S).reshape(batch * num_heads, T, S)
    return TorchMHAMask(attn, keys)


def to_additive(mask: Mask, T: int, S: int, *, dtype: torch.dtype = torch.float32, batch: int | None = None) -> Tensor:
    """The mask as scores to add: 0 where it attends, -inf where it does not; broadcastable to (B, H, T, S).

    Note: a softmax written by hand gives NaN on a row that is all -inf.
    """
    if not dtype.is_floating_point:
        raise MaskError(f"an additive mask needs a float dtype, got {dtype}")
    attend = mask.materialise(T, S, batch=batch)
    return torch.zeros(attend.shape, dtype=dtype, device=attend.device).masked_fill(~attend, float("-inf"))


def _mha_attend(mask: Tensor, name: str) -> Tensor:
    if mask.dtype == torch.bool:
        return ~mask
    if mask.dtype.is_floating_point:
        return attend_from_additive(mask, name)
    raise MaskError(f"{name} of torch.nn.MultiheadAttention is bool (True = hidden) or float, got {mask.dtype}")


def _mha_heads(attend: Tensor, num_heads: int | None) -> Tensor:
    if attend.ndim == 2:
        return attend[None, None]
    if attend.ndim != 3:
        raise ShapeError(f"attn_mask must be (T, S) or (B * num_heads, T, S), got {tuple(attend.shape)}")
    if num_heads is None or attend.shape[0] % num_heads:
        raise ShapeError(
            f"attn_mask is {tuple(attend.shape)}: its first axis is B * num_heads; num_heads={num_heads} does not say which"
        )
    return attend.unflatten(0, (-1, num_heads))


def _ones(mask: Tensor) -> Tensor:
    if mask.dtype == torch.bool:
        return mask
    keep = mask == 1
    if readable(mask) and not bool((keep | (mask == 0)).all()):
        raise MaskError(
            f"attention_mask has the value {float(mask[~(keep | (mask == 0))][0]):g}; Hugging Face's is 1 = keep, 0 = pad"
        )
    return keep


def _written(attend: Tensor) -> Dense:
    return Dense(attend, full=_all(attend))


def _all(attend: Tensor) -> bool:
    return readable(attend) and bool(attend.all())
