"""The account that tests/conftest.py gives of a run: skips without a reason and runs without a test are no success."""

import pathlib

import pytest

pytest_plugins = ["pytester"]
CONFTEST = pathlib.Path(__file__).with_name("conftest.py")


@pytest.fixture
def run(pytester, monkeypatch):
    """Run a test file under this repository's conftest, and give the result."""
    monkeypatch.delenv("REGARD_CHECK_DATA", raising=False)
    pytester.makeconftest(CONFTEST.read_text(encoding="utf-8"))
    pytester.makeini("[pytest]\nmarkers =\n    slow: s\n    gpu: g\n    browser: b\n")

    def go(source: str, *arguments: str):
        pytester.makepyfile(source)
        return pytester.runpytest_subprocess("-p", "no:xdist", "-p", "no:cacheprovider", *arguments)

    return go


def test_a_skip_with_a_reason_is_counted_under_it(run):
    result = run("import pytest\ndef test_a(): pytest.skip('no moon tonight')\ndef test_b(): pass")
    result.stdout.fnmatch_lines(["skipped 1: no moon tonight"])
    assert result.ret == pytest.ExitCode.OK


@pytest.mark.parametrize("skip", ["pytest.skip()", "pytest.skip('')"])
def test_a_skip_without_a_reason_fails_the_run(run, skip):
    result = run(f"import pytest\ndef test_a(): {skip}\ndef test_b(): pass")
    result.stdout.fnmatch_lines(["ERROR: *::test_a is skipped without a reason"])
    assert result.ret == pytest.ExitCode.TESTS_FAILED


def test_a_skip_mark_without_a_reason_fails_the_run(run):
    result = run("import pytest\n@pytest.mark.skip\ndef test_a(): pass\ndef test_b(): pass")
    assert result.ret == pytest.ExitCode.TESTS_FAILED


def test_a_run_in_which_everything_was_skipped_ran_no_test(run):
    result = run("import pytest\n@pytest.mark.slow\ndef test_a(): pass")
    result.stdout.fnmatch_lines(["skipped 1: slow tier: runs with --slow"])
    assert result.ret == pytest.ExitCode.NO_TESTS_COLLECTED


def test_the_slow_tier_runs_when_asked(run):
    result = run("import pytest\n@pytest.mark.slow\ndef test_a(): pass", "--slow")
    result.assert_outcomes(passed=1)


def test_tests_on_the_checking_data_are_counted_when_they_ran(run, pytester, monkeypatch):
    (pytester.path / "data" / "cases").mkdir(parents=True)
    monkeypatch.setenv("REGARD_CHECK_DATA", str(pytester.path / "data"))
    result = run("def test_a(check_data): assert check_data.name == 'data'\ndef test_b(): pass")
    result.stdout.fnmatch_lines(["tests that ran on the checking data (REGARD_CHECK_DATA): 1"])


def test_tests_on_absent_checking_data_are_skipped_and_not_counted(run, monkeypatch):
    monkeypatch.setenv("REGARD_CHECK_DATA", "nowhere")
    result = run("def test_a(check_data): pass\ndef test_b(): pass")
    result.stdout.fnmatch_lines(
        ["skipped 1: checking data not found*", "tests that ran on the checking data (REGARD_CHECK_DATA): 0"]
    )
