"""Row tiles with recomputation: learned biases, softcap, sinks and dropout in memory linear in the length (`core.tiled`)."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from regard.core.backends import fused
from regard.core.backends.kernel import as_autocast
from regard.core.call import Call
from regard.core.tiled import attend_in_tiles
from regard.core.transform import wrapped

LEAST = 1 << 23  # scores from which tiles are worth their steps; below, the open form is as fast and its memory small


class Tiled:
    """Exact attention, a few rows of weights at a time; computed again in the backward."""

    name = "tiled"
    replaces = False

    def refuses(self, call: Call) -> str | None:
        B, H, T, S = call.sizes
        if torch.compiler.is_compiling():
            return "a compiled graph would hold every tile of a loop; it plans the memory of the open form by itself"
        if any(x is not None and wrapped(x) for x in (call.query, call.key, call.value, call.bias, call.sink)):
            return "a function transform (vmap, grad) is at work; the open form has rules for all of them"
        if 0 in (B, H, T, S) or call.query.shape[3] == 0 or call.value.shape[3] == 0:
            return "there is nothing to compute in tiles"
        return None

    def slower(self, call: Call) -> str | None:
        B, H, T, S = call.sizes
        few = B * H * T * S < LEAST
        return f"{B * H * T * S} weights are few: the open form holds them all and is as fast" if few else None

    def repairs(self, call: Call) -> list[str]:
        return ["tiles of rows, computed again in the backward; second derivatives need backend='open'"]

    def run(self, call: Call) -> Tensor:
        Dv = call.value.shape[3]
        tensors = fused.dense_and_equally_wide(*as_autocast(call.query, call.key, call.value))
        query, key, value = tensors
        output = attend_in_tiles(replace(call, query=query, key=key, value=value))
        return output[..., :Dv] if Dv < output.shape[3] else output


BACKEND = Tiled()
