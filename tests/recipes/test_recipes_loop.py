"""The training loop: what is killed and resumed gives the losses of what was not, and n processes give those of one."""

import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import time
from dataclasses import replace

import pytest
import torch
from torch import nn

from regard.core.errors import DataError
from regard.recipes import checkpoint, journal, lm
from regard.recipes.asked import Asked
from regard.recipes.job import plan_of
from regard.recipes.loop import train
from regard.recipes.order import Order
from regard.recipes.plan import Batch, Plan, Work
from regard.recipes.run import run

SMALL = ("width=16", "layers=1", "heads=2", "context=16", "grams=2", "buckets=50", "evaluate=10", "batch=4", "warmup=2")
SETTINGS = replace(
    lm.Settings(), width=16, layers=1, heads=2, context=16, grams=2, buckets=50, evaluate=10, batch=4, warmup=2
)
ROUNDING = 2e-6  # relative, of float32 sums in another order, over 12 steps of a model of 16 channels


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    """A file with 6,000 characters of made-up words."""
    draw = random.Random(0)
    words = ["".join(draw.choice("abcdefgh") for _ in range(draw.randint(1, 5))) for _ in range(60)]
    path = tmp_path_factory.mktemp("text") / "text.txt"
    path.write_text(" ".join(draw.choice(words) for _ in range(1600)), encoding="utf-8")
    return path


def losses(folder):
    return {row["step"]: row["loss"] for row in journal.read(folder) if "rate" in row}


def asked(text, out, **other):
    given = {"data": str(text), "out": out, "steps": 20, "save": 5, "watch": 0, "baselines": False, "settings": SMALL}
    return Asked(**(given | other))


def test_the_same_seed_gives_the_same_losses_and_another_seed_others(text, tmp_path):
    for name, seed in (("a", 0), ("b", 0), ("c", 1)):
        run("lm", asked(text, tmp_path / name, seed=seed))
    assert losses(tmp_path / "a") == losses(tmp_path / "b")
    assert losses(tmp_path / "a") != losses(tmp_path / "c")


def test_watching_a_run_changes_no_loss(text, tmp_path):
    run("lm", asked(text, tmp_path / "plain"))
    run("lm", asked(text, tmp_path / "watched", watch=5))
    assert losses(tmp_path / "plain") == losses(tmp_path / "watched")
    judged = [row["val_loss"] for row in journal.read(tmp_path / "plain") if "val_loss" in row]
    assert len(judged) == 2, "evaluations have a name of their own, so that no curve mixes them with the training loss"
    rows = [json.loads(line) for line in (tmp_path / "watched" / "watch-0.jsonl").read_text().splitlines()]
    assert any("entropy" in row for row in rows)


def command(text, out, *more):
    words = [
        sys.executable,
        "-m",
        "regard",
        "train",
        "lm",
        "--data",
        text,
        "--out",
        out,
        "--save",
        4,
        "--watch",
        0,
        *more,
    ]
    return [str(word) for word in words] + [word for setting in SMALL for word in ("--set", setting)]


def environment(**more):
    return os.environ | {"OMP_NUM_THREADS": "1"} | more


def test_a_run_that_was_killed_at_any_moment_and_resumed_gives_bit_identical_losses(text, tmp_path):
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    run("lm", asked(text, whole, steps=160, save=4))
    process = subprocess.Popen(command(text, cut, "--steps", 160), env=environment(), stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 120
    while len(losses(cut)) < 37 and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
    reached = max(losses(cut))
    assert 37 <= reached < 160, "it was to be killed in the middle"
    result = run("lm", asked(text, cut, steps=160, save=4, resume=True))
    assert losses(cut) == losses(whole)
    assert result["best"] == json.loads((whole / "result.json").read_text())["best"]
    same = [(f / "model.safetensors").read_bytes() for f in (whole, cut)]
    assert same[0] == same[1]


def torchrun(text, out, *more):
    words = command(text, out, *more)
    launched = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--master-port", "0", "--rdzv-backend", "c10d",
                "--rdzv-endpoint", "localhost:0", "-m", *words[2:]]  # fmt: skip
    done = subprocess.run(
        launched, env=environment(CUDA_VISIBLE_DEVICES=""), capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]


def test_two_processes_give_the_losses_of_one_that_computes_the_batch_in_two_pieces_also_with_dropout(text, tmp_path):
    run("lm", asked(text, tmp_path / "one", steps=12, accumulate=2))
    torchrun(text, tmp_path / "two", "--steps", 12)
    one, two = losses(tmp_path / "one"), losses(tmp_path / "two")
    assert one.keys() == two.keys()
    assert max(abs(one[step] - two[step]) / one[step] for step in one) < ROUNDING


