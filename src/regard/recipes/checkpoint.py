"""The state of a run on disk: tensors as safetensors, the rest as JSON, each written whole or not at all, never pickled.

A checkpoint is `step-N.safetensors` and, written after it, `step-N.json` with the hash of the tensors: so one that a kill or a full
disk cut short is told from a whole one, and the one before is taken in its place. The last `KEEP` are kept.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from regard.core.errors import DataError, MissingExtraError

KEEP = 2


def write_whole(path: Path, content: bytes) -> None:
    """Write a file so that it has either its old content or all of the new, whatever happens in between."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}-", delete=False) as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    os.replace(file.name, path)


def write_json(path: Path, value: Any) -> None:
    """The same, of JSON."""
    write_whole(path, (json.dumps(value, indent=2, ensure_ascii=False) + "\n").encode())


def write_tensors(path: Path, tensors: dict[str, Tensor]) -> str:
    """The same, of tensors; returns the hash of the file."""
    content = _safetensors().save({name: x.detach().contiguous().cpu() for name, x in tensors.items()})
    write_whole(path, content)
    return hashlib.sha256(content).hexdigest()


def read_tensors(path: Path) -> dict[str, Tensor]:
    """The tensors of a file."""
    return _safetensors().load(path.read_bytes())


def save(
    folder: Path,
    step: int,
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    about: dict[str, Any],
    average: dict[str, Tensor] | None = None,
) -> None:
    """Write the checkpoint of a step, with the average of the weights where there is one, and remove those that are too old."""
    tensors = {f"model/{name}": x for name, x in model.state_dict().items()}
    tensors |= {f"average/{name}": x for name, x in (average or {}).items()}
    for i, state in optimizer.state_dict()["state"].items():
        tensors |= {f"optimizer/{i}/{name}": torch.as_tensor(x) for name, x in state.items()}
    digest = write_tensors(folder / f"step-{step:08d}.safetensors", tensors)
    write_json(folder / f"step-{step:08d}.json", about | {"step": step, "sha256": digest})
    for path in sorted(folder.glob("step-*.json"))[:-KEEP]:
        path.unlink()
        path.with_suffix(".safetensors").unlink(missing_ok=True)


def load(
    folder: Path, model: nn.Module, optimizer: torch.optim.Optimizer, average: dict[str, Tensor] | None = None
) -> tuple[dict[str, Any] | None, list[str]]:
    """Restore the last whole checkpoint; the tensors of `average` are written over in place.

    Returns:
        What was saved with it (with "step"), or None where there is none; and one line for each damaged one that was passed over.

    Raises:
        DataError: There are checkpoints and all are damaged, or they are of another model.
    """
    damaged = []
    found = sorted(folder.glob("step-*.safetensors"), reverse=True)
    for path in found:
        about, why = _whole(path)
        if about is None:
            damaged.append(f"{path.name} is damaged ({why}) and was passed over")
            continue
        _restore(read_tensors(path), model, optimizer, average or {}, path)
        return about, damaged
    if found:
        raise DataError(
            f"all {len(found)} checkpoints in {folder} are damaged: {'; '.join(damaged)}; start without --resume"
        )
    return None, damaged


def _whole(path: Path) -> tuple[dict[str, Any] | None, str]:
    try:
        about = json.loads(path.with_suffix(".json").read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None, "its .json is missing: the run was stopped while it was written"
    except (json.JSONDecodeError, UnicodeDecodeError):
        return None, "its .json cannot be read"
    if hashlib.sha256(path.read_bytes()).hexdigest() != about.get("sha256"):
        return None, "its hash differs"
    return about, ""


def _restore(
    tensors: dict[str, Tensor],
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    average: dict[str, Tensor],
    path: Path,
) -> None:
    own = {name[6:]: x for name, x in tensors.items() if name.startswith("model/")}
    try:
        model.load_state_dict(own)
    except RuntimeError as error:
        first = str(error).splitlines()[1:2]
        raise DataError(
            f"{path} is of another model or other settings: {' '.join(first).strip()}; resume with the options of the first run"
        ) from error
    averaged = {name[8:]: x for name, x in tensors.items() if name.startswith("average/")}
    if averaged.keys() != average.keys():
        has, wants = ("an" if names else "no" for names in (averaged, average))
        raise DataError(
            f"{path} has {has} average of the weights, this run is to have {wants} average; resume with the options of the first run"
        )
    for name, x in average.items():
        x.copy_(averaged[name])
    state: dict[int, dict[str, Tensor]] = {}
    for name, x in tensors.items():
        if name.startswith("optimizer/"):
            _, index, what = name.split("/")
            state.setdefault(int(index), {})[what] = x
    optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})


def _safetensors() -> Any:
    try:
        import safetensors.torch
    except ImportError as error:
        raise MissingExtraError('training saves with safetensors: pip install "regard[train]"') from error
    return safetensors.torch
