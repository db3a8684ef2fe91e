"""What a training run is asked for, as the command line says it; loads no torch."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Asked:
    """What the command line says. `steps`, `minutes` and `batch` 0, `lr` 0: as the recipe has them."""

    data: str | None = None
    out: Path = Path("run")
    resume: bool = False
    seed: int = 0
    steps: int = 0
    minutes: float = 0.0
    batch: int = 0
    lr: float = 0.0
    long: bool = False
    accumulate: int = 1
    precision: str = "float32"
    patience: int = 0
    save: int = 100
    watch: int = 100
    compile: bool = False
    baselines: bool = True
    settings: tuple[str, ...] = ()
