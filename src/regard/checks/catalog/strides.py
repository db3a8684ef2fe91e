"""Equal values give equal results, however they lie in memory."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from regard.checks.case import Case, Verdict
from regard.checks.rule import rule
from regard.checks.subject import clone, invoke, untouched_globals


@rule("ATT308", kinds=("non-contiguous",))
def strides(case: Case) -> Verdict | None:
    """Transposed and sliced copies of the inputs give what contiguous ones give.

    What goes wrong: a kernel, as_strided or a view assumes contiguous memory; or a result is written into
    `out.reshape(...)`, which is a copy where `out` took its strides from a transposed input.
    Why it matters: the result depends on what happened upstream.
    An error that is raised for such inputs is loud, and no finding.

    Bad:
        heads = x.as_strided((B, H, T, D), (T * H * D, D, H * D, 1))
    Good:
        heads = x.reshape(B, T, H, D).transpose(1, 2)
    """
    case.need_determinism()
    batch, base = case.base
    kwargs = {k: clone(v) for k, v in case.call.lay_out(batch, case.subject.dtype).items()}
    changes, loud = [], ""
    for lie, how in WAYS.items():
        try:
            out = _run(case, {k: how(v) if isinstance(v, Tensor) else v for k, v in kwargs.items()})
        except Exception as error:
            loud = type(error).__name__
            continue
        changes.append((case.difference(out, base), lie))
    case.need(bool(changes), f"inputs that are not contiguous raise {loud}, which is loud")
    change, lie = max(changes)
    if change <= case.big:
        return None
    return Verdict(
        "error",
        f"the same values with other strides change the output by {change:.2g} (relative)",
        kind="non-contiguous",
        measured=change,
        allowed=case.tolerance,
        example=f"inputs that are {lie}",
        cause="memory is read as if it were contiguous (as_strided, data_ptr, a custom kernel), or a reshape made a copy and what is written into it is lost",
        fix="call .contiguous() first, and write into what is returned",
    )


def _run(case: Case, kwargs: dict[str, Any]) -> Tensor:
    module = case.subject.instance()
    with untouched_globals(case.seed), torch.no_grad():
        return case.call.main_output(invoke(module, kwargs))


def _odd(x: Tensor) -> Tensor:
    """The same values in a transposed slice of a wider tensor."""
    wide = torch.zeros(*x.shape[:-2], x.shape[-1], 2 * x.shape[-2], dtype=x.dtype)
    wide[..., ::2] = x.transpose(-1, -2)
    return wide[..., ::2].transpose(-1, -2)


def _turned(x: Tensor, one: int, other: int) -> Tensor:
    """The same values where memory has two axes in the other order, as `transpose` leaves them; dense."""
    return x.transpose(one, other).contiguous().transpose(one, other)


WAYS = {  # how they lie -> the same values so
    "slices of a larger, transposed tensor": lambda x: _odd(x) if x.ndim > 1 else x,
    "transposed at the first two axes": lambda x: _turned(x, 0, 1) if x.ndim > 1 else x,
    "transposed at the second and third axes, as heads often are": lambda x: _turned(x, 1, 2) if x.ndim > 2 else x,
}
