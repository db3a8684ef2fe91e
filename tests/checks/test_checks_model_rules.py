"""The relations of whole models: what each says of right models in other styles, and of wrong ones that its planted bug does not show."""

from __future__ import annotations

import types

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import regard

WIDTH = 12


def outcome(module, code):
    """(result, reason, findings) of one rule."""
    report = regard.check(module, select=[code, "ATT301"])  # the other is there so that something always runs
    assert report.status == "checked", report.reason
    one = next(o for o in report.outcomes if o.rule == code)
    return one.result, one.reason, [f for f in report.findings if f.rule == code]


def attend(q, k, v, hidden):
    """Softmax attention of one head; hidden: True where a key is not seen, broadcast to (B, T, S)."""
    scores = (q @ k.mT * q.shape[-1] ** -0.5).masked_fill(hidden, torch.finfo(q.dtype).min)
    return scores.softmax(-1) @ v


class Reader(nn.Module):
    """One head over embedded ids, positions from a table."""

    def __init__(self):
        super().__init__()
        self.embed, self.table = nn.Embedding(50, WIDTH), nn.Embedding(64, WIDTH)
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)

    def hidden(self, mask, length):
        return torch.zeros(1, 1, length, dtype=torch.bool) if mask is None else (mask == 0)[:, None]

    def read(self, ids, mask, places):
        x = self.embed(ids) + self.table(places)
        return attend(*self.qkv(x).chunk(3, -1), self.hidden(mask, ids.shape[1]))


class Counts(Reader):
    """Numbers the tokens itself."""

    def forward(self, ids, attention_mask=None):
        return self.read(ids, attention_mask, torch.arange(ids.shape[1]))


class CountsWhatIsThere(Reader):
    """Numbers the tokens that the mask shows."""

    def forward(self, ids, attention_mask=None):
        mask = torch.ones_like(ids) if attention_mask is None else attention_mask.long()
        return self.read(ids, attention_mask, (mask.cumsum(1) - 1).clamp(min=0))


class Takes(Reader):
    """Is told where the tokens stand."""

    def forward(self, ids, attention_mask=None, position_ids=None):
        return self.read(
            ids, attention_mask, torch.arange(ids.shape[1])[None] if position_ids is None else position_ids
        )


class InChunks(Takes):
    """Sees the chunk of three that the place in the padded sequence falls in."""

    def hidden(self, mask, length):
        chunk = torch.arange(length) // 3
        return super().hidden(mask, length) | (chunk[:, None] != chunk)


def test_a_model_that_numbers_its_tokens_itself_is_not_judged_by_left_padding():
    reason = "tokens are numbered from the padding on, and no argument says where they stand"
    assert outcome(Counts(), "ATT109") == ("not-exercised", reason, [])


@pytest.mark.parametrize("model", [CountsWhatIsThere, Takes])
def test_positions_that_begin_at_the_first_token_make_left_padding_disappear(model):
    assert outcome(model(), "ATT109")[0] == "passed"


def test_chunks_that_are_cut_by_place_are_asked_about_and_no_error():
    result, _, (finding,) = outcome(InChunks(), "ATT109")
    assert (result, finding.level) == ("question", "question")
    assert "Does what they see depend on their place in the padded sequence?" in finding.message


class Switched(nn.Module):
    """Open code, or torch's kernel where a configuration says so."""

    def __init__(self, scale=None):
        super().__init__()
        self.qkv, self.scale = nn.Linear(WIDTH, 3 * WIDTH), scale
        self.config = types.SimpleNamespace(_attn_implementation="eager")

    def forward(self, x, attention_mask=None):
        q, k, v = self.qkv(x).chunk(3, -1)
        hidden = torch.zeros(1, 1, 1, dtype=torch.bool) if attention_mask is None else (attention_mask == 0)[:, None]
        if self.config._attn_implementation == "eager":
            return attend(q, k, v, hidden)
        return F.scaled_dot_product_attention(q, k, v, attn_mask=~hidden, scale=self.scale)


class Refuses(Switched):
    """Knows open code only."""

    def set_attn_implementation(self, name):
        if name != "eager":
            raise ValueError(f"{name} is not supported")


class Deaf(nn.Module):
    """A switch that nothing reads."""

    def __init__(self):
        super().__init__()
        self.qkv, self.use_flash = nn.Linear(WIDTH, 3 * WIDTH), True

    def forward(self, x):
        return attend(*self.qkv(x).chunk(3, -1), torch.zeros(1, 1, 1, dtype=torch.bool))


def test_a_configuration_that_names_the_implementation_is_switched():
    assert outcome(Switched(), "ATT508")[0] == "passed"
    result, _, (finding,) = outcome(Switched(scale=1.0), "ATT508")
    assert (result, finding.kind) == ("failed", "path-mismatch")
    assert finding.message.startswith(
        "the attention implementation 'eager' and the attention implementation 'sdpa' differ"
    )


