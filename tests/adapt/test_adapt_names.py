"""The names under which attention keeps its matrices, in code that we did not write."""

import pytest
import torch

from regard.adapt.names import find_arrays
from regard.core.errors import ConversionError

SEPARATE = [  # query, key, value, last projection
    ("q_proj", "k_proj", "v_proj", "out_proj"),
    ("q_proj", "k_proj", "v_proj", "o_proj"),
    ("query", "key", "value", "output.dense"),
    ("attention.attention.query", "attention.attention.key", "attention.attention.value", "attention.output.dense"),
    ("self.query", "self.key", "self.value", "output.dense"),
    ("q_lin", "k_lin", "v_lin", "out_lin"),
    ("to_q", "to_k", "to_v", "to_out.0"),
    ("wq", "wk", "wv", "wo"),
    ("W_q", "W_k", "W_v", "W_o"),
    ("w_qs", "w_ks", "w_vs", "fc"),
    ("queries", "keys", "values", "fc_out"),
    ("toqueries", "tokeys", "tovalues", "unifyheads"),
    ("linear_q", "linear_k", "linear_v", "linear_out"),
    ("q", "k", "v", "o"),
    ("query_layer", "key_layer", "value_layer", "dense"),
    ("query_projection", "key_projection", "value_projection", "out_projection"),
    ("fc_q", "fc_k", "fc_v", "fc_o"),
]
PACKED = [
    ("qkv", "proj"),
    ("c_attn", "c_proj"),
    ("query_key_value", "dense"),
    ("to_qkv", "to_out.0"),
    ("Wqkv", "out_proj"),
    ("in_proj", "out_proj"),
    ("W_pack", "o_proj"),
    ("qkv_proj", "o_proj"),
    ("qkv_linear", "proj"),
]


def state(*stems: str) -> dict[str, torch.Tensor]:
    return {
        f"{stem}.{kind}": torch.zeros((4, 4) if kind == "weight" else 4)
        for stem in stems
        for kind in ("weight", "bias")
    }


@pytest.mark.parametrize("stems", SEPARATE)
def test_separate_matrices_are_known_by_name(stems):
    arrays, paths = find_arrays(state(*stems), "it", strict=True)
    assert [paths[role] for role in ("q", "k", "v", "out")] == [f"{stem}.weight" for stem in stems]
    assert set(arrays) == {"q", "k", "v", "out", "q.bias", "k.bias", "v.bias", "out.bias"}


@pytest.mark.parametrize("stems", PACKED)
def test_packed_matrices_are_known_by_name(stems):
    arrays, paths = find_arrays(state(*stems), "it", strict=True)
    assert [paths[role] for role in ("qkv", "out")] == [f"{stem}.weight" for stem in stems]
    assert set(arrays) == {"qkv", "out", "qkv.bias", "out.bias"}


def test_keys_and_values_may_be_packed_without_the_query():
    arrays, _ = find_arrays(state("to_q", "to_kv", "to_out"), "it", strict=True)
    assert set(arrays) >= {"q", "kv", "out"}
    assert set(find_arrays(state("q_attn", "c_attn", "c_proj"), "it")[0]) >= {"q", "kv", "out"}


def test_names_that_nobody_knows_are_listed():
    with pytest.raises(
        ConversionError, match=r"it has no matrices of queries, keys and values .* first.bias, first.weight, last.bias"
    ):
        find_arrays(state("first", "second", "third", "last"), "it")


def test_a_missing_matrix_is_named():
    with pytest.raises(
        ConversionError, match=r"it has no matrix for v that we know by name; its entries are k_proj\.bias"
    ):
        find_arrays(state("q_proj", "k_proj", "o_proj"), "it")


def test_a_checkpoint_without_a_last_projection_is_refused_and_a_module_is_not():
    assert set(find_arrays(state("query", "key", "value"), "it")[0]) >= {"q", "k", "v"}
    with pytest.raises(ConversionError, match="it has no last projection that we know by name"):
        find_arrays(state("query", "key", "value"), "it", strict=True)


def test_an_entry_that_is_no_part_of_an_attention_is_named_in_a_checkpoint():
    entries = state("q_proj", "k_proj", "v_proj", "o_proj", "mlp.gate", "mlp.up")
    with pytest.raises(ConversionError, match=r"it has 4 entries that .* mlp.gate.bias, mlp.gate.weight"):
        find_arrays(entries, "it", strict=True)


def test_tables_that_are_computed_are_left_out():
    entries = state("q_proj", "k_proj", "v_proj", "o_proj") | {
        "rotary_emb.inv_freq": torch.zeros(2),
        "bias": torch.zeros(1, 1, 4, 4),
        "masked_bias": torch.zeros(()),
        "relative_position_index": torch.zeros(4, 4),
    }
    assert len(find_arrays(entries, "it", strict=True)[0]) == 8


def test_two_attentions_at_once_are_refused_with_their_names():
    entries = {
        f"{block}.{name}": x for block in ("self_attn", "cross_attn") for name, x in state("q_proj", "k_proj").items()
    }
    entries |= {f"self_attn.{name}": x for name, x in state("v_proj", "out_proj").items()}
    with pytest.raises(
        ConversionError, match=r"it has 2 matrices that may be 'q': self_attn.q_proj, cross_attn.q_proj"
    ):
        find_arrays(entries, "it")


def test_of_two_last_projections_the_one_beside_the_queries_is_taken():
    entries = state("attention.self.query", "attention.self.key", "attention.self.value", "attention.output.dense")
    arrays, paths = find_arrays(entries | state("output.dense", "intermediate.up"), "it")
    assert paths["out"] == "attention.output.dense.weight"
    assert "out" in arrays
