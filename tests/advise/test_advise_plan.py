"""`regard.plan`: its numbers against small cases counted by hand and against modules that were built; its refusals, word by word."""

import dataclasses
import functools
import json

import pytest
import torch
from hypothesis import given, strategies as st

import regard
from regard.advise.advice import heads_for
from regard.advise.attention_memory import WAYS, cache_of
from regard.advise.ledger import Ledger
from regard.advise.parameters import flops_of, pairs_of, parameters_of
from regard.advise.planning import largest_batch
from regard.advise.step import walk
from regard.advise.work import DTYPES, Work, bytes_of
from regard.core.errors import PlanError


def works(**fixed):
    """Small works of every kind."""
    heads = st.sampled_from([1, 2, 4])
    return st.builds(
        lambda heads, group, **more: Work(embed_dim=8 * heads, heads=heads, kv_heads=max(1, heads // group), **more),
        heads=heads, group=st.sampled_from([1, 2]), batch=st.integers(1, 3), length=st.integers(1, 40),
        layers=st.integers(1, 3), vocab=st.sampled_from([0, 50]), dtype=st.sampled_from(sorted(DTYPES)),
        way=st.sampled_from(["forward", "train", "generate"]), causal=st.booleans(),
        window=st.sampled_from([None, 1, 8]), **{name: st.just(value) for name, value in fixed.items()},
    )  # fmt: skip


@pytest.mark.parametrize(("kv_heads", "vocab"), [(None, 0), (2, 0), (1, 30)])
def test_the_parameters_are_those_of_the_model_that_is_built(kv_heads, vocab):
    from regard.bench.planned import Planned

    work = Work(16, 4, kv_heads=kv_heads, layers=3, vocab=vocab)
    assert parameters_of(work).total == sum(p.numel() for p in Planned(work, "fused").parameters())


def test_the_bytes_of_a_small_call_are_those_counted_by_hand():
    """1 sample, 4 tokens of width 8 in 2 heads, float32: a tensor of tokens has 128 bytes, hidden 512, a score matrix of both heads 128."""
    work = Work(8, 2, length=4)
    assert (work.unit, work.hidden_unit, work.scores * 4) == (128, 512, 128)
    weights = 4 * parameters_of(work).total
    # the feed-forward layer: the input, the sum after attention, its norm, hidden before and after gelu
    assert walk(work, "fused").peak == weights + 128 + 128 + 128 + 2 * 512
    # the open form, of a sequence long enough: input, norm, q, k, v, and two matrices of scores
    long = Work(8, 2, length=400)
    assert walk(long, "open").peak == 4 * parameters_of(long).total + 5 * long.unit + 2 * long.scores * 4


def test_a_training_step_keeps_what_was_counted_by_hand():
    """One layer, fused: the input, 15 tensors of tokens, the output, its gradient, that of the layer, then the hidden gradient."""
    work = Work(512, 8, batch=8, length=1024, way="train")
    held = walk(work, "fused")
    tokens, rows = 8 * 1024, 4 * 8 * 8 * 1024
    moments = 3 * 2 * 4 * tokens
    down = (2 * 512 * 2048 + 2048 + 512) // 2 * 4
    expected = (1 + 15 + 1 + 1 + 1 + 4) * work.unit + rows + moments + down + 3 * parameters_of(work).total * 4
    assert held.peak == pytest.approx(expected, rel=0.01)
    assert held.at_peak["optimizer"] == 2 * held.at_peak["weights"]


def test_the_weights_of_8_samples_8_heads_and_512_tokens_are_67_mb():
    assert Work(512, 8, batch=8).scores * 4 == 67_108_864


@given(work=works(), way=st.sampled_from(sorted(WAYS)))
def test_what_is_taken_is_given_back(work, way):
    held = walk(work, way)
    size = parameters_of(work)
    assert held.peak == sum(held.at_peak.values()) >= held.held["weights"] == size.total * work.itemsize
    if work.way == "train":
        assert (
            held.held["gradients"]
            == held.held["weights"] - (2 * 2 * work.embed_dim * (work.layers) + 2 * work.embed_dim) * work.itemsize
        )
        assert held.held["activations"] == 2 * size.largest * work.itemsize  # of AdamW
    else:
        assert held.held["activations"] == work.unit + work.tokens * work.vocab * work.itemsize
        assert held.held["cache"] == (cache_of(work, way) if work.way == "generate" else 0)


@given(work=works(ranks=1), way=st.sampled_from(sorted(WAYS)))
def test_more_samples_never_take_less(work, way):
    assert walk(dataclasses.replace(work, batch=work.batch + 1), way).peak >= walk(work, way).peak


@given(T=st.integers(1, 12), window=st.sampled_from([None, 1, 2, 3, 20]), causal=st.booleans())
def test_pairs_are_those_that_the_mask_leaves(T, window, causal):
    distance = torch.arange(T)[:, None] - torch.arange(T)[None]
    attend = torch.ones(T, T, dtype=torch.bool)
    if causal:
        attend &= distance >= 0
    if window is not None:
        attend &= distance.abs() < window
    assert pairs_of(Work(8, 2, length=T, window=window, causal=causal)) == int(attend.sum())


def test_flops_are_those_that_torch_counts(monkeypatch):
    from torch.utils.flop_counter import FlopCounterMode

    from regard.bench.planned import Planned
    from regard.nn import multi_head

    monkeypatch.setattr(multi_head, "attention", functools.partial(regard.attention, backend="open"))
    work = Work(32, 4, batch=2, length=48, layers=2, vocab=40)
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        Planned(work, "fused")(torch.zeros(2, 48, dtype=torch.int64), [None] * 2)
    softmax = 2 * 5 * work.scores
    biases = 2 * 2 * work.tokens * (4 * 32 + 4 * 32 + 32)  # counted as one more column, which torch leaves out
    assert flops_of(work, "open") - softmax - biases == counter.get_total_flops()


@given(st.integers(10, 400))
def test_the_largest_batch_fits_and_the_next_does_not(millions):
    work = Work(64, 4, length=128, layers=2, way="train")
    most = largest_batch(work, "open", millions * 1_000_000)
    if most:
        assert walk(dataclasses.replace(work, batch=most), "open").peak <= millions * 1e6
    assert walk(dataclasses.replace(work, batch=most + 1), "open").peak > millions * 1e6


def test_the_founding_example_says_why_the_open_form_runs_out_and_what_fits():
    made = regard.plan(512, 8, batch=32, length=512, layers=12, dtype="fp16", memory="8GB", train=True)
    open_form, fused = made.way("open"), made.way("fused")
    assert not open_form.fits
    assert fused.fits
    assert 1 <= open_form.largest_batch < 32 <= fused.largest_batch
    assert "open: runs out of memory" in str(made)
    assert "scores and weights are length x length" in " ".join(str(made).split())
    assert json.loads(json.dumps(made.as_dict()))["ways"][0]["name"] == "open"
    assert regard.plan(512, 8, batch=32, length=512, layers=6, dtype="fp16", memory="8GB", train=True).way("open").fits


@pytest.mark.parametrize(
    ("sizes", "said"),
    [
        ({"heads": 7}, r"embed_dim=512 does not divide into 7 heads; 4 and 8 heads do"),
        ({"heads": 8, "kv_heads": 3}, r"8 query heads cannot share 3 key heads; kv_heads must divide heads"),
        ({"heads": 8, "batch": -1}, r"batch=-1 is not a size; give a number from 1"),
        ({"heads": 0}, r"heads=0 is not a size"),
        ({"heads": 8, "vocab": -5}, r"vocab=-5 is not a size; give a number from 1, or 0 for no words"),
        ({"heads": 8, "dtype": "int4"}, r"dtype 'int4' is not one of fp32, float32, fp16"),
        ({"heads": 8, "memory": "8 gigs"}, r"memory '8 gigs' is not a size; write it as 8GB, 512MiB or a number of bytes"),
        ({"heads": 8, "memory": "-8GB"}, r"memory '-8GB' is not a size"),
        ({"heads": 8, "memory": "0GB"}, r"memory '0GB' is nothing; give what the device has, such as 8GB"),
        ({"heads": 8, "train": True, "generate": True}, r"a plan is of a training step or of generating"),
        ({"heads": 8, "ranks": 3}, r"512 tokens do not divide among 3 ranks; pad the sequence"),
    ],
)  # fmt: skip
def test_sizes_that_cannot_be_planned_are_refused_with_the_way_out(sizes, said):
    with pytest.raises(PlanError, match=said):
        regard.plan(512, **sizes)


@pytest.mark.parametrize(
    ("text", "size"), [("8GB", 8 * 10**9), ("8GiB", 8 * 2**30), ("512 MB", 512 * 10**6), ("1.5k", 1500), (7, 7)]
)
def test_a_memory_is_read_in_powers_of_ten_or_of_two(text, size):
    assert bytes_of(text) == size


def test_a_window_caches_its_own_length_only():
    whole = Work(64, 4, length=1000, layers=2, way="generate")
    assert whole.cache == 2 * 2 * 1000 * 64 * 4
    assert dataclasses.replace(whole, window=100).cache == whole.cache // 10
    assert dataclasses.replace(whole, kv_heads=1).cache == whole.cache // 4
    assert cache_of(whole, "linear") == 2 * 4 * 16 * 17 * 4  # a sum for each head, whatever the length


def test_ranks_hold_a_part_of_the_tokens_and_send_what_the_formula_says():
    made = regard.plan(1024, 16, length=1_048_576, layers=4, causal=True, dtype="bf16", ranks=16)
    rank = made.way("fused").per_rank
    part = 1_048_576 // 16 * 1024 * 2  # bytes of a rank's tokens
    assert rank.peak < made.way("fused").peak / 8
    assert rank.passed_on == 4 * 2 * part * 15
    assert rank.all_to_all == 4 * 4 * part * 15 // 16
    narrow = regard.plan(1024, 16, kv_heads=4, length=1_048_576, ranks=16, causal=True)
    assert narrow.way("fused").per_rank.all_to_all is None
    assert "not possible, the ranks do not divide the heads" in " ".join(str(narrow).split())


def test_advice_names_its_source_and_warns_of_narrow_heads():
    made = regard.plan(512, 32, train=True)
    (heads,) = [advice for advice in made.advice if advice.about == "heads"]
    assert heads.choose == "8 or 4 heads"
    assert "32 heads of 16 channels" in heads.why
    assert all("arXiv:" in advice.source for advice in made.advice)
    assert heads_for(1024) == [16, 8]


def test_advice_on_memory_comes_where_nothing_exact_fits():
    def about(memory):
        return {advice.about for advice in regard.plan(512, 8, batch=32, layers=6, train=True, memory=memory).advice}

    assert "memory" in about("1GB")
    assert "memory" not in about("8GB")


def test_a_ledger_that_gives_back_what_it_never_took_is_stopped():
    with pytest.raises(AssertionError, match="more activations given back than taken"):
        Ledger().give(1)