def test_an_implementation_that_is_refused_or_changes_nothing_is_not_exercised():
    assert outcome(Refuses(), "ATT508")[:2] == (
        "not-exercised",
        "the attention implementation 'eager' and the attention implementation 'sdpa' do not both run: "
        "ValueError: sdpa is not supported",
    )
    assert outcome(Deaf(), "ATT508")[:2] == ("not-exercised", "use_flash=False and use_flash=True ran the same kernels")


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)

    def forward(self, x):
        return x + attend(*self.qkv(x).chunk(3, -1), torch.zeros(1, 1, 1, dtype=torch.bool))


class Shared(nn.Module):
    """One layer, three times; and two feed-forward experts of which one is chosen."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([Layer()])
        self.experts = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(2))

    def forward(self, x):
        for _ in range(3):
            x = self.layers[0](x)
        return self.experts[1](x)


def test_a_layer_that_is_shared_and_experts_that_rest_are_no_layers_left_out():
    assert outcome(Shared(), "ATT509")[:2] == ("not-exercised", "it has one attention layer")


class Translator(nn.Module):
    """An encoder and a decoder, each with a mask argument of its own for the same source tokens."""

    def __init__(self):
        super().__init__()
        self.encode, self.query, self.context = (
            nn.Linear(WIDTH, 3 * WIDTH),
            nn.Linear(WIDTH, WIDTH),
            nn.Linear(WIDTH, 2 * WIDTH),
        )

    def hidden(self, mask, source):
        return torch.zeros(1, 1, source.shape[1], dtype=torch.bool) if mask is None else mask[:, None]

    def forward(self, tgt, src, src_key_padding_mask=None, memory_key_padding_mask=None):
        memory = src + attend(*self.encode(src).chunk(3, -1), self.hidden(src_key_padding_mask, src))
        return attend(self.query(tgt), *self.context(memory).chunk(2, -1), self.hidden(memory_key_padding_mask, src))


class Forgets(Translator):
    """The encoder's mask lies along the queries."""

    def forward(self, tgt, src, src_key_padding_mask=None, memory_key_padding_mask=None):
        memory = src + attend(*self.encode(src).chunk(3, -1), self.hidden(src_key_padding_mask, src).mT)
        return attend(self.query(tgt), *self.context(memory).chunk(2, -1), self.hidden(memory_key_padding_mask, src))


def test_two_masks_of_the_same_tokens_are_given_together_and_blamed_when_together_they_leak():
    assert regard.check(Translator(), select=["ATT10"]).errors == []
    assert {f.rule for f in regard.check(Forgets(), select=["ATT101", "ATT102"]).errors} != set()


class Generates(Counts):
    """A count of logits to return, which is no mask although its name has "keep" in it."""

    def forward(self, ids, attention_mask=None, logits_to_keep: int = 0):
        return super().forward(ids, attention_mask)[:, -logits_to_keep:]


def test_a_count_is_not_taken_for_a_mask():
    report = regard.check(Generates(), select=["ATT10"])
    assert [m["argument"] for m in report.inferred["masks"]] == ["attention_mask"]
    assert report.errors == []


class Patches(nn.Module):
    """An image (B, 3, H, W) to states of a class token and of its patches of 4 x 4."""

    def __init__(self, over=False):
        super().__init__()
        self.cut, self.over = nn.Conv2d(3, WIDTH, 4, 4), over
        self.first = nn.Parameter(torch.randn(1, 1, WIDTH))
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)

    def forward(self, pixel_values):
        x = self.cut(pixel_values).flatten(2).mT
        x = torch.cat([self.first.expand(x.shape[0], -1, -1), x], 1)
        q, k, v = self.qkv(x).chunk(3, -1)
        out = x + attend(q, k, v, torch.zeros(1, 1, 1, dtype=torch.bool))
        return out - out.mean(0) if self.over else out


def test_an_image_is_followed_patch_by_patch_behind_the_class_token():
    report = regard.check(Patches())
    results = {o.rule: o.result for o in report.outcomes}
    assert report.inferred["output"]["follows"] is True
    assert {results[c] for c in ("ATT301", "ATT303", "ATT307")} == {"passed"}
    assert not [f for f in report.findings if f.level != "question"]
    assert "ATT301" in {f.rule for f in regard.check(Patches(over=True), select=["ATT301"]).errors}


class Windowed(nn.Module):
    """Two causal layers that each see a window of four keys: together they see seven."""

    def __init__(self):
        super().__init__()
        self.layers, self.window_size = nn.ModuleList(nn.Linear(WIDTH, 3 * WIDTH) for _ in range(2)), 4
        self.inner = nn.ModuleList(Band(self.window_size) for _ in range(2))

    def forward(self, x):
        for project, inner in zip(self.layers, self.inner):
            x = x + inner(*project(x).chunk(3, -1))
        return x


class Band(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.width = width

    def forward(self, q, k, v):
        place = torch.arange(q.shape[1])
        gap = place[:, None] - place
        return attend(q, k, v, (gap < 0) | (gap >= self.width))


def test_windows_on_top_of_each_other_are_measured_layer_by_layer():
    assert outcome(Windowed(), "ATT807") == ("passed", "", [])
