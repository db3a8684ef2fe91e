"""Rules on rows that are written by hand, what they leave alone, and the command that reads a file of them."""

import json
import subprocess
import sys

import pytest

from regard.core.errors import CaptureError
from regard.recording.diagnosis_heads import named_scale
from regard.recording.diagnosis_rules import diagnose

GB = 1 << 30


def rows(losses=(), *, every=10, validations=(), memory=None, baseline=None, layer=None):
    """A run: one loss per record, validation losses as (step, value), bytes per record, and extra fields of layer 0."""
    made = [{"watch": 1, "every": every, "model": "Tiny", "baseline": baseline}]
    for at, loss in enumerate(losses):
        step = at * every
        part = {"step": step, "layer": 0, "path": "attention", "where": "model.py:7", "kernel": "fused", "samples": 8,
                "queries": 64, "keys": 64, "heads": 2, "entropy": [0.8, 0.7], "max": [0.2, 0.3], "logit_std": [1.0, 1.1],
                "similarity": [0.3, 0.3], "ahead": [0.4, 0.4], "projections": ["query", "key", "value"], "frozen": [],
                "grad_query": 0.1, "grad_key": 0.1, "grad_value": 0.2, "scale": 0.125, "head_dim": 64}  # fmt: skip
        made.append(part | (layer(step) if layer else {}))
        made.append({"step": step, "loss": loss, **({} if memory is None else {"memory": memory[at]})})
    made += [{"step": step, "validation_loss": value} for step, value in validations]
    return made


FALLING = [3.0, 2.5, 2.1, 1.8, 1.5, 1.3, 1.2, 1.1, 1.0, 0.95]


def names(*args, **kwargs):
    return diagnose(rows(*args, **kwargs)).names()


def test_a_falling_loss_with_a_validation_near_it_is_healthy():
    assert names(FALLING, validations=[(40, 1.8), (90, 1.3)], memory=[GB] * 10, baseline=1.4) == []


def test_an_empty_run_is_no_fault():
    assert str(diagnose([{"watch": 1}])).startswith("0 records of 0 attention layers, 0 steps: nothing found.")
    assert diagnose([]).names() == []


def test_validation_far_behind_from_the_start_is_first_taken_for_a_leak():
    diagnosis = diagnose(rows(FALLING, validations=[(40, 4.0), (90, 4.1)]))
    assert diagnosis.names() == ["validation_behind"]
    assert diagnosis.kinds() == ["causal-missing"]


def test_validation_that_has_passed_its_best_is_first_taken_for_over_fitting():
    diagnosis = diagnose(rows(FALLING, validations=[(20, 2.6), (40, 2.2), (60, 3.3), (90, 3.4)]))
    assert "over-fitting" in diagnosis.symptoms[0].causes[0].text


@pytest.mark.parametrize("values", [[(90, 4.0)], [(40, 4.0), (90, 1.9)], [(40, 1.9), (90, 4.0)]])
def test_one_validation_far_behind_is_not_enough(values):
    assert names(FALLING, validations=values) == []


def test_small_losses_far_apart_by_their_ratio_are_healthy():
    assert names([x / 100 for x in FALLING], validations=[(40, 0.05), (90, 0.05)]) == []


def test_memory_that_doubles_is_dated_and_the_longer_batch_is_named():
    def longer(step):
        return {"queries": 128, "keys": 128} if step >= 60 else {}

    diagnosis = diagnose(rows(FALLING, memory=[GB] * 6 + [int(2.1 * GB)] * 4, layer=longer))
    assert diagnosis.names() == ["memory_doubled"]
    assert "between steps 50 and 60" in diagnosis.symptoms[0].title
    assert "from 8 x 64 x 64 to 8 x 128 x 128" in diagnosis.symptoms[0].causes[0].text


def test_memory_that_doubles_with_another_kernel_names_the_kernel():
    diagnosis = diagnose(
        rows(FALLING, memory=[GB] * 6 + [2 * GB] * 4, layer=lambda step: {"kernel": "open"} if step >= 60 else {})
    )
    assert "changed from fused to open" in diagnosis.symptoms[0].causes[0].text


