"""Linear attention with elu + 1 features that are summed over the keys and never divided.

Kind: linear-unnormalised
"""

import torch
import torch.nn.functional as F
from torch import nn


class FeatureMapAttention(nn.Module):
    def __init__(self, hidden=32, heads=4):
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v, self.out = (nn.Linear(hidden, hidden, bias=False) for _ in range(4))

    def forward(self, hidden_states):
        q, k, v = (f(hidden_states).unflatten(-1, (self.heads, -1)) for f in (self.q, self.k, self.v))
        q, k = F.elu(q) + 1, F.elu(k) + 1
        kv = torch.einsum("nshd,nshm->nhmd", k, v)
        return self.out(torch.einsum("nlhd,nhmd->nlhm", q, kv).flatten(2))


def build() -> nn.Module:
    return FeatureMapAttention()


EXPECTED = {"kind": "linear-unnormalised", "severity": "warning"}
CALL = {
    "attention": "linear",
    "layout": "BLD",
    "inputs": {"hidden_states": (2, 9, 32)},
    "mask": None,
    "embed_dim": 32,
    "heads": 4,
    "head_dim": 8,
    "returns": "out",
}
