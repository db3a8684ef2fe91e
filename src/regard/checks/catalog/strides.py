"""Equal values give equal results, however they lie in memory."""

from __future__ import annotations

import torch
from torch import Tensor

from regard.checks.case import Case, Verdict
from regard.checks.rule import rule
from regard.checks.subject import clone


@rule("ATT308", kinds=("non-contiguous",))
def strides(case: Case) -> Verdict | None:
    """Transposed and sliced copies of the inputs give what contiguous ones give.

    What goes wrong: a kernel, as_strided or a view assumes contiguous memory.
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
    odd = {k: _odd(v) if isinstance(v, Tensor) and v.ndim > 1 else v for k, v in kwargs.items()}
    module = case.subject.instance()
    from regard.checks.subject import invoke, untouched_globals

    try:
        with untouched_globals(case.seed), torch.no_grad():
            out = case.call.main_output(invoke(module, odd))
    except Exception as error:
        case.need(False, f"inputs that are not contiguous raise {type(error).__name__}, which is loud")
    change = case.difference(out, base)
    if change <= case.big:
        return None
    return Verdict(
        "error",
        f"the same values with other strides change the output by {change:.2g} (relative)",
        kind="non-contiguous",
        measured=change,
        allowed=case.tolerance,
        example="inputs that are slices of a larger, transposed tensor",
        cause="memory is read as if it were contiguous (as_strided, data_ptr, a custom kernel)",
        fix="call .contiguous() first, or use reshape",
    )


def _odd(x: Tensor) -> Tensor:
    """The same values in a transposed slice of a wider tensor."""
    wide = torch.zeros(*x.shape[:-2], x.shape[-1], 2 * x.shape[-2], dtype=x.dtype)
    wide[..., ::2] = x.transpose(-1, -2)
    return wide[..., ::2].transpose(-1, -2)
