"""Correct: Transformer-XL attention, two learned biases and the relative shift; causal.

Kind: correct
"""

import torch
from torch import nn


class RelPartialLearnableMultiHeadAttn(nn.Module):
    def __init__(self, d_model=24, n_head=3):
        super().__init__()
        self.n_head, self.d_head = n_head, d_model // n_head
        self.qkv_net = nn.Linear(d_model, 3 * d_model, bias=False)
        self.r_net = nn.Linear(d_model, d_model, bias=False)
        self.o_net = nn.Linear(d_model, d_model, bias=False)
        self.r_w_bias = nn.Parameter(torch.randn(n_head, self.d_head) * 0.1)
        self.r_r_bias = nn.Parameter(torch.randn(n_head, self.d_head) * 0.1)
        self.layer_norm = nn.LayerNorm(d_model)

    def positions(self, klen, like):
        pos = torch.arange(klen - 1, -1, -1.0, dtype=like.dtype)
        d = self.n_head * self.d_head
        ang = torch.outer(pos, 10000 ** (-torch.arange(0, d, 2, dtype=like.dtype) / d))
        return torch.cat([ang.sin(), ang.cos()], dim=-1)

    def rel_shift(self, x):
        b, n, q, k = x.shape
        x = torch.cat([x.new_zeros(b, n, q, 1), x], dim=3).view(b, n, k + 1, q)
        return x[:, :, 1:].reshape(b, n, q, k)

    def forward(self, w):
        """w: [length, batch, d_model]."""
        qlen, bsz, _ = w.shape
        q, k, v = (t.view(qlen, bsz, self.n_head, self.d_head) for t in self.qkv_net(w).chunk(3, dim=-1))
        r = self.r_net(self.positions(qlen, w)).view(qlen, self.n_head, self.d_head)
        AC = torch.einsum("ibnd,jbnd->bnij", q + self.r_w_bias, k)
        BD = self.rel_shift(torch.einsum("ibnd,jnd->bnij", q + self.r_r_bias, r))
        score = (AC + BD) * self.d_head**-0.5
        score = score.masked_fill(torch.ones(qlen, qlen).triu(1).bool(), float("-inf"))
        vec = torch.einsum("bnij,jbnd->ibnd", score.softmax(-1), v).reshape(qlen, bsz, -1)
        return self.layer_norm(w + self.o_net(vec))


def build() -> nn.Module:
    return RelPartialLearnableMultiHeadAttn()


EXPECTED = {"kind": "correct", "severity": None, "looks_like": "future-leak-nonattention"}
CALL = {
    "attention": "causal",
    "layout": "LBD",
    "inputs": {"w": (6, 2, 24)},
    "mask": None,
    "causal": True,
    "position": "relative",
    "embed_dim": 24,
    "heads": 3,
    "head_dim": 8,
    "returns": "out",
}
