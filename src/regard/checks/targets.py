"""From what the user typed to single targets: a folder, a file or a module without a name stands for its candidates.

Nothing is imported here: candidates are found in the text.
"""

from __future__ import annotations

import importlib.machinery
import importlib.util
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from regard.checks.discover import Candidate, definitions, discover
from regard.checks.load import split_target
from regard.checks.report import Report


@dataclass
class Target:
    """One thing to check. `asked` is the position of the argument it came from; `found` says that it was found, not named.

    `report` is there already where nothing needs to run: the file does not exist, or holds no attention.
    """

    spec: str
    asked: int
    found: bool = False
    report: Report | None = None


def expand(arguments: Sequence[str]) -> list[Target]:
    """Single targets in the order of the arguments, each once."""
    targets: list[Target] = []
    for asked, argument in enumerate(arguments):
        targets += _expand(argument, asked)
    seen: set[str] = set()
    return [t for t in targets if not (t.spec in seen or seen.add(t.spec))]


def _expand(argument: str, asked: int) -> list[Target]:
    place, name = split_target(argument)
    path = Path(place)
    if path.is_dir() and not name:
        return _candidates(argument, path, asked)
    if place.endswith(".py") or path.is_file():
        if not path.is_file():
            return [_missing(argument, f"{place} does not exist", asked)]
        return [Target(argument, asked)] if name else _candidates(argument, path, asked)
    if name:
        return [Target(argument, asked)]
    file = locate(place)
    if file is None:
        return [_missing(argument, f"there is no file, folder or module {argument!r}", asked)]
    return _candidates(argument, file, asked, module=place)


def _missing(argument: str, reason: str, asked: int) -> Target:
    return Target(argument, asked, report=Report(argument, "not-loaded", reason))


def _candidates(argument: str, place: Path, asked: int, module: str | None = None) -> list[Target]:
    found, unreadable = discover(place)
    targets = [Target(_spec(c, place, module), asked, found=True) for c in found]
    for bad in unreadable:
        report = Report(str(bad.file), "not-loaded", f"it cannot be read: {bad.reason}")
        targets.append(Target(str(bad.file), asked, found=True, report=report))
    if targets:
        return targets
    names = definitions(place) if place.is_file() else []
    there = f" (it defines {', '.join(names[:12])})" if names else ""
    reason = f"no attention was found in {argument}; name what to check, as in {argument if names else 'file.py'}:Name{there}"
    return [Target(argument, asked, report=Report(argument, "not-exercised", reason))]


def _spec(candidate: Candidate, place: Path, module: str | None) -> str:
    """A candidate of a module is named by module, so that it is imported from where Python would."""
    if module is None:
        return candidate.spec
    if place.is_file():
        return f"{module}:{candidate.name}"
    parts = candidate.file.relative_to(place).with_suffix("").parts
    inner = [p for p in parts if p != "__init__"]
    return f"{'.'.join([module, *inner])}:{candidate.name}"


def locate(dotted: str) -> Path | None:
    """File or folder of a module, found without importing it or its parents; None if there is none with source text."""
    path: list[str] | None = ["", *sys.path]
    spec = None
    for part in dotted.split("."):
        if not part.isidentifier() or path is None:
            return None
        spec = importlib.machinery.PathFinder.find_spec(part, [p or str(Path.cwd()) for p in path])
        if spec is None:
            return None
        path = list(spec.submodule_search_locations) if spec.submodule_search_locations else None
    if spec is None:
        return None
    if path:
        return Path(path[0])
    return Path(spec.origin) if spec.origin and spec.origin.endswith(".py") else None
