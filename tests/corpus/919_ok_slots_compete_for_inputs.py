"""Slot attention with learned slot starts: softmax over slots, weighted mean over inputs, GRU update, three rounds.

Kind: correct
"""

import torch
from torch import nn


class SlotAttention(nn.Module):
    def __init__(self, num_slots=4, dim=24, iters=3, eps=1e-8):
        super().__init__()
        self.num_slots, self.iters, self.eps, self.scale = num_slots, iters, eps, dim**-0.5
        self.slots = nn.Parameter(torch.randn(1, num_slots, dim))
        self.to_q, self.to_k, self.to_v = (nn.Linear(dim, dim, bias=False) for _ in range(3))
        self.gru = nn.GRUCell(dim, dim)
        self.norm_input, self.norm_slots = nn.LayerNorm(dim), nn.LayerNorm(dim)

    def forward(self, inputs):
        b, _n, d = inputs.shape
        slots = self.slots.expand(b, -1, -1)
        inputs = self.norm_input(inputs)
        k, v = self.to_k(inputs), self.to_v(inputs)
        for _ in range(self.iters):
            q = self.to_q(self.norm_slots(slots))
            attn = (torch.einsum("bid,bjd->bij", q, k) * self.scale).softmax(dim=1) + self.eps
            updates = torch.einsum("bij,bjd->bid", attn / attn.sum(dim=-1, keepdim=True), v)
            slots = self.gru(updates.reshape(-1, d), slots.reshape(-1, d)).reshape(b, -1, d)
        return slots


def build() -> nn.Module:
    return SlotAttention()


EXPECTED = {"kind": "correct", "severity": None, "looks_like": None}
CALL = {"attention": "self", "layout": "BLD", "inputs": {"inputs": (2, 9, 24)}, "mask": None, "returns": "out"}
