"""The cache of attention by features: a state of fixed size that stands for all the tokens so far.

Axes: B samples, G key heads, F features, Dv channels of a value head.
"""

from __future__ import annotations

import torch
from torch import Tensor

from regard.core.errors import CacheError, ShapeError
from regard.core.linear import State


class LinearCache:
    """All the tokens so far of one layer, in B x G x F x (Dv + 1) numbers of float32, however many they are.

    What is stored is detached: gradients reach the tokens of the present call, not those of earlier calls. Padding is
    decided for a token when it comes; no later mask can hide it.

    Args:
        batch: Number of sequences, B.

    >>> from regard.nn import LinearAttention
    >>> layer = LinearAttention(8, num_heads=2, causal=True)
    >>> cache = layer.new_cache(batch=1)
    >>> layer(torch.zeros(1, 3, 8), cache=cache).shape, cache.seen
    (torch.Size([1, 3, 8]), 3)
    """

    def __init__(self, batch: int):
        if batch < 0:
            raise ShapeError(f"LinearCache got batch={batch}; it must be at least 0")
        self.batch = batch
        self.state: State | None = None  # None: nothing came yet
        self.seen = 0  # tokens taken in since the last reset, padding included
        self._maker: object = None  # what the features of the state were made with

    def check(self, batch: int, heads: int, width: int, maker: object = None) -> None:
        """Refuse a call of another batch, of another layer, or with other random features than those of the state.

        Args:
            batch, heads, width: B, G and Dv of the call.
            maker: What its features are made with, compared by identity.

        Raises:
            CacheError: With the numbers and the way out.
        """
        if batch != self.batch:
            raise CacheError(
                f"the cache holds {self.batch} sequences and got {batch}; make one with batch={batch}, "
                "or choose among those held with reorder(index)"
            )
        if self.state is None:
            return
        held = self.state.memory.shape
        if (held[1], held[3] - 1) != (heads, width):
            raise CacheError(
                f"the cache was filled by a layer of {held[1]} key heads with values of width {held[3] - 1}; got {heads} "
                f"heads and width {width}; give each layer its own cache"
            )
        if maker is not self._maker:
            raise CacheError(
                f"the random features were drawn anew after the cache took {self.seen} tokens in, which it holds in the old "
                "ones; call reset() and start the sequence again, or decode in eval mode"
            )

    def store(self, state: State, tokens: int, maker: object = None) -> None:
        """Take over what the tokens so far have become, `tokens` of them new."""
        self.state = State(state.memory.detach(), state.exponent)
        self.seen += tokens
        self._maker = maker

    def reset(self) -> None:
        """Forget every token."""
        self.state, self.seen, self._maker = None, 0, None

    def reorder(self, index: Tensor) -> None:
        """Let sample i go on from what sample `index[i]` held: beam search, or a batch of another size.

        Args:
            index: (new B,), integer, each in 0 .. B - 1.
        """
        if index.dim() != 1 or index.is_floating_point() or index.dtype == torch.bool:
            raise ShapeError(
                f"reorder takes one sample number for each new sample, integer (B,); got {index.dtype} {tuple(index.shape)}"
            )
        if self.state is not None:
            index = index.to(self.state.memory.device)
            memory, exponent = self.state
            self.state = State(memory[index], None if exponent is None else exponent[index])
        self.batch = index.shape[0]

    def __repr__(self) -> str:
        held = "empty" if self.state is None else f"memory {tuple(self.state.memory.shape)}"
        return f"LinearCache({self.seen} tokens; batch={self.batch}, {held})"
