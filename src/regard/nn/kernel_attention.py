"""Multi-head attention whose weights are products of features: what linear attention and Performer have in common.

Axes: B batch, T query tokens, S key tokens, E channels, H query heads, G key-value heads, D and Dv channels of one head,
F features.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import NamedTuple

import torch
from torch import Tensor

from regard.core import linear
from regard.core.errors import CacheError, MaskError, ShapeError
from regard.core.linear import Features
from regard.core.mask.expression import Mask
from regard.nn import key_mask
from regard.nn.head_projections import HeadProjections
from regard.nn.linear_cache import LinearCache
from regard.nn.multi_head import Inspected


class _Call(NamedTuple):
    query: Tensor  # (B, H, T, D)
    key: Tensor  # (B, G, S, D)
    value: Tensor  # (B, G, S, Dv)
    causal: bool
    keep: Tensor | None  # (B or 1, S)


class KernelAttention(HeadProjections, ABC):
    """out_proj(sum over s of phi(q_t) . phi(k_s) v_s / sum over s of phi(q_t) . phi(k_s)), head by head.

    A subclass says what phi is, in `features`. Projections, heads, starting weights and results are those of
    `MultiHeadAttention`; sums are kept in float32 at least. A query that sees no key, or whose features are all 0, gets
    the output of `out_proj` for zeros.

    Args:
        embed_dim: Width of the query and of the output, E.
        num_heads: Number of query heads, H.
        causal: Whether no query sees a later key, in every call.
        num_kv_heads: Number of key-value heads, G, which divides H; None: H.
        head_dim: Width of a head, D; None: E / H. A pair (D, Dv) gives value heads a width of their own.
        key_dim: Width of `key` where it is not E.
        value_dim: Width of `value` where it is not that of `key`.
        bias: Whether the four projections add a bias.
        chunk: Tokens of a chunk in the causal form.
        device: Where the parameters lie.
        dtype: What they are.
    """

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        *,
        causal: bool = False,
        num_kv_heads: int | None = None,
        head_dim: int | tuple[int, int] | None = None,
        key_dim: int | None = None,
        value_dim: int | None = None,
        bias: bool = True,
        chunk: int = linear.CHUNK,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ):
        super().__init__(
            embed_dim,
            num_heads,
            num_kv_heads=num_kv_heads,
            head_dim=head_dim,
            key_dim=key_dim,
            value_dim=value_dim,
            bias=bias,
            device=device,
            dtype=dtype,
        )
        if chunk < 1:
            raise ShapeError(f"chunk is a number of tokens, at least 1; got {chunk}")
        self.causal, self.chunk = causal, chunk

    @abstractmethod
    def features(self, query: Tensor, key: Tensor) -> Features:
        """phi of (B, H, T, D) queries and (B, G, S, D) keys, none negative."""

    def forward(
        self,
        query: Tensor,
        key: Tensor | None = None,
        value: Tensor | None = None,
        *,
        mask: Mask | Tensor | None = None,
        cache: LinearCache | None = None,
    ) -> Tensor:
        """Attend.

        Args:
            query: (B, T, E).
            key: (B, S, key_dim); None: self-attention, the query is the key too.
            value: (B, S, value_dim); None: as key.
            mask: `causal()`, `padding(...)`, both joined with `&`, or a bool tensor (B, 1, 1, S), True = attend. With a
                cache, S counts all the keys so far.
            cache: What `layer.new_cache` made, for causal self-attention. It takes the tokens of this call in.

        Returns:
            (B, T, E).

        Raises:
            ShapeError, DtypeError: An argument that does not fit the layer or the others.
            MaskError: A mask of another form.
            CacheError: A cache of another batch or layer, or given to cross-attention.
        """
        call = self._prepare(query, key, value, mask, cache)
        return self._joined(self._attend(call, cache))

    def inspect(
        self,
        query: Tensor,
        key: Tensor | None = None,
        value: Tensor | None = None,
        *,
        mask: Mask | Tensor | None = None,
    ) -> Inspected:
        """Attend, and also say how. Arguments as in `forward`; memory is B x H x T x S.

        Returns:
            output: (B, T, E), what `forward` gives. weights: (B, H, T, S), the sum of a row is 1.
        """
        call = self._prepare(query, key, value, mask, None)
        S = call.key.shape[2]
        each = torch.eye(S, device=call.key.device, dtype=call.value.dtype)  # the value that tells which key it is of
        weights = self._attend(call._replace(value=each.expand(*call.key.shape[:2], S, S)), None)
        return Inspected(self._joined(self._attend(call, None)), weights)

    def new_cache(self, batch: int, length: int | None = None) -> LinearCache:
        """A cache for `batch` sequences. Any number of tokens fits; `length` is taken as other layers take it, and not used."""
        return LinearCache(batch)

    def extra_repr(self) -> str:
        said = [f"embed_dim={self.embed_dim}, num_heads={self.num_heads}, num_kv_heads={self.num_kv_heads}"]
        said.append(f"head_dim={self.head_dim}, value_head_dim={self.value_head_dim}, causal={self.causal}")
        return ", ".join(said)

    def _drawn(self) -> object:
        """What random features were made with; None where nothing is random."""
        return None

    def _prepare(
        self,
        query: Tensor,
        key: Tensor | None,
        value: Tensor | None,
        mask: Mask | Tensor | None,
        cache: LinearCache | None,
    ) -> _Call:
        if key is not None and cache is not None:
            raise CacheError("a cache is for self-attention, whose keys grow with the queries; leave key and value out")
        q, k, v = self._project(*self._checked(query, key, value))
        seen = 0 if cache is None else cache.seen
        sizes = (q.shape[0], q.shape[1], q.shape[2], seen + k.shape[2])
        said = key_mask.read(mask, sizes, q.device, owner=type(self).__name__, seen=seen)
        causal = self.causal or said.causal
        if causal and q.shape[2] != k.shape[2]:
            raise MaskError(
                f"a causal {type(self).__name__} got {q.shape[2]} queries and {k.shape[2]} keys, and cannot tell where the "
                "queries stand; give equally many, or decode with a cache"
            )
        if cache is not None:
            cache.check(q.shape[0], k.shape[1], self.value_head_dim, self._drawn())
            if not causal and q.shape[2] > 1:
                raise MaskError(
                    f"{q.shape[2]} new tokens at once would see each other's future, for nothing makes them causal; "
                    "build the layer with causal=True, or give one token at a time"
                )
        return _Call(q, k, v, causal, said.keep)

    def _attend(self, call: _Call, cache: LinearCache | None) -> Tensor:
        """(B, H, T, Dv)."""
        tensors = (call.query, call.key, call.value, self.features)
        if cache is not None:
            form = linear.step if call.query.shape[2] == 1 else linear.causal
            output, state = form(*tensors, keep=call.keep, state=cache.state)
            cache.store(state, call.query.shape[2], self._drawn())
            return output
        if call.causal:
            return linear.causal(*tensors, keep=call.keep, chunk=self.chunk)[0]
        return linear.full(*tensors, keep=call.keep)
