"""The bench of linear mechanisms: what is compared gives the same, and where it cannot, the line says so."""

import torch

from regard.bench.linear import by_cumulative_sums, inputs, linear_causal, lines, rows

SINGLE = 1e-5  # float32, sums of 128 terms in another order


def test_the_form_of_tutorials_computes_the_same_as_ours():
    tensors = inputs(128)
    torch.testing.assert_close(by_cumulative_sums(*tensors), linear_causal(128)(*tensors), atol=SINGLE, rtol=0)


def test_every_line_is_measured_and_says_whether_outputs_were_compared():
    made = rows(rounds=2, quick=True)
    assert len(made) == len(lines(quick=True)) > 10
    measured = [row for row in made if row["verdict"] != "missing"]
    for row in measured:
        assert row["ours"] > 0
        assert row["peer"] > 0
        if "time alone" not in row["name"]:
            assert 0 < row["difference"] < SINGLE
    assert {row["target"] for row in measured if "tutorials" in row["against"]} == {25.0}
