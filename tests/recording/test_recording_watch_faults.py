"""Each fault, put into a run that is healthy without it, is named by the diagnosis; and nothing else is."""

import math

import pytest
import torch
import watched
from torch import nn
from torch.nn import functional as F
from watched import Attention, Tagger, TorchEncoder, batches, built, loss_of, shifted, train

import regard


def watch_run(model, data, **options):
    """The diagnosis of a run; global random numbers (dropout) come from seed 0."""
    every = options.pop("every", 10)
    with torch.random.fork_rng(), regard.watch(model, every=every) as run:
        torch.manual_seed(0)
        train(model, data, run, **options)
    return run.diagnosis()


def only(diagnosis, name, kind=None):
    """The one symptom that there is."""
    assert diagnosis.names() == [name], str(diagnosis)
    (symptom,) = diagnosis.symptoms
    assert kind is None or symptom.causes[0].kind == kind, str(diagnosis)
    assert all(len(line) <= 80 for line in str(diagnosis).splitlines())
    return symptom


def test_a_missing_scale_with_large_weights():
    symptom = only(
        watch_run(built(lambda: Tagger(lambda: Attention("no scale"))), batches(40)),
        "saturated_attention",
        "scale-missing",
    )
    assert symptom.layers == [0, 1]
    assert "watched.py:" in symptom.where
    assert symptom.measured["scale"] == pytest.approx(1.0, rel=1e-3)


def test_large_weights_with_the_right_scale_are_not_called_a_missing_scale():
    symptom = only(
        watch_run(built(lambda: Tagger(lambda: Attention("large weights"))), batches(40)), "saturated_attention"
    )
    assert symptom.causes[0].kind == ""
    assert "weights are too large" in symptom.causes[0].text


def test_a_temperature_of_d_in_place_of_its_root(monkeypatch):
    monkeypatch.setattr(watched, "HEADS", 1)
    symptom = only(
        watch_run(built(lambda: Tagger(lambda: Attention("cold"))), batches(110), lr=1e-3),
        "uniform_attention",
        "scale-dk-not-sqrt",
    )
    assert symptom.measured["scale"] == pytest.approx(1 / 32, rel=1e-3)


@pytest.mark.parametrize(("fault", "words"), [("frozen", "requires_grad is False"), ("cut", "detach()")])
def test_queries_and_keys_without_gradient(fault, words):
    symptom = only(
        watch_run(built(lambda: Tagger(lambda: Attention(fault))), batches(40)),
        "queries_and_keys_do_not_learn",
        "gradient-cut",
    )
    assert words in symptom.causes[0].text


def test_queries_and_keys_that_are_not_in_the_optimizer():
    model = built(lambda: Tagger(Attention))
    chosen = [p for name, p in model.named_parameters() if "q_proj" not in name and "k_proj" not in name]
    symptom = only(watch_run(model, batches(40), parameters=chosen), "queries_and_keys_do_not_learn")
    assert "not in the optimizer" in symptom.causes[0].text


def test_a_whole_layer_that_is_frozen_is_a_choice():
    model = built(lambda: Tagger(Attention))
    model.blocks[0].requires_grad_(False)
    assert watch_run(model, batches(40)).names() == []


def test_a_gate_that_stays_closed():
    only(
        watch_run(built(lambda: Tagger(lambda: Attention("gate closed"))), batches(40)),
        "attention_not_trained",
        "gate-constant",
    )


def test_heads_that_are_equal():
    symptom = only(
        watch_run(built(lambda: Tagger(lambda: Attention("equal heads"))), batches(40)),
        "equal_heads",
        "heads-collapsed",
    )
    assert "heads 0, 1, 2, 3" in symptom.title


