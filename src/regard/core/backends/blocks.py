"""`blocks(layout)`: cost proportional to the blocks that are seen, each row of blocks with the fused kernel."""

from __future__ import annotations

import torch
from torch import Tensor

from regard.core.backends import fused
from regard.core.block_sparse import attend_in_blocks, block_rows_of, share
from regard.core.call import Call

MOST = 0.5  # of all pairs: above, one call with a mask is as fast as the rows of blocks (measured, CPU)
LEAST = 1 << 16  # weights in a row of blocks: below, the calls cost more than what is left out


class BlockSparse:
    """One call of the fused kernel per block of queries, with the blocks of keys that it sees."""

    name = "blocks"
    replaces = False

    def refuses(self, call: Call) -> str | None:
        if not call.structure.rest:
            return "the mask is no blocks(layout)"
        if torch.compiler.is_compiling():
            return "a compiled graph would be made for this layout alone"
        reason = fused.BACKEND.refuses(call)
        if reason is not None:
            return reason
        if 0 in call.sizes or block_rows_of(call) is None:
            return (
                "the mask is no blocks(layout) besides padding(), with one layout for all samples and heads, on the CPU, "
                "not written to since, and query 0 at position 0"
            )
        return None

    def slower(self, call: Call) -> str | None:
        rows = block_rows_of(call)
        assert rows is not None  # asked only where it does not refuse
        part = share(call, rows)
        if part > MOST:
            return f"{part:.0%} of all pairs are seen: too little is left out"
        B, H, T, S = call.sizes
        if part * B * H * T * S / len(rows) < LEAST:
            return f"{len(rows)} rows of blocks are too small for calls of their own"
        return None

    def repairs(self, call: Call) -> list[str]:
        rows = block_rows_of(call) or []
        return [f"{len(rows)} rows of blocks in calls of their own, {share(call, rows):.0%} of all pairs"]

    def run(self, call: Call) -> Tensor:
        rows = block_rows_of(call)
        assert rows is not None
        return attend_in_blocks(call, rows, fused.BACKEND.run)


BACKEND = BlockSparse()
