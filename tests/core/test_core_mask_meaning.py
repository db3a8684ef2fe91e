"""What each mask lets through, against a predicate of plain integers that shares no code with it."""

import pytest
import torch
from hypothesis import given, strategies as st

from regard.mask import (
    blocks,
    causal,
    dense,
    dilated,
    documents,
    global_tokens,
    padding,
    prefix,
    sliding_window,
)

sizes = st.integers(1, 7)
reach = st.none() | st.integers(0, 3)
offsets = st.integers(-3, 5)


def allows(mask, T, S, predicate, batch=1):
    """Whether mask and predicate(sample, query row, key column) agree on every pair."""
    attend = mask.materialise(T, S, batch=batch).expand(batch, -1, T, S)[:, 0]
    wanted = [[[predicate(b, i, j) for j in range(S)] for i in range(T)] for b in range(batch)]
    assert attend.tolist() == wanted


def near(distance, left, right):
    return (left is None or distance >= -left) and (right is None or distance <= right)


@given(T=sizes, S=sizes, offset=offsets)
def test_causal_lets_a_query_see_itself_and_what_came_before(T, S, offset):
    allows(causal(offset=offset), T, S, lambda b, i, j: j <= offset + i)


@given(T=sizes, S=sizes, left=reach, right=reach, offset=offsets)
def test_a_window_is_left_plus_right_plus_one_keys_wide(T, S, left, right, offset):
    allows(sliding_window(left, right, offset=offset), T, S, lambda b, i, j: near(j - offset - i, left, right))


def test_causal_and_a_window_of_w_minus_one_is_the_window_w_of_mistral():
    attend = (causal() & sliding_window(left=2)).materialise(6, 6)[0, 0]
    assert attend.sum(-1).tolist() == [1, 2, 3, 3, 3, 3]


@given(T=sizes, S=sizes, step=st.integers(1, 3), left=reach, right=reach, offset=offsets)
def test_a_dilated_window_sees_every_step_th_key(T, S, step, left, right, offset):
    def seen(b, i, j):
        taps, rest = divmod(j - offset - i, step)
        return rest == 0 and near(taps, left, right)

    allows(dilated(step, left, right, offset=offset), T, S, seen)


@given(T=sizes, S=sizes, tokens=st.sets(st.integers(0, 8)), queries=st.booleans(), offset=offsets)
def test_global_tokens_are_columns_and_rows(T, S, tokens, queries, offset):
    mask = global_tokens(sorted(tokens), queries=queries, offset=offset)
    allows(mask, T, S, lambda b, i, j: j in tokens or (queries and offset + i in tokens))


@given(T=sizes, S=sizes, n=st.integers(0, 8))
def test_a_prefix_is_seen_by_all(T, S, n):
    allows(prefix(n), T, S, lambda b, i, j: j < n)


@given(T=sizes, S=sizes, data=st.data())
def test_a_prefix_can_have_a_length_per_sample(T, S, data):
    n = data.draw(st.lists(st.integers(0, 8), min_size=2, max_size=2))
    allows(prefix(torch.tensor(n)), T, S, lambda b, i, j: j < n[b], batch=2)


@given(T=sizes, S=sizes, data=st.data())
def test_padding_keeps_what_it_is_told_to_keep(T, S, data):
    keep = [data.draw(st.lists(st.booleans(), min_size=S, max_size=S)) for _ in range(2)]
    allows(padding(torch.tensor(keep)), T, S, lambda b, i, j: keep[b][j], batch=2)
    lengths = [sum(row) for row in keep]
    allows(padding(lengths=torch.tensor(lengths)), T, S, lambda b, i, j: j < lengths[b], batch=2)


@given(T=sizes, extra=st.integers(0, 3), data=st.data())
def test_documents_do_not_mix_and_negative_ids_are_padding(T, extra, data):
    S = T + extra
    ids = [data.draw(st.lists(st.integers(-1, 2), min_size=S, max_size=S)) for _ in range(2)]
    mask = documents(torch.tensor(ids), offset=extra)
    allows(mask, T, S, lambda b, i, j: ids[b][j] >= 0 and ids[b][extra + i] == ids[b][j], batch=2)


