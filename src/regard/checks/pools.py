"""Which pools a call runs over the whole image: their names in the source may stand anywhere."""

from __future__ import annotations

from typing import Any

from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from regard.checks.case import Case
from regard.checks.gate import Gate, run_image

PEAK = ("amax", "max", "adaptive_max_pool2d", "max_pool2d_with_indices")
MEAN = ("mean", "_adaptive_avg_pool2d", "avg_pool2d")


class _Pools(TorchDispatchMode):
    """Notes the reductions of a tensor as large as the image to one number for a channel, or for a pixel."""

    def __init__(self, size: int, wanted: int) -> None:
        super().__init__()
        self.size, self.wanted, self.names = size, wanted, set[str]()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        made = out[0] if isinstance(out, (tuple, list)) and len(out) else out
        whole = bool(args) and isinstance(args[0], Tensor) and args[0].numel() == self.size
        if whole and isinstance(made, Tensor) and made.numel() == self.wanted:
            self.names.add(func.overloadpacket.__name__)
        return out


def pools_seen(case: Case, gate: Gate) -> tuple[str | None, str | None]:
    """(a maximum, a mean) that one call takes over all pixels of a channel, or over all channels of a pixel; None where it does not."""
    items, channels = gate.x.shape[:2]
    wanted = items * channels if gate.spatially_flat else gate.x.numel() // channels
    with _Pools(gate.x.numel(), wanted) as seen:
        run_image(case, gate.x)
    peak = next((n for n in PEAK if n in seen.names), None)
    return peak, next((n for n in MEAN if n in seen.names), None)
