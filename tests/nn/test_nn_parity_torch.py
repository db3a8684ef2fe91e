"""MultiHeadAttention against torch.nn.MultiheadAttention with the same weights."""

import pytest
import torch

from regard.mask import causal, dense, padding
from regard.nn import MultiHeadAttention

TOLERANCE = 1e-6  # float32: a few units in the last place of outputs near 1

B, T, S, E, HEADS = 2, 6, 9, 32, 4


def draws(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def pair(key_dim: int = E, value_dim: int = E) -> tuple[torch.nn.MultiheadAttention, MultiHeadAttention]:
    """Torch's layer and ours with its weights, both in eval mode."""
    theirs = torch.nn.MultiheadAttention(E, HEADS, kdim=key_dim, vdim=value_dim, batch_first=True).eval()
    ours = MultiHeadAttention(E, HEADS, key_dim=key_dim, value_dim=value_dim).eval()
    for seed, parameter in enumerate(theirs.parameters()):
        parameter.data = draws(*parameter.shape, seed=seed) / E**0.5
    packed = theirs.in_proj_weight
    weights = (theirs.q_proj_weight, theirs.k_proj_weight, theirs.v_proj_weight) if packed is None else packed.chunk(3)
    for ours_one, weight, bias in zip((ours.q_proj, ours.k_proj, ours.v_proj), weights, theirs.in_proj_bias.chunk(3)):
        ours_one.load_state_dict({"weight": weight, "bias": bias})
    ours.out_proj.load_state_dict(theirs.out_proj.state_dict())
    return theirs, ours


def keep_of(lengths: list[int], total: int) -> torch.Tensor:
    return torch.arange(total) < torch.tensor(lengths)[:, None]


MASKS = {  # name -> (our mask, what torch's layer is told: True = hidden)
    "none": (None, {}),
    "padding": (padding(keep_of([6, 4], T)), {"key_padding_mask": ~keep_of([6, 4], T)}),
    "causal": (causal(), {"attn_mask": torch.ones(T, T, dtype=torch.bool).triu(1)}),
    "causal and padding": (
        causal() & padding(keep_of([3, 6], T)),
        {"attn_mask": torch.ones(T, T, dtype=torch.bool).triu(1), "key_padding_mask": ~keep_of([3, 6], T)},
    ),
    "dense": (dense(torch.eye(T).bool().flip(0)), {"attn_mask": ~torch.eye(T).bool().flip(0)}),
}


@pytest.mark.parametrize("name", MASKS)
@pytest.mark.parametrize("grad", [False, True])
def test_self_attention_equals_torch(name, grad):
    theirs, ours = pair()
    mask, said = MASKS[name]
    x = draws(B, T, E, seed=50)
    with torch.set_grad_enabled(grad):
        expected, weights = theirs(x, x, x, average_attn_weights=False, **said)
        plain = theirs(x, x, x, need_weights=False, **said)[0]
        output = ours(x, mask=mask)
        inspected = ours.inspect(x, mask=mask)
    torch.testing.assert_close(output, expected, atol=TOLERANCE, rtol=0)
    torch.testing.assert_close(output, plain, atol=TOLERANCE, rtol=0)
    torch.testing.assert_close(inspected.output, expected, atol=TOLERANCE, rtol=0)
    torch.testing.assert_close(inspected.weights, weights, atol=TOLERANCE, rtol=0)


def test_cross_attention_with_other_widths_and_padding_equals_torch():
    theirs, ours = pair(key_dim=20, value_dim=12)
    query, key, value = draws(B, T, E, seed=51), draws(B, S, 20, seed=52), draws(B, S, 12, seed=53)
    keep = keep_of([9, 5], S)
    expected, weights = theirs(query, key, value, key_padding_mask=~keep, average_attn_weights=False)
    output, seen = ours.inspect(query, key, value, mask=padding(keep))
    torch.testing.assert_close(output, expected, atol=TOLERANCE, rtol=0)
    torch.testing.assert_close(seen, weights, atol=TOLERANCE, rtol=0)
    torch.testing.assert_close(ours(query, key, value, mask=padding(keep)), expected, atol=TOLERANCE, rtol=0)


def test_gradients_equal_torch():
    theirs, ours = pair()
    x = draws(B, T, E, seed=54)
    theirs(x, x, x)[0].square().sum().backward()
    ours(x).square().sum().backward()
    ours_packed = torch.cat([ours.q_proj.weight.grad, ours.k_proj.weight.grad, ours.v_proj.weight.grad])
    torch.testing.assert_close(ours_packed, theirs.in_proj_weight.grad, atol=1e-5, rtol=1e-5)  # gradients near 10
    torch.testing.assert_close(ours.out_proj.weight.grad, theirs.out_proj.weight.grad, atol=1e-5, rtol=1e-5)


def test_torch_gives_nan_where_a_row_is_hidden_and_ours_the_bias_of_the_last_projection():
    theirs, ours = pair()
    x = draws(B, T, E, seed=55)
    keep = keep_of([6, 0], T)
    assert theirs(x, x, x, key_padding_mask=~keep)[0][1].isnan().all()
    output, weights = ours.inspect(x, mask=padding(keep))
    assert torch.equal(output[1], ours.out_proj.bias.expand(T, E))
    assert torch.equal(weights[1], torch.zeros(HEADS, T, T))
