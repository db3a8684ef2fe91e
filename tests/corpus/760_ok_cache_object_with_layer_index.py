"""Correct: two layers share a cache object that is updated by layer index; a dataclass is returned.

Kind: correct
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn


class DynamicCache:
    def __init__(self):
        self.layers = {}

    def update(self, key, value, layer_idx):
        if layer_idx in self.layers:
            key = torch.cat((self.layers[layer_idx][0], key), -2)
            value = torch.cat((self.layers[layer_idx][1], value), -2)
        self.layers[layer_idx] = (key, value)
        return key, value


@dataclass
class ModelOutput:
    last_hidden_state: torch.Tensor
    past_key_values: DynamicCache | None = None


class TinyDecoder(nn.Module):
    def __init__(self, dim=32, heads=4, layers=2):
        super().__init__()
        self.heads = heads
        self.qkv = nn.ModuleList(nn.Linear(dim, 3 * dim) for _ in range(layers))
        self.out = nn.ModuleList(nn.Linear(dim, dim) for _ in range(layers))

    def forward(self, inputs_embeds, past_key_values: DynamicCache | None = None, use_cache=False):
        if use_cache and past_key_values is None:
            past_key_values = DynamicCache()
        x = inputs_embeds
        for i, (qkv, out) in enumerate(zip(self.qkv, self.out, strict=True)):
            q, k, v = qkv(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
            if past_key_values is not None:
                k, v = past_key_values.update(k, v, i)
            keep = torch.ones(q.shape[-2], k.shape[-2], dtype=torch.bool).tril(k.shape[-2] - q.shape[-2])
            x = x + out(F.scaled_dot_product_attention(q, k, v, attn_mask=keep).transpose(1, 2).flatten(2))
        return ModelOutput(x, past_key_values)


def build() -> nn.Module:
    return TinyDecoder()


EXPECTED = {"kind": "correct", "severity": None, "looks_like": "cache-order"}
CALL = {
    "attention": "kv-cache",
    "layout": "BLD",
    "inputs": {"inputs_embeds": (2, 8, 32)},
    "mask": None,
    "causal": True,
    "embed_dim": 32,
    "heads": 4,
    "head_dim": 8,
    "returns": "ModelOutput",
    "cache": {"style": "object", "arg": "past_key_values"},
}
