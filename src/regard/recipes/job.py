"""What a recipe hands to the command: the work, what rebuilds its model, its test, and how it reads a user's own input.

A recipe is a module with
    TASK        its name on the command line
    Settings    a frozen dataclass: the data's and the model's settings, and those of the `Plan` that it wants to set otherwise
    LONG        what --long changes of them
    VARIANTS    name -> settings that differ, for --compare
    prepare(settings, data, seed) -> Job
    restore(folder) -> Restored
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, TypeVar

from torch import Tensor, nn

from regard.core.errors import DataError
from regard.recipes.checkpoint import read_tensors
from regard.recipes.plan import Plan, Work

CONFIG = "config.json"
M = TypeVar("M", bound=nn.Module)


@dataclass
class Job:
    """A prepared task.

    Attributes:
        work: What is trained.
        about: Rebuilds the model without the data: written to config.json.
        test: Of the trained model: the numbers on the test part.
        sizes: The splits, in words.
        mark: The metric that is compared with others, a key of `test`'s numbers, and whether more is better.
        files: Written beside the model, such as a tokenizer.
        baselines: Numbers of simpler ways on the same split, such as TF-IDF.
    """

    work: Work
    about: dict[str, Any]
    test: Callable[[nn.Module], dict[str, float]]
    sizes: str
    mark: str
    files: dict[str, bytes] = field(default_factory=dict)
    baselines: Callable[[], dict[str, float]] = dict


@dataclass
class Restored:
    """A trained model that reads a user's own input.

    Attributes:
        model: With its weights, in eval mode.
        predict: What it says about an input (a text, or the path of a file), as lines.
        inputs: For `regard view`: the tensors of an input and the names of its tokens; None: nothing to view.
    """

    model: nn.Module
    predict: Callable[[str], list[str]]
    inputs: Callable[[str], tuple[tuple[Tensor, ...], list[str]]] | None = None


def plan_of(settings: Any, seed: int) -> Plan:
    """The plan with what the settings say of it."""
    names = {f.name for f in fields(Plan)}
    return replace(Plan(steps=settings.steps), seed=seed, **{k: v for k, v in vars(settings).items() if k in names})


def changed(settings: Any, words: list[str], task: str) -> Any:
    """Settings with NAME=VALUE words put in.

    Raises:
        DataError: An unknown name (the names that there are), or a value of another type.
    """
    types = {f.name: type(getattr(settings, f.name)) for f in fields(settings)}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals or name not in types:
            known = ", ".join(f"{n}={getattr(settings, n)}" for n in types)
            raise DataError(f"--set {word}: {task} has no such setting; it has {known}")
        try:
            made = {"true": True, "false": False}[value.lower()] if types[name] is bool else types[name](value)
        except (KeyError, ValueError):
            raise DataError(
                f"--set {word}: {name} is of type {types[name].__name__}, now {getattr(settings, name)}"
            ) from None
        settings = replace(settings, **{name: made})
    return settings


def read_config(folder: Path) -> dict[str, Any]:
    """What a training run wrote of itself.

    Raises:
        DataError: No such folder, or of something else.
    """
    path = folder / CONFIG
    if not path.is_file():
        raise DataError(f"{folder} has no {CONFIG}; give the --out folder of a regard train run")
    config = json.loads(path.read_text(encoding="utf-8"))
    if "regard" not in config:
        raise DataError(f"{path} was not written by regard train")
    return config


def weights_into(model: M, folder: Path) -> M:
    """The model with the best weights of a run, in eval mode.

    Raises:
        DataError: The run has not been evaluated yet, so that there are none.
    """
    path = folder / "model.safetensors"
    if not path.is_file():
        raise DataError(f"{folder} has no model.safetensors yet; it is written at the first evaluation of a run")
    model.load_state_dict(read_tensors(path))
    return model.eval()
