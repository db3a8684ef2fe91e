"""What is planned: the sizes of a Transformer and of its input, checked, with the bytes that follow from them.

Axes: B samples, T tokens of a sample, E channels, H query heads, G key-value heads, D channels of a head, F hidden channels, V words.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from regard.core.errors import PlanError

DTYPES = {"fp32": 4, "float32": 4, "fp16": 2, "float16": 2, "bf16": 2, "bfloat16": 2}
WAYS = ("forward", "train", "generate")


@dataclass(frozen=True)
class Work:
    """A stack of pre-norm blocks: attention and a feed-forward layer, with biases, LayerNorm and GELU.

    Attributes:
        embed_dim, heads, kv_heads: E, H, G (None: H). batch, length, layers: B, T, and how many blocks.
        feed_forward: F; None: 4 E. vocab: V of an embedding and an output layer of their own; 0: neither.
        dtype: Of weights, activations, gradients and optimiser alike.
        way: "forward": one call without gradients. "train": a step with AdamW. "generate": a prompt of T tokens fills the caches.
        causal: Whether a token sees only those before it; always so where it generates.
        window: Keys that a token sees, itself included (on both sides of it where not causal); None: all.
        ranks: Devices that share each sequence.
    """

    embed_dim: int
    heads: int
    kv_heads: int | None = None
    batch: int = 1
    length: int = 512
    layers: int = 1
    feed_forward: int | None = None
    vocab: int = 0
    dtype: str = "fp32"
    way: str = "forward"
    causal: bool = False
    window: int | None = None
    ranks: int = 1

    def __post_init__(self) -> None:
        for name in ("embed_dim", "heads", "kv_heads", "batch", "length", "layers", "feed_forward", "window", "ranks"):
            size = getattr(self, name)
            if size is not None and size < 1:
                raise PlanError(f"{name}={size} is not a size; give a number from 1")
        if self.vocab < 0:
            raise PlanError(f"vocab={self.vocab} is not a size; give a number from 1, or 0 for no words")
        if self.dtype not in DTYPES:
            raise PlanError(f"dtype {self.dtype!r} is not one of {', '.join(DTYPES)}")
        if self.way not in WAYS:
            raise PlanError(f"way {self.way!r} is not one of {', '.join(WAYS)}")
        if self.embed_dim % self.heads:
            near = [n for n in range(1, self.embed_dim + 1) if self.embed_dim % n == 0]
            below = max(n for n in near if n <= self.heads)
            above = min((n for n in near if n >= self.heads), default=below)
            raise PlanError(
                f"embed_dim={self.embed_dim} does not divide into {self.heads} heads; {below} and {above} heads do"
            )
        if self.heads % self.shared:
            raise PlanError(
                f"{self.heads} query heads cannot share {self.shared} key heads; kv_heads must divide heads"
            )
        if self.length % self.ranks:
            raise PlanError(f"{self.length} tokens do not divide among {self.ranks} ranks; pad the sequence")

    @property
    def shared(self) -> int:
        """G."""
        return self.heads if self.kv_heads is None else self.kv_heads

    @property
    def head_dim(self) -> int:
        """D."""
        return self.embed_dim // self.heads

    @property
    def hidden(self) -> int:
        """F."""
        return 4 * self.embed_dim if self.feed_forward is None else self.feed_forward

    @property
    def itemsize(self) -> int:
        """Bytes of a number."""
        return DTYPES[self.dtype]

    @property
    def exact(self) -> int:
        """Bytes of a number where 16 bits are not enough: softmax, sums, losses."""
        return max(4, self.itemsize)

    @property
    def tokens(self) -> int:
        """B T."""
        return self.batch * self.length

    @property
    def is_causal(self) -> bool:
        return self.causal or self.way == "generate"

    @property
    def unit(self) -> int:
        """Bytes of (B, T, E)."""
        return self.tokens * self.embed_dim * self.itemsize

    @property
    def shared_unit(self) -> int:
        """Bytes of the keys or the values of a layer, (B, G, T, D)."""
        return self.tokens * self.shared * self.head_dim * self.itemsize

    @property
    def hidden_unit(self) -> int:
        """Bytes of (B, T, F)."""
        return self.tokens * self.hidden * self.itemsize

    @property
    def scores(self) -> int:
        """How many scores all heads of one layer have, B H T T."""
        return self.batch * self.heads * self.length**2

    @property
    def cache(self) -> int:
        """Bytes of the key-value caches of all layers: a window needs its own length only."""
        kept = self.length if self.window is None else min(self.length, self.window)
        return self.layers * 2 * self.batch * self.shared * kept * self.head_dim * self.itemsize


def bytes_of(memory: str | int) -> int:
    """ "8GB" -> 8,000,000,000; "8GiB" -> 2**33; a number is bytes.

    Raises:
        PlanError: Neither, or nothing above 0.
    """
    if isinstance(memory, int):
        size = memory
    else:
        match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([kKMGT]?)(i?)B?\s*", memory)
        if not match:
            raise PlanError(f"memory {memory!r} is not a size; write it as 8GB, 512MiB or a number of bytes")
        power = " kMGT".index((match[2] or " ").replace("K", "k"))
        size = int(float(match[1]) * (1024 if match[3] else 1000) ** power)
    if size < 1:
        raise PlanError(f"memory {memory!r} is nothing; give what the device has, such as 8GB")
    return size