def test_heads_with_one_bias_and_weights_of_their_own_are_not_equal():
    class Biased(Attention):
        def forward(self, x, keep=None):
            q, k, v = (p(x).unflatten(-1, (4, -1)).transpose(1, 2) for p in (self.q_proj, self.k_proj, self.v_proj))
            near = -(torch.arange(x.shape[1])[:, None] - torch.arange(x.shape[1])).abs().float()
            weights = (q @ k.transpose(-1, -2) / math.sqrt(8) + near).softmax(-1)
            return self.out_proj((weights @ v).transpose(1, 2).flatten(-2))

    assert watch_run(built(lambda: Tagger(Biased)), batches(40)).names() == []


def test_heads_that_share_a_mask_of_a_finite_constant_are_not_equal():
    class Shifted(Attention):
        """As Swin: -100 between two halves, beside which small queries and keys are a thousandth."""

        def __init__(self):
            super().__init__()
            for layer in (self.q_proj, self.k_proj):
                nn.init.normal_(layer.weight, std=0.02)

        def forward(self, x, keep=None):
            q, k, v = (p(x).unflatten(-1, (4, -1)).transpose(1, 2) for p in (self.q_proj, self.k_proj, self.v_proj))
            half = torch.arange(x.shape[1]) < x.shape[1] // 2
            apart = -100.0 * (half[:, None] != half)
            return self.out_proj(
                ((q @ k.transpose(-1, -2) / 8**0.5 + apart).softmax(-1) @ v).transpose(1, 2).flatten(-2)
            )

    assert watch_run(built(lambda: Tagger(Shifted)), batches(8), every=2, lr=1e-5).names() == []


@pytest.mark.parametrize(("fault", "kind"), [("padding ignored", "mask-ignored"), ("mask inverted", "mask-inverted")])
def test_padding_that_is_seen(fault, kind):
    only(watch_run(built(lambda: Tagger(lambda: Attention(fault))), batches(40, padded=True)), "padding_seen", kind)


def test_a_mask_argument_that_is_not_used():
    class Ignoring(Tagger):
        def forward(self, ids, attention_mask=None):
            return super().forward(ids)

    model = built(lambda: Ignoring(Attention, mask=False))
    model.embed.padding_idx = None
    with regard.watch(model, every=1) as run:
        for ids, wanted in batches(4, padded=True):
            loss = F.cross_entropy(model(ids, attention_mask=(ids != 0).long()).flatten(0, 1), wanted.flatten())
            loss.backward()
            run.step(loss)
    symptom = only(run.diagnosis(), "padding_seen", "mask-ignored")
    assert "the argument attention_mask" in symptom.title


MODES = {
    "stale cache": ("cache-stale", False),
    "dropout in eval": ("dropout-in-eval", False),
    "not causal in eval": ("causal-missing", True),
}


@pytest.mark.parametrize("fault", MODES)
def test_evaluation_that_runs_something_else_than_training(fault):
    kind, causal = MODES[fault]
    data = shifted if causal else batches
    diagnosis = watch_run(
        built(lambda: Tagger(lambda: Attention(fault, causal))),
        data(40),
        validate_every=20,
        validation=lambda: list(data(3, 9)),
    )
    only(diagnosis, "inference_differs", kind)


def test_a_validation_in_training_mode():
    model = built(lambda: Tagger(Attention))
    with regard.watch(model, every=10) as run:
        train(model, batches(20), run)
        with run.validating(), torch.no_grad():
            loss_of(model, *next(batches(1)))
    assert "eval() was not called" in only(run.diagnosis(), "inference_differs").causes[0].text


def masked_at(step, steps):
    """Padded batches, one of which has a sample of nothing but padding."""
    for at, (ids, wanted) in enumerate(batches(steps, padded=True)):
        if at == step:
            ids = ids.clone()
            ids[3] = watched.PAD
        yield ids, wanted


