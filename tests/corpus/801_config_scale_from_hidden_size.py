"""缩放因子取自 hidden_size 而不是每个头的维度 (the factor comes from the width, not from the head).

Kind: scale-embed-dim
"""

from dataclasses import dataclass

import torch
from torch import nn


@dataclass
class Config:
    hidden_size: int = 48
    num_attention_heads: int = 4


class SelfAttention(nn.Module):
    def __init__(self, config: Config):
        super().__init__()
        self.num_heads = config.num_attention_heads
        self.scaling = config.hidden_size**-0.5
        self.query = nn.Linear(config.hidden_size, config.hidden_size)
        self.key = nn.Linear(config.hidden_size, config.hidden_size)
        self.value = nn.Linear(config.hidden_size, config.hidden_size)
        self.dense = nn.Linear(config.hidden_size, config.hidden_size)

    def split(self, t):  # 拆分多头
        return t.view(*t.shape[:-1], self.num_heads, -1).transpose(1, 2)

    def forward(self, hidden_states):
        q, k, v = (self.split(f(hidden_states)) for f in (self.query, self.key, self.value))
        probs = nn.functional.softmax(torch.matmul(q, k.transpose(-1, -2)) * self.scaling, dim=-1)
        context = torch.matmul(probs, v).transpose(1, 2).flatten(2)
        return self.dense(context)


def build() -> nn.Module:
    return SelfAttention(Config())


EXPECTED = {"kind": "scale-embed-dim", "severity": "error"}
CALL = {
    "attention": "self",
    "layout": "BLD",
    "inputs": {"hidden_states": (2, 6, 48)},
    "mask": None,
    "embed_dim": 48,
    "heads": 4,
    "head_dim": 12,
    "returns": "out",
}
