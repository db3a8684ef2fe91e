"""Arguments that each have a shape of their own: sizes come from error messages, roles from what the weights depend on."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from regard.checks.asked import mismatch
from regard.checks.attempt import attempt_call, runs_with_fewer
from regard.checks.call import Call, Source
from regard.checks.check import check
from regard.checks.companions import companion
from regard.checks.layout import Layout
from regard.checks.prepare import prepare
from regard.checks.shapes_apart import Argument, Shapes
from regard.checks.subject import Subject


def attend(q, k, v):
    return (q @ k.mT * q.shape[-1] ** -0.5).softmax(-1) @ v


class DecoderStep(nn.Module):
    """One step of a recurrent decoder."""

    def __init__(self):
        super().__init__()
        self.ask, self.cell = nn.Linear(20, 16), nn.GRUCell(12 + 16, 20)

    def forward(self, token, h, memory):
        read = attend(self.ask(h)[:, None], memory, memory)[:, 0]
        return self.cell(torch.cat([token, read], -1), h)


class Cloud(nn.Module):
    """Attention of points whose logits see how far they are apart."""

    def __init__(self, dim=24):
        super().__init__()
        self.qkv, self.far = nn.Linear(dim, 3 * dim), nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, 1))

    def forward(self, where, signal):
        q, k, v = self.qkv(signal).chunk(3, -1)
        offset = self.far(where[:, :, None] - where[:, None])[..., 0]
        return (q @ k.mT * q.shape[-1] ** -0.5 + offset).softmax(-1) @ v


class Distances(nn.Module):
    """Transformer-XL: the caller brings a table of the distances T - 1 to 1 - T."""

    def __init__(self, dim=24):
        super().__init__()
        self.qkv, self.r = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim, bias=False)

    def forward(self, x, rel_pos_table):
        q, k, v = self.qkv(x).chunk(3, -1)
        t = x.shape[1]
        by_distance = q @ self.r(rel_pos_table).T  # (B, T, 2T - 1)
        place = (torch.arange(t)[None] - torch.arange(t)[:, None] + t - 1).expand(x.shape[0], t, t)
        logits = q @ k.mT + by_distance.gather(2, place)
        return (logits * q.shape[-1] ** -0.5).softmax(-1) @ v


class Reader(nn.Module):
    """A memory is read where its rows resemble a key, and where it was read before."""

    def __init__(self):
        super().__init__()
        self.key, self.gate = nn.Linear(18, 10), nn.Linear(18, 1)

    def forward(self, control, bank, before):
        fresh = torch.cosine_similarity(self.key(control)[:, None], bank, dim=-1).softmax(-1)
        mix = self.gate(control).sigmoid()
        weights = mix * fresh + (1 - mix) * before
        return (weights[:, None] @ bank)[:, 0]


class Styled(nn.Module):
    """A vector that scales the pooled result asks for nothing."""

    def __init__(self, dim=16, style_dim=10):
        super().__init__()
        self.qkv, self.gain = nn.Linear(dim, 3 * dim), nn.Linear(style_dim, dim)

    def forward(self, tokens, style):
        return attend(*self.qkv(tokens).chunk(3, -1)).mean(1) * self.gain(style)


class Teller(nn.Module):
    """Word ids, the state of torch's GRU, and encoder outputs."""

    def __init__(self, words=40, dim=24):
        super().__init__()
        self.embedding, self.ask = nn.Embedding(words, dim), nn.Linear(dim, dim)
        self.gru, self.out = nn.GRU(2 * dim, dim, batch_first=True), nn.Linear(dim, words)

    def forward(self, input, hidden, encoder_outputs):
        read = attend(self.ask(hidden.permute(1, 0, 2)), encoder_outputs, encoder_outputs)
        y, hidden = self.gru(torch.cat([self.embedding(input), read], 2), hidden)
        return self.out(y), hidden


class Taste(nn.Module):
    """Ids of what was bought, the id of what is offered, and numbers of the customer."""

    def __init__(self, items=60, dim=16, numbers=5):
        super().__init__()
        self.items, self.judge = nn.Embedding(items, dim), nn.Linear(2 * dim + numbers, 1)

    def forward(self, history, offered_id, profile):
        bought, offered = self.items(history), self.items(offered_id)
        weights = (bought @ offered[:, :, None] * 0.25).softmax(1)  # (B, L, 1)
        return self.judge(torch.cat([(weights * bought).sum(1), offered, profile], -1)).squeeze(-1)


class Questions(nn.Module):
    """A vector asks a story in several hops; each fact has an age."""

    def __init__(self, dim=20, inner=28):
        super().__init__()
        self.ask, self.key, self.value = (nn.Linear(dim, inner, bias=False) for _ in range(3))
        self.age = nn.Linear(1, inner)

    def forward(self, question, story, ages):
        u, keys = self.ask(question), self.key(story) + self.age(ages[..., None])
        for _ in range(2):
            weights = (keys * u[:, None]).sum(-1).mul(28**-0.5).softmax(-1)
            u = u + (weights[..., None] * self.value(story)).sum(1)
        return u


class Pairs(nn.Module):
    """What is known of every pair of residues is added to the scores."""

    def __init__(self, dim=24, known=10):
        super().__init__()
        self.qkv, self.add = nn.Linear(dim, 3 * dim), nn.Linear(known, 1)

    def forward(self, residues, relations):
        q, k, v = self.qkv(residues).chunk(3, -1)
        return (q @ k.mT * 24**-0.5 + self.add(relations)[..., 0]).softmax(-1) @ v


def shapes(case):
    return {p: case.call.sources[s].shape for p, s in case.call.arguments.items()}


