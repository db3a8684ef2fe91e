"""Test tiers, hypothesis profiles, and where the checking data lies."""

import os
import pathlib

import pytest
from hypothesis import HealthCheck, settings

os.environ.setdefault("MPLBACKEND", "Agg")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

settings.register_profile("ci", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("explore", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile(os.environ.get("REGARD_HYPOTHESIS", "ci"))


def pytest_addoption(parser):
    parser.addoption("--slow", action="store_true", help="also run the tests marked slow")


def pytest_collection_modifyitems(config, items):
    import torch

    for item in items:
        if "slow" in item.keywords and not config.getoption("--slow"):
            item.add_marker(pytest.mark.skip(reason="slow tier: runs with --slow"))
        if "gpu" in item.keywords and not torch.cuda.is_available():
            item.add_marker(pytest.mark.skip(reason="no CUDA device on this machine"))


@pytest.fixture(scope="session")
def check_data() -> pathlib.Path:
    """The folder with cases and real data that is not part of the repository (REGARD_CHECK_DATA, default ../shared)."""
    place = pathlib.Path(os.environ.get("REGARD_CHECK_DATA") or pathlib.Path(__file__).parents[2] / "shared")
    if not (place / "cases").is_dir():
        pytest.skip(f"checking data not found at {place}; set REGARD_CHECK_DATA")
    return place
