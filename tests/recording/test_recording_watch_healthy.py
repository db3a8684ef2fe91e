"""Healthy runs get no diagnosis, and a watched run is bit for bit the run that would have been."""

import json
import math

import pytest
import torch
from torch import nn
from watched import PAD, Attention, Fused, Tagger, TorchEncoder, Translator, batches, built, loss_of, shifted, train

import regard
from regard.core.errors import CaptureError

STEPS, EVERY = 120, 10


def padded_validation():
    return list(batches(3, seed=9, padded=True))


HEALTHY = {
    "an encoder with padding": (lambda: Tagger(Attention), lambda s: batches(STEPS, s, padded=True), padded_validation),
    "a causal model with a fused kernel": (
        lambda: Tagger(lambda: Fused(causal=True)), lambda s: shifted(STEPS, s), lambda: list(shifted(3, 9)),
    ),
    "a decoder with cross-attention": (Translator, lambda s: batches(STEPS, s), lambda: list(batches(3, 9))),
    "nn.TransformerEncoder": (TorchEncoder, lambda s: batches(STEPS, s, padded=True), padded_validation),
    "unmasked text of one length": (lambda: Tagger(Fused), lambda s: batches(STEPS, s), lambda: list(batches(3, 9))),
}  # fmt: skip


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow), pytest.param(2, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", HEALTHY)
def test_a_healthy_run_gets_no_diagnosis(name, seed):
    make, data, validation = HEALTHY[name]
    model = built(make, seed)
    with torch.random.fork_rng(), regard.watch(model, every=EVERY) as run:
        torch.manual_seed(seed)
        losses = train(model, data(seed), run, validate_every=40, validation=validation)
    assert losses[-1] < 0.9 * losses[0]  # it learned: there was something to find nothing in
    diagnosis = run.diagnosis()
    assert diagnosis.names() == [], str(diagnosis)
    assert (diagnosis.records, diagnosis.steps) == (STEPS // EVERY, STEPS)
    assert diagnosis.layers >= 2
    assert diagnosis.notes == []
    assert any("eval_pass" in row for row in run.rows)


def gradients(model, watching, make_data):
    """Losses, outputs' gradients and parameters of a short run with dropout."""
    kept = []
    with torch.random.fork_rng():
        torch.manual_seed(3)
        optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
        run = regard.watch(model, every=2) if watching else None
        for ids, wanted in make_data():
            loss = loss_of(model, ids, wanted)
            optimizer.zero_grad()
            loss.backward()
            kept += [loss.detach().clone(), *(p.grad.clone() for p in model.parameters())]
            optimizer.step()
            if run is not None:
                run.step(loss)
        if run is not None:
            run.close()
        kept.append(torch.rand(3))  # the random state is the same too
        model.eval()
        with torch.no_grad():
            kept.append(model(ids))
    return kept


@pytest.mark.parametrize("name", HEALTHY)
def test_losses_gradients_and_random_numbers_are_bit_identical_with_and_without(name):
    make, *_ = HEALTHY[name]
    without, watched = (gradients(built(make), on, lambda: batches(5, padded=True)) for on in (False, True))
    assert all(torch.equal(a, b) for a, b in zip(without, watched, strict=True))


def test_the_fast_path_of_torch_in_evaluation_is_left_on():
    model = built(lambda: nn.TransformerEncoderLayer(32, 4, 64, 0.0, batch_first=True)).eval()
    x = torch.randn(2, 5, 32, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        expected = model(x)
        run = regard.watch(model, every=1)
        assert torch.equal(model(x), expected)
        run.step()
        run.close()
    kernels = [row["eval_kernel"] for row in run.rows if "eval_pass" in row]
    assert kernels == ["aten::_transformer_encoder_layer_fwd"]


def test_nothing_is_left_behind_on_the_model_or_on_torch():
    from torch.nn.modules import module

    before = dict(module._global_forward_hooks), dict(module._global_forward_pre_hooks)
    model = built(lambda: Tagger(Attention))
    with regard.watch(model, every=1) as run:
        train(model, batches(2), run)
        model(next(batches(1))[0])  # hooks are up, and the run is left in the middle of a step
    assert (dict(module._global_forward_hooks), dict(module._global_forward_pre_hooks)) == before
    assert not module._global_forward_hooks_with_kwargs
    for part in model.modules():
        assert not part._forward_hooks
        assert not part._forward_pre_hooks
    assert all(not getattr(p, "_post_accumulate_grad_hooks", None) for p in model.parameters())


def test_a_forward_that_raises_leaves_the_watch_working():
    model = built(lambda: Tagger(Attention))
    with regard.watch(model, every=1) as run:
        with pytest.raises(IndexError):
            model(torch.full((2, 4), 99))
        train(model, batches(2), run)
    assert [row["step"] for row in run.rows if row.get("layer") == 0] == [0, 1]


def test_the_numbers_are_those_of_the_open_form():
    attention = Attention().eval()
    model = built(lambda: Tagger(lambda: attention)).eval()
    ids, _ = next(batches(1, length=8))
    with regard.watch(model, every=1) as run:
        model(ids)
        run.step(0.0)
    row = next(r for r in run.rows if r.get("layer") == 0)
    with torch.no_grad():
        x = model.blocks[0].first(model.embed(ids) + model.place[:8])[[0, 5, 10, 15]]
        q, k = (p(x).unflatten(-1, (4, -1)).transpose(1, 2) for p in (attention.q_proj, attention.k_proj))
        logits = q @ k.transpose(-1, -2) / math.sqrt(8)
        weights = logits.softmax(-1)
    expected = {
        "logit_std": logits.std(-1, correction=0).mean((0, 2)),
        "logit_max": logits.abs().amax((0, 2, 3)),
        "entropy": -(weights * weights.log()).sum(-1).mean((0, 2)) / math.log(8),
        "max": weights.amax(-1).mean((0, 2)),
        "first": weights[..., 0].mean((0, 2)),
        "last": weights[..., -1].mean((0, 2)),
        "ahead": weights.triu(1).sum(-1).mean((0, 2)),
    }
    for name, value in expected.items():
        torch.testing.assert_close(torch.tensor(row[name]), value, rtol=1e-4, atol=1e-6)  # six digits are kept
    assert row["scale"] == pytest.approx(8**-0.5, rel=1e-4)
    assert (row["heads"], row["queries"], row["keys"], row["head_dim"], row["width"]) == (4, 8, 8, 8, 32)


def test_gradient_norms_are_those_of_the_projections_packed_or_not():
    for make in (Attention, Fused):
        model = built(lambda make=make: Tagger(make))
        ids, wanted = next(batches(1))
        with regard.watch(model, every=1) as run:
            loss = loss_of(model, ids, wanted)
            loss.backward()
            part = model.blocks[1].attention
            parts = part.qkv.weight.grad.chunk(3) if make is Fused else [
                getattr(part, f"{r}_proj").weight.grad for r in "qkv"
            ]  # fmt: skip
            expected = [float(g.norm()) for g in parts]
            model.zero_grad()  # the norms were read when backward made them
            run.step(loss)
        row = next(r for r in run.rows if r.get("layer") == 1)
        assert [row[f"grad_{role}"] for role in ("query", "key", "value")] == pytest.approx(expected, rel=1e-4)


def test_rows_are_strict_json_one_per_recorded_step_and_layer_and_curves_draw_them(tmp_path):
    model, file = built(lambda: Tagger(Attention)), tmp_path / "deep" / "run.jsonl"
    with regard.watch(model, every=4, out=file) as run:
        train(model, batches(10), run)
    lines = [json.loads(line, parse_constant=pytest.fail) for line in file.read_text().splitlines()]
    assert lines == run.rows
    assert [(r["step"], r["layer"]) for r in lines if "entropy" in r] == [(s, n) for s in (0, 4, 8) for n in (0, 1)]
    assert [r["losses"] for r in lines if "losses" in r] == [1, 4, 4, 1]  # every step's loss is in one mean
    plots = pytest.importorskip("regard.views.plots")
    for score in ("entropy", "logit_std", "similarity", "grad_query"):
        assert len(plots.curves(file, score).get_lines()) == 2


def test_every_pass_of_a_shared_layer_is_a_layer_of_its_own():
    model = built(lambda: Tagger(Attention))
    model.blocks[1] = model.blocks[0]
    with regard.watch(model, every=1) as run:
        train(model, batches(1), run)
    assert [(r["layer"], r["path"]) for r in run.rows if "entropy" in r] == [
        (0, "blocks.0.attention"),
        (1, "blocks.0.attention"),
    ]


def test_padding_rows_that_see_padding_are_no_fault():
    class Documents(Attention):
        def forward(self, x, keep=None):
            same = keep[:, :, None] == keep[:, None] if keep is not None else None
            q, k, v = (p(x).unflatten(-1, (4, -1)).transpose(1, 2) for p in (self.q_proj, self.k_proj, self.v_proj))
            scores = q @ k.transpose(-1, -2) / math.sqrt(8)
            scores = scores if same is None else scores.masked_fill(~same[:, None], -math.inf)
            return self.out_proj((scores.softmax(-1) @ v).transpose(1, 2).flatten(-2))

    model = built(lambda: Tagger(Documents))
    with regard.watch(model, every=2) as run:
        train(model, batches(12, padded=True), run)
    assert all(r["padding"]["pads_seen"] == 0 for r in run.rows if "padding" in r)
    assert run.diagnosis().names() == []


def test_right_padding_behind_a_causal_mask_is_no_fault():
    model = built(lambda: Tagger(lambda: Fused(causal=True), mask=False))
    with regard.watch(model, every=2) as run:
        train(model, batches(12, padded=True), run)
    assert model.embed.padding_idx == PAD
    assert run.diagnosis().names() == []


@pytest.mark.parametrize(
    ("arguments", "words"),
    [({"every": 0}, "every=0 is not a number of steps"), ({"every": 1.5}, "every=1.5"), ({"out": "/proc/no/run.jsonl"}, "cannot be written")],
)  # fmt: skip
def test_what_cannot_be_watched_is_refused(arguments, words):
    with pytest.raises(CaptureError, match=words):
        regard.watch(nn.Linear(2, 2), **arguments)
    with pytest.raises(CaptureError, match="needs an nn\\.Module, got int"):
        regard.watch(3)


def test_a_closed_watch_takes_no_steps():
    run = regard.watch(nn.Linear(2, 2))
    run.close()
    run.close()
    with pytest.raises(CaptureError, match="is closed"):
        run.step(1.0)


def test_a_model_without_attention_is_watched_for_its_loss_only():
    model = nn.Linear(2, 2)
    with regard.watch(model, every=1) as run:
        for _ in range(3):
            loss = model(torch.ones(1, 2)).sum()
            loss.backward()
            run.step(loss)
    assert "no attention was seen" in str(run.diagnosis())
