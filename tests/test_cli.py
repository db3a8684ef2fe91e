"""The command line: what goes to stdout, what to stderr, and the exit status; bad input is one sentence and status 2."""

import json
import sys

import pytest
from typer.testing import CliRunner

from regard import cli_check
from regard.checks.report import Finding, Outcome, Report
from regard.cli import app

ATTENTION = "class {}Attention:\n    def forward(self, x):\n        return x\n"
WARNING = "regard runs the code it checks, with your rights, in other processes with limits; it is no sandbox."


@pytest.fixture(autouse=True)
def project(tmp_path, monkeypatch):
    """An empty project as the current folder, with a file of two candidates."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    (tmp_path / "pyproject.toml").write_text("")
    (tmp_path / "model.py").write_text(ATTENTION.format("One") + ATTENTION.format("Two"))
    return tmp_path


@pytest.fixture
def runs(monkeypatch):
    """Replaces the processes: a target's name says how it fares. The options that arrive are kept."""
    seen = []

    def run(targets, options):
        seen.append((list(targets), options))
        for i, target in enumerate(targets):
            if "Interrupt" in target:
                raise KeyboardInterrupt
            yield i, fared(target)

    monkeypatch.setattr(cli_check, "run", run)
    return seen


def fared(target):
    if "Unbuilt" in target:
        return Report(target, "not-exercised", "no call runs")
    outcomes = [
        Outcome("ATT201", "future_leak", "passed", seconds=0.5),
        Outcome("ATT301", "batch_independence", "passed"),
    ]
    report = Report(target, outcomes=outcomes, seconds=1.5)
    for level, word in (("error", "Broken"), ("warning", "Odd"), ("question", "Asks")):
        if word in target:
            report.findings = [
                Finding("ATT301", "batch_independence", level, "item 0 sees item 1", measured=float("nan"))
            ]
            outcomes[1].result = "question" if level == "question" else "failed"
    return report


def regard(*arguments):
    return CliRunner().invoke(app, [str(a) for a in arguments])


def write(name, *classes):
    from pathlib import Path

    path = Path(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(ATTENTION.format(c) for c in classes))


@pytest.mark.parametrize(
    ("targets", "status"),
    [
        (["model.py:Fine"], 0),
        (["model.py:Odd"], 0),
        (["model.py:Asks"], 0),
        (["model.py:Broken"], 1),
        (["model.py:Unbuilt"], 2),
        (["model.py:Unbuilt", "model.py:Broken"], 1),
        (["model.py:Fine", "model.py:Unbuilt"], 2),
        (["some"], 0),
        (["none"], 2),
        (["some", "none"], 2),
        (["empty"], 2),
        (["gone.py"], 2),
    ],
)
def test_the_exit_status_is_1_for_an_error_and_2_for_what_was_not_exercised(runs, project, targets, status):
    write("some/a.py", "Fine", "Unbuilt")
    write("none/a.py", "Unbuilt")
    (project / "empty").mkdir()
    assert regard("check", *targets).exit_code == status


def test_strict_wants_every_target_exercised(runs):
    write("some/a.py", "Fine", "Unbuilt")
    assert regard("check", "some").exit_code == 0
    assert regard("check", "some", "--strict").exit_code == 2


def test_json_is_one_array_with_one_object_per_target_and_nothing_else_on_stdout(runs):
    result = regard("check", "model.py:Broken", "gone.py", "model.py:Fine", "--format", "json")
    reports = json.loads(result.stdout, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))
    assert [r["target"] for r in reports] == ["model.py:Broken", "gone.py", "model.py:Fine"]
    assert [r["status"] for r in reports] == ["checked", "not-loaded", "checked"]
    assert reports[1]["reason"] == "gone.py does not exist"
    assert set(reports[0]["counts"]) == {"checks", "passed", "failed", "questions", "not_exercised"}
    finding = reports[0]["findings"][0]
    expected = {"rule", "name", "kind", "level", "message", "where", "measured", "allowed", "example", "cause", "fix"}
    assert expected <= set(finding)
    assert (finding["rule"], finding["measured"]) == ("ATT301", "nan")
    assert result.stderr == WARNING + "\n"


def test_that_code_is_run_is_said_once_on_stderr(runs):
    result = regard("check", "model.py:A", "model.py:B")
    assert result.stderr.count("no sandbox") == 1
    assert "sandbox" not in result.stdout


