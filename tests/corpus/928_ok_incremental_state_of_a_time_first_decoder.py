"""Time first; an `incremental_state` dict is filled in place, as in older sequence toolkits.

Kind: correct
"""

import torch
import torch.nn.functional as F
from torch import nn


class IncrementalSelfAttention(nn.Module):
    """x: (time, batch, channel); with incremental_state only new steps are given."""

    def __init__(self, embed_dim=32, num_heads=4):
        super().__init__()
        self.num_heads = num_heads
        self.in_proj, self.out_proj = nn.Linear(embed_dim, 3 * embed_dim), nn.Linear(embed_dim, embed_dim)

    def forward(self, x, incremental_state=None):
        tgt_len, bsz, c = x.shape
        q, k, v = (
            t.contiguous().view(tgt_len, bsz * self.num_heads, -1).transpose(0, 1) for t in self.in_proj(x).chunk(3, -1)
        )
        if incremental_state is not None:
            if "prev_key" in incremental_state:
                k = torch.cat([incremental_state["prev_key"], k], dim=1)
                v = torch.cat([incremental_state["prev_value"], v], dim=1)
            incremental_state["prev_key"], incremental_state["prev_value"] = k, v
        src_len = k.size(1)
        future = torch.triu(x.new_full((tgt_len, src_len), float("-inf")), src_len - tgt_len + 1)
        w = F.softmax(torch.bmm(q * q.size(-1) ** -0.5, k.transpose(1, 2)) + future, dim=-1)
        return self.out_proj(torch.bmm(w, v).transpose(0, 1).contiguous().view(tgt_len, bsz, c))


def build() -> nn.Module:
    return IncrementalSelfAttention()


EXPECTED = {"kind": "correct", "severity": None, "looks_like": None}
CALL = {
    "attention": "kv-cache",
    "layout": "LBD",
    "inputs": {"x": (8, 2, 32)},
    "mask": None,
    "causal": True,
    "embed_dim": 32,
    "heads": 4,
    "head_dim": 8,
    "returns": "out",
    "cache": {"style": "dict", "arg": "incremental_state"},
}