@pytest.mark.parametrize(
    "memory",
    [
        [GB // 8] + [GB] * 9,  # optimizer state and caches come with the first step
        [GB, GB, GB, GB, GB, 2 * GB, GB, GB, GB, GB],  # one long batch
        [int(GB * (1 + 0.02 * at)) for at in range(10)],
        [100 << 20] * 5 + [220 << 20] * 5,  # a small process
    ],
)
def test_memory_that_moves_as_memory_does_is_healthy(memory):
    assert names(FALLING, memory=memory) == []


def test_memory_that_grows_at_every_record_is_a_leak():
    assert names(FALLING, memory=[int(GB * (1 + 0.2 * at)) for at in range(10)]) == ["memory_grows"]


def test_attention_that_makes_a_model_worse_than_its_baseline():
    assert names(FALLING, validations=[(40, 1.9), (90, 1.8)], baseline=1.2) == ["attention_hurts"]
    assert names(FALLING, validations=[(40, 1.9), (90, 1.25)], baseline=1.2) == []


def test_logits_that_grow_without_bound_are_called_a_collapse():
    def late(step):
        return {"max": [0.97, 0.98], "logit_std": [40.0, 45.0], "entropy": [0.02, 0.02]} if step >= 70 else {}

    diagnosis = diagnose(rows(FALLING, layer=late))
    assert diagnosis.names() == ["saturated_attention"]
    assert "collapse" in diagnosis.symptoms[0].causes[0].text
    assert diagnosis.symptoms[0].step == 90


def test_one_sharp_head_beside_others_is_healthy():
    assert names(FALLING, layer=lambda step: {"max": [0.99, 0.2], "logit_std": [40.0, 1.0]}) == []


def test_sharp_heads_of_a_sink_are_healthy():
    assert (
        names(FALLING, layer=lambda step: {"max": [0.96, 0.97], "logit_std": [5.0, 6.0], "first": [0.95, 0.96]}) == []
    )


@pytest.mark.parametrize("scale", [None, 0.125, 0.5])
def test_flat_attention_that_nothing_explains_is_not_reported(scale):
    assert (
        names([3.0 - 0.1 * i for i in range(12)], layer=lambda step: {"entropy": [0.999, 0.999], "scale": scale}) == []
    )


def test_flat_attention_with_constant_logits_is_reported():
    def flat(step):
        return {"entropy": [1.0, 1.0], "logit_std": [0.0, 0.0], "similarity": [None, None]}

    assert names([3.0 - 0.1 * i for i in range(12)], layer=flat) == ["uniform_attention"]


def test_saturation_that_stops_learning_is_the_first_cause_of_a_stuck_loss():
    def one_hot(step):
        return {"max": [1.0, 1.0], "logit_std": [60.0, 50.0], "scale": 1.0, "grad_query": 0.0, "grad_key": 0.0}

    diagnosis = diagnose(rows([3.0, 3.01, 2.99, 3.0, 3.0, 3.01, 2.99, 3.0, 3.0, 3.0, 3.0], layer=one_hot))
    assert diagnosis.names() == ["saturated_attention", "queries_and_keys_do_not_learn", "loss_stuck"]
    assert diagnosis.symptoms[2].causes[0].kind == "scale-missing"


def test_a_flat_loss_of_a_short_run_is_not_reported():
    assert names([3.0] * 9) == []
    assert names([3.0] * 22) == ["loss_stuck"]


def test_a_noisy_flat_loss_that_nothing_explains_is_not_reported():
    assert names([3.0, 2.9, 3.1, 2.95, 3.05] * 3 + [2.99, 2.98]) == []


def test_values_that_are_not_finite_and_never_reach_the_loss_are_a_note():
    made = rows(FALLING)
    made[-1] = made[-1] | {
        "nonfinite": {
            "what": "attention",
            "path": "attention",
            "where": "model.py:7",
            "masked_rows": 0.1,
            "parameters_finite": True,
        }
    }
    diagnosis = diagnose(made)
    assert diagnosis.names() == []
    assert "not finite at step 90 (model.py:7); the loss is, so far" in diagnosis.notes[0]


@pytest.mark.parametrize(
    ("scale", "kind"),
    [(1.0, "scale-missing"), (1 / 64, "scale-dk-not-sqrt"), (8.0, "scale-inverted"), (512**-0.5, "scale-embed-dim"), (0.125, None), (0.3, None)],
)  # fmt: skip
def test_factors_are_named(scale, kind):
    named = named_scale(scale, 64, 512)
    assert (named[1] if named else None) == kind


def test_two_runs_that_are_equal_agree():
    assert diagnose(rows(FALLING), rows([x * (1 + 1e-5) for x in FALLING])).names() == []


def test_two_runs_that_differ_at_the_first_step_point_to_the_first_layer_and_to_layouts():
    other = rows([3.2, *FALLING[1:]], layer=lambda step: {"logit_std": [1.4, 1.5]})
    (symptom,) = diagnose(rows(FALLING), other).symptoms
    assert symptom.name == "runs_disagree"
    assert "the first layer that differs is layer 0 attention, in logit_std" in symptom.title
    assert symptom.causes[0].check == "regard align A B"


def test_two_runs_that_part_later_point_to_the_update():
    (symptom,) = diagnose(rows(FALLING), rows([*FALLING[:4], 1.6, *FALLING[5:]])).symptoms
    assert "part at step 40" in symptom.title
    assert "optimizer" in symptom.causes[0].text


# --- the command ------------------------------------------------------------------------------------------------------


def command(*arguments):
    done = subprocess.run(
        [sys.executable, "-m", "regard", "diagnose", *map(str, arguments)], capture_output=True, text=True, timeout=120
    )
    return done.returncode, done.stdout, done.stderr


@pytest.fixture
def written(tmp_path):
    def write(made, name="run.jsonl", tail=""):
        file = tmp_path / name
        file.write_text("".join(json.dumps(row) + "\n" for row in made) + tail)
        return file

    return write


def test_the_command_prints_what_the_method_gives_as_text_and_as_json(written):
    made = rows(FALLING, validations=[(40, 4.0), (90, 4.1)])
    status, text, _ = command(written(made))
    assert (status, text) == (1, f"{diagnose(made).text()}\n")
    status, text, _ = command(written(made), "--format", "json")
    assert (status, json.loads(text)) == (1, diagnose(made).json())


def test_the_command_exits_with_0_where_nothing_is_found_and_reads_a_file_that_is_still_written(written):
    status, text, _ = command(written(rows(FALLING), tail='{"step": 100, "lo'))
    assert (status, text) == (0, "10 records of 1 attention layer, 91 steps: nothing found.\n")


def test_the_command_compares_two_runs(written):
    status, text, _ = command(written(rows(FALLING)), "--against", written(rows([3.2] * 10), "other.jsonl"))
    assert status == 1
    assert "[runs_disagree]" in text


@pytest.mark.parametrize(
    ("content", "words"),
    [("", "does not begin"), ('{"a": 1}\n', "does not begin"), ("no\n{}\n", "line 1 is not JSON"), ("[1]\n", "line 1 is not an object")],
)  # fmt: skip
def test_files_that_watch_did_not_write_are_refused(tmp_path, content, words):
    from regard.cli_diagnose import diagnose_session

    file = tmp_path / "x.jsonl"
    file.write_text(content)
    with pytest.raises(CaptureError, match=words):
        diagnose_session(file, None, "text")
    with pytest.raises(CaptureError, match="cannot be read"):
        diagnose_session(tmp_path / "none.jsonl", None, "text")
    with pytest.raises(CaptureError, match="'xml' is not one of text, json"):
        diagnose_session(file, None, "xml")


def test_the_command_refuses_with_one_sentence_and_status_2(tmp_path):
    status, out, err = command(tmp_path / "none.jsonl")
    assert (status, out) == (2, "")
    assert err.startswith("regard: ")
    assert len(err.splitlines()) == 1


def test_diagnosing_loads_no_torch(written):
    code = f"""
import sys
from regard.cli_diagnose import diagnose_session
from pathlib import Path
diagnose_session(Path({str(written(rows(FALLING)))!r}), None, "text")
assert "torch" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, timeout=120)
