"""exp of affinities that a tanh keeps within 10, divided by their sum: no maximum has to be subtracted.

Kind: correct
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
        power = (10 * (affinity / 10).tanh()).exp()
        return regions + self.back((power / power.sum(-1, keepdim=True)) @ self.c(regions))


def build() -> nn.Module:
    return Regions()


EXPECTED = {"kind": "correct", "severity": None, "looks_like": "logit-overflow"}
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
