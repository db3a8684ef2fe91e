"""The protocol of claims: verdicts in both directions, numbers stored seed by seed, resumed, and a page from what is stored only."""

import json
import pathlib
import re
from dataclasses import replace

import pytest
from typer.testing import CliRunner

from regard import cli_experiment
from regard.cli import app
from regard.core.errors import DataError
from regard.recipes.experiments import every, report
from regard.recipes.experiments.claim import (
    CONFIRMED,
    NOT,
    NOT_RUN,
    OPPOSITE,
    PARTLY,
    VERDICTS,
    Claim,
    Found,
    Spread,
    decided,
    equal_within,
    more_by,
)
from regard.recipes.experiments.stored import run_claim, stored, verdict_of


def made(run, **other) -> Claim:
    given = {
        "says": ("a is larger", "a 更大"), "protocol": ("draw", "抽取"), "decides": ("a above b", "a 大于 b"),
        "measured": ("a {a:.1f}, b {b:.1f}", "a 为 {a:.1f}，b 为 {b:.1f}"), "verdict": lambda f: more_by(f, "a", "b", 1), "seeds": 3,
    }  # fmt: skip
    return Claim("toy", run=run, **(given | other))


def rows(*pairs):
    return Found({seed: {"a": a, "b": b} for seed, (a, b) in enumerate(pairs)})


@pytest.mark.parametrize(
    ("found", "verdict"),
    [
        (rows((3, 1), (4, 2), (3, 1)), CONFIRMED),
        (rows((1, 3), (2, 4), (1, 3)), OPPOSITE),
        (rows((9, 1), (4, 2), (1, 2)), NOT),  # a mean of 2.3, but not for every seed
        (rows((1.4, 1), (2.4, 2), (1.4, 1)), NOT),  # for every seed, but too little
    ],
)
def test_a_difference_counts_when_it_is_large_enough_and_has_one_sign_for_every_seed(found, verdict):
    assert more_by(found, "a", "b", 1) == verdict


def test_verdicts_have_three_grades_and_equality_its_limit():
    assert [decided(True), decided(False, True), decided(False)] == [CONFIRMED, PARTLY, NOT]
    assert equal_within(rows((1, 2), (2, 3)), ["a", "b"], 1.0) == CONFIRMED
    assert equal_within(rows((1, 2), (2, 3)), ["a", "b"], 0.9) == NOT


def test_a_number_shows_its_spread_only_where_the_seeds_differ():
    assert f"{Spread([1.0, 2.0, 3.0]):.1f}" == "2.0 ± 1.0"
    assert f"{Spread([2.0, 2.0]):.1f}" == f"{Spread([2.0]):.1f}" == "2.0"


def test_a_run_that_was_cut_short_goes_on_with_the_seed_that_is_missing(tmp_path):
    asked = []

    def run(seed):
        if seed == 2 and 2 not in asked:
            asked.append(2)
            raise KeyboardInterrupt
        asked.append(seed)
        return {"a": 5.0 + seed, "b": 1.0}

    claim = made(run)
    with pytest.raises(KeyboardInterrupt):
        run_claim(claim, tmp_path, print)
    assert asked == [0, 1, 2]
    assert verdict_of(claim, tmp_path)[0] == NOT_RUN
    found = run_claim(claim, tmp_path, print)
    assert asked == [0, 1, 2, 2]
    assert (claim.verdict(found), found["a"].values) == (CONFIRMED, [5.0, 6.0, 7.0])
    run_claim(claim, tmp_path, print, again=True)
    assert asked[4:] == [0, 1, 2]


def test_what_is_stored_says_command_machine_versions_seed_and_date(tmp_path):
    run_claim(made(lambda seed: {"a": 2.0, "b": 1.0}, long=True), tmp_path, print)
    kept = json.loads((tmp_path / "toy.json").read_text())
    assert kept["command"] == "regard experiment run toy --long"
    assert {"cpu", "cores", "system"} == set(kept["machine"])
    assert {"python", "torch"} <= set(kept["versions"])
    assert [run["seed"] for run in kept["runs"]] == [0, 1, 2]
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\d", run["date"]) for run in kept["runs"])


def test_numbers_of_another_protocol_are_not_used(tmp_path):
    claim = made(lambda seed: {"a": 3.0, "b": 1.0})
    run_claim(claim, tmp_path, print)
    changed = replace(claim, protocol=("draw twice", "抽取两次"))
    assert stored(changed, tmp_path) is None
    assert verdict_of(changed, tmp_path)[0] == NOT_RUN


def test_a_file_of_something_else_and_a_missing_package_are_refused(tmp_path):
    claim = made(lambda seed: {"a": 3.0, "b": 1.0})
    (tmp_path / "toy.json").write_text("[]")
    with pytest.raises(DataError, match=r"toy.json was not written by regard experiment run"):
        verdict_of(claim, tmp_path)
    with pytest.raises(DataError, match="toy needs no_such_package; install it"):
        run_claim(replace(claim, needs=("no_such_package",)), tmp_path, print)


@pytest.fixture
def toys(monkeypatch):
    """Three claims in the place of ours: confirmed, not confirmed, and one that was not run."""
    monkeypatch.setattr(every, "GROUPS", {"toys": ("Toys", "玩具")})
    monkeypatch.setattr(report, "GROUPS", {"toys": ("Toys", "玩具")})
    good = made(lambda seed: {"a": 3.0 + seed, "b": 1.0}, drawn={"a": "a", "b": "b"})
    bad = replace(good, name="bad", run=lambda seed: {"a": 1.0, "b": 1.0}, drawn={})
    later = replace(good, name="later", long=True)
    monkeypatch.setattr(every, "groups", lambda: {"toys": [good, bad, later]})
    return {"toys": [good, bad, later]}


