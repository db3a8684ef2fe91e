"""Shared cross attention for two streams; the second reads the first after its update. Returns a dict.

Kind: stream-asymmetry
"""

from torch import nn


class BidirectionalFusion(nn.Module):
    """Both streams read each other as they came in."""

    def __init__(self, dim=32, heads=4):
        super().__init__()
        self.cross = nn.MultiheadAttention(dim, heads, batch_first=True)
        self.norm = nn.LayerNorm(dim)

    def forward(self, image, text):
        image = self.norm(image + self.cross(image, text, text, need_weights=False)[0])
        text = self.norm(text + self.cross(text, image, image, need_weights=False)[0])
        return {"image": image, "text": text}


def build() -> nn.Module:
    return BidirectionalFusion()


EXPECTED = {"kind": "stream-asymmetry", "severity": "warning"}
CALL = {
    "attention": "cross",
    "layout": "BLD",
    "inputs": {"image": (2, 6, 32), "text": (2, 6, 32)},
    "mask": None,
    "embed_dim": 32,
    "heads": 4,
    "head_dim": 8,
    "returns": "dict",
}
