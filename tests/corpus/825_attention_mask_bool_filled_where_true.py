"""`attention_mask` of a tokenizer is 1 for real tokens; those are the ones filled.

Kind: mask-inverted
"""

import torch
from torch import nn


class BertLikeSelfAttention(nn.Module):
    def __init__(self, hidden_size=32, num_attention_heads=4):
        super().__init__()
        self.num_attention_heads, self.attention_head_size = num_attention_heads, hidden_size // num_attention_heads
        self.query, self.key, self.value = (nn.Linear(hidden_size, hidden_size) for _ in range(3))

    def transpose_for_scores(self, x):
        return x.view((*x.size()[:-1], self.num_attention_heads, self.attention_head_size)).permute(0, 2, 1, 3)

    def forward(self, hidden_states, attention_mask=None, output_attentions=False):
        q = self.transpose_for_scores(self.query(hidden_states))
        k = self.transpose_for_scores(self.key(hidden_states))
        v = self.transpose_for_scores(self.value(hidden_states))
        scores = torch.matmul(q, k.transpose(-1, -2)) / self.attention_head_size**0.5
        if attention_mask is not None:
            scores = scores.masked_fill(attention_mask[:, None, None, :].bool(), torch.finfo(scores.dtype).min)
        probs = nn.functional.softmax(scores, dim=-1)
        context = torch.matmul(probs, v).permute(0, 2, 1, 3).contiguous()
        context = context.view((*context.size()[:-2], -1))
        return (context, probs) if output_attentions else (context,)


def build() -> nn.Module:
    return BertLikeSelfAttention()


EXPECTED = {"kind": "mask-inverted", "severity": "error"}
CALL = {
    "attention": "self",
    "layout": "BLD",
    "inputs": {"hidden_states": (2, 6, 32)},
    "mask": {"arg": "attention_mask", "shape": (2, 6), "on": "keys", "polarity": "keep", "dtype": "long"},
    "embed_dim": 32,
    "heads": 4,
    "head_dim": 8,
    "returns": "(out,)",
}
