"""flex_attention, a higher-order operator: its weights are read with the identity as values, by the operator itself.

Outside torch.compile the operator computes the dense form, T x S scores and all, so one more call of it holds nothing larger.
"""

from __future__ import annotations

import sys
from typing import Any

import torch
from torch import Tensor

from regard.intercept.site import Site


class Uncompiled:
    """While active, flex_attention runs its operator directly: torch.compile refuses to run under a dispatch mode."""

    NAME = "_FLEX_ATTENTION_DISABLE_COMPILE_DEBUG"

    def __enter__(self) -> None:
        self.module = sys.modules.get("torch.nn.attention.flex_attention")
        self.before = getattr(self.module, self.NAME, None)
        if self.before is not None:
            setattr(self.module, self.NAME, True)

    def __exit__(self, *_) -> None:
        if self.before is not None:
            setattr(self.module, self.NAME, self.before)


def is_flex(func: Any) -> bool:
    """Whether a higher-order operator is flex_attention."""
    name = getattr(func, "_name", None) or getattr(func, "name", lambda: "")()
    return str(name) == "flex_attention"


@torch.no_grad()
def flex_site(func: Any, args: tuple, kwargs: dict, out: Any, **seen) -> Site:
    """The site of one call: query (B, H, T, D), key (B, Hkv, S, D); score_mod and block_mask are in the weights."""
    query, key, value = args[:3]
    eye = torch.eye(key.shape[-2], dtype=value.dtype, device=value.device).expand(*key.shape[:-2], -1, -1)
    weights: Tensor = func(query.detach(), key.detach(), eye, *args[3:], **kwargs)[0]
    site = Site(kind="flex", kernel="flex_attention", query=query, key=key, value=value, output=out[0], **seen)
    site.weights_used, site.scale = weights, float(args[5]) if len(args) > 5 and args[5] is not None else None
    return site
