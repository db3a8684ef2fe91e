"""Correct: efficient attention; softmax over the channels of q and over the positions of k, then k^T v first.

Kind: correct
"""

import torch
import torch.nn.functional as F
from torch import nn


class EfficientAttention(nn.Module):
    def __init__(self, in_channels=16, key_channels=16, head_count=2, value_channels=16):
        super().__init__()
        self.key_channels, self.head_count, self.value_channels = key_channels, head_count, value_channels
        self.keys = nn.Conv2d(in_channels, key_channels, 1)
        self.queries = nn.Conv2d(in_channels, key_channels, 1)
        self.values = nn.Conv2d(in_channels, value_channels, 1)
        self.reprojection = nn.Conv2d(value_channels, in_channels, 1)

    def forward(self, input_):
        n, _, h, w = input_.size()
        keys = self.keys(input_).reshape((n, self.key_channels, h * w))
        queries = self.queries(input_).reshape(n, self.key_channels, h * w)
        values = self.values(input_).reshape((n, self.value_channels, h * w))
        head_key_channels = self.key_channels // self.head_count
        head_value_channels = self.value_channels // self.head_count
        attended = []
        for i in range(self.head_count):
            part = slice(i * head_key_channels, (i + 1) * head_key_channels)
            key, query = F.softmax(keys[:, part], dim=2), F.softmax(queries[:, part], dim=1)
            value = values[:, i * head_value_channels : (i + 1) * head_value_channels]
            context = key @ value.transpose(1, 2)
            attended.append((context.transpose(1, 2) @ query).reshape(n, head_value_channels, h, w))
        return self.reprojection(torch.cat(attended, dim=1)) + input_


def build() -> nn.Module:
    return EfficientAttention()


EXPECTED = {"kind": "correct", "severity": None, "looks_like": "softmax-axis"}
CALL = {
    "attention": "linear",
    "layout": "BCHW",
    "inputs": {"input_": (2, 16, 3, 4)},
    "mask": None,
    "embed_dim": 16,
    "heads": 2,
    "head_dim": 8,
    "returns": "out",
}