def test_pieces_of_a_batch_give_the_losses_of_the_whole_batch_where_nothing_is_random(text, tmp_path):
    for name, pieces in (("one", 1), ("four", 4)):
        run("lm", asked(text, tmp_path / name, steps=12, accumulate=pieces, settings=(*SMALL, "dropout=0")))
    one, four = losses(tmp_path / "one"), losses(tmp_path / "four")
    assert max(abs(one[step] - four[step]) / one[step] for step in one) < ROUNDING


def test_a_damaged_last_checkpoint_is_passed_over_and_said(text, tmp_path, capsys):
    run("lm", asked(text, tmp_path / "whole", steps=30))
    out = tmp_path / "cut"
    run("lm", asked(text, out, steps=30))
    last, before = sorted((out / "checkpoints").glob("*.safetensors"))[::-1]
    (out / "result.json").unlink()
    content = bytearray(last.read_bytes())
    content[-9] ^= 1  # one bit of one number
    last.write_bytes(content)
    capsys.readouterr()
    run("lm", asked(text, out, steps=30, resume=True))
    assert f"{last.name} is damaged (its hash differs) and was passed over" in capsys.readouterr().err
    assert losses(out) == losses(tmp_path / "whole")
    assert before.name == "step-00000025.safetensors"


@pytest.mark.parametrize("harm", ["cut", "json", "missing"])
def test_each_kind_of_damage_is_named(tmp_path, harm):
    model = nn.Linear(2, 1)
    optimizer = torch.optim.AdamW(model.parameters())
    for step in (1, 2):
        checkpoint.save(tmp_path, step, model, optimizer, {})
    last = tmp_path / "step-00000002.safetensors"
    if harm == "cut":
        last.write_bytes(last.read_bytes()[:-8])
    elif harm == "json":
        last.with_suffix(".json").write_text("{")
    else:
        last.with_suffix(".json").unlink()
    about, said = checkpoint.load(tmp_path, model, optimizer)
    assert about["step"] == 1
    text = {"cut": "its hash differs", "json": r"its .json cannot be read", "missing": "its .json is missing"}[harm]
    assert text in said[0]


def test_only_damaged_checkpoints_are_refused(tmp_path):
    model = nn.Linear(2, 1)
    optimizer = torch.optim.AdamW(model.parameters())
    checkpoint.save(tmp_path, 1, model, optimizer, {})
    (tmp_path / "step-00000001.json").write_text("{}")
    with pytest.raises(
        DataError, match=r"all 1 checkpoints in .* are damaged: .*hash differs.*; start without --resume"
    ):
        checkpoint.load(tmp_path, model, optimizer)


def test_a_checkpoint_of_another_model_is_refused(tmp_path):
    model = nn.Linear(2, 1)
    checkpoint.save(tmp_path, 1, model, torch.optim.AdamW(model.parameters()), {})
    other = nn.Linear(3, 1)
    with pytest.raises(DataError, match="is of another model or other settings"):
        checkpoint.load(tmp_path, other, torch.optim.AdamW(other.parameters()))


def test_no_more_than_two_checkpoints_are_kept_and_nothing_is_pickled(text, tmp_path):
    run("lm", asked(text, tmp_path / "a"))
    files = sorted(
        path.name for path in (tmp_path / "a").rglob("*") if path.is_file() and "tensorboard" not in path.parts
    )
    assert files == [
        "config.json", "journal.jsonl", "model.safetensors", "result.json", "step-00000015.json", "step-00000015.safetensors",
        "step-00000020.json", "step-00000020.safetensors",
    ]  # fmt: skip