def test_a_fully_masked_row_is_named_with_its_line_at_the_step_where_it_happens():
    symptom = only(
        watch_run(built(lambda: Tagger(Attention)), masked_at(3, 6), every=1), "loss_not_finite", "fully-masked-nan"
    )
    assert "arose in the attention of blocks.0.attention at step 3" in symptom.title
    assert "watched.py:" in symptom.where
    assert symptom.measured["share of fully masked rows"] == pytest.approx(1 / watched.BATCH)


def test_a_loss_that_broke_between_two_records_is_dated_and_the_way_to_the_line_is_given():
    symptom = only(watch_run(built(lambda: Tagger(Attention)), masked_at(7, 12), every=5), "loss_not_finite")
    assert "from step 7 on" in symptom.title
    assert "every=1) up to step 7" in symptom.causes[0].check


def test_a_loop_that_skips_the_broken_step_gets_the_line_from_the_next_one():
    model = built(lambda: Tagger(Attention))
    with regard.watch(model, every=50) as run:
        for at in range(12):
            ids, wanted = next(masked_at(0 if at in (7, 8) else None, 1))
            loss = loss_of(model, ids, wanted)
            if loss.isfinite():
                loss.backward()
            run.step(loss)
    symptom = only(run.diagnosis(), "loss_not_finite", "fully-masked-nan")
    assert "at step 8" in symptom.title
    assert symptom.step == 7


def test_a_gradient_that_breaks_while_the_forward_pass_is_finite():
    class Repaired(Attention):
        def forward(self, x, keep=None):
            q, k, v = (p(x).unflatten(-1, (4, -1)).transpose(1, 2) for p in (self.q_proj, self.k_proj, self.v_proj))
            scores = q @ k.transpose(-1, -2) / math.sqrt(8)
            if keep is not None:
                scores = scores + torch.zeros(keep.shape).masked_fill(~keep, -math.inf)[:, None, None]
            return self.out_proj((scores.softmax(-1).nan_to_num() @ v).transpose(1, 2).flatten(-2))

    symptom = only(
        watch_run(built(lambda: Tagger(Repaired)), masked_at(2, 4), every=1),
        "loss_not_finite",
        "fully-masked-nan-backward",
    )
    assert "Gradients are not finite at step 2 although the forward pass is" in symptom.title


def test_a_nan_that_arises_outside_attention_is_named_by_its_module():
    class Log(nn.Module):
        def forward(self, x):
            return torch.log(x - 100)

    model = built(lambda: Tagger(Attention))
    model.norm = Log()
    assert "arose in norm (Log) at step 0" in only(watch_run(model, batches(2), every=1), "loss_not_finite").title


def test_masks_of_minus_infinity_are_not_where_a_nan_arose():
    class MaskMaker(nn.Module):
        def forward(self, ids):
            return torch.zeros(ids.shape).masked_fill(ids == watched.PAD, -math.inf)

    class Masked(Tagger):
        def __init__(self):
            super().__init__(Attention)
            self.maker = MaskMaker()

        def forward(self, ids):
            self.maker(ids)
            return super().forward(ids)

    symptom = only(watch_run(built(Masked), masked_at(2, 4), every=1), "loss_not_finite", "fully-masked-nan")
    assert "blocks.0.attention" in symptom.title


def test_an_optimizer_with_other_parameters_leaves_the_loss_stuck():
    model = built(lambda: Tagger(Attention))
    symptom = only(watch_run(model, batches(110), parameters=[nn.Parameter(torch.zeros(1))]), "loss_stuck")
    assert "parameters do not move" in symptom.causes[0].text


def test_the_fast_path_of_torch_is_judged_too():
    model = built(TorchEncoder)
    with regard.watch(model, every=2) as run:
        train(
            model, batches(6, padded=True), run, validate_every=3, validation=lambda: list(batches(2, 9, padded=True))
        )
    kernels = {row["eval_kernel"] for row in run.rows if "eval_pass" in row}
    assert kernels == {"aten::_transformer_encoder_layer_fwd"}
    assert run.diagnosis().names() == []
