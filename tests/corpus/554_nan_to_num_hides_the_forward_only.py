"""nan_to_num after the softmax makes the output finite; the gradient of the row is still NaN.

Kind: fully-masked-nan-backward
"""

import torch
from torch import nn


class SetAttention(nn.Module):
    """presence: bool [B, N], True where an element exists. Sets may be empty."""

    def __init__(self, dim=24, heads=3):
        super().__init__()
        self.heads = heads
        self.fc_q, self.fc_k, self.fc_v, self.fc_o = (nn.Linear(dim, dim) for _ in range(4))

    def forward(self, X, presence=None):
        Q, K, V = (torch.stack(f(X).chunk(self.heads, -1), 1) for f in (self.fc_q, self.fc_k, self.fc_v))
        A = Q @ K.transpose(-1, -2) / Q.size(-1) ** 0.5
        if presence is not None:
            A = A + torch.log(presence.to(A.dtype))[:, None, None, :]
        A = torch.nan_to_num(torch.softmax(A, -1))
        return self.fc_o(torch.cat((A @ V).unbind(1), -1))


def build() -> nn.Module:
    return SetAttention()


EXPECTED = {"kind": "fully-masked-nan-backward", "severity": "error"}
CALL = {
    "attention": "self",
    "layout": "BLD",
    "inputs": {"X": (2, 6, 24)},
    "mask": {"arg": "presence", "shape": (2, 6), "on": "keys", "polarity": "keep", "dtype": "bool"},
    "embed_dim": 24,
    "heads": 3,
    "head_dim": 8,
    "returns": "out",
}
