"""The planted bugs: for each rule of the catalogue a file with `wrong()`, its twin `right()`, and the codes that find it."""

from __future__ import annotations

import functools
import importlib.util
import pathlib
import sys
from types import ModuleType

import torch

import regard
from regard.checks.report import Report

FOLDER = pathlib.Path(__file__).parents[1] / "planted"
FILES = {file.stem: file for file in sorted(FOLDER.glob("*.py"))}


@functools.cache
def planted(name: str) -> ModuleType:
    """The file of one rule, by the rule's name."""
    spec = importlib.util.spec_from_file_location(f"planted_{name}", FILES[name])
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # so that its source is found
    spec.loader.exec_module(module)
    return module


def examined(name: str, which: str, **options) -> Report:
    """The report on `wrong` or `right`, its weights drawn from a fixed seed."""
    file = planted(name)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        module = getattr(file, which)()
    return regard.check(module, design=getattr(file, "DESIGN", None), **options)


def asked(name: str) -> set[str]:
    """Codes that find it as a question (a design choice may look the same)."""
    return getattr(planted(name), "ASKED", set())


def loud(report: Report) -> set[str]:
    return {finding.rule for finding in report.findings if finding.level != "question"}


def quiet(report: Report) -> set[str]:
    return {finding.rule for finding in report.findings if finding.level == "question"}
