"""A key-value cache in fewer bits than the layer computes in: 16, or 8 with one scale per token and head.

Axes: B batch, H key-value heads, L slots, T new tokens, S keys to attend to, D and Dv channels of one head.

Every key and value is rounded when it is taken in, the new ones too, so that a token is the same to all queries and the
result does not depend on how many tokens come at a time. Gradients pass through the rounding to the tokens of this call.
"""

from __future__ import annotations

import torch
from torch import Tensor

from regard.core.errors import DtypeError
from regard.nn.kv_cache import KVCache

STORED = (torch.int8, torch.bfloat16, torch.float16)
_LARGEST = 127.0


class CompactKVCache(KVCache):
    """A `KVCache` that stores in `stored` and gives in `dtype`.

    Args:
        batch, num_kv_heads, length, head_dim, value_dim, rolling, device: As in `KVCache`.
        stored: torch.int8 (a scale per token and head beside it: D + 4 bytes in place of 4 D), bfloat16 or float16.
        dtype: What the layer computes in, and what comes back; None: float32.

    Raises:
        DtypeError: `stored` is none of these.

    >>> cache = CompactKVCache(batch=1, num_kv_heads=2, length=8, head_dim=4)
    >>> cache.append(torch.ones(1, 2, 3, 4), torch.ones(1, 2, 3, 4)).key.dtype, cache.key.dtype
    (torch.float32, torch.int8)
    """

    def __init__(
        self,
        batch: int,
        num_kv_heads: int,
        length: int,
        head_dim: int,
        value_dim: int | None = None,
        *,
        stored: torch.dtype = torch.int8,
        rolling: bool = False,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ):
        if stored not in STORED:
            raise DtypeError(f"stored is one of {', '.join(map(str, STORED))}, got {stored}")
        super().__init__(batch, num_kv_heads, length, head_dim, value_dim, rolling=rolling, device=device, dtype=stored)
        self.dtype = torch.float32 if dtype is None else dtype
        scales = (*self.key.shape[:3], 1) if stored == torch.int8 else (0,)
        self.key_scale = torch.ones(scales, device=device)  # (B, H, slots, 1)
        self.value_scale = torch.ones(scales, device=device)

    @classmethod
    def like(cls, cache: KVCache, *, stored: torch.dtype = torch.int8) -> CompactKVCache:
        """An empty one of the same sizes, such as `CompactKVCache.like(layer.new_cache(batch, length))`."""
        B, H, _, D = cache.key.shape
        return cls(
            B,
            H,
            cache.length,
            D,
            cache.value.shape[3],
            stored=stored,
            rolling=cache.rolling,
            device=cache.key.device,
            dtype=cache.key.dtype,
        )

    @property
    def nbytes(self) -> int:
        """Bytes of all that is held."""
        return sum(x.numel() * x.element_size() for x in (self.key, self.value, self.key_scale, self.value_scale))

    def check(self, key: Tensor, value: Tensor) -> None:
        """As `KVCache.check`, with the dtype that the layer computes in."""
        for name, new in (("keys", key), ("values", value)):
            if new.dtype != self.dtype:
                raise DtypeError(
                    f"the cache gives {self.dtype} and got {name} of {new.dtype}; make one with dtype={new.dtype}"
                )
        super().check(key.to(self.key.dtype), value.to(self.value.dtype))

    def reorder(self, index: Tensor) -> None:
        super().reorder(index)
        if self.key.dtype == torch.int8:
            index = index.to(self.key.device)
            self.key_scale = self.key_scale.index_select(0, index)
            self.value_scale = self.value_scale.index_select(0, index)

    def __repr__(self) -> str:
        return f"Compact{super().__repr__()[:-1]}, gives {self.dtype})"

    def _write_in_order(self, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        end = self.seen + key.shape[2]
        held = []
        for memory, scale, new in self._both(key, value):
            small, factor = self._round(new)
            memory[:, :, self.seen : end] = small
            if factor is not None:
                scale[:, :, self.seen : end] = factor
            past = self._exact(memory[:, :, : self.seen], scale[:, :, : self.seen] if factor is not None else None)
            held.append(torch.cat([past, self._passing(new, small, factor)], dim=2))
        return held[0], held[1]

    def _write_rolling(self, key: Tensor, value: Tensor, slots: Tensor) -> tuple[Tensor, Tensor]:
        held = []
        for memory, scale, new in self._both(key, value):
            small, factor = self._round(new)
            index = slots[:, None, :, None]
            wide = index.expand_as(new)
            before = self._exact(memory[:, :, : self.length], None if factor is None else scale[:, :, : self.length])
            passing = self._passing(new, small, factor)
            if new.shape[2] != 1:  # the first of several tokens still sees what the last of them displaces
                held.append(torch.cat([before, passing], dim=2))
            else:
                room = torch.cat([before, passing[:, :, :0].new_zeros(*before.shape[:2], 1, before.shape[3])], dim=2)
                held.append(room.scatter(2, wide, passing)[:, :, : self.length])
            memory.scatter_(2, wide, small)
            if factor is not None:
                scale.scatter_(2, index.expand_as(factor), factor)
        return held[0], held[1]

    def _both(self, key: Tensor, value: Tensor):
        return ((self.key, self.key_scale, key), (self.value, self.value_scale, value))

    def _round(self, new: Tensor) -> tuple[Tensor, Tensor | None]:
        """What is stored of (B, H, T, D), and its scale (B, H, T, 1)."""
        new = new.detach()
        if self.key.dtype != torch.int8:
            return new.to(self.key.dtype), None
        factor = new.float().abs().amax(dim=3, keepdim=True) / _LARGEST
        factor = torch.where(factor > 0, factor, 1.0)
        return (new.float() / factor).round().to(torch.int8), factor

    def _exact(self, small: Tensor, factor: Tensor | None) -> Tensor:
        return small.to(self.dtype) if factor is None else (small.float() * factor).to(self.dtype)

    def _passing(self, new: Tensor, small: Tensor, factor: Tensor | None) -> Tensor:
        """The rounded numbers, with the gradient of those that were rounded."""
        rounded = self._exact(small, factor)
        return new + (rounded - new).detach() if torch.is_grad_enabled() and new.requires_grad else rounded