def test_text_ends_with_the_counts_of_all_targets(runs):
    result = regard("check", "model.py:Broken", "model.py:Unbuilt", "model.py:Asks")
    last = result.stdout.splitlines()[-1]
    assert last == "3 targets, 2 checked, 1 not: 1 error, 0 warnings, 1 question"
    assert "NOT CHECKED  model.py:Unbuilt" in result.stdout


def test_reports_come_in_the_order_of_the_targets_whatever_ends_first(runs, monkeypatch):
    def backwards(targets, options):
        yield from [(i, fared(t)) for i, t in enumerate(targets)][::-1]

    monkeypatch.setattr(cli_check, "run", backwards)
    reports = json.loads(regard("check", "model.py:C", "model.py:A", "model.py:B", "--format", "json").stdout)
    assert [r["target"] for r in reports] == ["model.py:C", "model.py:A", "model.py:B"]


def test_an_interrupted_run_prints_what_was_done_and_names_the_rest(runs):
    result = regard("check", "model.py:Fine", "model.py:Interrupt", "model.py:Later", "--format", "json")
    reports = json.loads(result.stdout)
    assert [(r["status"], r["reason"]) for r in reports] == [
        ("checked", ""),
        ("not-exercised", "interrupted (Ctrl-C)"),
        ("not-exercised", "interrupted (Ctrl-C)"),
    ]
    assert result.exit_code == 2


def test_a_file_stands_for_its_candidates_and_each_is_checked_once(runs):
    regard("check", "model.py", "model.py:OneAttention")
    assert runs[0][0] == ["model.py:OneAttention", "model.py:TwoAttention"]


def test_a_module_without_a_name_is_read_and_not_imported(runs, project, monkeypatch):
    write("elsewhere/thing/inner.py", "Deep")
    (project / "elsewhere" / "thing" / "__init__.py").write_text("raise SystemExit")
    monkeypatch.syspath_prepend(str(project / "elsewhere"))
    regard("check", "thing.inner", "thing")
    assert runs[0][0] == ["thing.inner:DeepAttention"]
    assert "thing" not in sys.modules


def test_options_reach_the_processes(runs, project):
    (project / "d.toml").write_text("[design]\ncausal = true\n")
    regard(
        *("check", "model.py:A", "--init", "heads=8", "--init", "mode=fast", "--init", "size=(7, 7)", "--seed", "5"),
        *("--select", "ATT3,ATT2", "--ignore", "future_leak", "--timeout", "7", "--memory", "512MB", "--jobs", "3"),
        *("--design", "d.toml"),
    )
    options = runs[0][1]
    assert options.init == {"heads": "8", "mode": "'fast'", "size": "(7, 7)"}
    assert (options.select, options.ignore, options.seed) == (("ATT3", "ATT2"), ("future_leak",), 5)
    assert (options.timeout, options.memory, options.parallel, options.design) == (7.0, 512 << 20, 3, "d.toml")


def test_targets_may_come_from_pyproject(runs, project):
    (project / "pyproject.toml").write_text('[tool.regard.check]\ntargets = ["model.py:TwoAttention"]\n')
    assert regard("check").exit_code == 0
    assert runs[0][0] == ["model.py:TwoAttention"]


@pytest.mark.parametrize("format", ["json", "sarif", "github", "junit", "text"])
def test_out_writes_the_report_to_a_file_instead(runs, project, format):
    result = regard("check", "model.py:Broken", "--format", format, "--out", "report")
    assert result.stdout == ""
    assert "batch_independence" in (project / "report").read_text()
    assert result.exit_code == 1


def test_the_slowest_rules_are_printed(runs):
    lines = regard("check", "model.py:Fine", "--durations", "1").stdout.splitlines()
    assert "Slowest 1 of 2 checks" in lines
    assert "    0.500 s  ATT201 future_leak  model.py:Fine" in lines


def test_a_baseline_fails_only_what_is_new(runs):
    assert regard("check", "model.py:Broken", "--format", "json", "--out", "known.json").exit_code == 1
    same = regard("check", "./model.py:Broken", "--baseline", "known.json")
    assert same.exit_code == 0
    assert "waived      ATT301 batch_independence: known in known.json" in same.stdout
    assert regard("check", "model.py:Broken", "model.py:AlsoBroken", "--baseline", "known.json").exit_code == 1


def test_a_waiver_on_the_command_line_needs_a_reason_and_a_finding(runs):
    assert regard("check", "model.py:Broken", "--waive", "ATT301=kept for old checkpoints").exit_code == 0
    assert regard("check", "model.py:Broken", "--waive", "ATT301=").exit_code == 1
    unused = regard("check", "model.py:Fine", "--waive", "ATT301=kept for old checkpoints")
    assert unused.exit_code == 1


