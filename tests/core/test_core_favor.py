"""Random features: orthogonal, unbiased, and right where keys are far larger than exp can hold."""

from functools import partial

import pytest
import torch

from regard.core import linear, reference
from regard.core.errors import ShapeError
from regard.core.favor import draw_directions, random_features


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_directions_are_orthogonal_in_blocks_and_as_long_as_normal_vectors():
    drawn = draw_directions(2000, 16, generator=seeded())
    block = drawn[:16].double()
    product = block @ block.mT
    assert (product - torch.diag(product.diagonal())).abs().max() < 1e-5
    assert drawn.square().sum(dim=1).mean() == pytest.approx(16.0, rel=0.02)  # chi-square of 16 degrees, 2,000 draws
    assert drawn.mean(dim=0).abs().max() < 5 / 2000**0.5
    assert torch.equal(drawn, draw_directions(2000, 16, generator=seeded()))
    assert not torch.equal(drawn, draw_directions(2000, 16, generator=seeded(1)))


def test_products_of_features_estimate_the_exponential_of_the_score():
    query, key = (torch.randn(1, 1, 8, 16, generator=seeded(s), dtype=torch.float64) / 2 for s in (1, 2))
    made = random_features(query, key, draw_directions(40_000, 16, generator=seeded(3)), scale=16**-0.5)
    assert made.exponent is not None
    estimate = made.query @ (made.key * made.exponent.exp()[..., None]).mT
    exact = (query @ key.mT / 4).exp()
    ratio = (estimate / exact)[0, 0]  # rows are up to a factor
    assert (
        ratio / ratio.mean(dim=1, keepdim=True) - 1
    ).abs().max() < 0.05  # 40,000 draws: a standard error of about 0.01


def test_more_features_bring_attention_nearer_to_softmax():
    query, key, value = (torch.randn(2, 2, 32, 16, generator=seeded(s), dtype=torch.float64) / 2 for s in (1, 2, 3))
    exact = reference.attention(query, key, value)
    errors = []
    for count in (16, 256, 4096):
        features = partial(random_features, directions=draw_directions(count, 16, generator=seeded(5)), scale=16**-0.5)
        apart = linear.full(query, key, value, features) - exact
        errors.append(float(apart.norm() / exact.norm()))
    assert errors[0] > 2 * errors[1] > 4 * errors[2]
    assert errors[2] < 0.05


def test_keys_of_very_different_length_neither_overflow_nor_vanish():
    features = partial(random_features, directions=draw_directions(32, 8, generator=seeded(4)), scale=8**-0.5)
    query, key, value = (torch.randn(1, 1, 40, 8, generator=seeded(s)) for s in (1, 2, 3))
    key = key * torch.linspace(30.0, 0.1, 40)[:, None]  # exponents from about -1,000 up, so each later key outweighs
    output, state = linear.causal(query, key, value, features, chunk=8)
    exact, _ = linear.causal(query.double(), key.double(), value.double(), features, chunk=8)
    assert output.isfinite().all()
    assert state.exponent is not None
    assert torch.allclose(output.double(), exact, atol=1e-4)
    assert output[0, 0].norm(dim=-1).min() > 0  # no row lost its weights
    assert torch.allclose(linear.full(query, key, value, features)[:, :, -1], output[:, :, -1], atol=1e-4)


def test_scores_beyond_what_features_can_hold_give_finite_rows():
    features = partial(random_features, directions=draw_directions(16, 8, generator=seeded(4)), scale=8**-0.5)
    query, key, value = (torch.randn(1, 2, 200, 8, generator=seeded(s)) for s in (1, 2, 3))
    for size in (3.0, 10.0, 100.0, 1e4):
        for output in (
            linear.full(size * query, size * key, value, features),
            linear.causal(size * query, size * key, value, features)[0],
        ):
            assert output.isfinite().all()
            assert output.abs().max() <= value.abs().max() * 1.001  # rows are means of values, or 0


def test_no_directions_are_refused():
    with pytest.raises(ShapeError, match="at least one direction and one channel, got 0 and 8"):
        draw_directions(0, 8)
