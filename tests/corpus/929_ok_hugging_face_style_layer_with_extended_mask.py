"""A configured encoder layer: the 0/1 mask is extended inside, weights are returned on demand, gelu feed-forward.

Kind: correct
"""

import torch
import torch.nn.functional as F
from torch import nn


class EncoderConfig:
    def __init__(
        self, hidden_size=32, num_attention_heads=4, intermediate_size=64, layer_norm_eps=1e-12, hidden_dropout_prob=0.1
    ):
        self.hidden_size, self.num_attention_heads, self.intermediate_size = (
            hidden_size,
            num_attention_heads,
            intermediate_size,
        )
        self.layer_norm_eps, self.hidden_dropout_prob = layer_norm_eps, hidden_dropout_prob


class EncoderLayer(nn.Module):
    def __init__(self, config):
        super().__init__()
        h = config.hidden_size
        self.num_heads = config.num_attention_heads
        self.query, self.key, self.value, self.dense = (nn.Linear(h, h) for _ in range(4))
        self.LayerNorm, self.out_norm = (
            nn.LayerNorm(h, eps=config.layer_norm_eps),
            nn.LayerNorm(h, eps=config.layer_norm_eps),
        )
        self.intermediate, self.output = nn.Linear(h, config.intermediate_size), nn.Linear(config.intermediate_size, h)
        self.dropout = nn.Dropout(config.hidden_dropout_prob)

    def forward(self, hidden_states, attention_mask=None, output_attentions=False):
        q, k, v = (
            f(hidden_states).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
            for f in (self.query, self.key, self.value)
        )
        scores = q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5
        if attention_mask is not None:
            extended = (1.0 - attention_mask[:, None, None, :].to(scores.dtype)) * torch.finfo(scores.dtype).min
            scores = scores + extended
        probs = self.dropout(scores.softmax(-1))
        context = self.dense((probs @ v).transpose(1, 2).flatten(2))
        y = self.LayerNorm(hidden_states + self.dropout(context))
        y = self.out_norm(y + self.dropout(self.output(F.gelu(self.intermediate(y)))))
        return (y, probs) if output_attentions else (y,)


def build() -> nn.Module:
    return EncoderLayer(EncoderConfig())


EXPECTED = {"kind": "correct", "severity": None, "looks_like": None}
CALL = {
    "attention": "self",
    "layout": "BLD",
    "inputs": {"hidden_states": (2, 6, 32)},
    "mask": {"arg": "attention_mask", "shape": (2, 6), "on": "keys", "polarity": "keep", "dtype": "long"},
    "embed_dim": 32,
    "heads": 4,
    "head_dim": 8,
    "returns": "(out, weights)",
}
