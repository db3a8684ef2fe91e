"""Correct: Performer; random positive features that are a buffer, normalised by the sum of the keys.

Kind: correct
"""

import torch
from torch import nn


class FastAttention(nn.Module):
    def __init__(self, dim=32, heads=2, nb_features=24):
        super().__init__()
        self.heads, d = heads, dim // heads
        self.register_buffer(
            "projection_matrix", torch.randn(nb_features, d, generator=torch.Generator().manual_seed(1))
        )
        self.to_qkv, self.to_out = nn.Linear(dim, 3 * dim, bias=False), nn.Linear(dim, dim)

    def kernel(self, data, is_query, eps=1e-4):
        data = data * data.shape[-1] ** -0.25
        dash = data @ self.projection_matrix.t()
        diag = data.pow(2).sum(-1, keepdim=True) / 2
        top = dash.amax(-1, keepdim=True) if is_query else dash.amax((-1, -2), keepdim=True)
        return self.projection_matrix.shape[0] ** -0.5 * (torch.exp(dash - diag - top) + eps)

    def forward(self, x):
        b, n, _ = x.shape
        q, k, v = (t.view(b, n, self.heads, -1).transpose(1, 2) for t in self.to_qkv(x).chunk(3, -1))
        q, k = self.kernel(q, True), self.kernel(k, False)
        d_inv = 1.0 / torch.einsum("...nd,...d->...n", q, k.sum(-2))
        context = torch.einsum("...nd,...ne->...de", k, v)
        out = torch.einsum("...de,...nd,...n->...ne", context, q, d_inv)
        return self.to_out(out.transpose(1, 2).reshape(b, n, -1))


def build() -> nn.Module:
    return FastAttention()


EXPECTED = {"kind": "correct", "severity": None, "looks_like": "linear-unnormalised"}
CALL = {
    "attention": "linear",
    "layout": "BLD",
    "inputs": {"x": (2, 8, 32)},
    "mask": None,
    "embed_dim": 32,
    "heads": 2,
    "head_dim": 16,
    "returns": "out",
}
