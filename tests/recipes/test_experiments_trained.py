"""The claims that need training, on tiny settings: variants share data, start and steps, and verdicts can go both ways."""

import json
import random

import pytest
import torch

pytest.importorskip("tokenizers", reason="needs the extra train")
from regard.recipes.experiments import every, long_runs, lookup, sentences, small_images
from regard.recipes.experiments.claim import CONFIRMED, NOT, OPPOSITE, PARTLY, Found
from regard.recipes.plan import Batch, Plan, Work

KNOWN = every.claims()
TINY = lookup.Size(width=16, batch=8, steps=6, length=6, tested=40)


def verdict(name, *rows):
    return KNOWN[name].verdict(Found(dict(enumerate(rows))))


def test_the_lookup_task_asks_for_a_value_that_stands_in_the_row():
    keys, values, right = lookup.items(50, torch.Generator().manual_seed(0))
    place = (keys[:, :-1] == keys[:, -1:]).int()
    assert (place.sum(1) == 1).all()
    assert torch.equal(values[:, :-1].gather(1, place.argmax(1, keepdim=True))[:, 0], right)
    assert (values[:, -1] == lookup.VALUES).all()


def test_runs_of_the_made_up_tasks_repeat_by_seed():
    lookup.scales.cache_clear()
    first = lookup.scales(0, TINY)
    lookup.scales.cache_clear()
    assert lookup.scales(0, TINY) == first
    assert set(lookup.beyond(0, TINY)) == {
        f"{name}_{where}" for name in ("sinusoidal", "learned", "rotary") for where in ("inside", "beyond")
    }


def test_a_short_run_is_evaluated_once_at_its_end_so_that_no_step_is_chosen_by_looking():
    model, looked = torch.nn.Linear(1, 1, bias=False), []
    torch.nn.init.ones_(model.weight)

    def evaluate(model):
        looked.append(float(model.weight.detach()))
        return {"score": 0.0}

    work = Work(
        model, order=lambda step: torch.arange(2), collate=lambda i: Batch((torch.ones(2, 1),), 2),
        loss=lambda model, x: model(x[0]).square().sum(), evaluate=evaluate, score="score",
    )  # fmt: skip
    trained, losses = lookup.trained(work, Plan(5, lr=0.1, warmup=1, evaluate=1))
    assert len(losses) == 5
    assert losses[0] == 1.0
    assert losses[-1] < 0.9
    assert looked == [float(trained.weight.detach())]
    assert not trained.training


def test_verdicts_of_training_go_both_ways():
    rows = [{"root_accuracy": 90.0 + i, "none_accuracy": 50.0, "whole_accuracy": 91.0} for i in range(3)]
    assert verdict("unscaled-training-stalls", *rows) == CONFIRMED
    assert verdict("temperature-d-slows-training", *rows) == NOT
    turned = [{"root_accuracy": 50.0, "none_accuracy": 90.0 + i} for i in range(3)]
    assert verdict("unscaled-training-stalls", *turned) == OPPOSITE
    beyond = {"sinusoidal_inside": 99.0, "sinusoidal_beyond": 98.0, "learned_inside": 99.0, "learned_beyond": 5.0}
    assert verdict("positions-beyond-training", beyond) == CONFIRMED
    assert verdict("positions-beyond-training", beyond | {"sinusoidal_beyond": 40.0}) == PARTLY
    assert verdict("positions-beyond-training", beyond | {"sinusoidal_beyond": 9.0}) == NOT
    shares = {f"share_{p}": 70.0 for p in (0, 10, 50)}
    assert verdict("attention-dropout-matters", shares) == NOT
    assert verdict("attention-dropout-matters", shares | {"share_50": 60.0}) == CONFIRMED
    assert verdict("eight-heads-of-64-are-faster", {"fewer_steps": 30.0}) == CONFIRMED
    assert verdict("eight-heads-of-64-are-faster", {"fewer_steps": 12.0}) == PARTLY
    assert verdict("eight-heads-of-64-are-faster", {"fewer_steps": 0.0}) == NOT
    for cross, said in ((56.0, CONFIRMED), (50.0, PARTLY), (46.0, NOT), (40.0, OPPOSITE)):
        assert verdict("concat-or-cross-for-questions", {"cross": cross, "concat": 45.0}) == said


@pytest.fixture
def tiny_sentences(tmp_path, monkeypatch):
    """300 sentences whose label is one word, and settings to go with them."""
    pytest.importorskip("torchmetrics", reason="needs the extra train")
    draw = random.Random(0)
    lines = ["text,label"]
    for i in range(300):
        filler = " ".join(
            draw.choice(["red", "blue", "green", "old", "new", "tall"]) for _ in range(draw.randint(2, 9))
        )
        lines.append(
            f"{filler} {'good' if i % 2 else 'bad'} {filler[::-1].replace(' ', '')}{i},{'pos' if i % 2 else 'neg'}"
        )
    path = tmp_path / "data.csv"
    path.write_text("\n".join(lines), encoding="utf-8")
    monkeypatch.setattr(sentences, "DATA", [str(path)])
    short = sentences.text.Settings(
        evidence=0, pool="mean", width=16, grams=1, vocabulary=60, length=16, steps=4, batch=8, heads=2
    )
    monkeypatch.setattr(sentences, "SHORT", short)


