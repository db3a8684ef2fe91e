"""The precision table: 16-bit and 8-bit errors of our layer are at most twice those of the same layer written by hand."""

import pytest
import torch

from regard.bench import precision
from regard.bench.precision import ByHand, errors, layer_and_input, precision_row
from regard.views.bench_text import suite_text


@pytest.mark.filterwarnings("ignore")  # torch and torchao warn of the future of their quantisation
def test_the_precision_table_keeps_its_rule(capsys):
    rows = [row for line in precision.lines(quick=True) for row in line.rows(3)]
    with capsys.disabled():
        print()
        print(suite_text("precision", rows))
    assert len(rows) == 12
    assert {row["verdict"] for row in rows} <= {"pass", "missing"}
    assert sum(row["verdict"] == "pass" for row in rows) >= 10
    said = {row["name"]: row["numbers"] for row in rows if "numbers" in row}
    assert said["bfloat16, inference"]["error"][0] > said["float16, inference"]["error"][0] > 0
    assert said["key-value cache in int8, decoding"]["error"][0] > 0


def test_the_plain_layer_is_the_same_function():
    layer, x = layer_and_input(16)
    with torch.no_grad():
        torch.testing.assert_close(ByHand(layer)(x), layer(x), atol=1e-5, rtol=0)


def test_a_layer_that_errs_more_than_twice_as_much_falls_short():
    exact = [torch.zeros(4, dtype=torch.float64)]
    row = precision_row(lambda: [torch.full((4,), 0.3)], lambda: [torch.full((4,), 0.1)], exact, 1)
    assert row["verdict"] == "fall-short"
    assert "3.00 times" in row["measured"]
    assert (
        precision_row(lambda: [torch.full((4,), 0.2)], lambda: [torch.full((4,), 0.1)], exact, 1)["verdict"] == "pass"
    )


def test_errors_are_the_largest_and_the_mean():
    largest, mean = errors(
        [torch.tensor([1.0, 2.0]), torch.tensor([0.0])], [torch.tensor([1.0, 4.0]), torch.tensor([1.0])]
    )
    assert (largest, mean) == (2.0, 1.0)


def test_a_training_step_under_autocast_learns():
    layer, x = layer_and_input(16)
    layer.train()
    optimiser = torch.optim.Adam(layer.parameters(), lr=1e-2)
    losses = []
    for _ in range(5):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = (layer(x).float() - x).square().mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0]
    assert all(p.grad.dtype == torch.float32 for p in layer.parameters())
