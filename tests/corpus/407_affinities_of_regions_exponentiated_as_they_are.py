"""exp of raw affinities of regions, divided by their sum: a score above 88 has no exponential in float32.

Kind: logit-overflow
"""

from torch import nn


class Regions(nn.Module):
    """(batch, regions, width) -> the same"""

    def __init__(self, width=22, inner=11):
        super().__init__()
        self.a, self.b, self.c = (nn.Linear(width, inner) for _ in range(3))
        self.back = nn.Linear(inner, width)

    def forward(self, regions):
        affinity = self.a(regions) @ self.b(regions).transpose(-2, -1) * 11**-0.5
        power = affinity.exp()
        return regions + self.back((power / power.sum(-1, keepdim=True)) @ self.c(regions))


def build() -> nn.Module:
    return Regions()


EXPECTED = {"kind": "logit-overflow", "severity": "error"}
CALL = {
    "attention": "self",
    "layout": "BLD",
    "inputs": {"regions": (2, 7, 22)},
    "mask": None,
    "embed_dim": 22,
    "heads": 1,
    "head_dim": 11,
    "residual": True,
    "returns": "out",
}
