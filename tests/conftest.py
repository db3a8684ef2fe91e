"""Test tiers, hypothesis profiles, where the checking data lies, and an honest account of what ran."""

import collections
import os
import pathlib
import shutil

import pytest
from hypothesis import HealthCheck, settings

# Small tensors: a second thread only waits, ten times as long on a busy machine.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("MPLBACKEND", "Agg")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

settings.register_profile("ci", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("explore", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile(os.environ.get("REGARD_HYPOTHESIS", "ci"))

CHECK_DATA = "uses REGARD_CHECK_DATA"  # the property that a test with the fixture check_data carries to the summary
NO_REASON = {"", "Skipped", "unconditional skip", "<Skipped instance>"}  # what pytest writes when nobody said why


def pytest_addoption(parser):
    parser.addoption("--slow", action="store_true", help="also run the tests marked slow")


def missing(item) -> str | None:
    """Why this test cannot or should not run here, or None."""
    if "slow" in item.keywords and not item.config.getoption("--slow"):
        return "slow tier: runs with --slow"
    if "gpu" in item.keywords and not cuda_is_there():
        return "no CUDA device on this machine"
    if "browser" in item.keywords and not (shutil.which("chromium") and shutil.which("chromedriver")):
        return "chromium and chromedriver are not both on PATH"
    return None


def cuda_is_there() -> bool:
    import torch

    return torch.cuda.is_available()


def pytest_collection_modifyitems(items):
    for item in items:
        if reason := missing(item):
            item.add_marker(pytest.mark.skip(reason=reason))
        if "check_data" in getattr(item, "fixturenames", ()):
            item.user_properties.append((CHECK_DATA, True))


@pytest.fixture(scope="session")
def check_data() -> pathlib.Path:
    """The folder with cases and real data that is not part of the repository (REGARD_CHECK_DATA, default ../shared)."""
    place = pathlib.Path(os.environ.get("REGARD_CHECK_DATA") or pathlib.Path(__file__).parents[2] / "shared")
    if not (place / "cases").is_dir():
        pytest.skip("checking data not found; set REGARD_CHECK_DATA to its folder")
    return place


def reason_of(report) -> str:
    """The words after "Skipped:" of a skipped test."""
    text = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    return text.removeprefix("Skipped:").strip()


def account(stats: dict) -> tuple[int, collections.Counter, list[str]]:
    """How many tests ran on the checking data, how many were skipped for which reason, and which gave no reason."""
    ran = [r for kind in ("passed", "failed") for r in stats.get(kind, ()) if getattr(r, "when", "") == "call"]
    skipped = [r for r in stats.get("skipped", ()) if hasattr(r, "longrepr")]
    on_data = sum((CHECK_DATA, True) in map(tuple, r.user_properties) for r in ran)
    reasons = collections.Counter(reason_of(r) for r in skipped)
    return on_data, reasons, [r.nodeid for r in skipped if reason_of(r) in NO_REASON]


def pytest_terminal_summary(terminalreporter):
    on_data, reasons, nameless = account(terminalreporter.stats)
    for reason, count in reasons.most_common():
        terminalreporter.write_line(f"skipped {count}: {reason or '(no reason given)'}")
    for nodeid in nameless:
        terminalreporter.write_line(f"ERROR: {nodeid} is skipped without a reason", red=True)
    terminalreporter.write_line(f"tests that ran on the checking data (REGARD_CHECK_DATA): {on_data}")


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session, exitstatus):
    """A run in which a skip has no reason, or in which every chosen test was skipped, is no success."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if reporter is None or hasattr(session.config, "workerinput") or session.config.option.collectonly:
        return
    ran = sum(len(reporter.stats.get(kind, ())) for kind in ("passed", "failed", "xfailed", "error"))
    if exitstatus == pytest.ExitCode.OK and account(reporter.stats)[2]:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
    elif exitstatus == pytest.ExitCode.OK and not ran:
        session.exitstatus = pytest.ExitCode.NO_TESTS_COLLECTED
