"""tanh squeezes the masked scores back to -cap.

Kind: softcap-after-mask
"""

import torch
from torch import nn


class SoftcapAttention(nn.Module):
    def __init__(self, dim=32, heads=4, cap=20.0):
        super().__init__()
        self.heads, self.cap = heads, cap
        self.q, self.k, self.v, self.o = (nn.Linear(dim, dim, bias=False) for _ in range(4))

    def forward(self, x):
        n = x.shape[1]
        q, k, v = (f(x).unflatten(-1, (self.heads, -1)).transpose(1, 2) for f in (self.q, self.k, self.v))
        bias = torch.full((n, n), float("-inf"), dtype=x.dtype, device=x.device).triu(1)
        logits = q @ k.mT * q.shape[-1] ** -0.5 + bias
        logits = self.cap * torch.tanh(logits / self.cap)
        return self.o((logits.softmax(-1) @ v).transpose(1, 2).flatten(2))


def build() -> nn.Module:
    return SoftcapAttention(cap=5.0)


EXPECTED = {"kind": "softcap-after-mask", "severity": "error"}
CALL = {
    "attention": "causal",
    "layout": "BLD",
    "inputs": {"x": (2, 6, 32)},
    "mask": None,
    "causal": True,
    "embed_dim": 32,
    "heads": 4,
    "head_dim": 8,
    "returns": "out",
}
