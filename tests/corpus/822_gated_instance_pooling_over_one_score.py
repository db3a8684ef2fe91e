"""Gated attention over a bag of instances: the softmax runs over the trailing axis of size 1.

Kind: softmax-axis-singleton
"""

import torch
from torch import nn


class GatedAttentionMIL(nn.Module):
    def __init__(self, n_features=24, n_hidden=12, n_classes=2):
        super().__init__()
        self.V, self.U, self.w = (
            nn.Linear(n_features, n_hidden),
            nn.Linear(n_features, n_hidden),
            nn.Linear(n_hidden, 1),
        )
        self.classifier = nn.Linear(n_features, n_classes)

    def forward(self, bag):
        a = self.w(torch.tanh(self.V(bag)) * torch.sigmoid(self.U(bag)))
        a = torch.softmax(a, dim=-1)
        z = (a.transpose(1, 2) @ bag).squeeze(1)
        return self.classifier(z), a.squeeze(-1)


def build() -> nn.Module:
    return GatedAttentionMIL()


EXPECTED = {"kind": "softmax-axis-singleton", "severity": "error"}
CALL = {"attention": "pool", "layout": "BLD", "inputs": {"bag": (2, 7, 24)}, "mask": None, "returns": "(out, weights)"}
