"""(N, T, D) is N attentions of one head, whatever the leading axis means; anything that would have to be guessed is refused."""

import pytest
import torch

import regard
from regard.core.errors import MaskError, ShapeError
from regard.mask import causal, padding

CLOSE = 1e-6  # float32 against float64
N, T, S, D, DV = 3, 5, 7, 4, 6


def draw(**options):
    g = torch.Generator().manual_seed(0)
    return [torch.randn(*shape, generator=g, **options) for shape in ((N, T, D), (N, S, D), (N, S, DV))]


def tables():
    g = torch.Generator().manual_seed(1)
    keep = torch.rand(N, T, S, generator=g) > 0.3
    return {
        "none": {},
        "mask of all": {"mask": keep[0]},
        "mask of three axes": {"mask": keep},
        "bias of three axes": {"bias": torch.randn(N, T, S, generator=g)},
        "padding": {"mask": padding(lengths=torch.tensor([7, 3, 1]))},
        "causal": {"mask": causal(offset=2)},
    }


@pytest.mark.parametrize("name", tables())
def test_three_axes_are_one_head_each(name):
    q, k, v = draw()
    given = tables()[name]
    four = {n: x[:, None] if isinstance(x, torch.Tensor) and x.ndim == 3 else x for n, x in given.items()}
    expected = regard.reference.attention(q[:, None], k[:, None], v[:, None], **four)[:, 0]
    assert (regard.attention(q, k, v, **given) - expected).abs().max() < CLOSE
    weights = regard.attention_weights(q, k, **given)
    assert weights.shape == (N, T, S)
    assert (weights.double() @ v.double() - expected).abs().max() < CLOSE
    told = regard.attention_statistics(q, k, v, **given, top=2)
    assert (told.output - expected).abs().max() < CLOSE
    assert told.received.shape == (N, S)
    assert told.top_values.shape == (N, T, 2)


def test_samples_and_heads_give_the_same_numbers():
    q, k, v = draw()
    as_samples, as_heads = (
        regard.attention(q[:, None], k[:, None], v[:, None]),
        regard.attention(q[None], k[None], v[None]),
    )
    assert torch.allclose(as_samples[:, 0], as_heads[0], atol=CLOSE)
    assert torch.allclose(regard.attention(q, k, v), as_heads[0], atol=CLOSE)


def test_the_repair_is_named_and_gradients_pass():
    q, k, v = (x.requires_grad_() for x in draw())
    assert "three axes get one for their one head" in str(regard.explain_backend(q, k, v))
    regard.attention(q, k, v).sum().backward()
    assert all(x.grad.shape == x.shape for x in (q, k, v))


def test_what_would_have_to_be_guessed_is_refused():
    q, k, v = draw()
    with pytest.raises(ShapeError, match=r"query must be \(B, H, T, D\), got \(3, 5, 4\); query\[None\] if it is"):
        regard.attention(q, k[:, None], v[:, None])
    with pytest.raises(ShapeError, match=r"sink is one logit per query head, \(1,\), got \(3,\)"):
        regard.attention(q, k, v, sink=torch.zeros(3))
    with pytest.raises(MaskError, match=r"mask\[None\] if it is \(H, T, S\), mask\[:, None\] if it is \(B, T, S\)"):
        regard.attention(q[None], k[None], v[None], mask=torch.ones(N, T, S, dtype=torch.bool))
