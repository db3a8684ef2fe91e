"""Rotary and sinusoidal positions: what must hold of them, and that they are what others' weights expect."""

import math
import re

import pytest
import torch
from hypothesis import given, strategies as st

from regard.core.errors import DtypeError, ShapeError
from regard.position import NTK, Learned, Linear, Llama3, Rotary, Sinusoidal, YaRN, convert_pairing

pairings = st.sampled_from(["half", "interleaved"])
scalings = st.sampled_from([None, Linear(4.0), NTK(4.0), YaRN(4.0, 32), Llama3(8.0, 64)])


def normal(*shape, seed=0, dtype=torch.float64):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


def refused(text, kind=ShapeError):
    return pytest.raises(kind, match="^" + re.escape(text) + "$")


# ------------------------------------------------------------------------------------------------------ rotary


@given(pairs=st.integers(1, 4), pairing=pairings, by=st.integers(0, 1000), T=st.integers(1, 6), scaling=scalings)
def test_scores_depend_on_the_distance_and_not_on_the_place(pairs, pairing, by, T, scaling):
    rotary = Rotary(2 * pairs, pairing=pairing, scaling=scaling)
    query, key = normal(1, 1, T, 2 * pairs), normal(1, 1, T, 2 * pairs, seed=1)
    place = torch.arange(T)
    here = rotary(query, place) @ rotary(key, place).mT
    there = rotary(query, place + by) @ rotary(key, place + by).mT
    torch.testing.assert_close(here, there, atol=1e-9, rtol=1e-9)


@given(pairing=pairings, place=st.integers(0, 5000))
def test_turning_keeps_the_length_of_every_pair_and_position_zero_keeps_everything(pairing, place):
    x = normal(2, 3, 1, 8)
    rotary = Rotary(8, pairing=pairing)
    turned = rotary(x, torch.tensor([place]))
    pick = (slice(0, 4), slice(4, 8)) if pairing == "half" else (slice(0, 8, 2), slice(1, 8, 2))
    lengths = [y[..., pick[0]].square() + y[..., pick[1]].square() for y in (x, turned)]
    torch.testing.assert_close(*lengths)
    assert torch.equal(rotary(x, torch.tensor([0])), x)


def test_a_pair_turns_by_position_over_its_wavelength():
    x = torch.zeros(1, 1, 1, 4, dtype=torch.float64)
    x[..., 2] = 1.0  # the first channel of pair 1, interleaved
    turned = Rotary(4, pairing="interleaved", base=100.0)(x, torch.tensor([3]))
    angle = 3 * 100.0 ** (-2 / 4)
    assert turned.flatten().tolist() == pytest.approx([0, 0, math.cos(angle), math.sin(angle)])


@given(pairing=pairings, width=st.sampled_from([2, 4, 6]))
def test_a_partial_width_leaves_the_rest_alone(pairing, width):
    x, place = normal(1, 2, 3, 8), torch.arange(3)
    turned = Rotary(8, pairing=pairing, width=width)(x, place)
    assert torch.equal(turned[..., width:], x[..., width:])
    torch.testing.assert_close(turned[..., :width], Rotary(width, pairing=pairing)(x[..., :width], place))


@given(width=st.sampled_from([None, 4]), source=pairings, target=pairings)
def test_converted_weights_give_the_same_scores(width, source, target):
    x, heads, D = normal(1, 5, 10), 3, 6
    weights = [normal(heads * D, 10, seed=seed) for seed in (1, 2)]

    def scores(weights, pairing):
        rotary = Rotary(D, pairing=pairing, width=width)
        query, key = ((x @ w.T).unflatten(-1, (heads, D)).transpose(1, 2) for w in weights)
        return rotary(query, torch.arange(5)) @ rotary(key, torch.arange(5)).mT

    moved = [convert_pairing(w, heads, source=source, target=target, width=width) for w in weights]
    torch.testing.assert_close(scores(moved, target), scores(weights, source))
    back = convert_pairing(moved[0], heads, source=target, target=source, width=width)
    assert torch.equal(back, weights[0])


def test_each_sample_can_stand_somewhere_else():
    x, place = normal(2, 1, 2, 4), torch.tensor([[0, 1], [7, 3]])
    rotary = Rotary(4, pairing="half")
    for sample in range(2):
        torch.testing.assert_close(rotary(x, place)[sample], rotary(x[sample : sample + 1], place[sample])[0])


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_angles_are_not_rounded_to_16_bits(dtype):
    x = torch.ones(1, 1, 1, 64, dtype=dtype)
    rotary = Rotary(64, pairing="half")
    place = torch.tensor([4097])  # no 16-bit float has it
    error = (rotary(x, place).double() - rotary(x.double(), place)).abs().max()
    assert rotary(x, place).dtype == dtype
    assert error <= 2 * torch.finfo(dtype).eps


