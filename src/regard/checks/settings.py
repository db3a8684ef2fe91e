"""What a project says of its checks in pyproject.toml: `[tool.regard.check]` with `targets` and `waivers`."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from regard.core.errors import DesignError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


@dataclass
class Settings:
    """`folder` is where pyproject.toml lies: paths in it start there."""

    folder: Path
    targets: list[str] = field(default_factory=list)
    waivers: dict[str, Any] = field(default_factory=dict)


def read_toml(file: Path) -> dict[str, Any]:
    """A TOML file as a dict. Raises DesignError, with the line, when there is none or it cannot be read."""
    if not file.is_file():
        raise DesignError(f"{file} does not exist")
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise DesignError(f"{file} is no TOML: {error}") from error


def read_settings(start: Path) -> Settings:
    """The settings of the nearest pyproject.toml at or above `start`; empty when there is none or it says nothing.

    Raises:
        DesignError: the file or its table cannot be read.
    """
    for folder in (start, *start.parents):
        file = folder / "pyproject.toml"
        if file.is_file():
            return settings_of(file)
    return Settings(start)


def settings_of(file: Path) -> Settings:
    """The settings in one pyproject.toml. Raises DesignError when they are not of the right kind."""
    table = read_toml(file).get("tool", {}).get("regard", {}).get("check", {})
    targets, waived = table.get("targets", []), table.get("waivers", {})
    if not isinstance(targets, list) or not all(isinstance(t, str) for t in targets):
        raise DesignError(f"[tool.regard.check] targets in {file} must be a list of texts")
    if not isinstance(waived, dict):
        raise DesignError(f"[tool.regard.check.waivers] in {file} must be a table")
    return Settings(file.parent, [_from_here(t, file.parent) for t in targets], waived)


def _from_here(target: str, folder: Path) -> str:
    """A path in the file starts at the file's folder; module names stay as they are."""
    place = target.partition(":")[0]
    inside = folder / place
    if (place.endswith(".py") or inside.is_dir()) and folder != Path.cwd():
        return f"{inside}{target[len(place) :]}"
    return target


def declaration(file: Path, name: str) -> dict[str, Any]:
    """What a design file says of the class `name`: the table of that name, else `[design]`, else the whole file."""
    data = read_toml(file)
    table = data.get(name, data.get("design", data))
    if not isinstance(table, dict):
        raise DesignError(f"{file}: {name!r} is not a table of declarations")
    return table
