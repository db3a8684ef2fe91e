"""Correct: a head mask multiplies the weights of whole heads (pruning); it hides no key.

Kind: correct
"""

import torch
from torch import nn


class PrunableAttention(nn.Module):
    """attention_mask: [B, L], 1 = token, 0 = padding. head_mask: [H], 1 = the head takes part."""

    def __init__(self, dim=32, n_heads=4):
        super().__init__()
        self.n_heads = n_heads
        self.q_lin, self.k_lin, self.v_lin, self.out_lin = (nn.Linear(dim, dim) for _ in range(4))
        self.dropout = nn.Dropout(p=0.1)

    def forward(self, query, attention_mask=None, head_mask=None, output_attentions=False):
        q, k, v = (
            f(query).unflatten(-1, (self.n_heads, -1)).transpose(1, 2) for f in (self.q_lin, self.k_lin, self.v_lin)
        )
        scores = torch.matmul(q / q.shape[-1] ** 0.5, k.transpose(2, 3))
        if attention_mask is not None:
            hide = (attention_mask == 0)[:, None, None, :].expand_as(scores)
            scores = scores.masked_fill(hide, torch.finfo(scores.dtype).min)
        weights = self.dropout(nn.functional.softmax(scores, dim=-1))
        if head_mask is not None:
            weights = weights * head_mask.view(1, -1, 1, 1)
        context = self.out_lin(torch.matmul(weights, v).transpose(1, 2).flatten(2))
        return (context, weights) if output_attentions else (context,)


def build() -> nn.Module:
    return PrunableAttention()


EXPECTED = {"kind": "correct", "severity": None, "looks_like": "mask-after-softmax"}
CALL = {
    "attention": "self",
    "layout": "BLD",
    "inputs": {"query": (2, 6, 32)},
    "dropout": 0.1,
    "mask": {"arg": "attention_mask", "shape": (2, 6), "on": "keys", "polarity": "keep", "dtype": "long"},
    "embed_dim": 32,
    "heads": 4,
    "head_dim": 8,
    "returns": "(out,)",
}
