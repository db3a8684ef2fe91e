"""Correct: nn.TransformerEncoder (norm_first) behind a class token and learned positions; the mask gets a place for the token.

Kind: correct
"""

import torch
from torch import nn


class ClipEncoder(nn.Module):
    """frames: [B, L, D]; frame_mask: bool [B, L], True = frame exists."""

    def __init__(self, dim=32, depth=2, heads=4, max_len=32):
        super().__init__()
        self.cls_token = nn.Parameter(torch.randn(1, 1, dim))
        self.pos_embed = nn.Parameter(torch.randn(1, max_len + 1, dim) * 0.02)
        layer = nn.TransformerEncoderLayer(dim, heads, 2 * dim, dropout=0.0, batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, depth, enable_nested_tensor=False)

    def forward(self, frames, frame_mask=None):
        B, L, _ = frames.shape
        x = torch.cat((self.cls_token.expand(B, -1, -1), frames), 1) + self.pos_embed[:, : L + 1]
        pad = None
        if frame_mask is not None:
            pad = ~nn.functional.pad(frame_mask, (1, 0), value=True)
        return self.encoder(x, src_key_padding_mask=pad)[:, 1:]


def build() -> nn.Module:
    return ClipEncoder()


EXPECTED = {"kind": "correct", "severity": None, "looks_like": "mask-shifted"}
CALL = {
    "attention": "self",
    "layout": "BLD",
    "inputs": {"frames": (2, 6, 32)},
    "position": "learned",
    "mask": {"arg": "frame_mask", "shape": (2, 6), "on": "keys", "polarity": "keep", "dtype": "bool"},
    "embed_dim": 32,
    "heads": 4,
    "head_dim": 8,
    "returns": "out",
}