def test_ctrl_c_saves_and_the_run_can_go_on(text, tmp_path):
    run("lm", asked(text, tmp_path / "whole", steps=120, save=1000))
    out = tmp_path / "cut"
    process = subprocess.Popen(command(text, out, "--steps", 120), env=environment(), stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 120
    while len(losses(out)) < 20 and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    said = process.communicate(timeout=60)[1]
    assert process.returncode == 130
    assert "and saved; the same command with --resume goes on" in said
    run("lm", asked(text, out, steps=120, save=1000, resume=True))
    assert losses(out) == losses(tmp_path / "whole")


def test_a_folder_with_a_run_is_never_overwritten(text, tmp_path):
    run("lm", asked(text, tmp_path / "a"))
    with pytest.raises(DataError, match="holds a run already; --resume continues it, or give another --out"):
        run("lm", asked(text, tmp_path / "a"))
    with pytest.raises(DataError, match="holds a run of lm with seed 0; you asked for lm with seed 5"):
        run("lm", asked(text, tmp_path / "a", seed=5, resume=True))


class Broken(nn.Module):
    def __init__(self):
        super().__init__()
        self.used, self.forgotten = nn.Linear(2, 1), nn.Linear(2, 1)

    def forward(self, x):
        return self.used(x)


def work(model, scale=1.0, score=lambda model: {"loss": 1.0}):
    x = torch.randn(8, 2, generator=torch.Generator().manual_seed(0)) * scale
    return Work(
        model,
        Order(8, 4, seed=0),
        lambda i: Batch((x[i],), len(i)),
        lambda m, b: m(b[0]).square().sum(),
        score,
        "loss",
        False,
    )


def test_a_parameter_that_no_gradient_reaches_is_named(tmp_path):
    with pytest.raises(DataError, match=r"no gradient reaches forgotten.weight, forgotten.bias"):
        train(work(Broken()), Plan(steps=2), tmp_path)


def test_a_loss_that_is_not_finite_ends_the_run_with_the_way_out(tmp_path):
    with pytest.raises(
        DataError, match=r"step 1: the loss is (inf|nan) and .* take a smaller --lr, or --precision float32"
    ):
        train(work(nn.Linear(2, 1), scale=1e30), Plan(steps=2), tmp_path)


def test_patience_ends_a_run_that_no_longer_improves_and_the_best_weights_come_back(tmp_path):
    values = iter([3.0, 1.0, 2.0, 2.0, 2.0, 0.0])
    model = nn.Linear(2, 1)
    result = train(
        work(model, score=lambda m: {"loss": next(values)}), Plan(steps=60, evaluate=10, patience=3), tmp_path
    )
    assert (result["steps"], result["step"], result["best"]) == (50, 20, {"loss": 1.0})
    assert torch.equal(model.weight, checkpoint.read_tensors(tmp_path / "model.safetensors")["weight"])


def test_the_rate_goes_up_in_a_line_and_down_in_half_a_cosine():
    plan = Plan(steps=110, lr=1.0, warmup=10)
    assert [plan.rate(s) for s in (0, 4, 9)] == pytest.approx([0.1, 0.5, 1.0])
    assert plan.rate(60) == pytest.approx(0.01 + 0.99 * 0.5)
    assert plan.rate(110) == pytest.approx(0.01)


@pytest.mark.parametrize("precision", ["bfloat16", "float16"])
def test_half_precision_trains(text, tmp_path, precision):
    run("lm", asked(text, tmp_path / "full", steps=40))
    run("lm", asked(text, tmp_path / "half", steps=40, precision=precision))
    full, half = losses(tmp_path / "full"), losses(tmp_path / "half")
    assert half[40] < half[1]
    assert abs(full[40] - half[40]) < 0.1 * full[40]


def test_minutes_become_steps_that_are_written_down_and_kept_at_resume(text, tmp_path):
    first = run("lm", asked(text, tmp_path / "a", minutes=0.005))
    written = json.loads((tmp_path / "a" / "config.json").read_text())["plan"]["steps"]
    assert written == first["steps"] >= 10
    again = run("lm", asked(text, tmp_path / "a", minutes=5.0, resume=True))
    assert again["steps"] == written


def test_every_sample_is_seen_once_an_epoch_and_batches_of_one_length_keep_that():
    lengths = [7 * i % 13 for i in range(100)]
    for order in (Order(100, 10, seed=3), Order(100, 10, seed=3, lengths=lengths)):
        for epoch in range(2):
            seen = torch.cat([order(epoch * 10 + i) for i in range(10)])
            assert sorted(seen.tolist()) == list(range(100))
    spans = [max(lengths[i] for i in order(s)) - min(lengths[i] for i in order(s)) for s in range(10)]
    assert max(spans) <= 3


def test_fewer_samples_than_a_batch_are_refused_with_both_numbers():
    with pytest.raises(
        DataError, match=r"3 samples are fewer than one batch of 8; take a smaller --batch or more data"
    ):
        Order(3, 8, seed=0)


def test_settings_reach_the_plan():
    plan = plan_of(SETTINGS, 7)
    assert (plan.evaluate, plan.warmup, plan.seed) == (10, 2, 7)


def test_a_journal_that_a_kill_cut_in_a_line_is_read_up_to_there(tmp_path):
    (tmp_path / "journal.jsonl").write_text('{"step": 1, "loss": 2.0}\n{"step": 2, "lo')
    assert journal.read(pathlib.Path(tmp_path)) == [{"step": 1, "loss": 2.0}]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of torch, about itself, while it compiles
def test_a_compiled_run_gives_about_the_same_losses_where_nothing_is_random(text, tmp_path):
    given = {"steps": 6, "settings": (*SMALL, "dropout=0")}
    run("lm", asked(text, tmp_path / "plain", **given))
    run("lm", asked(text, tmp_path / "compiled", compile=True, **given))
    plain, compiled = losses(tmp_path / "plain"), losses(tmp_path / "compiled")
    assert max(abs(plain[step] - compiled[step]) / plain[step] for step in plain) < 1e-3