def rope_of(kind, **parameters):
    rope = pytest.importorskip("transformers.modeling_rope_utils")
    from transformers import LlamaConfig

    config = LlamaConfig(hidden_size=64, num_attention_heads=4, max_position_embeddings=32)
    config.rope_parameters = {"rope_type": kind, "rope_theta": 10_000.0, **parameters}
    return rope.ROPE_INIT_FUNCTIONS[kind](config, torch.device("cpu"))


@pytest.mark.parametrize(
    ("scaling", "kind", "parameters"),
    [
        (Linear(4.0), "linear", {"factor": 4.0}),
        (YaRN(4.0, 32), "yarn", {"factor": 4.0, "original_max_position_embeddings": 32}),
        (
            YaRN(8.0, 64, fast=16.0, slow=2.0, attention_factor=1.5),
            "yarn",
            {
                "factor": 8.0,
                "original_max_position_embeddings": 64,
                "beta_fast": 16.0,
                "beta_slow": 2.0,
                "attention_factor": 1.5,
            },
        ),
        (
            Llama3(8.0, 64),
            "llama3",
            {
                "factor": 8.0,
                "original_max_position_embeddings": 64,
                "low_freq_factor": 1.0,
                "high_freq_factor": 4.0,
            },
        ),
    ],
)
def test_scaled_frequencies_are_those_of_hugging_face(scaling, kind, parameters):
    frequencies, temperature = rope_of(kind, **parameters)
    rotary = Rotary(16, pairing="half", scaling=scaling)
    torch.testing.assert_close(rotary.frequencies(), frequencies)
    assert scaling.temperature == pytest.approx(temperature)


def test_ntk_keeps_the_fastest_pair_and_slows_the_slowest_by_the_factor():
    plain, scaled = (Rotary(16, pairing="half", scaling=s).frequencies(dtype=torch.float64) for s in (None, NTK(4.0)))
    assert scaled[0] == plain[0]
    assert float(plain[-1] / scaled[-1]) == pytest.approx(4.0)
    assert torch.equal(Rotary(2, pairing="half", scaling=NTK(4.0)).frequencies(), torch.ones(1))


def test_half_pairing_is_that_of_llama():
    llama = pytest.importorskip("transformers.models.llama.modeling_llama")
    from transformers import LlamaConfig

    query, key, place = normal(2, 3, 5, 16, dtype=torch.float32), normal(2, 3, 5, 16, seed=1, dtype=torch.float32), 40
    positions = torch.arange(place, place + 5)[None].expand(2, 5)
    embedding = llama.LlamaRotaryEmbedding(LlamaConfig(hidden_size=64, num_attention_heads=4))
    theirs = llama.apply_rotary_pos_emb(query, key, *embedding(query, positions))
    rotary = Rotary(16, pairing="half")
    torch.testing.assert_close(rotary(query, positions), theirs[0], atol=1e-6, rtol=0)
    torch.testing.assert_close(rotary(key, positions), theirs[1], atol=1e-6, rtol=0)


# -------------------------------------------------------------------------------------------------- sinusoidal


