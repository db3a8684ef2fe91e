"""A row of the bench says what was measured and whether it reached its target; the compared things give the same."""

import pytest
import torch

from regard.bench import attention, decode, window
from regard.bench.timing import forward, normal, row, training, verdict


def test_a_row_knows_which_of_the_two_is_faster():
    small, large = normal(8, 8), normal(400, 400)
    made = row(
        "square", forward(lambda x: x @ x, small), forward(lambda x: (large @ large, x @ x)[1], small), 1.5, rounds=5
    )
    assert made["verdict"] == "pass"
    assert made["ratio"] == pytest.approx(made["peer"] / made["ours"])
    assert made["difference"] == 0.0
    assert verdict("a", 1.0, 1.4, 1.4, 1.5)["verdict"] == "fall-short"


def test_the_difference_is_taken_of_outputs_and_gradients_and_only_where_asked():
    x = normal(4)
    one, other = training(lambda x: 2 * x, x), training(lambda x: 2 * x + (x - x.detach()), x)
    assert row("gradients differ", one, other, 1.0, rounds=1)["difference"] > 0
    apart = [forward(lambda x, n=n: x + torch.tensor([0.0, 0, 0, n]), x) for n in (0, 1)]
    assert row("all", *apart, 1.0, rounds=1)["difference"] == pytest.approx(1.0)
    first = torch.tensor([True, True, True, False])
    assert row("the first three", *apart, 1.0, rounds=1, where=first)["difference"] == 0.0


def test_decoding_steps_give_the_same_as_their_peers():
    lines = decode.steps(torch.float32, 1, heads=4, kv_heads=2, keys=64)
    assert [line["target"] for line in lines] == [2.5, 12.0]
    assert all(line["difference"] < 1e-5 for line in lines)


@pytest.mark.slow
@pytest.mark.parametrize("measured", [attention, window, decode])
def test_everything_that_is_compared_gives_the_same(measured):
    lines = measured.rows(rounds=1)
    assert len({line["name"] for line in lines}) == len(lines) > 3
    for line in lines:
        assert line["difference"] < (0.2 if "bfloat16" in line["name"] else 1e-4), line  # gradients in 8 bits
