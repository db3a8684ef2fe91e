"""How many small mistakes in our own code does `regard check` notice? One child process per mutant, nothing written to disk.

scripts/mutants                  # a seeded sample of 60
scripts/mutants --count 200 --seed 1
scripts/mutants --all --only regard.nn.kv_cache
"""

from __future__ import annotations

import argparse
import collections
import importlib.abc
import importlib.util
import json
import os
import random
import select
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT / "src"), str(Path(__file__).parent)]

from operators import Mutant, mutants  # noqa: E402
from outputs import Outputs, first_difference  # noqa: E402
from subjects import FILES, SUBJECTS, first_input  # noqa: E402

SECONDS = 120.0  # for one mutant on a busy machine; beyond, it hangs


def file_of(module: str) -> Path:
    return ROOT / "src" / (module.replace(".", "/") + ".py")


class Lines:
    """While it is entered, notes which lines of our files run."""

    def __init__(self) -> None:
        self.ran: dict[str, set[int]] = {str(file_of(module)): set() for module in FILES}

    def __enter__(self) -> Lines:
        sys.settrace(self._call)
        return self

    def __exit__(self, *_: object) -> None:
        sys.settrace(None)

    def _call(self, frame: Any, event: str, argument: Any) -> Any:
        return self._line if frame.f_code.co_filename in self.ran else None

    def _line(self, frame: Any, event: str, argument: Any) -> Any:
        self.ran[frame.f_code.co_filename].add(frame.f_lineno)
        return self._line


