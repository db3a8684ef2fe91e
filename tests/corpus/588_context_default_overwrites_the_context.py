"""`context = default(context, x)` became `x`: the cross attention reads its own queries.

Kind: wrong-source
"""

from torch import einsum, nn


class CrossAttention(nn.Module):
    def __init__(self, query_dim=32, context_dim=None, heads=4, dim_head=8):
        super().__init__()
        self.heads, self.scale = heads, dim_head**-0.5
        context_dim = context_dim or query_dim
        self.to_q = nn.Linear(query_dim, heads * dim_head, bias=False)
        self.to_k = nn.Linear(context_dim, heads * dim_head, bias=False)
        self.to_v = nn.Linear(context_dim, heads * dim_head, bias=False)
        self.to_out = nn.Sequential(nn.Linear(heads * dim_head, query_dim), nn.Dropout(0.0))

    def forward(self, x, context=None):
        context = x if context is not None else context
        if context is None:
            context = x
        q, k, v = self.to_q(x), self.to_k(context), self.to_v(context)
        q, k, v = (t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in (q, k, v))
        sim = einsum("bhid,bhjd->bhij", q, k) * self.scale
        out = einsum("bhij,bhjd->bhid", sim.softmax(dim=-1), v)
        return self.to_out(out.transpose(1, 2).flatten(2))


def build() -> nn.Module:
    return CrossAttention()


EXPECTED = {"kind": "wrong-source", "severity": "error"}
CALL = {
    "attention": "cross",
    "layout": "BLD",
    "inputs": {"x": (2, 5, 32), "context": (2, 7, 32)},
    "query_arg": "x",
    "context_arg": "context",
    "mask": None,
    "embed_dim": 32,
    "heads": 4,
    "head_dim": 8,
    "returns": "out",
}
