"""k_proj exists and is never used: keys come out of q_proj.

Kind: unused-parameters
"""

import torch.nn.functional as F
from torch import nn


class Attn(nn.Module):
    def __init__(self, width=32, n_head=4):
        super().__init__()
        self.n_head = n_head
        self.q_proj, self.k_proj, self.v_proj, self.c_proj = (nn.Linear(width, width) for _ in range(4))

    def _shape(self, t):
        return t.view(t.shape[0], t.shape[1], self.n_head, -1).transpose(1, 2).contiguous()

    def forward(self, hidden_states):
        q = self._shape(self.q_proj(hidden_states))
        k = self._shape(self.q_proj(hidden_states))
        v = self._shape(self.v_proj(hidden_states))
        return self.c_proj(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))


def build() -> nn.Module:
    return Attn()


EXPECTED = {"kind": "unused-parameters", "severity": "error"}
CALL = {
    "attention": "self",
    "layout": "BLD",
    "inputs": {"hidden_states": (2, 6, 32)},
    "mask": None,
    "embed_dim": 32,
    "heads": 4,
    "head_dim": 8,
    "returns": "out",
}
