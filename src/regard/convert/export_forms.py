"""What an exported layer is called with: the query alone, or with padding, a mask, other tokens, or the keys so far.

Axes: B samples, T queries, S keys, P keys so far, E channels, G key heads, D and Dv channels of a head.
A file has fixed inputs, so each combination is a module of its own.
"""

from __future__ import annotations

import copy
from collections.abc import Callable

import torch
from torch import Tensor, nn

from regard.core.errors import ConversionError
from regard.core.mask.expression import Mask
from regard.core.mask.table import dense
from regard.nn.multi_head import MultiHeadAttention, _Call

TAKES = ("keep", "mask", "context", "cache")


class Form(nn.Module):
    """A layer in eval mode, with the inputs of one file.

    Attributes:
        inputs, outputs: Names, in the order of `forward`.
    """

    inputs: tuple[str, ...] = ("query",)
    outputs: tuple[str, ...] = ("output",)

    def __init__(self, layer: MultiHeadAttention):
        super().__init__()
        self.layer = copy.deepcopy(layer).cpu().eval()

    def forward(self, query: Tensor) -> Tensor:
        """(B, T, E) to (B, T, E)."""
        return self.layer(query)

    def example(self, batch: int, length: int, other: int) -> tuple[Tensor, ...]:
        """Inputs of these sizes: random numbers, and masks with rows that see no key."""
        generator = torch.Generator().manual_seed(batch + 10 * length + 100 * other)
        made: dict[str, Callable[[], Tensor]] = {
            "query": lambda: self._draw(generator, batch, length, self.layer.embed_dim),
            "context": lambda: self._draw(generator, batch, other, self.layer.key_dim),
            "keep": lambda: _some(generator, batch, other if "context" in self.inputs else length),
            "mask": lambda: _some(generator, batch, 1, length, other if "context" in self.inputs else length),
            "past_key": lambda: self._draw(generator, batch, self.layer.num_kv_heads, other, self.layer.head_dim),
            "past_value": lambda: self._draw(
                generator, batch, self.layer.num_kv_heads, other, self.layer.value_head_dim
            ),
        }
        return tuple(made[name]() for name in self.inputs)

    def free(self) -> tuple[dict[int, object], ...]:
        """Which axes may have any size, for `torch.export`."""
        batch, length, other = (torch.export.Dim(name) for name in ("batch", "length", "other"))
        keys = other if "context" in self.inputs else length
        axes: dict[str, dict[int, object]] = {
            "query": {0: batch, 1: length},
            "context": {0: batch, 1: other},
            "keep": {0: batch, 1: keys},
            "mask": {0: batch, 2: length, 3: keys},
            "past_key": {0: batch, 2: other},
            "past_value": {0: batch, 2: other},
        }
        return tuple(axes[name] for name in self.inputs)

    def _draw(self, generator: torch.Generator, *shape: int) -> Tensor:
        return torch.randn(shape, generator=generator).to(self.layer.q_proj.weight.dtype)


class WithKeep(Form):
    """Padding: keep (B, T), True = a real token."""

    inputs = ("query", "keep")

    def forward(self, query: Tensor, keep: Tensor) -> Tensor:
        return self.layer(query, mask=dense(by_query(keep, query.shape[1])))


class WithMask(Form):
    """Any mask: (B, 1, T, T), True = attend."""

    inputs = ("query", "mask")

    def forward(self, query: Tensor, mask: Tensor) -> Tensor:
        return self.layer(query, mask=dense(mask))


class WithContext(Form):
    """Cross-attention: keys and values from (B, S, E)."""

    inputs = ("query", "context")

    def __init__(self, layer: MultiHeadAttention):
        super().__init__(layer)
        if layer.key_dim != layer.value_dim:
            raise ConversionError(
                f"takes=context gives one tensor for keys and values; the layer's have {layer.key_dim} and "
                f"{layer.value_dim} channels"
            )

    def forward(self, query: Tensor, context: Tensor) -> Tensor:
        return self.layer(query, context)


