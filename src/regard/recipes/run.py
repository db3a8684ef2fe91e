"""One run of `regard train`: prepare a task, train it, test it, leave everything needed to use the model in one folder."""

from __future__ import annotations

import copy
import importlib
import pkgutil
import time
from dataclasses import asdict, replace
from pathlib import Path
from types import ModuleType
from typing import Any

from regard.core.errors import DataError
from regard.recipes import checkpoint, journal
from regard.recipes.asked import Asked
from regard.recipes.job import CONFIG, Job, changed, plan_of
from regard.recipes.loop import train
from regard.recipes.plan import Plan
from regard.recipes.processes import Processes

RESULT = "result.json"


def tasks() -> list[str]:
    """The names of the recipes: the modules of this package that define TASK."""
    import regard.recipes as package

    names = []
    for module in pkgutil.iter_modules(package.__path__):
        source = Path(package.__path__[0]) / f"{module.name}.py"
        if source.is_file() and f'\nTASK = "{module.name}"\n' in source.read_text(encoding="utf-8"):
            names.append(module.name)
    return names


def recipe(task: str) -> ModuleType:
    """The module of a task.

    Raises:
        DataError: With the tasks that there are.
    """
    known = tasks()
    if task not in known:
        raise DataError(f"there is no task {task!r}; there are {', '.join(known)}")
    return importlib.import_module(f"regard.recipes.{task}")


def settings_of(module: ModuleType, asked: Asked) -> Any:
    """The recipe's settings with what was asked for."""
    settings = module.Settings()
    if asked.long:
        settings = replace(settings, **module.LONG)
    settings = changed(settings, list(asked.settings), module.TASK)
    given = {"steps": asked.steps, "batch": asked.batch, "lr": asked.lr}
    return replace(settings, **{name: value for name, value in given.items() if value})


def run(task: str, asked: Asked) -> dict[str, Any]:
    """Train and test one model; returns what is written to result.json.

    Raises:
        DataError, MissingExtraError: What the data, the settings or the folder lack.
    """
    module = recipe(task)
    settings = settings_of(module, asked)
    here = Processes.here()
    _check_folder(asked, task)
    job = module.prepare(settings, asked.data, asked.seed)
    plan = replace(
        plan_of(settings, asked.seed), accumulate=asked.accumulate, precision=asked.precision, patience=asked.patience,
        save=asked.save, watch=asked.watch, compile=asked.compile,
    )  # fmt: skip
    plan = _timed(job, plan, asked)
    head = {"regard": task, "data": asked.data, "seed": asked.seed, "plan": asdict(plan)}
    if here.rank == 0:
        for name, content in job.files.items():
            checkpoint.write_whole(asked.out / name, content)
        checkpoint.write_json(asked.out / CONFIG, head | job.about)
        parameters = sum(p.numel() for p in job.work.model.parameters())
        journal.tell(f"{task}: {job.sizes}; {parameters:,} parameters, {plan.steps:,} steps, seed {asked.seed}")
    done = train(job.work, plan, asked.out, resume=asked.resume)
    result = head | {"parameters": sum(p.numel() for p in job.work.model.parameters()), "metric": job.mark, **done}
    if done["interrupted"]:
        if here.rank == 0:
            journal.tell(f"stopped at step {done['steps']} and saved; the same command with --resume goes on")
        return result
    model = job.work.model.eval()
    begun = time.perf_counter()
    import torch

    with torch.no_grad():
        result["test"] = job.test(model)
    result |= {
        "test_seconds": time.perf_counter() - begun,
        "settings": job.about.get("settings"),
        "cost": job.about.get("cost"),
    }
    if here.rank == 0:
        result["baselines"] = job.baselines() if asked.baselines else {}
        checkpoint.write_json(asked.out / RESULT, result)
    return result


def _check_folder(asked: Asked, task: str) -> None:
    """A folder with a run in it is continued or refused, never overwritten."""
    if not (asked.out / journal.NAME).is_file():
        return
    if not asked.resume:
        raise DataError(f"{asked.out} holds a run already; --resume continues it, or give another --out")
    import json

    config = json.loads((asked.out / CONFIG).read_text(encoding="utf-8"))
    if config["regard"] != task or config["seed"] != asked.seed:
        raise DataError(
            f"{asked.out} holds a run of {config['regard']} with seed {config['seed']}; you asked for {task} with seed "
            f"{asked.seed}"
        )


def _timed(job: Job, plan: Plan, asked: Asked) -> Plan:
    """--minutes as steps: measured on a copy of the model; a resumed run keeps the number that was written down."""
    if not asked.minutes:
        return plan
    if asked.resume and (asked.out / CONFIG).is_file():
        import json

        written = json.loads((asked.out / CONFIG).read_text(encoding="utf-8"))["plan"]
        return replace(plan, steps=written["steps"], evaluate=written["evaluate"], warmup=written["warmup"])
    model, device = copy.deepcopy(job.work.model), Processes.here().device
    model.to(device).train()
    seconds = []
    for step in range(6):
        begun = time.perf_counter()
        batch = job.work.collate(job.work.order(step))
        loss = job.work.loss(model, tuple(x.to(device) for x in batch.inputs)) / batch.weight
        loss.backward()
        seconds.append(float(loss.detach()) * 0 + time.perf_counter() - begun)
    slow = sorted(seconds[1:])[2] * 1.15  # the optimiser's part, and evaluations
    [total] = Processes.here().total(slow)
    steps = max(10, round(60 * asked.minutes / (total / Processes.here().count)))
    return replace(plan, steps=steps, evaluate=max(1, steps // 8), warmup=min(plan.warmup, steps // 5))
