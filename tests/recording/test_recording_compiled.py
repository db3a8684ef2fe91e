"""A compiled model runs uncompiled under capture, and the difference to the compiled run is a number that can be asked for."""

import pytest
import torch
from torch import nn

import regard
from regard.core.errors import CaptureError
from regard.recording.compiled import compiled_difference


class Model(nn.Module):
    """Its compiled form is told apart from the plain one by an offset, so that the number to expect is known."""

    def __init__(self, offset: float):
        super().__init__()
        self.layer = regard.nn.MultiHeadAttention(16, 2)
        self.offset = offset

    def forward(self, x):
        y = self.layer(x)
        return {"out": y + self.offset if torch.compiler.is_compiling() else y, "count": torch.tensor(3)}


@pytest.mark.parametrize("offset", [0.0, 0.25])
def test_the_difference_to_the_compiled_run_is_reported(offset):
    model, x = Model(offset).eval(), torch.randn(2, 5, 16, generator=torch.Generator().manual_seed(0))
    compiled = torch.compile(model, backend="eager")
    with torch.no_grad(), regard.capture(compiled) as cap:
        compiled(x)
    apart = cap.compiled_difference(x)
    assert apart == pytest.approx(offset, abs=1e-6)
    assert f"at most {apart:.2g} away" in cap.records[0].notes[-1]


def test_what_is_not_compiled_is_refused_and_dropout_is_no_difference():
    model = Model(0.0)
    x = torch.randn(2, 5, 16)
    with regard.capture(model) as cap:
        model(x)
    with pytest.raises(CaptureError, match="Model is not compiled; what was captured is what it computes"):
        cap.compiled_difference(x)
    noisy = nn.Sequential(nn.Linear(16, 16), nn.Dropout(0.5)).train()
    assert compiled_difference(torch.compile(noisy, backend="aot_eager"), (x,), {}) < 1e-6
    with pytest.raises(CaptureError, match="Embedding holds no floating-point tensors"):
        compiled_difference(type("Embedding", (nn.Module,), {"forward": lambda self, x: x.int()})(), (x,), {})