def test_the_state_of_a_decoder_asks_and_the_token_goes_with_it():
    call = prepare(DecoderStep).call
    assert {p: call.sources[s].width for p, s in call.arguments.items()} == {"h": 20, "memory": 16}
    assert call.arguments["h"] == call.query
    assert call.fixed["token"](
        {n: s.sample(torch.Generator()) for n, s in call.sources.items()}, torch.float32
    ).shape == (3, 12)


def test_places_of_points_go_with_their_features():
    case = prepare(Cloud)
    assert list(case.call.arguments) == ["signal"]
    assert case.call.fixed["where"].__doc__ == "made up, (B, L, D), equal for all items"
    assert case.call.free_length  # as many places as tokens, at every length


def test_a_table_of_distances_is_as_long_as_there_are_distances():
    case = prepare(Distances)
    assert case.call.fixed["rel_pos_table"].__doc__.startswith("made up, (2T - 1, D)")
    assert case.call.free_length


def test_what_the_weights_depend_on_is_the_query():
    case = prepare(Reader)
    assert shapes(case)["control"] == (3, 18)
    assert case.call.keys == case.call.arguments["bank"]


def test_a_vector_that_no_weight_depends_on_is_no_query():
    case = prepare(Styled)
    assert list(case.call.arguments) == ["tokens"]
    assert not case.call.follows


def test_a_state_of_a_recurrent_layer_goes_with_its_words():
    case = prepare(Teller)
    assert shapes(case) == {"input": (3, 1), "encoder_outputs": (3, 11, 24)}
    assert case.call.fixed["hidden"].__doc__ == "made up, (1, B, D), equal for all items"


def test_ids_of_one_item_go_with_ids_of_many():
    case = prepare(Taste)
    assert list(case.call.arguments) == ["history"]
    assert {case.call.fixed[n].__doc__[:15] for n in ("offered_id", "profile")} == {
        "made up, (B), e",
        "made up, (B, D)",
    }


def test_what_is_known_of_pairs_goes_with_their_tokens():
    case = prepare(Pairs)
    assert shapes(case) == {"residues": (3, 7, 24)}
    assert case.call.fixed["relations"](case.sample(), torch.float64).shape == (3, 7, 7, 10)


def test_a_vector_is_not_taken_for_as_many_tokens_as_there_are_keys():
    assert shapes(prepare(Questions)) == {"question": (3, 20), "story": (3, 9, 20)}


def test_a_call_that_runs_for_three_items_only_is_not_taken():
    class Folded(nn.Module):
        def __init__(self):
            super().__init__()
            self.q, self.r = nn.Linear(24, 24), nn.Linear(24, 24)

        def forward(self, w, r):
            keys = self.r(r).view(-1, 24)  # (B * S, D)
            return (self.q(w) @ keys.T).softmax(-1) @ keys + w.mean(0, keepdim=True).expand(3, -1, -1)

    found = attempt_call(*_folded(Folded()))
    assert found is not None
    assert not runs_with_fewer(Subject(Folded()), found)


def _folded(module):
    layout = Layout("BLD")
    sources = {"query": Source(layout, 3, (7,), 24), "context": Source(layout, 3, (9,), 24)}
    return Subject(module), Call(sources, {"w": "query", "r": "context"}, query="query"), []


@pytest.mark.parametrize("module", [DecoderStep, Cloud, Distances, Reader, Styled, Teller, Taste, Questions, Pairs])
def test_right_modules_with_companions_give_no_alarm(module):
    report = check(module)
    assert report.status == "checked", report.reason
    assert not [(f.rule, f.message) for f in report.findings if f.level in ("error", "warning")]


def test_a_fault_behind_three_arguments_is_found():
    class Mixed(DecoderStep):
        def forward(self, token, h, memory):
            weights = (self.ask(h)[:, None] @ memory.mT * 0.25).softmax(0)  # over the items
            return self.cell(torch.cat([token, (weights @ memory)[:, 0]], -1), h)

    assert [f for f in check(Mixed).findings if f.level == "error"]


def test_a_message_tells_what_came_and_what_was_wanted():
    assert mismatch("size of tensor a (7) must match the size of tensor b (9) at") == (7, 9, True)
    assert mismatch("split_sizes to sum exactly to 13 (input tensor's), but got split_sizes=[12, 1, 1]") == (
        13,
        14,
        False,
    )
    assert mismatch("the model is not trained") is None


def test_sizes_are_put_right_one_message_at_a_time():
    apart = Shapes([Argument(("a",), ()), Argument(("b",), ()), Argument(("c",), ())], ["BLD", "BL", "BD"])
    length, width = apart.size[0, "L"], apart.size[0, "D"]
    assert apart.repair(f"mat1 and mat2 shapes cannot be multiplied (21x{width} and 32x8)")
    assert apart.repair(f"size of tensor a ({length}) must match the size of tensor b ({apart.size[1, 'L']}) at")
    assert apart.repair(
        f"input has inconsistent input_size: got {apart.size[2, 'D'] + 32} expected 44"
    )  # joined channels
    assert apart.size == {(0, "L"): length, (0, "D"): 32, (1, "L"): length, (2, "D"): 12}
    assert not apart.repair("size of tensor a (32) must match the size of tensor b (16) at")  # a layer asked for 32


def test_weights_that_are_made_up_are_shares():
    made = companion("BL", 1, "x", "x")({"x": torch.zeros(3, 7, 5)}, torch.float64)
    assert made.shape == (3, 7)
    assert bool((made > 0).all())
    assert torch.allclose(made.sum(-1), torch.ones(3, dtype=torch.float64))
