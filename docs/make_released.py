"""What the checker finds in released packages: installs them, checks every attention class, and writes the page.

The list was written down before the first run: attention packages of the registry that need torch, numpy, einops and little
else, by as many authors as we found; five are by one author, whose packages are the most used ones. Nothing of theirs enters
this repository.

    python docs/make_released.py install FOLDER            # pip install --no-deps, each into a folder of its own
    python docs/make_released.py check FOLDER [PACKAGE...] # writes docs/released/results.json as results come
    python docs/make_released.py check FOLDER --again      # only what was not exercised, or said an error or a warning
    python docs/make_released.py confirm FOLDER...         # runs the scripts in docs/released/
    python docs/make_released.py page                      # writes docs/released.md

With --held-out, install and check take the packages that no rule was tried on, and write docs/released/held_out.json.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import distributions
from pathlib import Path
from typing import Any

from regard.checks.discover import Candidate, discover
from regard.checks.report import Report
from regard.checks.run import Options, run

HERE = Path(__file__).parent / "released"
RESULTS, HELD_OUT_RESULTS = HERE / "results.json", HERE / "held_out.json"
CONFIRMED = HERE / "confirmed.json"
SECONDS = 300.0  # for one class, on a machine that others use
AT_ONCE = int(os.environ.get("AT_ONCE", "1"))  # classes checked side by side

PACKAGES = {  # distribution -> author
    "vit-pytorch": "Phil Wang",
    "x-transformers": "Phil Wang",
    "local-attention": "Phil Wang",
    "performer-pytorch": "Phil Wang",
    "reformer-pytorch": "Phil Wang",
    "linformer-pytorch": "Peter Tatkowski",
    "attnhut": "Emmanuel G. Maminta",
    "fightingcv-attention": "fightingcv",
    "torch-multi-head-attention": "CyberZHG",
    "self-attention-cv": "Nikolas Adaloglou",
    "torch-attention": "changzy00",
    "vformer": "Neelay Shah",
    "swin-transformer-pytorch": "Bernhard Walser",
    "attzoo": "attzoo",
    "aft-pytorch": "Rishabh Anand",
    "grouped-query-attention-pytorch": "Frank Odom",
    "stackformers": "Vadym Stupakov",
    "bio-attention": "Gaetan Dewael",
    "slot-attention-pytorch": "mikedev",
    "area-attention": "Mikołaj Małkiński",
    "gaussian-adaptive-attention": "Georgios Ioannides",
    "curated-transformers": "Explosion",
    "multihead-latent-attention": "Farhan Mohammed",
    "retnet-torch": "juvi21",
    "differential-transformer": "Kye Gomez",
    "ane-transformers": "Apple",
    "vision-transformer-pytorch": "Zhang Zhi",
    "x-metaformer": "Robert Müller",
}
HELD_OUT = {  # chosen when the rules had been improved on all of the above, and written down before they were run
    "attn-res": "Kye Gomez",
    "channel-attention": "whenxuan",
    "bsbr": "bsbr",
    "attention-smithy": "Caleb Cranney",
    "compositional-attention": "Rishit Dagli",
    "aft-pt": "Shen Dezhou",
    "adn-torch": "Andrei-Cristian Rad",
    "aoa-torch": "Kye Gomez",
    "coda-gqa-l": "Anthony Maio",
    "complex-attn": "Kye Gomez",
    "axial-attention": "Phil Wang",
    "agent-attention-pytorch": "Phil Wang",
    "nystrom-attention": "Phil Wang",
    "bidirectional-cross-attention": "Phil Wang",
}
NEEDED = (
    "einops", "einx", "frozendict", "torch-einops-utils", "hyper-connections", "axial-positional-embedding",
    "product-key-memory", "loguru", "rotary-embedding-torch", "beartype", "jaxtyping", "wadler-lindig", "pydantic",
    "pydantic-core", "annotated-types", "typing-inspection", "torchscale", "catalogue", "curated-tokenizers", "colt5-attention", "path",
)  # fmt: skip


def install(folder: Path, packages: dict[str, str]) -> None:
    """Each package into FOLDER/NAME, and what they import into FOLDER/_needed; never torch."""
    for name in (*packages, *NEEDED):
        place = folder / ("_needed" if name in NEEDED else name)
        command = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-compile", "-t", str(place), name]
        subprocess.run(command, check=False)


def version(place: Path, name: str) -> str | None:
    """The installed version, or None where the registry had nothing to install."""
    wanted = name.lower().replace("_", "-")
    found = [d for d in distributions(path=[str(place)]) if d.metadata["Name"].lower().replace("_", "-") == wanted]
    return found[0].version if found else None


def own_candidates(place: Path) -> Iterator[Candidate]:
    """Attention classes and functions of a package, tests and examples left out."""
    for candidate in discover(place)[0] if place.is_dir() else []:
        if not {"tests", "test", "examples", "scripts"} & set(candidate.file.relative_to(place).parts):
            yield candidate


def check(folder: Path, packages: list[str], file: Path, again: bool) -> None:
    """Check every candidate in a process of its own and keep the results after each."""
    results = json.loads(file.read_text()) if file.is_file() else {}
    folder = folder.resolve()
    os.environ["PYTHONPATH"] = os.pathsep.join(
        [str(folder / "_needed"), str(folder / "local-attention"), os.environ.get("PYTHONPATH", "")]
    )
    targets: list[tuple[str, str, Candidate]] = []
    for package in packages:
        place = folder / package
        entry = results.setdefault(package, {"classes": {}})
        entry["version"] = version(place, package)
        found = {f"{c.file.relative_to(place)}:{c.name}": c for c in own_candidates(place)}
        entry["classes"] = {
            k: v for k, v in entry["classes"].items() if k in found
        }  # what is no candidate any more goes
        for key, c in found.items():
            if not (again and quiet(entry["classes"].get(key, {}))):
                targets.append((package, key, c))
    options = Options(timeout=SECONDS, parallel=AT_ONCE)
    for done, (position, report) in enumerate(run([c.spec for _, _, c in targets], options), 1):
        package, key, candidate = targets[position]
        results[package]["classes"][key] = summary(report, candidate, folder / package)
        file.write_text(json.dumps(results, indent=1, ensure_ascii=False, sort_keys=True) + "\n")
        print(
            f"{done}/{len(targets)} {package} {key}: {report.status} {[(f.rule, f.level) for f in report.findings]}",
            flush=True,
        )


def quiet(known: dict[str, Any]) -> bool:
    """Was it exercised, with at most questions?"""
    return known.get("status") == "checked" and all(f["level"] == "question" for f in known["findings"])


def summary(report: Report, candidate: Candidate, place: Path) -> dict[str, Any]:
    """What is kept of a report: no path of this machine, and no code of the package."""

    def plain(text: Any) -> Any:
        return re.sub(r"\S*/(?=[^/]+\.py)", "", str(text).replace(f"{place}/", "")) if isinstance(text, str) else text

    wanted = ("rule", "name", "level", "kind", "message", "measured", "allowed", "example")
    findings = [{k: plain(v) for k, v in f.to_dict().items() if k in wanted and v is not None} for f in report.findings]
    out = {"line": candidate.line, "why": candidate.why, "status": report.status, "findings": findings}
    if report.status != "checked":
        out["reason"] = plain(report.reason)
    else:
        out["passed"] = report.counts["passed"]
        out["seconds"] = round(report.seconds, 1)
    return out


def confirm(folders: list[Path]) -> None:
    """Run every script in docs/released/ with the packages on the path; keep the last line that each prints."""
    places = [str(p) for folder in folders for p in sorted(folder.resolve().iterdir()) if p.is_dir()]
    said: dict[str, dict[str, Any]] = {}
    for script in sorted(HERE.glob("*.py")):
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(places), "OMP_NUM_THREADS": "1"}
        done = subprocess.run([sys.executable, str(script)], env=environment, capture_output=True, text=True)
        lines = done.stdout.strip().splitlines() or ["nothing printed"]
        said[script.name] = {"confirmed": done.returncode == 0, "said": lines[-1]}
        print(script.name, said[script.name])
    CONFIRMED.write_text(json.dumps(said, indent=1, ensure_ascii=False, sort_keys=True) + "\n")


def main(arguments: list[str]) -> None:
    """One sub-command, as in this file's head."""
    command, *rest = arguments or ["help"]
    flags, names = {a for a in rest if a.startswith("--")}, [a for a in rest if not a.startswith("--")]
    held_out = "--held-out" in flags
    packages = HELD_OUT if held_out else PACKAGES
    if command == "install":
        install(Path(names[0]), packages)
    elif command == "check":
        file = HELD_OUT_RESULTS if held_out else RESULTS
        check(Path(names[0]), names[1:] or list(packages), file, "--again" in flags)
    elif command == "confirm":
        confirm([Path(name) for name in names])
    elif command == "page":
        from released_page import write_pages  # beside this file

        write_pages(Path(__file__).parent, PACKAGES, HELD_OUT)
    else:
        print(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])
