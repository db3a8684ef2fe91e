"""Attention to the tokens that hash alike: queries are keys too, and each looks at a few that point the same way.

Axes: B samples, H heads, T tokens, D and Dv channels of a head, R rounds of hashing, K buckets, n chunks of C tokens.
Score of token i with token j: q_i . q_j / |q_j| * scale. Token i sees the tokens that any round brings near it, each
counted once, and itself only if there are none.
Source: Kitaev et al. 2020, arXiv:2001.04451, section 2; hashing: Andoni et al. 2015, arXiv:1509.02897.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import normalize

from regard.core import chunks
from regard.core.errors import ShapeError
from regard.core.finite import replaced


def draw_rotations(rounds: int, width: int, buckets: int, *, generator: torch.Generator | None = None) -> Tensor:
    """(R, D, K / 2) in float32 on the CPU, normal numbers; no columns for one bucket.

    Args:
        generator: None: torch's global one.

    Raises:
        ShapeError: Fewer than one round, or a number of buckets that is neither 1 nor even.
    """
    if rounds < 1 or buckets < 1 or (buckets > 1 and buckets % 2):
        raise ShapeError(
            f"hashing needs at least one round and 1 or an even number of buckets (a direction and its opposite are two), "
            f"got {rounds} rounds and {buckets} buckets"
        )
    return torch.randn(rounds, width, buckets // 2, generator=generator)


def buckets_of(shared: Tensor, rotations: Tensor) -> Tensor:
    """(B, H, R, T) integer, 0 .. K - 1: the rotated axis, or its opposite, that each token points along most.

    Args:
        shared: (B, H, T, D). rotations: (R, D, K / 2).
    """
    along = shared.detach()[:, :, None] @ rotations.to(shared.dtype)  # (B, H, R, T, K / 2)
    if rotations.shape[2] == 0:
        return torch.zeros(along.shape[:-1], dtype=torch.int64, device=shared.device)
    return torch.cat([along, -along], dim=-1).argmax(dim=-1)


def hashed_attention(
    shared: Tensor,
    value: Tensor,
    rotations: Tensor,
    *,
    bucket_size: int,
    causal: bool = False,
    keep: Tensor | None = None,
    scale: float | None = None,
) -> Tensor:
    """Attend within the neighbourhoods that hashing makes. Cost O(R T C (D + Dv) + R T log T).

    Not causal: a round sorts the tokens by bucket, then by position, and cuts them into chunks of C; a token sees its
    own chunk and the one before. Up to C tokens are one chunk, and the attention is exact.

    Causal: a token sees the C latest earlier tokens of its bucket, in each round, and the C latest earlier tokens of all.
    Neither depends on later tokens, unlike the chunks of the paper, whose borders move with them.

    Args:
        shared: (B, H, T, D), the queries; normalised to length 1 they are the keys.
        value: (B, H, T, Dv).
        rotations: (R, D, K / 2), from `draw_rotations`.
        bucket_size: C.
        keep: (B or 1, T) bool; a hidden token is seen by none, takes no place in a bucket, and its own row is 0.
        scale: None: 1 / sqrt(D).

    Returns:
        (B, H, T, Dv) in the dtype of `value`; computed in float32 or better.
    """
    exact, T = torch.promote_types(shared.dtype, torch.float32), shared.shape[2]
    query, valued = shared.to(exact), value.to(exact)
    hidden = (
        torch.zeros(1, 1, T, 1, dtype=torch.bool, device=shared.device) if keep is None else ~keep[:, None, :, None]
    )
    query, valued = query.masked_fill(hidden, 0.0), valued.masked_fill(hidden, 0.0)
    bad = ((query * 0.0).sum(dim=-1) + (valued * 0.0).sum(dim=-1)).detach() != 0  # NaN != 0: a token that is not finite
    query, valued = replaced(query), replaced(valued)
    C = chunks.size_of(T, bucket_size)
    bucket = buckets_of(query, rotations)
    if causal:
        bucket = torch.cat([torch.zeros_like(bucket[:, :, :1]), bucket], dim=2)  # a round in which all are alike
    bucket = bucket.masked_fill(hidden[:, :, None, :, 0], max(1, 2 * rotations.shape[2]))
    count = bucket.shape[2] if torch.compiler.is_compiling() or bucket_size < T else 1  # one shows all that there is
    rounds = [_Round(bucket[:, :, r], C, causal) for r in range(count)]
    tokens = _Tokens(
        query * ((query.shape[3] or 1) ** -0.5 if scale is None else scale),
        normalize(query, dim=-1),
        valued,
        ~hidden[..., 0].expand(*bucket.shape[:2], T),
        bad,
    )
    parts = [_attend(tokens, rounds[: r + 1], causal) for r in range(len(rounds))]
    total = torch.stack([lse for _, lse, _ in parts])  # (R, B, H, T)
    alone = (total == float("-inf")).all(dim=0)
    share = total.masked_fill(alone, 0.0).softmax(dim=0)[..., None]
    output = (torch.stack([part for part, _, _ in parts]) * share).sum(dim=0)
    output = torch.where(alone[..., None], valued, output)
    poisoned = torch.stack([seen for _, _, seen in parts]).any(dim=0) | bad
    output = output.masked_fill(poisoned[..., None], float("nan"))
    return output.masked_fill(hidden, 0.0).to(value.dtype)


@dataclass(frozen=True)
class _Tokens:
    """What is brought into the order of a round."""

    query: Tensor  # (B, H, T, D), scaled
    key: Tensor  # (B, H, T, D)
    value: Tensor  # (B, H, T, Dv)
    seen: Tensor  # (B, H, T) bool: not hidden
    bad: Tensor  # (B, H, T) bool: not finite


class _Round:
    """The order of one round, and a number per token by which two tokens are told to be near: `code`."""

    def __init__(self, bucket: Tensor, C: int, causal: bool):
        B, H, T = bucket.shape
        position = torch.arange(T, device=bucket.device)
        self.C, self.n = C, chunks.count_of(T, C)
        self.order = (bucket * T + position).argsort(dim=-1)  # (B, H, T)
        place = torch.zeros_like(self.order).scatter(-1, self.order, position.expand_as(self.order))
        first = torch.arange(B * H, device=bucket.device).view(B, H, 1) * T  # of each head, in a list of all tokens
        self._there, self._back = (first + self.order).flatten(), (first + place).flatten()
        # causal: C more between buckets than within, so that a difference of 1 .. C is "the C before, in my bucket"
        self.code = (place + bucket * (C + 1) if causal else place.div(C, rounding_mode="floor")).int()

    def sorted(self, x: Tensor) -> Tensor:
        """(B, H, T, N) to (B, H, n, C, N), in the order of the round; (B, H, T) to (B, H, n, C)."""
        if x.ndim == 3:
            return self.sorted(x[..., None])[..., 0]
        return chunks.split(x.flatten(0, 2).index_select(0, self._there).view_as(x), self.n, self.C)

    def unsorted(self, x: Tensor) -> Tensor:
        """(B, H, n, C, N) back to (B, H, T, N)."""
        flat = chunks.joined(x, self.order.shape[2])
        return flat.flatten(0, 2).index_select(0, self._back).view_as(flat)


def _attend(tokens: _Tokens, rounds: list[_Round], causal: bool) -> tuple[Tensor, Tensor, Tensor]:
    """The last round, without the pairs that an earlier one has seen.

    Returns:
        (B, H, T, Dv), its log-sum-exp (B, H, T), -inf where nothing is seen, and bool (B, H, T): sees what is not finite.
    """
    now = rounds[-1]
    attend = _with_one_before(now.sorted(tokens.seen))[..., None, :]  # (B, H, n, 1, 2 C)
    for one in rounds[:-1]:
        attend = attend & ~_near(now.sorted(one.code), causal)
    attend = attend & _near(now.sorted(now.code), causal)
    if not causal:
        number = torch.arange(now.order.shape[2], device=attend.device, dtype=torch.int32).expand_as(now.order)
        number = now.sorted(number)
        attend = attend & (number[..., None] != _with_one_before(number)[..., None, :])
    scores = now.sorted(tokens.query) @ _with_one_before(now.sorted(tokens.key)).mT  # (B, H, n, C, 2 C)
    scores = scores.masked_fill(~attend, float("-inf"))
    top = scores.detach().amax(dim=-1, keepdim=True)
    top = top.masked_fill(top == float("-inf"), 0.0)
    weights = (scores - top).exp()
    total = weights.sum(dim=-1, keepdim=True)
    nothing = total == 0.0
    total = total.masked_fill(nothing, 1.0)
    output = weights @ _with_one_before(now.sorted(tokens.value)) / total
    lse = (top + total.log()).masked_fill(nothing, float("-inf"))
    poisoned = (attend & _with_one_before(now.sorted(tokens.bad))[..., None, :]).any(dim=-1, keepdim=True)
    return now.unsorted(output), now.unsorted(lse)[..., 0], now.unsorted(poisoned)[..., 0]


def _near(code: Tensor, causal: bool) -> Tensor:
    """(B, H, n, C, 2 C) bool, of the codes (B, H, n, C) of a round in any order."""
    apart = code[..., None] - _with_one_before(code)[..., None, :]
    return (apart >= 1) & (apart <= code.shape[-1]) if causal else (apart >= 0) & (apart <= 1)


def _with_one_before(x: Tensor) -> Tensor:
    """(B, H, n, C, ...) to (B, H, n, 2 C, ...): each chunk behind the one before it; zeros before the first."""
    before = torch.cat([torch.zeros_like(x[:, :, :1]), x[:, :, :-1]], dim=2)
    return torch.cat([before, x], dim=3)