def test_the_page_is_written_from_stored_numbers_and_invents_none(tmp_path, toys):
    pytest.importorskip("matplotlib")
    for claim in toys["toys"][:2]:
        run_claim(claim, tmp_path / "numbers", print)
    bench = tmp_path / "bench.json"
    bench.write_text(
        json.dumps({"suites": {"claims": [{"name": "fast", "measured": "2 times", "verdict": "understated"}]}})
    )
    written = report.write(toys, tmp_path / "numbers", tmp_path / "docs", bench)
    assert [path.relative_to(tmp_path).as_posix() for path in written] == [
        "docs/pictures/claims_toy.png", "docs/claims.md", "docs/zh/claims.md",
    ]  # fmt: skip
    english, chinese = (path.read_text(encoding="utf-8") for path in written[1:])
    assert "3 claims: confirmed 1; not confirmed here 1; not run yet 1." in english
    assert "| a is larger | a 4.0 ± 1.0, b 1.0 | confirmed |" in english
    assert "| a is larger | no numbers yet | not run yet |" in english
    assert "| fast | 2 times | understated |" in english
    assert "`regard experiment run later --long`" in english
    assert "](pictures/claims_toy.png)" in english
    assert "| a 更大 | a 为 4.0 ± 1.0，b 为 1.0 | 证实 |" in chinese
    assert "| fast | 2 times | 低估 |" in chinese
    assert "](../pictures/claims_toy.png)" in chinese


def test_two_of_three_seeds_are_no_verdict(tmp_path, toys):
    good = toys["toys"][0]
    run_claim(replace(good, seeds=2), tmp_path, print)
    page = report.page(toys, tmp_path, "en", [], set())
    assert "| a is larger | 2 of 3 seeds so far, no verdict | not run yet |" in page


def invoke(*words):
    return CliRunner().invoke(app, ["experiment", *words])


def test_the_command_lists_runs_and_reports(tmp_path, toys, monkeypatch):
    monkeypatch.setattr(cli_experiment, "BENCH", tmp_path / "absent.json")
    numbers = ["--results", str(tmp_path)]
    assert "toy    not run yet" in invoke("list", *numbers).output
    done = invoke("run", "all", *numbers)
    assert done.exit_code == 0
    assert "toy: confirmed. a 4.0 ± 1.0, b 1.0" in done.output
    assert "bad: not confirmed here." in done.output
    assert "not run without --long: later" in done.output
    assert "done before" in invoke("run", "toy", *numbers).output
    assert re.search(r"toy +confirmed +a is larger", invoke("list", *numbers).output)
    assert "docs/claims.md" in invoke("report", *numbers, "--docs", str(tmp_path / "docs")).output


def test_a_wrong_name_lists_the_names_and_a_wrong_word_the_words(tmp_path, toys):
    wrong = invoke("run", "toys", "--results", str(tmp_path))
    assert wrong.exit_code == 2
    assert "there is no experiment 'toys'; there are all, toy, bad, later" in wrong.output
    assert "which experiment? there are all, toy" in invoke("run").output
    assert "regard experiment walk: it is one of list, run, report" in invoke("walk").output
    assert "regard experiment list takes no names; got toy" in invoke("list", "toy").output


def test_ctrl_c_says_how_to_go_on_and_one_failure_does_not_end_the_list(tmp_path, toys, monkeypatch):
    def stopped(seed):
        raise KeyboardInterrupt

    first = toys["toys"][0]
    monkeypatch.setattr(every, "groups", lambda: {"toys": [replace(first, run=stopped)]})
    done = invoke("run", "toy", "--results", str(tmp_path))
    assert done.exit_code == 130
    assert "the same command goes on" in done.output
    absent = replace(first, name="absent", needs=("no_such_package",))
    monkeypatch.setattr(every, "groups", lambda: {"toys": [absent, first]})
    done = invoke("run", "all", "--results", str(tmp_path))
    assert done.exit_code == 2
    assert "absent: could not be run: absent needs no_such_package" in done.output
    assert "toy: confirmed" in done.output


def test_every_claim_is_told_in_both_languages_and_has_a_name_of_its_own():
    known = [claim for group in every.groups().values() for claim in group]
    assert len({claim.name for claim in known}) == len(known) >= 24
    chinese = re.compile("[一-鿿]")
    assert set(every.NOTES) <= set(every.GROUPS)
    for claim in known:
        for both in (claim.says, claim.protocol, claim.decides, claim.measured, claim.source):
            assert chinese.search(both[1]), claim.name
            assert not chinese.search(both[0]), claim.name
        fields = [set(re.findall(r"{(\w+):", text)) for text in claim.measured]
        assert fields[0] == fields[1], claim.name


def test_every_stored_result_in_the_repository_belongs_to_a_claim_and_fills_its_sentences():
    folder = pathlib.Path(__file__).parents[2] / "docs" / "claims"
    known = every.claims()
    names = {path.stem for path in folder.glob("*.json")}
    assert names <= set(known)
    for name in names:
        verdict, found = verdict_of(known[name], folder)
        assert verdict in VERDICTS
        assert found is not None, f"{name} was measured under another protocol; run it again"
        for text in known[name].measured:
            assert text.format_map(found.spreads)
        assert set(known[name].drawn.values()) <= set(found.spreads)
