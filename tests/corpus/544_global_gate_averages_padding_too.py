"""The attention hides padding; a gate computed from x.mean over all places does not.

Kind: padding-leak-nonattention
"""

import torch
import torch.nn.functional as F
from torch import nn


class GatedEncoderLayer(nn.Module):
    """valid: bool [B, L], True for frames that exist."""

    def __init__(self, d=32, h=4):
        super().__init__()
        self.h = h
        self.qkv, self.o = nn.Linear(d, 3 * d), nn.Linear(d, d)
        self.squeeze, self.excite = nn.Linear(d, d // 4), nn.Linear(d // 4, d)

    def forward(self, frames, valid=None):
        q, k, v = self.qkv(frames).unflatten(-1, (3, self.h, -1)).permute(2, 0, 3, 1, 4)
        m = None if valid is None else valid[:, None, None, :]
        y = self.o(F.scaled_dot_product_attention(q, k, v, attn_mask=m).transpose(1, 2).flatten(2))
        gate = torch.sigmoid(self.excite(F.relu(self.squeeze(frames.mean(dim=1, keepdim=True)))))
        return frames + gate * y


def build() -> nn.Module:
    return GatedEncoderLayer()


EXPECTED = {"kind": "padding-leak-nonattention", "severity": "error"}
CALL = {
    "attention": "self",
    "layout": "BLD",
    "inputs": {"frames": (2, 6, 32)},
    "mask": {"arg": "valid", "shape": (2, 6), "on": "keys", "polarity": "keep", "dtype": "bool"},
    "embed_dim": 32,
    "heads": 4,
    "head_dim": 8,
    "returns": "out",
}