@given(T=sizes, S=sizes, size=st.integers(1, 3), offset=st.integers(0, 2), data=st.data())
def test_blocks_follow_their_layout(T, S, size, offset, data):
    layout = data.draw(st.lists(st.lists(st.booleans(), min_size=9, max_size=9), min_size=9, max_size=9))
    mask = blocks(torch.tensor(layout), size=size, offset=offset)
    allows(mask, T, S, lambda b, i, j: layout[(offset + i) // size][j // size])


def test_blocks_without_a_size_divide_the_call():
    layout = torch.tensor([[True, False], [True, True]])
    allows(blocks(layout), 4, 6, lambda b, i, j: bool(layout[i // 2, j // 3]))


@given(T=sizes, S=sizes, data=st.data())
def test_and_or_and_not_are_those_of_logic(T, S, data):
    tables = [
        torch.rand(T, S, generator=torch.Generator().manual_seed(data.draw(st.integers(0, 99)))) > 0.5 for _ in "abc"
    ]
    a, b, c = (dense(table) for table in tables)
    allows((a | ~b) & c, T, S, lambda _, i, j: bool((tables[0] | ~tables[1])[i, j] and tables[2][i, j]))


@pytest.mark.parametrize("join", [lambda a, b: a & b, lambda a, b: b & a, lambda a, b: a | b])
def test_one_offset_holds_for_every_part(join):
    joined = join(causal(offset=2), sliding_window(1, 1)).materialise(3, 6)
    apart = join(causal(offset=2), sliding_window(1, 1, offset=2)).materialise(3, 6)
    assert torch.equal(joined, apart)
    assert torch.equal((~causal(offset=2)).materialise(3, 6), ~causal(offset=2).materialise(3, 6))


def test_an_offset_can_differ_between_samples():
    start = torch.tensor([0, 3])
    allows(causal(offset=start), 2, 5, lambda b, i, j: j <= [0, 3][b] + i, batch=2)


@given(data=st.data(), T=sizes, S=sizes)
def test_positions_from_a_cache_decide_instead_of_rows_and_columns(data, T, S):
    at = st.lists(st.integers(0, 9), min_size=T, max_size=T)
    queries = [data.draw(at) for _ in range(2)]
    keys = [data.draw(st.lists(st.integers(-1, 9), min_size=S, max_size=S)) for _ in range(2)]
    keep = data.draw(st.lists(st.booleans(), min_size=10, max_size=10))
    mask = causal() & sliding_window(left=4) & padding(torch.tensor([keep]))
    bound = mask.at(torch.tensor(queries), torch.tensor(keys), length=10)

    def seen(b, i, j):
        key, query = keys[b][j], queries[b][i]
        return key >= 0 and key <= query and key >= query - 4 and keep[key]

    allows(bound, T, S, seen, batch=2)


def test_an_empty_slot_is_hidden_by_every_mask():
    keys = torch.tensor([[0, -1, 1]])
    row = torch.tensor([[1]])
    layout = torch.ones(4, 4, dtype=torch.bool)
    masks = [causal(), ~causal(), prefix(3), global_tokens([0, 1]), blocks(layout, size=1), dense(torch.ones(1, 2) > 0)]
    for mask in [*masks, sliding_window(), dilated(1), documents(torch.tensor([0, 0])), padding(lengths=[2])]:
        assert not mask.at(row, keys).materialise(1, 3)[..., 1].any(), mask


def test_a_written_mask_in_a_cache_has_the_rows_of_the_call_and_the_columns_of_all_keys():
    attend = torch.tensor([[True, False, True], [False, True, True]])
    keys = torch.tensor([[2, 0, -1, 1]])
    bound = dense(attend).at(torch.tensor([[1, 2]]), keys, length=3)
    allows(bound, 2, 4, lambda b, i, j: int(keys[0, j]) >= 0 and bool(attend[i, keys[0, j]]))


def test_starting_at_an_offset_is_the_same_as_giving_it():
    mask = (causal() & sliding_window(left=2)) | global_tokens([0])
    given_one = (causal(offset=3) & sliding_window(left=2)) | global_tokens([0])
    assert torch.equal(mask.starting_at(3).materialise(2, 5), given_one.materialise(2, 5))
    assert repr(padding(lengths=[3]).starting_at(3)) == "padding(lengths=<(1,)>)"
    assert repr((~causal()).starting_at(1)) == "~causal(offset=1)"


@pytest.mark.parametrize("rows", [[0], [3, 1], []])
def test_chosen_rows_are_the_rows_of_the_whole(rows):
    table = torch.rand(5, 7, generator=torch.Generator().manual_seed(0)) > 0.5
    index = torch.tensor(rows, dtype=torch.int64)
    queries, keys = torch.arange(5)[None], torch.arange(7)[None]
    masks = [
        (causal(offset=1) | dense(table)) & documents(torch.arange(7) // 3),
        blocks(torch.eye(4) > 0, size=2, offset=1),
        global_tokens([2], offset=0),
        (causal() & dense(table)).at(queries, keys),
    ]
    for mask in masks:
        whole = mask.materialise(5, 7).expand(-1, -1, 5, 7)
        assert torch.equal(mask.materialise(5, 7, rows=index).expand(-1, -1, len(rows), 7), whole[:, :, rows]), mask