def test_a_waiver_in_pyproject_counts(runs, project):
    (project / "pyproject.toml").write_text('[tool.regard.check.waivers]\n"model.py:Broken" = { ATT301 = "old" }\n')
    assert regard("check", "model.py:Broken").exit_code == 0


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (
            ["check"],
            "there is nothing to check: name a TARGET, or list some in [tool.regard.check] targets of pyproject.toml",
        ),
        (["check", "m.py:A", "--init", "heads"], "--init 'heads' is not NAME=VALUE; write for example --init heads=8"),
        (
            ["check", "m.py:A", "--init", "8=heads"],
            "--init '8=heads' is not NAME=VALUE; write for example --init heads=8",
        ),
        (
            ["check", "m.py:A", "--init", "size=(7"],
            "--init 'size=(7': '(7' is no Python literal; quote it for the shell, as in --init 'size=(7, 7)'",
        ),
        (["check", "m.py:A", "--select", "XYZ"], "no rule begins with 'XYZ'; `regard rule` lists the "),
        (["check", "m.py:A", "--ignore", "XYZ"], "no rule begins with 'XYZ'; `regard rule` lists the "),
        (["check", "m.py:A", "--design", "gone.toml"], "gone.toml does not exist"),
        (["check", "m.py:A", "--design", "model.py"], "model.py is no TOML: "),
        (
            ["check", "m.py:A", "--baseline", "gone.json"],
            "there is no baseline gone.json; write one with `regard check TARGET",
        ),
        (
            ["check", "m.py:A", "--baseline", "model.py"],
            "model.py is not a report of regard (JSONDecodeError); write one with",
        ),
        (["check", "m.py:A", "--format", "xml"], "--format 'xml' is not known; it is text, json, sarif, github, junit"),
        (
            ["check", "m.py:A", "--out", "gone/report.txt"],
            "--out gone/report.txt cannot be written: the folder gone does not exist",
        ),
        (["check", "m.py:A", "--memory", "much"], "--memory 'much' is no size; write for example --memory 4GB"),
        (["check", "m.py:A", "--timeout", "0"], "--timeout is 0; it must be more than 0 seconds"),
        (["check", "m.py:A", "--jobs", "-1"], "--jobs is -1; it must be 0 or more"),
        (["check", "m.py:A", "--waive", "ATT301"], "--waive 'ATT301' says no reason; write --waive ATT301='why'"),
        (["rule", "ATT999"], "there is no rule 'ATT999'; `regard rule` lists the "),
        (["list", "gone"], "gone does not exist"),
        (
            ["explain", "model.py"],
            "model.py holds 2 candidates; explain one of model.py:OneAttention, model.py:TwoAttention",
        ),
    ],
)
def test_bad_input_is_one_sentence_on_stderr_and_status_2(runs, arguments, sentence):
    result = regard(*arguments)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr.startswith(f"regard: {sentence}")
    assert result.stderr.count("\n") == 1 or "TOML" in result.stderr


def test_an_unreadable_pyproject_is_said(runs, project):
    (project / "pyproject.toml").write_text("[tool.regard.check]\ntargets = 3\n")
    result = regard("check", "model.py:A")
    assert (result.exit_code, result.stderr) == (
        2,
        f"regard: [tool.regard.check] targets in {project / 'pyproject.toml'} must be a list of texts\n",
    )


def test_list_names_places_and_reasons():
    result = regard("list", "model.py")
    assert result.stdout.splitlines() == [
        "model.py:1: class OneAttention (named)",
        "model.py:4: class TwoAttention (named)",
    ]
    assert result.stderr == "2 found, 0 files could not be read\n"


def test_rule_lists_every_rule_of_the_catalogue_and_prints_pages():
    from regard.checks.rule import catalog

    listed = [line.split()[:2] for line in regard("rule").stdout.splitlines()]
    others = [["ATT001", "waiver_without_reason"], ["ATT002", "waiver_unused"], ["ATT003", "sharded_equals_single"]]
    assert listed == others + [[r.code, r.name] for r in catalog()]
    for rule in catalog():
        page = regard("rule", rule.code).stdout
        assert page.startswith(f"# {rule.code} {rule.name}\n")
        assert rule.doc in page
    assert regard("rule", "waiver_unused").stdout == regard("rule", "att002").stdout
