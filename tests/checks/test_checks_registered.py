"""Parameters stay the objects that the optimizer holds."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from regard.checks.check import check


class Renewed(nn.Module):
    """Normalises its mixing weights in every call, and keeps the result as a new parameter."""

    def __init__(self, dim=16):
        super().__init__()
        self.qkv, self.mix = nn.Linear(dim, 3 * dim), nn.Parameter(torch.ones(2))

    def weights(self) -> Tensor:
        self.mix = nn.Parameter(self.mix.softmax(0))
        return self.mix

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(x).chunk(3, -1)
        mix = self.weights()
        return mix[0] * ((q @ k.mT / 4).softmax(-1) @ v) + mix[1] * x


class Computed(Renewed):
    """The same weights, computed and not kept."""

    def weights(self) -> Tensor:
        return self.mix.softmax(0)


class Lazy(Computed):
    """Makes its bias in the first call, as lazy layers do."""

    def __init__(self, dim=16):
        super().__init__(dim)
        self.bias = None

    def forward(self, x: Tensor) -> Tensor:
        if self.bias is None:
            self.bias = nn.Parameter(torch.zeros(x.shape[-1], dtype=x.dtype))
        return super().forward(x) + self.bias


def found(module: nn.Module) -> list[tuple[str, str]]:
    return [(f.level, f.message) for f in check(module, select=["ATT705"]).findings]


def test_a_parameter_that_every_call_renews_is_found_by_name():
    ((level, message),) = found(Renewed())
    assert level == "error"
    assert "a new parameter in place of mix" in message


def test_parameters_that_are_used_or_made_once_are_left_alone():
    assert found(Computed()) == found(Lazy()) == []
