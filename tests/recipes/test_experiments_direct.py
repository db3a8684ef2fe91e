"""The claims that are computed or measured directly: each against an open form, or a case where it must come out the other way."""

import math

import pytest
import torch

from regard.core.mask.band import causal
from regard.nn.multi_head import MultiHeadAttention
from regard.recipes.experiments import decoding, every, gates, heads_and_dropout, masking, places, softmax_scores
from regard.recipes.experiments.claim import CONFIRMED, NOT, PARTLY, Found

KNOWN = every.claims()


def verdict(name, *rows):
    return KNOWN[name].verdict(Found(dict(enumerate(rows))))


def test_the_scale_table_spreads_as_the_root_and_a_wrong_one_is_not_confirmed():
    found = softmax_scores.scale_table(0)
    assert found["raw_deviation_256"] == pytest.approx(16, rel=0.05)
    assert found["scaled_deviation_256"] == pytest.approx(1, rel=0.05)
    assert verdict("scale-table", found) == CONFIRMED
    assert verdict("scale-table", found | {"raw_deviation_256": 256.0}) == NOT


def test_the_largest_weight_of_even_scores_would_not_move_and_ours_does():
    found = softmax_scores.one_table_for_any_keys(0)
    assert found["scaled_largest_64_10"] > 5 * found["scaled_largest_64_512"]
    assert verdict("largest-weight-by-width-alone", found) == NOT
    assert verdict("largest-weight-by-width-alone", dict.fromkeys(found, 0.9)) == CONFIRMED


def test_temperatures_and_gradients_decide_in_both_directions():
    found = softmax_scores.temperature(0)
    assert found["whole_times_512"] < 1.2 < found["root_times_512"]
    assert verdict("temperature-d", found) == CONFIRMED
    assert verdict("temperature-d", found | {"whole_entropy_64": 0.9}) == NOT
    assert verdict("temperature-d", found | {"root_entropy_64": 0.99}) == PARTLY
    gone = softmax_scores.gradients(0)
    assert gone["raw_nothing"] > 0.1
    assert verdict("unscaled-gradients-vanish", gone) == CONFIRMED
    assert verdict("unscaled-gradients-vanish", gone | {"raw_median": 1.0, "raw_nothing": 0.0}) == NOT


def test_half_precision_masks_and_rows():
    found = softmax_scores.half_precision(0)
    assert found == {"not_a_number": 1.0, "refused": 1.0, "ours": 1.0, "bfloat16": 1.0}
    tested = softmax_scores.self_test(0)
    assert verdict("rows-sum-to-one", tested) == CONFIRMED
    assert verdict("rows-sum-to-one", tested | {"gradients": 0.0}) == NOT
    row = masking.empty_row(0)
    assert row["finite_largest"] == pytest.approx(1 / 8)
    assert row["ours"] == 0.0
    assert verdict("fully-masked-row", row | {"others": 0.5}) == NOT


def test_the_wrong_split_is_the_one_that_mixes_blocks_of_tokens():
    layer = masking.layer_of(0, 8, 2)
    x = softmax_scores.normal(1, 6, 8, seed=1)
    q, k, v = (project(x) for project in (layer.q_proj, layer.k_proj, layer.v_proj))
    blocks = [t.reshape(2, 6, 4) for t in (q, k, v)]  # three tokens of two halves each
    weights = (blocks[0] @ blocks[1].mT / 2).softmax(-1)
    expected = layer.out_proj((weights @ blocks[2]).reshape(1, 6, 8))
    assert torch.allclose(masking.WrongSplit(layer)(x), expected, atol=1e-6)
    found = masking.wrong_split(0)
    assert (found["right"], found["wrong"]) == (1.0, 0.25)
    leak = masking.causal_leak(0)
    assert leak["wrong_leak"] == leak["wrong_sees"] == leak["right_leak"] == 0.0
    assert leak["right_sees"] > 0.01
    assert verdict("wrong-head-split-leaks", leak | {"wrong_leak": 1.0}) == CONFIRMED