def test_all_variants_of_the_sentences_run_and_fill_their_claims(tiny_sentences, monkeypatch):
    sentences.wide.cache_clear()
    whole = sentences.job_of
    monkeypatch.setattr(sentences, "job_of", lambda seed, **common: whole(seed))
    for name in (
        "positions-in-classification", "more-heads-are-better", "attention-dropout-matters", "padding-ignored-accuracy",
        "wrong-head-split-trains", "eight-heads-of-64-are-faster", "heads-of-64-watch-the-border",
    ):  # fmt: skip
        claim = KNOWN[name]
        if name == "more-heads-are-better":
            monkeypatch.setattr(sentences, "SHORT", sentences.replace(sentences.SHORT, width=32))
        found = Found({0: claim.run(0)})
        assert claim.measured[0].format_map(found.spreads)
        assert set(claim.drawn.values()) <= set(found.spreads)
    sentences.wide.cache_clear()


def test_variants_start_from_the_same_weights_and_see_the_same_batches(tiny_sentences):
    job = sentences.job_of(1)
    first, losses = sentences.run_of(job, 1)
    again, same = sentences.run_of(job, 1)
    assert losses == same
    assert all(torch.equal(a, b) for a, b in zip(first.state_dict().values(), again.state_dict().values()))
    assert sentences.run_of(job, 1, heads=1)[1] != losses


def test_padding_that_is_hidden_changes_nothing_and_padding_that_is_seen_does(tiny_sentences):
    job = sentences.job_of(0)
    torch.manual_seed(0)
    inner = sentences.text.network(job.about).eval()
    ids, lengths, _ = job.work.collate(job.work.order(0)).inputs
    with torch.no_grad():
        plain = inner(ids, lengths)
        masked, seen = (sentences.Padded(inner, hide)(ids, lengths) for hide in (True, False))
    assert torch.allclose(plain, masked, atol=1e-5)
    assert not torch.allclose(plain, seen, atol=1e-5)


def test_every_order_and_a_frozen_backbone_of_the_images_train(monkeypatch):
    pytest.importorskip("torchmetrics", reason="needs the extra train")
    pytest.importorskip("sklearn", reason="the digits come with scikit-learn")
    monkeypatch.setattr(small_images, "DATA", ["digits"])
    short = small_images.vision.Settings(gate="none", width=8, limit=64, batch=16, steps=2, flip=False, stem_stride=1)
    monkeypatch.setattr(small_images, "SHORT", short)
    for name in ("cbam-order", "spatial-kernel-7", "gates-on-a-frozen-backbone"):
        found = Found({0: KNOWN[name].run(0)})
        assert all(0 <= found.mean(each) <= 100 for each in found.spreads)
        assert KNOWN[name].measured[1].format_map(found.spreads)


def test_gates_are_read_from_the_table_of_the_recipe_and_trained_where_it_lacks_the_seed(tmp_path, monkeypatch):
    path = tmp_path / "table.json"
    rows = [{"name": variant, "scores": [80.0 + i, 90.0 + i]} for i, variant in enumerate(small_images.TABLED.values())]
    path.write_text(json.dumps({"seeds": 2, "rows": rows}), encoding="utf-8")
    monkeypatch.setattr(small_images, "TABLE", path)
    monkeypatch.setattr(long_runs, "variants", lambda task, seed, names: dict.fromkeys(names, float(seed)))
    assert small_images.gains(1)["se"] == 91.0
    assert small_images.gains(2) == dict.fromkeys(small_images.TABLED, 2.0)
    pairs = [{"none": 80.0, "se": 79.0, "cbam": 82.0, "ca": 70.0, "window": 80.0, "se_4": 79.2, "stages": 82.5}] * 3
    assert [verdict(name, *pairs) for name in ("gates-gain", "reduction-16-is-enough", "cbam-in-the-residual-branch")] == [
        CONFIRMED, CONFIRMED, OPPOSITE,
    ]  # fmt: skip


def test_long_runs_ask_the_recipes_for_variants_that_there_are(monkeypatch):
    from regard.recipes.run import recipe

    asked = {}

    def listed(task, seed, names, *, long=False, steps=0, settings=()):
        asked[task] = (list(names.values()), long)
        return dict.fromkeys(names, 1.0)

    monkeypatch.setattr(long_runs, "variants", listed)
    for claim in long_runs.CLAIMS:
        found = Found({0: claim.run(0)})
        assert claim.measured[0].format_map(found.spreads)
        assert claim.verdict(found) == NOT
    assert set(asked) == {"qa", "tag", "series", "vision"}
    for task, (names, long) in asked.items():
        module = recipe(task)
        known = getattr(module, "VARIANTS_LONG", module.VARIANTS) if long else module.VARIANTS
        assert set(names) <= set(known), task
