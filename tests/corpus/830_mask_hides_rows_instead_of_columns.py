"""The padding mask is given the axes (batch, 1, tokens, 1).

Kind: mask-query-axis
"""

import torch
from torch import nn


class Encoder(nn.Module):
    def __init__(self, hid_dim=32, n_heads=4):
        super().__init__()
        self.n_heads, self.head_dim = n_heads, hid_dim // n_heads
        self.fc_q, self.fc_k, self.fc_v, self.fc_o = (nn.Linear(hid_dim, hid_dim) for _ in range(4))
        self.scale = torch.sqrt(torch.FloatTensor([self.head_dim])).item()

    def forward(self, src, src_mask=None):
        # src = [batch size, src len, hid dim]; src_mask = [batch size, src len], True where there is a word
        b = src.shape[0]
        Q, K, V = (
            f(src).view(b, -1, self.n_heads, self.head_dim).permute(0, 2, 1, 3)
            for f in (self.fc_q, self.fc_k, self.fc_v)
        )
        energy = torch.matmul(Q, K.permute(0, 1, 3, 2)) / self.scale
        if src_mask is not None:
            energy = energy.masked_fill(src_mask.unsqueeze(1).unsqueeze(3) == 0, -1e10)
        x = torch.matmul(torch.softmax(energy, dim=-1), V)
        return self.fc_o(x.permute(0, 2, 1, 3).contiguous().view(b, -1, self.n_heads * self.head_dim))


def build() -> nn.Module:
    return Encoder()


EXPECTED = {"kind": "mask-query-axis", "severity": "error"}
CALL = {
    "attention": "self",
    "layout": "BLD",
    "inputs": {"src": (2, 6, 32)},
    "mask": {"arg": "src_mask", "shape": (2, 6), "on": "keys", "polarity": "keep", "dtype": "bool"},
    "embed_dim": 32,
    "heads": 4,
    "head_dim": 8,
    "returns": "out",
}