def test_making_a_layer_leaves_the_generator_of_torch_alone():
    before = torch.get_rng_state()
    masking.layer_of(3)
    assert torch.equal(before, torch.get_rng_state())


def test_padding_takes_mass_unless_it_is_masked():
    found = masking.ignored(0)
    assert found["mass_25"] < found["mass_50"] < found["mass_75"]
    assert found["masked_75"] < 1e-5
    assert masking.swapped(0) == pytest.approx({"padding": 1.0, "right": 0.0, "future": 1.0}, abs=1e-6)


def test_ranks_of_scores_are_the_width_of_a_head_and_dropout_has_no_bias(monkeypatch):
    found = heads_and_dropout.ranks(0)
    assert [found[f"rank_{d}"] for d in (16, 32, 64, 128)] == [16, 32, 64, 128]
    monkeypatch.setattr(heads_and_dropout, "DRAWS", 100)
    drawn = heads_and_dropout.expectation(0)
    assert drawn["sum_10"] < drawn["sum_50"]
    assert verdict("attention-dropout-expectation", drawn | {"errors_10": 5.0}) == NOT


def test_a_cache_gives_the_full_forward_and_one_left_over_does_not(monkeypatch):
    layer = MultiHeadAttention(16, 2, mask=causal()).eval()
    x = softmax_scores.normal(1, 9, 16, seed=0)
    with torch.no_grad():
        assert torch.allclose(decoding.cached_of(layer, x), layer(x), atol=1e-5)
    assert verdict("stale-cache", decoding.left_over(0)) == CONFIRMED
    assert verdict("stale-cache", {"stale": 0.0, "reset": 0.0}) == NOT
    times = {"times_32": 3.0, "times_128": 5.0, "times_384": 9.0}
    assert verdict("cache-gain-grows", times) == CONFIRMED
    assert verdict("cache-gain-grows", times | {"times_128": 12.0}) == PARTLY
    assert verdict("cache-gain-grows", dict.fromkeys(times, 1.0)) == NOT


def test_positions_and_windows_reach_what_arithmetic_says():
    found = places.order(0)
    assert found["none"] < 1e-5 < 0.01 < min(found["rotary"], found["sinusoidal"])
    assert places.beyond(0) == {"learned": 0.0, "sinusoidal": 1.0}
    reached = places.reach(0)
    assert (reached["one"], reached["unshifted"]) == (49, 49)
    assert reached["shifted"] == 14 * 14  # the window of (14, 14) under a shift of 3 touches two windows on each axis
    assert verdict("window-shift", reached | {"unshifted": 60.0}) == NOT


def test_the_counted_network_is_resnet_50():
    parameters, flops = gates.size_of_resnet50()
    assert parameters == 25_557_032
    assert flops == pytest.approx(2 * 4.09e9, rel=0.01)


def test_gates_cost_what_their_formulas_say_and_the_orders_the_same():
    found = gates.costs(0)
    channels = [256] * 3 + [512] * 4 + [1024] * 6 + [2048] * 3
    squeeze = sum(2 * c * (c // 16) + c + c // 16 for c in channels)
    assert found["se_parameters"] == pytest.approx(100 * squeeze / 25_557_032)
    assert verdict("gates-cost-little", found) == PARTLY
    assert verdict("gates-cost-little", found | {"ca_flops": 3.0}) == NOT
    ordered = gates.orders(0)
    assert verdict("cbam-order-costs-the-same", ordered) == CONFIRMED
    assert verdict("cbam-order-costs-the-same", ordered | {"parallel_flops": 0.0}) == NOT
    assert min(ordered["spatial_apart"], ordered["parallel_apart"]) > 0.001


def test_the_entropy_of_an_even_map_is_the_logarithm_of_its_keys():
    flat = torch.full((128,), 1 / 128)
    assert float(-(flat * flat.log()).sum()) == pytest.approx(math.log(128))
