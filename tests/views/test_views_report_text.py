"""The text report: 80 columns, no colour needed, nothing that was not exercised looks right."""

import io

import pytest
from rich.console import Console

from regard.checks.report import Finding, Outcome, Report
from regard.views.report_text import number, write_inferred, write_report, write_summary


def text(write, *arguments, width=80, **options):
    console = Console(file=io.StringIO(), width=width, highlight=False, color_system=None)
    write(*arguments, console, **options)
    return console.file.getvalue()


@pytest.fixture
def broken(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "model.py").write_text("import torch\n\nclass A:\n    scores = q @ k / 64  # [seed]\n")
    finding = Finding(
        *("ATT401", "scale", "error", "The scores are divided by the model width, 64, where the head has 16 channels."),
        kind="scale-embed-dim",
        where=f"{tmp_path / 'model.py'}:4",
        measured=0.015625,
        allowed=0.25,
        example="batch 1, length 2",
        cause="`dim` is read where `head_dim` is meant",
        fix="divide by the square root of the head's width",
        diff="- scores = q @ k / 64\n+ scores = q @ k / 4",
        script="import torch\nprint(" + "1" * 90 + ")",
    )
    outcomes = [
        Outcome("ATT401", "scale", "failed"),
        Outcome("ATT201", "future_leak", "not-exercised", "tokens have no order"),
        Outcome("ATT202", "cache", "not-exercised", "tokens have no order"),
        Outcome("ATT301", "batch_independence", "passed"),
    ]
    inferred = {"inputs": {n: {"source": "x", "layout": "BLD", "shape": [3, 7, 32]} for n in ("query", "key")}}
    return Report("model.py:A", inferred=inferred, findings=[finding], outcomes=outcomes, seconds=1.25)


def test_a_finding_shows_all_that_is_known_in_a_fixed_order(broken):
    assert text(write_report, broken) == (
        "ERROR  model.py:A  (1.2 s)\n"
        "\n"
        "  ERROR  ATT401 scale\n"
        "    The scores are divided by the model width, 64, where the head has 16\n"
        "    channels.\n"
        "    input       batch 1, length 2\n"
        "    measured    0.0156, allowed 0.25\n"
        "    call        query=x (3, 7, 32) BLD, key=x\n"
        "    where       model.py:4\n"
        "                4 | scores = q @ k / 64  # [seed]\n"
        "    cause       `dim` is read where `head_dim` is meant\n"
        "    fix         divide by the square root of the head's width\n"
        "    diff        - scores = q @ k / 64\n"
        "                + scores = q @ k / 4\n"
        "    script      import torch\n"
        f"                print({'1' * 90})\n"
        "    more        regard rule ATT401\n"
        "\n"
        "    not run     ATT201, ATT202: tokens have no order\n"
        "    counts      4 checks: 1 passed, 1 failed, 0 questions, 2 not exercised\n"
        "\n"
    )


@pytest.mark.parametrize("width", [40, 80, 200])
def test_paragraphs_keep_to_the_width_and_code_is_never_broken(broken, width):
    lines = text(write_report, broken, width=width).splitlines()
    assert max(len(line) for line in lines if "111" not in line) <= max(width, 60)
    assert any("1" * 90 in line for line in lines)
    assert not any(line != line.rstrip() for line in lines)


def test_wide_letters_count_twice():
    report = Report("m:A", "not-exercised", "注意力" * 20)
    assert max(len(line) for line in text(write_report, report).splitlines()[1:]) <= 16 + 32


def test_colour_is_never_the_only_sign(broken):
    console = Console(file=io.StringIO(), width=80, highlight=False, color_system="standard", force_terminal=True)
    write_report(broken, console)
    import re

    assert re.sub(r"\x1b\[[0-9;]*m", "", console.file.getvalue()) == text(write_report, broken)


@pytest.mark.parametrize(
    ("report", "head"),
    [
        (Report("m:A", outcomes=[Outcome("ATT301", "n", "passed")]), "ok  m:A"),
        (Report("m:A", outcomes=[Outcome("ATT301", "n", "not-exercised", "why")]), "NOTHING PASSED  m:A"),
        (Report("m:A", "not-exercised", "no call runs"), "NOT CHECKED  m:A"),
        (Report("m:A", "not-loaded", "no file"), "NOT CHECKED  m:A"),
        (Report("m:A", findings=[Finding("ATT301", "n", "warning", "odd")]), "WARNING  m:A"),
        (
            Report(
                "m:A", findings=[Finding("ATT301", "n", "question", "?")], outcomes=[Outcome("ATT201", "n", "passed")]
            ),
            "QUESTION  m:A",
        ),
    ],
)
def test_the_verdict_of_a_target_is_a_word(report, head):
    assert text(write_report, report).startswith(head)


def test_a_waived_finding_is_named_with_its_reason():
    report = Report(
        "m:A", outcomes=[Outcome("ATT301", "n", "waived")], waived=[Finding("ATT301", "n", "error", "x", waived="old")]
    )
    out = text(write_report, report)
    assert "    waived      ATT301 n: old\n" in out
    assert "0 failed, 0 questions, 0 not exercised, 1 waived" in " ".join(out.split())


def test_the_summary_counts_everything_and_lists_what_was_not_checked(broken):
    reports = [broken, Report("m:B", "not-exercised", "no call runs"), Report("m:C", "not-loaded", "no file")]
    out = text(lambda r, c: write_summary(r, c), reports)
    assert out == (
        "Not checked: 2 of 3 targets\n"
        "                m:B: no call runs\n"
        "                m:C: no file\n"
        "\n"
        "3 targets, 1 checked, 2 not: 1 error, 0 warnings, 0 questions\n"
    )


@pytest.mark.parametrize(
    ("value", "shown"), [(0.123456, "0.123"), (3, "3"), (True, "True"), ("nan", "nan"), (1e-9, "1e-09")]
)
def test_numbers_have_three_digits(value, shown):
    assert number(value) == shown


def test_explain_says_what_was_found_and_what_was_looked_for_in_vain():
    inferred = {
        "inputs": {"x": {"source": "x", "layout": "BLD", "shape": (3, 7, 32)}},
        "causal": False,
        "masks": [{"argument": "mask", "works": True}],
        "cache": None,
        "random_in_eval": True,
    }
    out = text(write_inferred, Report("m:A", inferred=inferred, notes=["mask argument bias was not exercised"]))
    assert out == (
        "CALLED  m:A\n"
        "    call        x=x (3, 7, 32) BLD\n"
        "    causal      no\n"
        "    masks       argument=mask, works=yes\n"
        "    cache       none found\n"
        "    random eval yes\n"
        "    note        mask argument bias was not exercised\n"
    )
    assert text(write_inferred, Report("m:A", "not-exercised", "no call runs")).startswith(
        "NOT CALLED  m:A\n    reason "
    )