class Loader(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds one module, with another text."""

    def __init__(self, name: str, source: str) -> None:
        self.name, self.source = name, source

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> Any:
        if fullname != self.name:
            return None
        return importlib.util.spec_from_file_location(fullname, file_of(fullname), loader=self)

    def create_module(self, spec: Any) -> None:
        return None

    def exec_module(self, module: Any) -> None:
        exec(compile(self.source, str(file_of(self.name)), "exec"), module.__dict__)


def forget_ours() -> None:
    """Drop every module of ours that the mutant may touch, so that it is imported anew."""
    for name in list(sys.modules):
        ours = name.startswith(("regard.nn", "regard.core", "regard.mask", "regard.position", "regard.bias"))
        if ours and name not in ("regard.core", "regard.core.errors"):
            del sys.modules[name]


def verdict_on(module: str | None, source: str, subject: str) -> dict[str, Any]:
    """What the check of one subject says, in this process."""
    import torch

    from regard.checks.check import check

    forget_ours()
    if module is not None:
        sys.meta_path.insert(0, Loader(module, source))
    make, design = SUBJECTS[subject]
    torch.manual_seed(0)
    try:
        made = make()
        made(torch.randn(first_input(subject)))
    except Exception as error:
        return {"loud": f"it cannot be built or called: {type(error).__name__}: {error}"[:160]}
    with Outputs(type(made)) as outputs:
        report = check(made, design=design)
    if report.status != "checked":
        return {"loud": report.reason[:160]}
    return {
        "found": sorted({f"{f.rule} {f.name}" for f in report.findings if f.level != "question"}),
        "asked": sorted({f"{f.rule} {f.name}" for f in report.findings if f.level == "question"}),
        "passed": sorted(o.rule for o in report.outcomes if o.result == "passed"),
        "stopped": {o.rule: o.reason for o in report.outcomes if o.result == "not-exercised"},
        "outputs": outputs.seen,
    }


def unchanged(subject: str) -> dict[str, Any]:
    """The verdict without a mutant, and the lines that ran for it."""
    with Lines() as lines:
        answer = verdict_on(None, "", subject)
    return {**answer, "lines": {file: sorted(ran) for file, ran in lines.ran.items()}}


def in_child(work: Callable[..., dict[str, Any]], *arguments: Any) -> dict[str, Any]:
    """What the work returns, done in a forked child with a time limit."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reader)
        try:
            answer = work(*arguments)
        except BaseException as error:
            answer = {"loud": f"{type(error).__name__}: {error}"[:160]}
        with os.fdopen(writer, "w") as out:
            json.dump(answer, out)
        os._exit(0)
    os.close(writer)
    text, end = b"", time.monotonic() + SECONDS
    while True:
        ready, _, _ = select.select([reader], [], [], max(0.0, end - time.monotonic()))
        if not ready:
            os.kill(pid, signal.SIGKILL)
            break
        part = os.read(reader, 65536)
        if not part:
            break
        text += part
    os.close(reader)
    os.waitpid(pid, 0)
    return json.loads(text) if text and text.endswith(b"}") else {"loud": "it hangs, or ends the process"}


def judged(answer: dict[str, Any], plain: dict[str, Any]) -> tuple[str, str] | None:
    """("caught" | "loud" | "asked", why) against the unmutated subject's answer; None when nothing differs."""
    if "loud" in answer:
        return "loud", answer["loud"]
    found = [f for f in answer["found"] if f not in plain["found"]]
    if found:
        return "caught", ", ".join(found[:3])
    lost = [f"{r}: {answer['stopped'][r]}" for r in plain["passed"] if "did not run" in answer["stopped"].get(r, "")]
    if lost:
        return "loud", f"rules that ran no longer do ({lost[0][:110]})"
    asked = [f for f in answer["asked"] if f not in plain["asked"]]
    gone = [r for r in plain["passed"] if r in answer["stopped"]]
    if asked:
        return "asked", ", ".join(asked)
    return ("unseen", f"no longer exercised: {', '.join(gone[:6])}") if gone else None


ORDER = {"caught": 0, "loud": 1, "asked": 2, "unseen": 3, "survived": 4, "equal": 5}


def reached(module: str, mutant: Mutant, plain: dict[str, Any]) -> bool:
    """Does a statement that holds the changed line run when this subject is checked?"""
    ran = set(plain["lines"][str(file_of(module))])
    first, last = mutant.statement
    return any(first <= line <= last for line in ran)


def tried(module: str, mutant: Mutant, plain: dict[str, Any]) -> tuple[str, str]:
    """The strongest verdict over the module's subjects."""
    best = ("not reached", "")
    for subject in FILES[module]:
        if subject not in plain:
            plain[subject] = in_child(unchanged, subject)
            if "loud" in plain[subject]:
                raise SystemExit(f"{subject} does not run before any change: {plain[subject]['loud']}")
            if plain[subject]["found"]:  # what is found without a change counts for no mutant
                print(f"{subject} unchanged: {', '.join(plain[subject]['found'])}", file=sys.stderr)
        if not reached(module, mutant, plain[subject]):
            continue
        best = ("equal", "") if best[0] == "not reached" else best
        answer = in_child(verdict_on, module, mutant.source, subject)
        got = judged(answer, plain[subject])
        if got is None and best[0] == "equal":
            difference = first_difference(answer["outputs"], plain[subject]["outputs"])
            best = ("survived", f"{subject}: {difference}") if difference else best
        if got is not None and ORDER[got[0]] < ORDER[best[0]]:
            best = got[0], f"{subject}: {got[1]}"
        if best[0] in ("caught", "loud"):
            break
    return best


def chosen(arguments: argparse.Namespace) -> list[tuple[str, Mutant]]:
    every = [
        (module, mutant)
        for module in FILES
        if file_of(module).is_file() and (not arguments.only or module.startswith(arguments.only))
        for mutant in mutants(file_of(module).read_text(encoding="utf-8"))
    ]
    print(f"{len(every)} mutants of {len({m for m, _ in every})} files", file=sys.stderr)
    count = len(every) if arguments.all else min(arguments.count, len(every))
    return random.Random(arguments.seed).sample(every, count)  # in random order: any beginning is a sample


def line_of(module: str, mutant: Mutant) -> str:
    return f"{module}:{mutant.line} [{mutant.operator}] {mutant.what}"


def summary(results: list[tuple[str, Mutant, str, str]]) -> str:
    counts = collections.Counter(result for *_, result, _ in results)
    running = len(results) - counts["not reached"]
    silent = running - counts["loud"]
    lines = [
        f"{len(results)} mutants; {counts['not reached']} on lines that no checked call runs, of the other {running}:",
        f"{counts['caught']} caught by a rule, {counts['loud']} loud (cannot be built or called),"
        f" {counts['unseen']} no longer exercised, {counts['asked']} asked about, {counts['survived']} survived",
        f"caught, loud or no longer exercised: {(running - counts['survived'] - counts['asked']) / max(running, 1):.0%};"
        f" caught of those that are not loud: {counts['caught'] / max(silent, 1):.0%}",
    ]
    for kind in ("survived", "asked", "unseen", "not reached"):
        shown = [(m, x, why) for m, x, result, why in results if result == kind]
        lines += [f"\n{kind}:"] if shown else []
        lines += [f"  {line_of(m, x)}" + (f"  ({why})" if why else "") for m, x, why in shown]
    return "\n".join(lines)


def read(file: Path | None) -> dict[str, list[str]]:
    """Results of an earlier run, by the mutant's line."""
    if file is None or not file.is_file():
        return {}
    return dict(json.loads(line) for line in file.read_text().splitlines())


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--all", action="store_true", help="every mutant, not a sample")
    parser.add_argument("--count", type=int, default=60, help="size of the sample")
    parser.add_argument("--seed", type=int, default=0, help="of the sample")
    parser.add_argument("--seconds", type=float, default=1e9, help="begin no other mutant after this time")
    parser.add_argument("--only", default="", help="modules whose name begins so")
    parser.add_argument("--results", type=Path, help="JSON lines of what was tried; a second run goes on from there")
    arguments = parser.parse_args()
    import torch

    from regard.checks.check import check
    from regard.checks.rule import catalog

    catalog()
    torch.set_num_threads(1)  # a fork must not hold the threads of its parent
    check(torch.nn.LayerNorm(8), select=["ATT106"])  # what the first check of a process imports: 1.3 s, paid once here
    plain: dict[str, Any] = {}
    results = []
    known = read(arguments.results)
    end = time.monotonic() + arguments.seconds
    for module, mutant in chosen(arguments):
        name = line_of(module, mutant)
        if name not in known and time.monotonic() > end:
            continue
        if name not in known:
            known[name] = list(tried(module, mutant, plain))
            if arguments.results is not None:
                with arguments.results.open("a") as out:
                    out.write(json.dumps([name, known[name]]) + "\n")
        result, why = known[name]
        results.append((module, mutant, result, why))
        print(f"{len(results):4} {result:8} {name}  ({why})", file=sys.stderr, flush=True)
    print(summary(sorted(results, key=lambda r: (r[0], r[1].line))))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
