"""torch's fused kernel behind `scaled_dot_product_attention`, with the repairs that keep it from its slow path.

Measured on CPU (torch 2.13): a value width other than the key width, a strided last axis, dropout, a mask that needs a
gradient and zero keys all make it fall back to a T x S form that is slower than one written by hand.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from regard.core.backends import kernel
from regard.core.call import Call
from regard.core.transform import under_vmap

# Whether the processor multiplies bfloat16 itself; `bool()` is False, for a torch that has no such question.
TILES, DOTS = (getattr(torch.cpu, f"_is_{unit}_supported", bool)() for unit in ("amx_tile", "avx512_bf16"))
MULTIPLIES = TILES or DOTS
# Tokens up to which it then is faster to train in the open form (measured on processors of both kinds).
FEW, FEW_MASKED = 512, (192 if TILES else 512)


class Fused:
    """One call of `torch.nn.functional.scaled_dot_product_attention`."""

    name = "sdpa"
    replaces = False

    def refuses(self, call: Call) -> str | None:
        if call.softcap is not None:
            return "softcap is not in torch's fused kernel"
        if call.sink is not None:
            return "a sink is not in torch's fused kernel"
        if call.dropout > 0 and call.query.device.type == "cpu":
            return (
                f"dropout={call.dropout:g} makes torch's CPU kernel fall back to a slower open form; dropout=0 is fused"
            )
        if call.bias is not None and call.bias.requires_grad and torch.is_grad_enabled():
            return "bias needs a gradient, which torch's fused kernel does not return; bias.detach() is fused"
        if call.bias is not None and call.query.device.type != "cpu" and call.bias.dtype != call.query.dtype:
            return f"bias is {call.bias.dtype} and query is {call.query.dtype}; bias.to(query.dtype) is fused"
        if under_vmap(call.query, call.key, call.value):
            return "torch.vmap has no rule for torch's fused kernel and would run it sample by sample"
        if call.key.shape[2] == 0:
            return "there are no keys; the open form gives 0"
        return None

    def slower(self, call: Call) -> str | None:
        T, S = call.sizes[2:]
        most = FEW if call.mask is None and call.bias is None else FEW_MASKED
        training = call.query.dtype == torch.bfloat16 and call.query.device.type == "cpu" and call.needs_grad
        if training and MULTIPLIES and not torch.compiler.is_exporting() and most**2 >= T * S:
            return f"its backward in bfloat16 is slow on {T} x {S} weights per head; the open form is faster"
        return None

    def repairs(self, call: Call) -> list[str]:
        made = []
        D, Dv = call.query.shape[3], call.value.shape[3]
        if Dv != D:
            made.append(
                f"{'value' if Dv < D else 'query and key'} padded with zeros from {min(D, Dv)} to {max(D, Dv)} channels"
            )
        strided = [name for name in ("query", "key", "value") if not _dense_last(getattr(call, name))]
        if strided:
            made.append(f"{', '.join(strided)} copied: the channels were not next to each other in memory")
        if _folds(call):
            made.append(f"the {call.group} heads of a group became rows: keys and values are read once, not repeated")
        form = call.structure
        if form.rest or form.documents or form.bound:
            odd = (*form.rest, *form.documents)
            made.append(
                f"{' & '.join(map(repr, odd))} written out as T x S booleans: the kernel knows no other form of it"
            )
        elif _two_masks(call):
            made.append(
                "padding goes in as a mask of keys beside the causal flag; nothing of size T x S is written out"
            )
        elif form.banded and not (form.causal and call.bias is None):
            made.append(
                f"{call.mask!r} written out as T x S booleans: the kernel knows only causal() from position 0, alone"
            )
        return made

    def run(self, call: Call) -> Tensor:
        D, Dv = call.query.shape[3], call.value.shape[3]
        query, key, value = dense_and_equally_wide(call.query, call.key, call.value)
        if _two_masks(call):
            keep = call.structure.key_mask(call.places())
            query, key, value = kernel.as_autocast(query, key, value)
            added = _additive(keep, None, query.dtype)
            output, _ = kernel.forward(query, key, value, causal=True, added=added, scale=call.scale)
            return output[..., :Dv] if Dv < D else output
        causal = call.structure.causal and call.bias is None
        free = causal or (call.mask is None and call.bias is None)
        added, alive = (None, None) if free else _lowered(call)
        fold = _folds(call) and not causal
        if fold:
            query, added = _as_rows(query, key.shape[1]), None if added is None else _as_rows(added, key.shape[1])
        output = F.scaled_dot_product_attention(
            query,
            key,
            value,
            added,
            call.dropout,
            is_causal=causal,
            scale=call.scale,
            enable_gqa=not fold and call.group > 1,
        )
        output = output.reshape(*call.query.shape[:3], -1) if fold else output
        output = output[..., :Dv] if Dv < D else output
        return output if alive is None else output.masked_fill(~alive, 0.0)


def dense_and_equally_wide(query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The same in the form that the kernel takes: channels next to each other, zeros where some have fewer."""
    D, Dv = query.shape[3], value.shape[3]
    query, key, value = (x if _dense_last(x) else x.contiguous() for x in (query, key, value))
    if Dv < D:
        value = F.pad(value, (0, D - Dv))
    elif Dv > D:
        query, key = F.pad(query, (0, Dv - D)), F.pad(key, (0, Dv - D))
    return query, key, value


