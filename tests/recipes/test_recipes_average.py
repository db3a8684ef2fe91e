"""The running average of the weights: what it is, that learning does not notice it, and that a killed run goes on with it bit for bit."""

import pytest
import torch
from torch import nn

from regard.core.errors import DataError
from regard.recipes import checkpoint, journal
from regard.recipes.average import Average
from regard.recipes.loop import train
from regard.recipes.order import Order
from regard.recipes.plan import Batch, Plan, Work

ROUNDING = 1e-6  # of a few float32 steps


def small() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 4), nn.Dropout(0.2), nn.BatchNorm1d(4), nn.Linear(4, 1))


def work(model: nn.Module, evaluate=lambda model: {"loss": 1.0}) -> Work:
    x = torch.randn(16, 3, generator=torch.Generator().manual_seed(1))
    return Work(model, Order(16, 4, seed=0), lambda i: Batch((x[i], x[i].sum(1, keepdim=True)), len(i)),
                lambda m, b: (m(b[0]) - b[1]).square().sum(), evaluate, "loss", higher=False)  # fmt: skip


def losses(folder):
    return [row["loss"] for row in journal.read(folder) if "rate" in row]


def test_the_average_is_that_of_its_formula_and_forgets_early_steps_sooner():
    model = nn.Linear(1, 1, bias=False)
    average = Average(model, 0.5)
    expected = model.weight.item()
    for step, keep in ((1, 2 / 11), (2, 3 / 12), (3, 4 / 13), (20, 0.5)):
        with torch.no_grad():
            model.weight.fill_(step)
        average.add(step)
        expected = keep * expected + (1 - keep) * step
        assert float(average.kept["weight"]) == pytest.approx(expected, rel=ROUNDING)


def test_a_model_has_its_own_weights_again_behind_the_block_also_after_an_error():
    model = small()
    average = Average(model, 0.9)
    before = {name: x.clone() for name, x in model.state_dict().items()}
    for x in average.kept.values():
        x.fill_(7.0)

    def fails_inside():
        with average.in_model():
            assert all((x == 7.0).all() for x in model.state_dict().values() if x.is_floating_point())
            raise RuntimeError("in the middle")

    with pytest.raises(RuntimeError, match="in the middle"):
        fails_inside()
    assert all(torch.equal(x, before[name]) for name, x in model.state_dict().items())


def test_counters_are_left_as_they_are_and_running_statistics_are_averaged():
    average = Average(small(), 0.9)
    assert "2.running_mean" in average.kept
    assert "2.num_batches_tracked" not in average.kept


def test_no_average_costs_nothing_and_changes_nothing():
    model = small()
    average = Average(model, 0.0)
    average.add(1)
    with average.in_model():
        assert average.kept == {}


def test_the_losses_are_those_of_a_run_without_and_the_average_is_what_is_judged_and_kept(tmp_path):
    seen = []

    def judge(model):
        seen.append(model[0].weight.clone())
        return {"loss": 1.0 / len(seen)}

    plain, averaged = small(), small()
    train(work(plain), Plan(steps=12, evaluate=6), tmp_path / "plain")
    train(work(averaged, judge), Plan(steps=12, evaluate=6, average=0.9), tmp_path / "averaged")
    assert losses(tmp_path / "plain") == losses(tmp_path / "averaged")
    assert not torch.equal(plain[0].weight, averaged[0].weight)
    kept = checkpoint.read_tensors(tmp_path / "averaged" / "model.safetensors")["0.weight"]
    assert torch.equal(kept, seen[-1])
    assert torch.equal(kept, averaged[0].weight)


def test_a_run_that_goes_on_from_a_checkpoint_ends_with_the_average_of_one_that_was_not_stopped(tmp_path):
    plan = Plan(steps=20, evaluate=5, save=5, average=0.9)
    for name in ("whole", "cut"):
        train(work(small()), plan, tmp_path / name)
    for path in (tmp_path / "cut" / "checkpoints").glob("step-00000020.*"):
        path.unlink()
    train(work(small()), plan, tmp_path / "cut", resume=True)
    assert losses(tmp_path / "whole") == losses(tmp_path / "cut")
    last = [tmp_path / name / "checkpoints" / "step-00000020.safetensors" for name in ("whole", "cut")]
    assert last[0].read_bytes() == last[1].read_bytes()
    best = [tmp_path / name / "model.safetensors" for name in ("whole", "cut")]
    assert best[0].read_bytes() == best[1].read_bytes()


@pytest.mark.parametrize(("first", "then", "said"), [(0.9, 0.0, "has an average"), (0.0, 0.9, "has no average")])
def test_a_run_cannot_go_on_with_or_without_an_average_that_it_did_not_begin_so(tmp_path, first, then, said):
    train(work(small()), Plan(steps=4, save=2, average=first), tmp_path)
    with pytest.raises(DataError, match=f"{said} of the weights, .*; resume with the options of the first run"):
        train(work(small()), Plan(steps=8, average=then), tmp_path, resume=True)


@pytest.mark.parametrize("decay", [-0.1, 1.0, 2.0, float("nan")])
def test_an_average_that_cannot_be_is_refused_with_one_that_can(decay):
    with pytest.raises(DataError, match=f"average={decay} must be from 0, none, to below 1, such as 0.99"):
        Average(small(), decay)
