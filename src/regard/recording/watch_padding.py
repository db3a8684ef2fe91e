"""Which tokens of a batch are padding by the author's own words, and whether the attention sites hide them.

Two kinds of evidence, neither of them a guess: an argument that torch and Hugging Face call a padding mask, and
`nn.Embedding(padding_idx=...)`. Axes: B samples, S tokens.
"""

from __future__ import annotations

import inspect
from typing import Any, NamedTuple

from torch import Tensor, nn

MASKS = ("attention_mask", "key_padding_mask", "src_key_padding_mask", "padding_mask", "pad_mask")


class SiteMask(NamedTuple):
    """What one self-attention site hides."""

    shape: tuple[int, int]  # (B, S)
    causal: bool  # no weight on later keys
    rows: list[int]  # t, the queries that were looked at
    seen: Tensor | None  # (B, t, S) bool; None: every key is seen


class Padding:
    """Evidence of one forward pass. `masks` are the padding masks given; `tokens` is True at padding tokens."""

    def __init__(self) -> None:
        self.tokens: Tensor | None = None
        self.masks: dict[str, Tensor] = {}

    def embedding(self, module: nn.Module, args: tuple) -> None:
        """Learn padding positions from the ids that an embedding with a padding_idx was given."""
        if not isinstance(module, nn.Embedding) or module.padding_idx is None or not args:
            return
        ids = args[0]
        if isinstance(ids, Tensor) and ids.dim() == 2 and self.tokens is None:
            self.tokens = ids == module.padding_idx

    def arguments(self, module: nn.Module, args: tuple, kwargs: dict[str, Any]) -> None:
        """Learn the padding masks among the arguments of the outermost module."""
        try:
            given = inspect.signature(module.forward).bind_partial(*args, **kwargs).arguments
        except (TypeError, ValueError):
            return
        given = {**given, **given.get("kwargs", {})} if isinstance(given.get("kwargs"), dict) else given
        for name in MASKS:
            mask = given.get(name)
            if isinstance(mask, Tensor) and mask.dim() == 2:
                self.masks[name] = mask != 0 if not mask.is_floating_point() else mask == 1

    def verdict(self, sites: list[SiteMask]) -> dict[str, Any] | None:
        """What the self-attention sites do with the padding, as a row; None where there is no padding or nothing to compare."""
        for name, mask in self.masks.items():
            fitting = [s for s in sites if s.shape == tuple(mask.shape)]
            if not fitting or bool(mask.all()) or not bool(mask.any()):
                continue
            pad = mask if _is_pad(mask, self.tokens) else ~mask
            return _row(f"the argument {name}", pad, fitting)
        if self.tokens is not None and bool(self.tokens.any()):
            fitting = [s for s in sites if s.shape == tuple(self.tokens.shape)]
            if fitting:
                return _row("the padding_idx of the embedding", self.tokens, fitting)
        return None


def _row(evidence: str, pad: Tensor, sites: list[SiteMask]) -> dict[str, Any] | None:
    """Shares of the padding and of the real tokens that real queries see: the least and the most of any site."""
    if all(s.causal for s in sites) and not bool((pad[:, :-1] & ~pad[:, 1:]).any()):
        return None  # padding behind the text is out of sight of every real token anyway
    pads_seen, real_seen = [], []
    for site in sites:
        real = ~pad[:, site.rows]  # (B, t): rows of padding may see padding, as documents of their own
        seen = real[:, :, None] if site.seen is None else site.seen.to(pad.device) & real[:, :, None]
        keys = seen.any(1).expand_as(pad)
        pads_seen.append(_share(keys, pad & real.any(1, keepdim=True)))
        real_seen.append(_share(keys, ~pad))
    return {
        "evidence": evidence,
        "tokens": int(pad.sum()),
        "share": float(pad.float().mean()),
        "pads_seen": min(pads_seen),
        "real_seen": max(real_seen),
    }


def _share(seen: Tensor, of: Tensor) -> float:
    return float((seen & of).sum() / of.sum().clamp(min=1))


def _is_pad(mask: Tensor, tokens: Tensor | None) -> bool:
    """Whether True in the mask means padding: by the tokens where they are known, else padding is the side with the run at an end.

    For a mask whose sense cannot be told, either reading gives the same answer to "does any site hide one of the two".
    """
    if tokens is not None and tokens.shape == mask.shape and bool(tokens.any()):
        return bool((mask & tokens).sum() * 2 > tokens.sum())
    return bool(mask.float().mean() < 0.5)
