"""Linear attention: the weights are products of features that are computed token by token.

Axes: B batch, T tokens, D channels of one head, F features.
Source: Katharopoulos et al. 2020, arXiv:2006.16236.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from regard.core import linear
from regard.core.errors import DtypeError
from regard.core.linear import Features, elu_plus_one
from regard.nn.kernel_attention import KernelAttention

NAMED: dict[str, Callable[[Tensor], Tensor]] = {"elu+1": elu_plus_one, "relu": torch.relu}


class LinearAttention(KernelAttention):
    """weight(t, s) = phi(q_t) . phi(k_s) / sum over s' of phi(q_t) . phi(k_s'), at a cost linear in the length.

    Another function than softmax attention, not an estimate of it: a model is trained with it. Causal, it is a recurrent
    network with a state of F x Dv per head, and decodes in constant time and memory (`new_cache`).

    Args:
        embed_dim: Width of the query and of the output, E.
        num_heads: Number of query heads, H.
        feature_map: phi, (..., D) to (..., F), nowhere negative: "elu+1", "relu", or a function or module. It is given
            float32 at least.
        causal, num_kv_heads, head_dim, key_dim, value_dim, bias, chunk, device, dtype: As in `KernelAttention`.

    Raises:
        ShapeError: Widths and head counts that do not go together.
        DtypeError: A feature map that is neither a known name nor callable.

    Source: Katharopoulos et al. 2020, arXiv:2006.16236. Shapes: (B, T, E) in and out.

    >>> layer = LinearAttention(32, num_heads=4, causal=True)
    >>> layer(torch.zeros(2, 5, 32)).shape
    torch.Size([2, 5, 32])
    """

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        *,
        feature_map: str | Callable[[Tensor], Tensor] = "elu+1",
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
            causal=causal,
            num_kv_heads=num_kv_heads,
            head_dim=head_dim,
            key_dim=key_dim,
            value_dim=value_dim,
            bias=bias,
            chunk=chunk,
            device=device,
            dtype=dtype,
        )
        found = NAMED.get(feature_map) if isinstance(feature_map, str) else feature_map
        if not callable(found):
            raise DtypeError(
                f"feature_map must be one of {', '.join(map(repr, NAMED))}, or a function of (..., D), got {feature_map!r}"
            )
        self.feature_map = found

    def features(self, query: Tensor, key: Tensor) -> Features:
        return Features(self.feature_map(query), self.feature_map(key))

    def extra_repr(self) -> str:
        name = next((name for name, function in NAMED.items() if function is self.feature_map), None)
        own = "" if isinstance(self.feature_map, torch.nn.Module) else f", feature_map={name or self.feature_map!r}"
        return super().extra_repr() + own
