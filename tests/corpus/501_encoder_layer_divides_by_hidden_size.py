"""A BERT-like layer with a config object; the logits are divided by sqrt(hidden_size) instead of sqrt(head size).

Kind: scale-embed-dim
"""

import math
from dataclasses import dataclass

import torch
from torch import nn


@dataclass
class EncoderConfig:
    hidden_size: int = 64
    num_attention_heads: int = 4
    intermediate_size: int = 96
    layer_norm_eps: float = 1e-12


class SelfAttention(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config = config
        self.num_attention_heads = config.num_attention_heads
        self.attention_head_size = config.hidden_size // config.num_attention_heads
        self.query = nn.Linear(config.hidden_size, config.hidden_size)
        self.key = nn.Linear(config.hidden_size, config.hidden_size)
        self.value = nn.Linear(config.hidden_size, config.hidden_size)

    def transpose_for_scores(self, x):
        x = x.view(*x.size()[:-1], self.num_attention_heads, self.attention_head_size)
        return x.permute(0, 2, 1, 3)

    def forward(self, hidden_states, attention_mask=None):
        query_layer = self.transpose_for_scores(self.query(hidden_states))
        key_layer = self.transpose_for_scores(self.key(hidden_states))
        value_layer = self.transpose_for_scores(self.value(hidden_states))
        attention_scores = torch.matmul(query_layer, key_layer.transpose(-1, -2))
        attention_scores = attention_scores / math.sqrt(self.config.hidden_size)
        if attention_mask is not None:
            attention_scores = attention_scores + attention_mask
        attention_probs = nn.functional.softmax(attention_scores, dim=-1)
        context_layer = torch.matmul(attention_probs, value_layer).permute(0, 2, 1, 3).contiguous()
        return context_layer.view(*context_layer.size()[:-2], self.config.hidden_size)


class EncoderLayer(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.attention = SelfAttention(config)
        self.dense = nn.Linear(config.hidden_size, config.hidden_size)
        self.norm1 = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.up = nn.Linear(config.hidden_size, config.intermediate_size)
        self.down = nn.Linear(config.intermediate_size, config.hidden_size)
        self.norm2 = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)

    def forward(self, hidden_states, attention_mask=None):
        a = self.norm1(hidden_states + self.dense(self.attention(hidden_states, attention_mask)))
        return self.norm2(a + self.down(nn.functional.gelu(self.up(a))))


def build() -> nn.Module:
    return EncoderLayer(EncoderConfig())


EXPECTED = {"kind": "scale-embed-dim", "severity": "error"}
CALL = {
    "attention": "self",
    "layout": "BLD",
    "inputs": {"hidden_states": (2, 7, 64)},
    "mask": None,
    "embed_dim": 64,
    "heads": 4,
    "head_dim": 16,
    "returns": "out",
    "probe": {"q": "attention.query", "k": "attention.key", "heads": 4},
}
