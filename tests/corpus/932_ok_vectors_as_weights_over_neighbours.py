"""Point transformer: the weight is a vector, the softmax runs over the k nearest neighbours for each channel.

Kind: correct
"""

from torch import nn


class PointTransformerLayer(nn.Module):
    """feats: (batch, points, dim), pos: (batch, points, 3)"""

    def __init__(self, dim=16, k=5):
        super().__init__()
        self.k = k
        self.to_qkv = nn.Linear(dim, dim * 3, bias=False)
        self.pos_mlp = nn.Sequential(nn.Linear(3, dim), nn.ReLU(), nn.Linear(dim, dim))
        self.attn_mlp = nn.Sequential(nn.Linear(dim, dim), nn.ReLU(), nn.Linear(dim, dim))

    def forward(self, feats, pos):
        q, k, v = self.to_qkv(feats).chunk(3, dim=-1)
        rel = pos[:, :, None] - pos[:, None]
        near = rel.norm(dim=-1).topk(min(self.k, pos.shape[1]), largest=False).indices

        def pick(t):
            return t.gather(2, near[..., None].expand(-1, -1, -1, t.shape[-1]))

        e = self.pos_mlp(pick(rel))

        def wide(t):
            return pick(t[:, None].expand(-1, t.shape[1], -1, -1))

        w = self.attn_mlp(q[:, :, None] - wide(k) + e).softmax(dim=-2)
        return (w * (wide(v) + e)).sum(2)


def build() -> nn.Module:
    return PointTransformerLayer()


EXPECTED = {"kind": "correct", "severity": None, "looks_like": None}
CALL = {
    "attention": "self",
    "layout": "BLD",
    "inputs": {"feats": (2, 9, 16), "pos": (2, 9, 3)},
    "mask": None,
    "returns": "out",
}
