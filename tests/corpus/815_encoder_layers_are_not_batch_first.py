"""The classifier averages over axis 1, the encoder inside mixes along axis 0.

Kind: batch-first
"""

import torch
from torch import nn


class TransformerClassifier(nn.Module):
    """x: (batch, seq_len, d_model) -> (batch, n_classes)"""

    def __init__(self, d_model=32, nhead=4, n_classes=5, num_layers=2, max_len=64):
        super().__init__()
        self.pos = nn.Parameter(torch.randn(1, max_len, d_model) * 0.02)
        layer = nn.TransformerEncoderLayer(d_model, nhead, dim_feedforward=64, dropout=0.0)
        self.encoder = nn.TransformerEncoder(layer, num_layers, enable_nested_tensor=False)
        self.head = nn.Linear(d_model, n_classes)

    def forward(self, x):
        x = self.encoder(x + self.pos[:, : x.size(1)])
        return self.head(x.mean(dim=1))


def build() -> nn.Module:
    return TransformerClassifier()


EXPECTED = {"kind": "batch-first", "severity": "error"}
CALL = {
    "attention": "self",
    "layout": "BLD",
    "inputs": {"x": (3, 7, 32)},
    "mask": None,
    "embed_dim": 32,
    "heads": 4,
    "head_dim": 8,
    "returns": "out",
}
