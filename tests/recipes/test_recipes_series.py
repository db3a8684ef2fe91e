"""Series: the linear map that is fitted at once, and the attention that starts from it."""

import pytest
import torch

from regard.core.errors import DataError
from regard.recipes import series
from regard.recipes.linear_start import LinearStart

T, S, C = 6, 3, 2


def blocks(count, weight, seed):
    """Windows whose future is a linear map of their past."""
    generator = torch.Generator().manual_seed(seed)
    past = torch.randn(count, T, C, generator=generator)
    return [(past, (past.flatten(1) @ weight).view(count, S, C))]


@pytest.mark.parametrize("own", [True, False])
def test_what_is_linear_is_found(own, monkeypatch):
    monkeypatch.setattr("regard.recipes.linear_start.PENALTIES", (1e-4, 1e4))
    if own:
        weight = torch.kron(torch.randn(T, S, generator=torch.Generator().manual_seed(0)), torch.eye(C))
    else:
        weight = torch.randn(T * C, S * C, generator=torch.Generator().manual_seed(0))
    start = LinearStart(T, S, C, own=own)
    assert start.fit(lambda: blocks(500, weight, 1), lambda: blocks(50, weight, 2)) < 1e-6
    [(past, ahead)] = blocks(20, weight, 3)
    torch.testing.assert_close(start(past), ahead, atol=1e-3, rtol=1e-3)


def test_the_penalty_is_the_one_that_is_best_where_nothing_was_fitted(monkeypatch):
    weight, noise = torch.zeros(T * C, S * C), torch.Generator().manual_seed(0)
    train = [(past, ahead + torch.randn(ahead.shape, generator=noise)) for past, ahead in blocks(30, weight, 1)]
    errors = {}
    for penalties in ((0.1,), (1e4,), (0.1, 1e4)):
        monkeypatch.setattr("regard.recipes.linear_start.PENALTIES", penalties)
        errors[penalties] = LinearStart(T, S, C, own=False).fit(lambda: train, lambda: blocks(50, weight, 2))
    assert errors[(0.1, 1e4)] == min(errors[(0.1,)], errors[(1e4,)])


def test_a_constant_added_to_the_whole_window_is_added_to_the_forecast_of_a_map_that_knows_no_level():
    start = LinearStart(T, S, C, own=True)
    torch.nn.init.normal_(start.weight)
    start.weight[-1] = 0  # of the last row itself
    past = torch.randn(4, T, C)
    torch.testing.assert_close(start(past + 5), start(past) + 5)


def test_more_than_can_be_fitted_is_refused_with_the_way_out():
    with pytest.raises(
        DataError, match=r"one map of 300 channels and 96 rows reads 29,100 numbers, .*; --set skip=own"
    ):
        LinearStart(96, 24, 300, own=False)


@pytest.mark.parametrize("skip", ["all", "own"])
def test_attention_beside_a_linear_start_begins_as_the_start_alone_and_does_not_train_it(skip):
    torch.manual_seed(0)
    settings = series.Settings(past=48, ahead=12, skip=skip)
    model = series.PatchModel(settings, C).eval()
    torch.nn.init.normal_(model.start.weight)
    past, hours = torch.randn(3, 48, C), torch.arange(60)[None].expand(3, -1)
    made = model(past, hours, torch.ones(3, 48, dtype=torch.bool))
    assert torch.equal(made, model.start(past))
    assert not any(name.startswith("start.") for name, _ in model.named_parameters())
    assert "start.weight" in model.state_dict()


def test_a_skip_that_there_is_not_is_refused():
    with pytest.raises(DataError, match="skip=True is not one of all, own, none"):
        series.PatchModel(series.Settings(skip="True"), C)