class WithContextAndKeep(WithContext):
    """Cross-attention to padded tokens."""

    inputs = ("query", "context", "keep")

    def forward(self, query: Tensor, context: Tensor, keep: Tensor) -> Tensor:  # pyright: ignore
        return self.layer(query, context, mask=dense(by_query(keep, query.shape[1])))


class WithCache(Form):
    """Decoding: the keys and values so far come in, and go out with the new ones at their end."""

    inputs = ("query", "past_key", "past_value")
    outputs = ("output", "present_key", "present_value")

    def forward(self, query: Tensor, past_key: Tensor, past_value: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        layer, past, new = self.layer, past_key.shape[2], query.shape[1]
        q, k, v = layer._project(query, query, query)
        positions = torch.arange(new, device=query.device)[None] + past  # (1, T)
        if layer.position is not None:
            q, k = layer.position(q, positions), layer.position(k, positions)
        key, value = torch.cat([past_key, k], dim=2), torch.cat([past_value, v], dim=2)
        keys = torch.arange(past + new, device=query.device)[None]  # (1, P + T)
        mask = None if layer.mask is None else dense(layer.mask.at(positions, keys).materialise(new, past + new))
        bias = None if layer.attention_bias is None else layer.attention_bias(positions, keys)
        return layer._finish(_Call(q, key, value, mask, bias)), key, value


class RepeatedHeads(MultiHeadAttention):
    """Ours, with key heads repeated for their queries: with a softcap, torch.export ties grouped heads to one length."""

    @classmethod
    def of(cls, layer: MultiHeadAttention) -> RepeatedHeads:
        """A copy of a layer that repeats its key heads."""
        made = copy.deepcopy(layer)
        made.__class__ = cls
        return made  # pyright: ignore

    def _finish(self, call: _Call) -> Tensor:
        group = call.query.shape[1] // call.key.shape[1]
        wide = (x.repeat_interleave(group, dim=1) for x in (call.key, call.value))
        return super()._finish(call._replace(**dict(zip(("key", "value"), wide))))


class OperatorAttention(MultiHeadAttention):
    """Ours, whose attention is written as the ONNX operator itself: for a softcap, which torch's own call cannot say.

    NaN in hidden keys is not kept from others here, for no guard stands around the operator.
    """

    @classmethod
    def of(cls, layer: MultiHeadAttention) -> OperatorAttention:
        """A copy of a layer that computes by the operator."""
        made = copy.deepcopy(layer)
        made.__class__ = cls
        return made  # pyright: ignore

    def _finish(self, call: _Call) -> Tensor:
        T, S = call.query.shape[2], call.key.shape[2]
        added: Tensor | None = None if call.bias is None else call.bias.to(call.query.dtype)
        if call.mask is not None:
            attend = call.mask.materialise(T, S) if isinstance(call.mask, Mask) else call.mask
            hidden = torch.full((), float("-inf"), dtype=call.query.dtype)
            added = torch.where(attend, 0.0 if added is None else added, hidden)
        if added is not None:
            added = added.expand(call.query.shape[0], -1, T, S)
        scale = call.query.shape[3] ** -0.5 if self.scale is None else self.scale
        given = {"attn_mask": added, "scale": scale, "softcap": self.softcap or 0.0}
        joined = torch.onnx.ops.attention(call.query, call.key, call.value, **given)[0]
        return self.out_proj(joined.transpose(1, 2).flatten(2))


FORMS: dict[frozenset[str], type[Form]] = {
    frozenset(): Form,
    frozenset({"keep"}): WithKeep,
    frozenset({"mask"}): WithMask,
    frozenset({"context"}): WithContext,
    frozenset({"context", "keep"}): WithContextAndKeep,
    frozenset({"cache"}): WithCache,
}


def by_query(keep: Tensor, queries: int) -> Tensor:
    """(B, S) to (B, 1, T, S), written out: onnxruntime takes no mask of one query for all."""
    return keep[:, None, None, :].expand(-1, 1, queries, -1)


def _some(generator: torch.Generator, *shape: int) -> Tensor:
    """Random booleans; the first sample has none, so that its rows see no key."""
    made = torch.rand(shape, generator=generator) > 0.4
    made[0] = False
    return made