def _folds(call: Call) -> bool:
    """Whether the heads of a group are better rows: the one query of a decoding step, which reads its keys once then."""
    return call.group > 1 and isinstance(call.query.shape[2], int) and call.query.shape[2] == 1


def _as_rows(x: Tensor, kv_heads: int) -> Tensor:
    """(B, H, 1, N) as (B, Hkv, G, N); one mask for all heads stays as it is."""
    return x if x.shape[1] == 1 else x.reshape(x.shape[0], kv_heads, -1, x.shape[3])


def _two_masks(call: Call) -> bool:
    """Whether the mask is causal from position 0 and key padding, which the kernel takes side by side."""
    form = call.structure
    if not form.padding or call.bias is not None:
        return False
    causal = form.left is None and form.right == 0 and isinstance(form.offset, int) and form.offset == 0
    return causal and form.plain and kernel.refuses(call) is None


def _lowered(call: Call) -> tuple[Tensor | None, Tensor | None]:
    """The mask argument of the kernel, and which rows see anything (.., T, 1), where the kernel must be helped with those
    that do not. The CPU kernel gives them 0, forward and backward; others are shown all keys, and the result is dropped."""
    attend, bias = call.attend(), call.bias
    if bias is not None:
        bias = _kernel_dtype(bias, call.query)
    if call.query.device.type == "cpu":
        return _additive(attend, bias, call.query.dtype), None
    if bias is not None:
        seen = bias > float("-inf")
        attend = seen if attend is None else attend & seen
    if attend is None:
        return None, None
    alive = attend.any(dim=-1, keepdim=True)
    if bias is None:
        return attend | ~alive, alive
    return torch.where(attend, bias, float("-inf")).masked_fill(~alive, 0.0), alive


def _additive(attend: Tensor | None, bias: Tensor | None, dtype: torch.dtype) -> Tensor | None:
    """0 or the bias where it attends, -inf elsewhere. `1 - 1 / x` is 0 or -inf, and four times faster than a select."""
    if attend is None:
        return bias
    if bias is None:
        return 1.0 - attend.to(dtype).reciprocal()
    return torch.where(attend, bias, float("-inf"))


def _kernel_dtype(bias: Tensor, query: Tensor) -> Tensor:
    """A float32 bias stays float32 beside 16-bit queries: positions beyond 256 would be rounded together."""
    return bias if bias.dtype == torch.float32 and query.dtype != torch.float64 else bias.to(query.dtype)


def _dense_last(x: Tensor) -> bool:
    return x.shape[3] <= 1 or x.stride(3) == 1


BACKEND = Fused()
