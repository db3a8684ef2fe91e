"""Attention pooling and two-dimensional positions against their open forms."""

import itertools
import math

import pytest
import torch

from regard.core.errors import ShapeError
from regard.nn.attention_pool import AttentionPool
from regard.nn.position_2d import Rotary2D, Sinusoidal2D

EXACT = 1e-11


def draw(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def pool(**options):
    module = AttentionPool(8, 2, **options).double().eval()
    with torch.no_grad():
        for seed, value in enumerate(module.parameters()):
            value.copy_(draw(*value.shape, seed=seed) * 0.5)
    return module


def open_pool(module, x, keep):
    """(B, Q, C) and (B, h, Q, H W), one image and one head at a time."""
    outputs, shown = [], []
    for image, seen in zip(x, keep):
        pixels = image.flatten(1).T  # (H W, C)
        heads, weights = [], []
        for head in range(2):
            part = slice(4 * head, 4 * head + 4)
            key = pixels @ module.k_proj.weight[part].T + module.k_proj.bias[part]
            value = pixels @ module.v_proj.weight[part].T + module.v_proj.bias[part]
            scores = (module.query[:, part] @ key.T / 2).masked_fill(~seen.flatten(), -math.inf)
            weights.append(scores.softmax(-1))
            heads.append(weights[-1] @ value)
        outputs.append(torch.cat(heads, -1) @ module.out_proj.weight.T + module.out_proj.bias)
        shown.append(torch.stack(weights))
    return torch.stack(outputs), torch.stack(shown)


@pytest.mark.parametrize("size", [(1, 1), (1, 5), (4, 7)])
def test_a_pool_is_its_open_form_and_shows_where_it_looked(size):
    module, x = pool(num_queries=3), draw(2, 8, *size)
    keep = torch.ones(2, *size, dtype=torch.bool)
    keep[1, 0, 1:] = False
    output, weights = module.inspect(x, keep)
    expected, shown = open_pool(module, x, keep)
    torch.testing.assert_close(output, expected, rtol=0, atol=EXACT)
    torch.testing.assert_close(weights.flatten(3), shown, rtol=0, atol=EXACT)
    torch.testing.assert_close(module(x, keep), expected, rtol=0, atol=EXACT)


def test_hidden_pixels_have_no_effect_even_when_they_are_nan():
    module, x = pool(), draw(2, 8, 4, 5)
    keep = torch.rand(2, 4, 5, generator=torch.Generator().manual_seed(1)) > 0.4
    before = module(x, keep)
    x.masked_fill_(~keep[:, None], math.nan)
    torch.testing.assert_close(module(x, keep), before, rtol=0, atol=0)


def test_an_image_without_a_pixel_that_counts_gives_the_bias():
    module, x = pool(), draw(2, 8, 4, 5)
    keep = torch.zeros(2, 4, 5, dtype=torch.bool)
    torch.testing.assert_close(module(x, keep), module.out_proj.bias.expand(2, 1, 8), rtol=0, atol=0)


def test_pooling_does_not_depend_on_the_order_of_the_pixels():
    module, x = pool(), draw(1, 8, 4, 5)
    order = torch.randperm(20, generator=torch.Generator().manual_seed(2))
    turned = x.flatten(2)[:, :, order].view(1, 8, 5, 4)
    torch.testing.assert_close(module(turned), module(x), rtol=0, atol=EXACT)


def test_a_keep_of_another_shape_or_polarity_type_is_refused():
    with pytest.raises(ShapeError, match=r"keep is bool \(B, H, W\) = \(2, 4, 5\), got torch.bool \(2, 5, 4\)"):
        pool()(draw(2, 8, 4, 5), torch.ones(2, 5, 4, dtype=torch.bool))
    with pytest.raises(ShapeError, match="keep is bool"):
        pool()(draw(2, 8, 4, 5), torch.ones(2, 4, 5))


# ---- positions -----------------------------------------------------------------------------------------------------


def test_the_first_half_of_the_channels_holds_the_row_and_the_second_the_column():
    encoding = Sinusoidal2D(8).encode(5, 7, dtype=torch.float64)
    for i, j, pair in itertools.product(range(5), range(7), range(2)):
        for place, first in ((i, 0), (j, 4)):
            angle = place / 10_000 ** (2 * pair / 4)
            assert abs(encoding[first + 2 * pair, i, j] - math.sin(angle)) < EXACT
            assert abs(encoding[first + 2 * pair + 1, i, j] - math.cos(angle)) < EXACT


def test_a_larger_image_keeps_the_encoding_of_a_smaller_one():
    small, large = (Sinusoidal2D(8).encode(n, n + 2) for n in (3, 9))
    assert torch.equal(large[:, :3, :5], small)


def test_the_encoding_is_added_in_the_dtype_of_the_image():
    x = torch.zeros(2, 8, 3, 5, dtype=torch.bfloat16)
    assert Sinusoidal2D(8)(x).dtype == torch.bfloat16
    torch.testing.assert_close(Sinusoidal2D(8)(x)[1], Sinusoidal2D(8).encode(3, 5).bfloat16())


@pytest.mark.parametrize("pairing", ["half", "interleaved"])
def test_rotated_scores_depend_on_the_distance_in_two_dimensions_and_not_on_the_place(pairing):
    rotary, size = Rotary2D(8, pairing=pairing), (4, 5)
    query, key = (rotary(draw(1, 1, 1, 8, seed=s).expand(1, 1, 20, 8), size)[0, 0] for s in (1, 2))
    scores = (query @ key.T).view(4, 5, 4, 5)
    seen: dict[tuple[int, int], float] = {}
    for i, j, k, m in itertools.product(range(4), range(5), range(4), range(5)):
        value = scores[i, j, k, m].item()
        assert abs(seen.setdefault((i - k, j - m), value) - value) < EXACT
    assert len({round(value, 6) for value in seen.values()}) == 7 * 9  # and rows are told apart from columns


def test_rotation_keeps_lengths_and_leaves_the_first_pixel():
    x = draw(2, 3, 20, 8)
    turned = Rotary2D(8, pairing="half")(x, (4, 5))
    torch.testing.assert_close(turned.norm(dim=-1), x.norm(dim=-1), rtol=0, atol=EXACT)
    torch.testing.assert_close(turned[:, :, 0], x[:, :, 0], rtol=0, atol=0)


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: Sinusoidal2D(6), "multiple of 4, two pairs for rows and columns, got 6"),
        (lambda: Rotary2D(6, pairing="half"), "multiple of 4, two pairs for rows and columns, got 6"),
        (lambda: Rotary2D(8, pairing="half")(draw(1, 1, 20, 8), (4, 4)), "8 channels of 4 x 4 = 16 pixels got"),
        (lambda: Sinusoidal2D(8)(draw(1, 4, 3, 3)), r"made for \(B, 8, H, W\), got \(1, 4, 3, 3\)"),
        (lambda: AttentionPool(8, 3), "8 channels do not divide into 3 heads"),
    ],
)
def test_what_does_not_fit_is_refused_with_the_numbers(make, text):
    with pytest.raises(ShapeError, match=text):
        make()
