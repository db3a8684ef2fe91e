"""Documents and padded batches part by part: what nobody sees is not computed, and no T x S mask is written."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from regard.core.backends import fused, window
from regard.core.call import Call
from regard.core.finite import replaced
from regard.core.packed import attend_in_parts, parts, share

MOST = 0.75  # of all pairs: above, one call with a mask is as fast as the parts (measured, CPU)
LEAST = 1 << 16  # pairs of one head in a part, on average: below, the calls cost more than what is left out


class Packed:
    """One call of a faster backend per document, or per sample up to its last real key."""

    name = "packed"
    replaces = True

    def refuses(self, call: Call) -> str | None:
        if not call.structure.padding and not call.structure.documents:
            return "the mask has no documents and no padding to leave out"
        if torch.compiler.is_compiling():
            return "a compiled graph would be made for these lengths alone"
        reason = fused.BACKEND.refuses(call)
        if reason is not None:
            return reason
        if 0 in call.sizes or parts(call) is None:
            return (
                "where the documents or the padding lie is not known: give them alone, with query 0 at position 0, in a "
                "tensor on the CPU that was not written to since the mask was made"
            )
        return None

    def slower(self, call: Call) -> str | None:
        found = parts(call)
        assert found is not None  # asked only where it does not refuse
        part, H = share(call, found), call.query.shape[1]
        if part > MOST:
            return f"{part:.0%} of all pairs are seen: too little is left out"
        pairs = part * call.sizes[0] * call.sizes[2] * call.sizes[3]
        if found and pairs * H / len(found) < LEAST:
            return f"{len(found)} parts of {pairs / len(found):.0f} pairs are too small for calls of their own"
        return None

    def repairs(self, call: Call) -> list[str]:
        found = parts(call) or []
        return [f"{len(found)} parts in calls of their own, {share(call, found):.0%} of all pairs of queries and keys"]

    def run(self, call: Call) -> Tensor:
        found = parts(call)
        assert found is not None
        return attend_in_parts(call, found, _run_part)


def _run_part(call: Call) -> Tensor:
    in_blocks = window.BACKEND.refuses(call) is None and window.BACKEND.slower(call) is None
    if in_blocks:
        return window.BACKEND.run(call)
    return fused.BACKEND.run(replace(call, key=replaced(call.key), value=replaced(call.value)))


BACKEND = Packed()