@given(E=st.integers(1, 9), place=st.integers(0, 10_000))
def test_sinusoidal_is_the_papers_formula_for_any_length_and_width(E, place):
    encoding = Sinusoidal(E).encode(torch.tensor([place]), dtype=torch.float64)[0]
    wanted = []
    for channel in range(E):
        angle = place / 10_000 ** (2 * (channel // 2) / E)
        wanted.append(math.sin(angle) if channel % 2 == 0 else math.cos(angle))
    assert encoding.tolist() == pytest.approx(wanted, abs=1e-9)


def test_sinusoidal_is_added_and_takes_positions():
    x = normal(2, 3, 5)
    sinusoidal = Sinusoidal(5)
    assert torch.equal(sinusoidal(x), x + sinusoidal.encode(torch.arange(3), dtype=torch.float64))
    place = torch.tensor([[0, 1, 2], [9, 4, 0]])
    assert torch.equal(sinusoidal(x, place)[1, 0], x[1, 0] + sinusoidal.encode(torch.tensor(9), dtype=torch.float64))
    assert sinusoidal(x.bfloat16()).dtype == torch.bfloat16


def test_the_learned_table_comes_through_the_same_door():
    x = normal(2, 3, 4)
    learned = Learned(8, 4, dtype=torch.float64)
    torch.testing.assert_close(learned(x), x + learned.table[:3])


# ---------------------------------------------------------------------------------------- gradients, transforms


@pytest.mark.parametrize(
    "make", [lambda p: Rotary(6, pairing=p, width=4), lambda p: Rotary(6, pairing=p, scaling=YaRN(2, 8))]
)
@pytest.mark.parametrize("pairing", ["half", "interleaved"])
def test_rotary_has_gradients(make, pairing):
    x = normal(1, 2, 3, 6).requires_grad_()
    assert torch.autograd.gradcheck(lambda x: make(pairing)(x, torch.arange(3)), x)


@pytest.mark.parametrize("pairing", ["half", "interleaved"])
@pytest.mark.parametrize("scaling", [None, NTK(2.0), YaRN(4.0, 32), Llama3()])
def test_positions_compile_and_export_with_any_length(pairing, scaling):
    torch._dynamo.reset()

    class Turned(torch.nn.Module):
        def forward(self, x):
            place = torch.arange(x.shape[2])
            return Rotary(8, pairing=pairing, scaling=scaling)(Sinusoidal(8)(x), place)

    x = normal(2, 3, 4, 8, dtype=torch.float32)
    torch.testing.assert_close(torch.compile(Turned(), fullgraph=True, backend="aot_eager")(x), Turned()(x))
    tokens, batch = torch.export.Dim("tokens", min=2, max=99), torch.export.Dim("batch", min=2, max=99)
    program = torch.export.export(Turned(), (x,), dynamic_shapes={"x": {0: batch, 2: tokens}})
    other = normal(3, 3, 7, 8, seed=3, dtype=torch.float32)
    torch.testing.assert_close(program.module()(other), Turned()(other))


def test_rotary_goes_through_vmap():
    x, place = normal(3, 1, 2, 4, 6), torch.arange(12).reshape(3, 4)
    rotary = Rotary(6, pairing="half")
    mapped = torch.vmap(rotary)(x, place)
    torch.testing.assert_close(mapped, torch.stack([rotary(x[i], place[i]) for i in range(3)]))


# ---------------------------------------------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("make", "kind", "text"),
    [
        (
            lambda: Rotary(4, pairing="pairs"),
            ShapeError,
            'pairing is "half" (Llama, Hugging Face) or "interleaved" (the paper), got \'pairs\'',
        ),
        (lambda: Rotary(5, pairing="half"), ShapeError, "rotary turns pairs: width must be even, from 2 to 5, got 5"),
        (
            lambda: Rotary(4, pairing="half", width=6),
            ShapeError,
            "rotary turns pairs: width must be even, from 2 to 4, got 6",
        ),
        (lambda: Rotary(4, pairing="half", base=0.0), ShapeError, "base of the rotary angles must be > 0, got 0.0"),
        (
            lambda: Rotary(4, pairing="half")(torch.zeros(1, 1, 2, 6), torch.arange(2)),
            ShapeError,
            "rotary was made for heads of 4 channels, got 6",
        ),
        (
            lambda: Rotary(4, pairing="half")(torch.zeros(1, 1, 2, 4), torch.arange(3)),
            ShapeError,
            "positions must be (2,) or (B or 1, 2), got (3,)",
        ),
        (
            lambda: Rotary(4, pairing="half")(torch.zeros(1, 1, 2, 4), torch.arange(2.0)),
            DtypeError,
            "positions must be integers, got torch.float32: in 16 bits positions beyond 256 fall together",
        ),
        (lambda: Linear(0.5), ShapeError, "factor of a rotary scaling is how much longer, at least 1, got 0.5"),
        (
            lambda: YaRN(2.0, 0),
            ShapeError,
            "YaRN needs original_length >= 1 and fast > slow > 0, got 0, 32.0, 1.0",
        ),
        (
            lambda: Llama3(2.0, 64, low=4.0),
            ShapeError,
            "Llama3 needs original_length >= 1 and high > low > 0, got 64, 4.0, 4.0",
        ),
        (
            lambda: convert_pairing(torch.zeros(7, 2), 2, source="half", target="interleaved"),
            ShapeError,
            "7 output channels do not divide into 2 heads",
        ),
        (
            lambda: convert_pairing(torch.zeros(8, 2), 2, source="half", target="interleaved", width=3),
            ShapeError,
            "rotary turns pairs: width must be even, from 2 to 4, got 3",
        ),
        (lambda: Sinusoidal(0), ShapeError, "embed_dim must be at least 1, got 0"),
        (lambda: Sinusoidal(4)(torch.zeros(1, 2, 5)), ShapeError, "sinusoidal was made for 4 channels, got 5"),
    ],
)
def test_what_does_not_fit_is_refused(make, kind, text):
    with refused(text, kind):
        make()
