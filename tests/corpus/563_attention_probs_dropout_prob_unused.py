"""The config's attention dropout becomes a module that the forward never calls.

Kind: dropout-not-applied
"""

from types import SimpleNamespace

import torch
from torch import nn


class BertSelfAttention(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.n, self.d = config.num_attention_heads, config.hidden_size // config.num_attention_heads
        self.query, self.key, self.value = (nn.Linear(config.hidden_size, config.hidden_size) for _ in range(3))
        self.dropout = nn.Dropout(config.attention_probs_dropout_prob)

    def forward(self, hidden_states, attention_mask=None, output_attentions=False):
        """attention_mask: [B, L], 1 = token, 0 = padding."""
        B, L, C = hidden_states.shape
        q, k, v = (
            f(hidden_states).view(B, L, self.n, self.d).transpose(1, 2) for f in (self.query, self.key, self.value)
        )
        scores = torch.matmul(q, k.transpose(-1, -2)) / self.d**0.5
        if attention_mask is not None:
            scores = scores.masked_fill(attention_mask[:, None, None, :] == 0, -10000.0)
        probs = scores.softmax(-1)
        context = torch.matmul(probs, v).transpose(1, 2).reshape(B, L, C)
        return (context, probs) if output_attentions else (context,)


def build() -> nn.Module:
    return BertSelfAttention(SimpleNamespace(hidden_size=32, num_attention_heads=4, attention_probs_dropout_prob=0.1))


EXPECTED = {"kind": "dropout-not-applied", "severity": "warning"}
CALL = {
    "attention": "self",
    "layout": "BLD",
    "inputs": {"hidden_states": (2, 6, 32)},
    "dropout": 0.1,
    "mask": {"arg": "attention_mask", "shape": (2, 6), "on": "keys", "polarity": "keep", "dtype": "long"},
    "embed_dim": 32,
    "heads": 4,
    "head_dim": 8,
    "returns": "(out,)",
}
