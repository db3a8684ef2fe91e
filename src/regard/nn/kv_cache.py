"""Key-value cache: the keys and values of the tokens so far, so that a new token is the only one computed.

Axes: B batch, H key-value heads, L slots, T new tokens, S keys to attend to, D and Dv channels of one head.

A slot remembers the position of its key (-1: empty, or a padding token). Masks measure by these positions, so a slot
that was not written since the last `reset` is never seen. Two layouts: a plain cache has one slot for each token, and
refuses more; a rolling one keeps the latest L positions of each sample, which is all that a window of L keys can see.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from regard.core.errors import CacheError, DtypeError, ShapeError
from regard.nn.token_positions import check_not_lost, check_order, check_positions, drop_from


class Stand(NamedTuple):
    """Where the queries and keys of a call stand."""

    query_positions: Tensor  # (1 or B, T): where the new tokens stand
    key_positions: Tensor  # (1 or B, S): where the keys stand, -1 for an empty slot
    offset: int | None  # not None: keys stand at 0 .. S - 1 and new token i at offset + i, in every sample


class Cached(NamedTuple):
    """What a layer attends to after `KVCache.append`."""

    key: Tensor  # (B, H, S, D)
    value: Tensor  # (B, H, S, Dv)
    stand: Stand


class KVCache:
    """Preallocated keys and values of one attention layer, for decoding.

    What is stored is detached: gradients reach the tokens of the present call, not those of earlier calls. Under
    `torch.no_grad()` no key is copied but the new ones.

    Args:
        batch: Number of sequences, B.
        num_kv_heads: Number of key-value heads, H.
        length: Number of slots, L. Memory is B x H x L x (D + Dv) elements, taken at once.
        head_dim: Width of one key head, D.
        value_dim: Width of one value head, Dv; None: as head_dim.
        rolling: False: one slot per token, refused when full. True: a token takes the place of the one L positions
            before it, so the cache is never full; right for layers whose window has at most L keys.
        device: Where the memory lies.
        dtype: What the keys and values are; another dtype is refused.

    >>> cache = KVCache(batch=1, num_kv_heads=2, length=8, head_dim=4)
    >>> held = cache.append(torch.ones(1, 2, 3, 4), torch.ones(1, 2, 3, 4))
    >>> held.key.shape, held.stand.key_positions
    (torch.Size([1, 2, 3, 4]), tensor([[0, 1, 2]]))
    """

    def __init__(
        self,
        batch: int,
        num_kv_heads: int,
        length: int,
        head_dim: int,
        value_dim: int | None = None,
        *,
        rolling: bool = False,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ):
        value_dim = head_dim if value_dim is None else value_dim
        for name, size, least in (
            ("batch", batch, 0),
            ("num_kv_heads", num_kv_heads, 1),
            ("length", length, 1),
            ("head_dim", head_dim, 1),
            ("value_dim", value_dim, 1),
        ):
            if size < least:
                raise ShapeError(f"KVCache got {name}={size}; it must be at least {least}")
        slots = length + 1 if rolling else length  # the last slot of a rolling cache takes what need not be kept
        self.key = torch.zeros(batch, num_kv_heads, slots, head_dim, device=device, dtype=dtype)
        self.value = torch.zeros(batch, num_kv_heads, slots, value_dim, device=device, dtype=dtype)
        self.positions = torch.full((1, slots), -1, device=device)  # (1 or B, slots); 1 while all samples agree
        self.length = length
        self.rolling = rolling
        self.seen = 0  # tokens taken in since the last reset, padding included
        self.aligned = True  # every token so far stands where it came: token i of each sample at position i

    @property
    def batch(self) -> int:
        """Number of sequences."""
        return self.key.shape[0]

    @property
    def lengths(self) -> Tensor:
        """(B,): one more than the largest position of each sample, which is where its next token stands."""
        return (self.positions.amax(dim=1) + 1).expand(self.batch)

    def next_positions(self, tokens: int) -> Tensor:
        """(1 or B, tokens): where the next tokens stand when nothing else is said."""
        step = torch.arange(tokens, device=self.positions.device)[None]
        if self.aligned:
            return step + self.seen
        return step + self.positions.amax(dim=1, keepdim=True) + 1

    def stand(self, tokens: int, positions: Tensor | None = None) -> Stand:
        """Where the queries and keys of the next `append` will stand. Changes nothing; refuses what `append` refuses."""
        return self._plan(tokens, positions)[0]

    def append(self, key: Tensor, value: Tensor, positions: Tensor | None = None) -> Cached:
        """Take in T tokens and return everything that they may attend to.

        Args:
            key: (B, H, T, D).
            value: (B, H, T, Dv).
            positions: (B or 1, T), integer, increasing in each sample: where each token stands; negative: a padding
                token, which nobody will see. What a sample held at or after its first new position is dropped, so
                going back in time undoes tokens. None: each sample counts on from its last token.

        Returns:
            The keys and values so far with the new ones, and where all of them stand.

        Raises:
            CacheError: The cache is full, or was made for another batch, head count or width. It stays as it was.
            DtypeError: Keys or values of another dtype or device than the cache.
            ShapeError: `positions` is neither (B, T) nor (1, T), or does not increase.
        """
        self.check(key, value)
        tokens = key.shape[2]
        stand, slots, self.positions = self._plan(tokens, positions)
        held = self._write_in_order(key, value) if slots is None else self._write_rolling(key, value, slots)
        self.aligned = self.aligned and positions is None
        self.seen += tokens
        return Cached(*held, stand)

    def reset(self) -> None:
        """Forget every token. The memory is kept, and what it holds is never seen again."""
        self.positions = torch.full((1, self.positions.shape[1]), -1, device=self.positions.device)
        self.seen = 0
        self.aligned = True

    def reorder(self, index: Tensor) -> None:
        """Let sample i go on from what sample `index[i]` held: beam search, or a batch of another size.

        Args:
            index: (new B,), integer, each in 0 .. B - 1.
        """
        if index.dim() != 1 or index.is_floating_point() or index.dtype == torch.bool:
            raise ShapeError(
                f"reorder takes one sample number for each new sample, integer (B,); got {index.dtype} {tuple(index.shape)}"
            )
        index = index.to(self.key.device)
        self.key = self.key.index_select(0, index)
        self.value = self.value.index_select(0, index)
        if self.positions.shape[0] > 1:
            self.positions = self.positions.index_select(0, index)

    def __repr__(self) -> str:
        B, H, _, D = self.key.shape
        kind = f"rolling, latest {self.length}" if self.rolling else f"{self.seen} of {self.length}"
        return f"KVCache({kind}; batch={B}, num_kv_heads={H}, head_dim={D}, value_dim={self.value.shape[3]}, {self.key.dtype})"

    def _plan(self, tokens: int, positions: Tensor | None) -> tuple[Stand, Tensor | None, Tensor]:
        """Where everything will stand, the slots to write (1 or B, T) or None for the next free ones, and what
        `self.positions` will be."""
        self._check_room(tokens)
        stored = self.positions
        if positions is None:
            new = self.next_positions(tokens)
        else:
            check_positions(positions, self.batch, tokens)
            new = positions.to(stored).clamp_min(-1)
            check_order(new)
            if self.rolling:
                check_not_lost(stored, new, self.length)
            stored = drop_from(stored, new)
        rows = max(stored.shape[0], new.shape[0])
        stored, new = stored.expand(rows, -1), new.expand(rows, -1)
        in_order = not self.rolling or (self.aligned and positions is None and self.seen + tokens <= self.length)
        if in_order:
            after = torch.cat([stored[:, : self.seen], new, stored[:, self.seen + tokens :]], dim=1)
            offset = self.seen if self.aligned and positions is None else None
            return Stand(new, after[:, : self.seen + tokens], offset), None, after
        slots, kept = self._slots(new)
        after = stored.scatter(1, slots, kept)
        ring = after if tokens == 1 else torch.cat([stored[:, : self.length], new], dim=1)
        return Stand(new, ring[:, : self.length + tokens - (tokens == 1)], None), slots, after

    def _slots(self, positions: Tensor) -> tuple[Tensor, Tensor]:
        """Position p goes to slot p % L; padding, and what is L or more before the newest, to the slot nobody reads.

        Returns:
            (1 or B, T) twice: the slot of each token, and the position to note there.
        """
        if positions.shape[1] == 0:
            return positions, positions
        keep = (positions >= 0) & (positions > positions.amax(dim=1, keepdim=True) - self.length)
        return torch.where(keep, positions.remainder(self.length), self.length), torch.where(keep, positions, -1)

    def _write_in_order(self, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        end = self.seen + key.shape[2]
        past, new = slice(0, self.seen), slice(self.seen, end)
        self.key[:, :, new] = key.detach()
        self.value[:, :, new] = value.detach()
        if torch.is_grad_enabled():  # a copy: the memory is overwritten later, which backward must not notice
            held_key = torch.cat([self.key[:, :, past], key], dim=2)
            return held_key, torch.cat([self.value[:, :, past], value], dim=2)
        return self.key[:, :, :end], self.value[:, :, :end]

    def _write_rolling(self, key: Tensor, value: Tensor, slots: Tensor) -> tuple[Tensor, Tensor]:
        held = []
        for memory, new in ((self.key, key), (self.value, value)):
            index = slots[:, None, :, None].expand_as(new)
            if new.shape[2] != 1:  # the first of several tokens still sees what the last of them displaces
                held.append(torch.cat([memory[:, :, : self.length], new], dim=2))
            elif torch.is_grad_enabled():
                held.append(memory.scatter(2, index, new)[:, :, : self.length])
            else:
                held.append(memory[:, :, : self.length])
            memory.scatter_(2, index, new.detach())
        return held[0], held[1]

    def _check_room(self, tokens: int) -> None:
        end = self.seen + tokens
        if end > self.length and not self.rolling:
            raise CacheError(
                f"the cache has {self.length} slots, {self.seen} of them taken, and got {tokens} more tokens; "
                f"make it longer (length={end}), or call reset() before a new sequence"
            )

    def check(self, key: Tensor, value: Tensor) -> None:
        """Refuse keys and values that are not of the batch, heads, widths, dtype and device of this cache.

        Raises:
            CacheError, DtypeError, ShapeError: With the numbers and the way out.
        """
        B, H, _, D = self.key.shape
        Dv = self.value.shape[3]
        if key.dim() != 4 or value.dim() != 4 or key.shape[2] != value.shape[2]:
            raise ShapeError(
                f"a cache takes keys (B, H, T, D) and values (B, H, T, Dv); got {tuple(key.shape)} and {tuple(value.shape)}"
            )
        if key.shape[0] != B or value.shape[0] != B:
            raise CacheError(
                f"the cache holds {B} sequences and got {key.shape[0]}; "
                f"make one with batch={key.shape[0]}, or choose among those held with reorder(index)"
            )
        if (key.shape[1], key.shape[3], value.shape[1], value.shape[3]) != (H, D, H, Dv):
            raise CacheError(
                f"the cache was made for {H} key heads of width {D} and values of width {Dv}; got {key.shape[1]} heads "
                f"of width {key.shape[3]} and values of width {value.shape[3]}; give each layer its own cache"
            )
        for name, new, held in (("keys", key, self.key), ("values", value, self.value)):
            if new.dtype != held.dtype or new.device != held.device:
                raise DtypeError(
                    f"the cache holds {held.dtype} on {held.device} and got {name} of {new.dtype} on {new.device}; "
                    f"make one with dtype={new.dtype}, device={str(new.device)!r}"
                )
