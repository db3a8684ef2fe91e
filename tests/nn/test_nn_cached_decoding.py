"""Decoding from a cache equals the full forward: any chunking, mask, padding, positions; and a refusal changes nothing."""

import pytest
import torch
from hypothesis import given, settings, strategies as st

from regard.mask import causal, dilated, documents, global_tokens, padding, prefix, sliding_window
from regard.nn import AlibiBias, MultiHeadAttention
from regard.position import Rotary

EXACT = 1e-12  # float64: the same sums in another order
E, HEADS, KV_HEADS, T = 24, 4, 2, 9

MASKS = {
    "causal": causal(),
    "window 1": causal() & sliding_window(left=0),
    "window 3": causal() & sliding_window(left=2),
    "window of all": causal() & sliding_window(left=T),
    "dilated": causal() & dilated(2, left=3),
    "global": causal() & (sliding_window(left=1) | global_tokens([0])),
}
POSITIONS = {"none": (None, None), "rotary": (Rotary(6, pairing="half"), None), "alibi": (None, AlibiBias(HEADS))}


def draws(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def layer_with(mask=None, position=None, attention_bias=None) -> MultiHeadAttention:
    layer = MultiHeadAttention(
        E,
        HEADS,
        num_kv_heads=KV_HEADS,
        head_dim=(6, 5),
        mask=mask,
        position=position,
        attention_bias=attention_bias,
        dtype=torch.float64,
    )
    for seed, parameter in enumerate(layer.parameters()):
        parameter.data = draws(*parameter.shape, seed=seed) / 4
    return layer.eval()


def keep_of(side: str, lengths: tuple[int, ...]) -> torch.Tensor:
    keep = torch.arange(T) < torch.tensor(lengths)[:, None]
    return keep.flip(1) if side == "left" else keep


def spans(chunks: list[int], total: int = T) -> list[tuple[int, int]]:
    """(start, end) of consecutive chunks whose sizes go round until all is covered."""
    found, start = [], 0
    while start < total:
        end = min(total, start + chunks[len(found) % len(chunks)])
        found.append((start, end))
        start = end
    return found


def decode(layer, x, chunks, cache, keep=None, positions=None) -> torch.Tensor:
    parts = []
    for start, end in spans(chunks, x.shape[1]):
        mask = None if keep is None else padding(keep[:, :end])
        places = None if positions is None else positions[:, start:end]
        parts.append(layer(x[:, start:end], mask=mask, positions=places, cache=cache))
    return torch.cat(parts, dim=1)


chunkings = st.lists(st.integers(1, 4), min_size=1, max_size=4)


@settings(max_examples=150)
@given(
    mask=st.sampled_from(sorted(MASKS)),
    position=st.sampled_from(sorted(POSITIONS)),
    side=st.sampled_from(["none", "left", "right"]),
    lengths=st.tuples(st.integers(1, T), st.integers(1, T)),
    chunks=chunkings,
    said=st.booleans(),
    grad=st.booleans(),
)
def test_decoding_in_any_chunks_equals_the_full_forward(mask, position, side, lengths, chunks, said, grad):
    layer = layer_with(MASKS[mask], *POSITIONS[position])
    x = draws(2, T, E, seed=1)
    keep = None if side == "none" else keep_of(side, lengths)
    positions = torch.arange(T)[None] if said else None
    with torch.set_grad_enabled(grad):
        cache = layer.new_cache(2, T)
        assert cache.rolling == (mask in ("window 1", "window 3"))
        decoded = decode(layer, x, chunks, cache, keep, positions)
        full = layer(x, mask=None if keep is None else padding(keep))
    real = torch.ones(2, T).bool() if keep is None else keep
    torch.testing.assert_close(decoded[real], full[real], atol=EXACT, rtol=0)


@settings(max_examples=100)
@given(
    mask=st.sampled_from(["causal", "window 1", "window 3", "global", "dilated"]),
    position=st.sampled_from(sorted(POSITIONS)),
    side=st.sampled_from(["left", "right"]),
    length=st.integers(1, 5),
    more=st.integers(1, 4),
    chunks=chunkings,
    how=st.sampled_from(["positions", "padding and positions", "padding of the prompt only"]),
    grad=st.booleans(),
)
def test_samples_of_different_lengths_go_on_as_if_each_were_alone(
    mask, position, side, length, more, chunks, how, grad
):
    layer = layer_with(MASKS[mask], *POSITIONS[position])
    prompt, go_on = draws(2, 5, E, seed=2), draws(2, more, E, seed=3)
    keep = torch.stack([torch.arange(5) < length, torch.ones(5).bool()])
    keep = keep.flip(1) if side == "left" else keep
    places = (keep.cumsum(1) - 1).masked_fill(~keep, -1)
    next_places = torch.tensor([[length], [5]]) + torch.arange(more)
    with torch.set_grad_enabled(grad):
        cache = layer.new_cache(2, 5 + more)
        if how == "positions":
            decode(layer, prompt, chunks, cache, positions=places)
            decoded = decode(layer, go_on, chunks, cache)
        elif how == "padding and positions":  # as Hugging Face hands them over: position 1 at padding
            everything = torch.cat([keep, torch.ones(2, more).bool()], dim=1)
            all_places = torch.cat([places.masked_fill(~keep, 1), next_places], dim=1)
            together = torch.cat([prompt, go_on], dim=1)
            decoded = decode(layer, together, chunks, cache, everything, all_places)[:, 5:]
        else:
            decode(layer, prompt, chunks, cache, keep, places)
            decoded = decode(layer, go_on, chunks, cache, positions=next_places)
        alone = [layer(torch.cat([prompt[i : i + 1, keep[i]], go_on[i : i + 1]], dim=1))[:, -more:] for i in range(2)]
    torch.testing.assert_close(decoded, torch.cat(alone), atol=EXACT, rtol=0)


def test_right_padded_prompts_go_on_at_positions_of_their_own_without_a_word_about_the_padding_positions():
    layer = layer_with(causal(), Rotary(6, pairing="half"))
    prompt, go_on = draws(2, 5, E, seed=2), draws(2, 1, E, seed=3)
    keep = keep_of("right", (2, 5))[:, :5]
    cache = layer.new_cache(2, 6)
    layer(prompt, mask=padding(keep), cache=cache)
    everything = torch.cat([keep, torch.ones(2, 1).bool()], dim=1)
    decoded = layer(go_on, mask=padding(everything), positions=torch.tensor([[2], [5]]), cache=cache)
    alone = layer(torch.cat([prompt[:1, :2], go_on[:1]], dim=1))[:, -1:]
    torch.testing.assert_close(decoded[:1], alone, atol=EXACT, rtol=0)
    torch.testing.assert_close(decoded[1:], layer(torch.cat([prompt, go_on], 1))[1:, -1:], atol=EXACT, rtol=0)


@given(chunks=chunkings, cut=st.integers(1, T - 1), rolling=st.booleans())
def test_a_second_sequence_after_reset_is_the_sequence_alone(chunks, cut, rolling):
    layer = layer_with(MASKS["window 3"] if rolling else causal(), Rotary(6, pairing="half"))
    cache = layer.new_cache(1, T)
    with torch.no_grad():
        decode(layer, torch.full((1, cut, E), torch.nan, dtype=torch.float64), chunks, cache)
        cache.reset()
        x = draws(1, T, E, seed=4)
        torch.testing.assert_close(decode(layer, x, chunks, cache), layer(x), atol=EXACT, rtol=0)


def test_beams_go_on_from_the_sample_they_came_from():
    layer = layer_with(causal(), Rotary(6, pairing="half"))
    x, go_on = draws(2, 4, E, seed=5), draws(3, 2, E, seed=6)
    cache = layer.new_cache(2, 6)
    layer(x, cache=cache)
    choose = torch.tensor([1, 1, 0])
    cache.reorder(choose)
    full = layer(torch.cat([x[choose], go_on], dim=1))[:, 4:]
    torch.testing.assert_close(layer(go_on, cache=cache), full, atol=EXACT, rtol=0)


def test_going_back_and_trying_other_tokens_equals_never_having_tried_the_first():
    layer = layer_with(causal(), Rotary(6, pairing="half"))
    x, wrong = draws(1, 6, E, seed=7), draws(1, 3, E, seed=8)
    cache = layer.new_cache(1, 12)
    layer(x[:, :4], cache=cache)
    layer(wrong, cache=cache)
    rest = layer(x[:, 4:], positions=torch.tensor([[4, 5]]), cache=cache)
    torch.testing.assert_close(rest, layer(x)[:, 4:], atol=EXACT, rtol=0)


def test_a_prefix_that_comes_in_one_piece_is_seen_both_ways():
    layer = layer_with(causal() | prefix(3))
    x = draws(1, T, E, seed=9)
    cache = layer.new_cache(1, T)
    decoded = torch.cat([layer(x[:, :3], cache=cache), layer(x[:, 3:5], cache=cache), layer(x[:, 5:], cache=cache)], 1)
    torch.testing.assert_close(decoded, layer(x), atol=EXACT, rtol=0)


def test_documents_and_a_bool_tensor_count_the_keys_as_they_came():
    layer = layer_with(causal())
    x = draws(1, 4, E, seed=10)
    ids = torch.tensor([[0, 0, 1, 1]])
    full = layer(x, mask=documents(ids))
    cache = layer.new_cache(1, 4)
    first = layer(x[:, :2], mask=documents(ids[:, :2]), cache=cache)
    second = layer(x[:, 2:], mask=(ids[:, 2:, None] == ids[:, None])[:, None], cache=cache)
    torch.testing.assert_close(torch.cat([first, second], dim=1), full, atol=EXACT, rtol=0)


@pytest.mark.parametrize("window", [3, 20])
def test_a_bool_tensor_has_a_column_for_every_token_so_far(window):
    layer = layer_with(causal() & sliding_window(left=window - 1))
    x = draws(1, T, E, seed=14)
    table = torch.arange(T)[:, None] * torch.arange(T) % 3 != 1
    cache = layer.new_cache(1, T)
    decoded = [layer(x[:, i:j], mask=table[i:j, :j], cache=cache) for i, j in spans([2, 1, 4])]
    torch.testing.assert_close(torch.cat(decoded, dim=1), layer(x, mask=table), atol=EXACT, rtol=0)


@given(chunks=chunkings, left=st.integers(0, 4), said=st.booleans())
def test_a_window_that_comes_with_the_call_is_kept_to_though_the_cache_holds_more(chunks, left, said):
    layer, window = layer_with(causal(), Rotary(6, pairing="half")), sliding_window(left=left)
    x, cache = draws(1, T, E, seed=16), layer.new_cache(1, T)
    positions = torch.arange(T)[None]
    decoded = [
        layer(x[:, i:j], mask=window, positions=positions[:, i:j] if said else None, cache=cache)
        for i, j in spans(chunks)
    ]
    torch.testing.assert_close(torch.cat(decoded, dim=1), layer(x, mask=window), atol=EXACT, rtol=0)


@pytest.mark.parametrize("mask", ["causal", "window 3"])
def test_padding_goes_on_by_order_of_arrival_when_only_the_prompt_had_positions(mask):
    layer = layer_with(MASKS[mask], Rotary(6, pairing="half"))
    prompt, go_on = draws(2, 5, E, seed=2), draws(2, 2, E, seed=3)
    keep = torch.tensor([[True, True, False, False, False, True, True], [False, True, True, True, True, True, True]])
    places = (keep[:, :5].cumsum(1) - 1).masked_fill(~keep[:, :5], -1)
    cache = layer.new_cache(2, 7)
    layer(prompt, positions=places, cache=cache)
    decoded = layer(go_on, mask=padding(keep), cache=cache)
    together = torch.cat([prompt, go_on], dim=1)
    alone = [layer(together[i : i + 1, keep[i]])[:, -2:] for i in range(2)]
    torch.testing.assert_close(decoded, torch.cat(alone), atol=EXACT, rtol=0)


def test_padding_stays_hidden_when_positions_are_given_only_after_the_prompt():
    layer = layer_with(causal(), Rotary(6, pairing="half"))
    x, keep = draws(2, 6, E, seed=17), torch.tensor([[False, False, True, True, True, True], [True] * 6])
    cache = layer.new_cache(2, 6)
    layer(x[:, :5], mask=padding(keep[:, :5]), cache=cache)
    decoded = layer(x[:, 5:], mask=padding(keep), positions=torch.tensor([[5]]), cache=cache)
    torch.testing.assert_close(decoded, layer(x, mask=padding(keep))[:, 5:], atol=EXACT, rtol=0)


def test_one_token_at_a_time_needs_no_mask():
    layer, x = layer_with(), draws(1, 4, E, seed=11)
    cache = layer.new_cache(1, 4)
    decoded = torch.cat([layer(x[:, i : i + 1], cache=cache) for i in range(4)], dim=1)
    torch.testing.assert_close(decoded, layer(x, mask=causal()), atol=EXACT, rtol=0)


@pytest.mark.parametrize("mask", [causal(), causal() & sliding_window(left=2)])
def test_the_gradient_of_a_cached_call_reaches_its_own_tokens_only(mask):
    layer = layer_with(mask)
    first, second = draws(1, 3, E, seed=12).requires_grad_(), draws(1, 2, E, seed=13).requires_grad_()
    cache = layer.new_cache(1, 5)
    layer(first, cache=cache)
    layer(second, cache=cache).square().sum().backward()
    expected = draws(1, 2, E, seed=13).requires_grad_()
    layer(torch.cat([first.detach(), expected], dim=1))[:, 3:].square().sum().backward()
    assert first.grad is None
    assert not cache.key.requires_grad
    torch.testing.assert_close(second.grad, expected.grad, atol=EXACT, rtol=0)


@pytest.mark.parametrize("mask", ["causal", pytest.param("window 3", marks=pytest.mark.slow)])
@pytest.mark.parametrize("said", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_a_compiled_layer_decodes_in_one_graph(mask, said):
    torch._dynamo.reset()
    layer = layer_with(MASKS[mask], Rotary(6, pairing="half"))
    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
    x = draws(2, 7, E, seed=15)
    positions = torch.tensor([[-1, 0, 1, 2, 3, 4, 5], [0, 1, 2, 3, 4, 5, 6]]) if said else None
    with torch.no_grad():
        decoded = decode(compiled, x, [3, 1, 1, 1, 1], layer.new_cache(2, T), positions=positions)
        expected = decode(layer, x, [3, 1, 1, 1, 1], layer.new_cache(2, T), positions=positions)
    torch.testing.assert_close(decoded, expected, atol=EXACT, rtol=0)


def test_a_new_cache_has_the_layers_heads_dtype_and_window():
    layer = layer_with(causal() & sliding_window(left=3))
    assert repr(layer.new_cache(2, 100)).startswith("KVCache(rolling, latest 4; batch=2, num_kv_heads=2, head_dim=6, ")
    assert not layer.new_cache(2, 4).rolling
    assert layer.new_cache(2, 100).key.dtype == torch.float64
