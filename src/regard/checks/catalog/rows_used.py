"""Every row of a projection takes part."""

from __future__ import annotations

import contextlib
import re
from typing import Any

import torch
from torch import Tensor, nn

from regard.checks.case import Case, Verdict
from regard.checks.catalog.gradients import gradients, longer_inputs, tells
from regard.checks.choice import Choices, differ
from regard.checks.redraw import SEEDS, other_numbers, redrawn
from regard.checks.rule import rule

PART = 8  # an eighth of the rows: fewer may be shut by chance
ARRIVES = 1e-14
NAMES = r"(^|\.|_)(to_)?(q|k|v|query|key|value|qk|kv|qkv|wq|wk|wv|c_attn|in_proj\w*|w_?qkv|w_?kv)(_?(proj|lin|linear|layer|weight))?s?(\.|$)"


@rule("ATT707", kinds=("unused-parameters", "gradient-cut"))
def rows_used(case: Case) -> list[Verdict]:
    """Every row of a linear layer's weight gets a gradient.

    What goes wrong: of one projection cut into q, k and v a part is read twice and another never; only the first head's weights
    are used; weights of a fused projection are detached.
    Why it matters: part of the layer never learns, and what it should have computed is missing; nothing complains.

    Bad:
        qkv = self.qkv(x).chunk(3, -1); q, k, v = qkv[0], qkv[0], qkv[2]
    Good:
        q, k, v = self.qkv(x).chunk(3, -1)
    """
    case.need(case.subject.is_module, "a function has no parameters")
    names = _projections(case)
    case.need(bool(names), "it has no linear layer")
    dead = _dead(case, names)
    if not dead:
        return []
    tells(case)
    moved = _effect(case, dead)
    if moved is None:
        return []  # through a choice of keys
    words = ", ".join(f"{_spans(rows)} of {n}" for n, rows in list(dead.items())[:4])
    asked = case.leaves_out
    if moved and (case.cache or case.signature.caches or case.subject.stateful):
        case.notes.append(f"rows {words} get no gradient: what is kept for later calls is cut off")
        return []
    if moved:
        return [Verdict(
            "question" if asked else "error", f"no gradient reaches rows {words}, though the output depends on them" + (": is it stopped on purpose?" if asked else ""),
            kind="gradient-cut", measured=words, allowed="none", example="a random projection of the output",
            cause="queries or keys are detached, or their scores are", fix="remove detach(), .data or no_grad() on the way",
        )]  # fmt: skip
    own = any(re.search(NAMES, n.lower()) for n in dead)
    return [Verdict(
        "question" if asked else "error" if own else "warning", f"rows {words} take no part: no gradient reaches them, and the output does not depend on them",
        kind="unused-parameters", measured=words, allowed="none", example="a random projection of the output",
        cause="a part of the projection is read twice and another never, or one head's weights stand for all", fix="use every part, or make the layer as large as what is used",
    )]  # fmt: skip


def _projections(case: Case) -> set[str]:
    """Names of weights whose rows are output features."""
    found = set()
    for name, m in case.subject.pristine.named_modules():
        if isinstance(m, nn.Linear) or (isinstance(m, (nn.Conv1d, nn.Conv2d)) and set(m.kernel_size) == {1}):
            found.add(f"{name}.weight" if name else "weight")
        if isinstance(m, nn.MultiheadAttention):
            found.add(f"{name}.in_proj_weight" if name else "in_proj_weight")
    return found


def _dead(case: Case, names: set[str]) -> dict[str, Tensor]:
    """Weight -> rows that get no gradient in any run, where they are many and others do."""
    sums: dict[str, Tensor] = {}

    def seen(**how: Any) -> None:
        for n, g in gradients(case, every=True, **how).items():
            if n in names and g is not None:
                size = g.abs().flatten(1).amax(1)
                sums[n] = torch.maximum(sums[n], size) if n in sums else size

    def found() -> dict[str, Tensor]:
        out = {}
        for n, size in sums.items():
            rows = size <= max(ARRIVES, 1e-12 * float(size.max()))
            if bool((~rows).any()) and int(rows.sum()) >= max(2, rows.numel() // PART):
                out[n] = rows
        return out

    seen()
    runs: list[dict[str, Any]] = [{"number": 5}, {"number": 6, "size": 5.0}, {"number": 7, "size": -5.0}]
    for how in runs:
        if found():
            seen(**how)
    if found():
        seen(module=case.subject.instance(fresh=True, train=True))
    for seed in SEEDS:
        if found():
            seen(module=redrawn(case, seed), size=3.0)
    if found() and case.cross is not None:
        seen(call=case.cross)
    for call in other_numbers(case) if found() else ():
        with contextlib.suppress(Exception):
            seen(call=call)
    before = found()
    for sizes in longer_inputs(case) if before else ():
        with contextlib.suppress(Exception):
            seen(**sizes)
    after = found()
    return {
        n: rows for n, rows in after.items() if torch.equal(rows, before[n])
    }  # one row for each place: longer inputs reach more


def _effect(case: Case, dead: dict[str, Tensor]) -> bool | None:
    """Does the output move with these rows? None where only large moves tell, through a choice."""
    if case.stochastic:
        return False
    batch = case.sample()
    outs: list[Tensor] = []
    scores: list[list[Tensor]] = []
    for by in (0.0, 1e-6, 3.0):
        module = redrawn(case, SEEDS[0])
        generator = torch.Generator().manual_seed(12)
        with torch.no_grad():
            for name, p in module.named_parameters():
                if name in dead:
                    noise = torch.randn(p.shape, generator=generator, dtype=p.dtype)
                    p.add_(by * noise * dead[name].reshape(-1, *[1] * (p.ndim - 1)))
        with Choices() as chosen:
            outs.append(case.run(batch, module=module))
        scores.append(chosen.scores)
    small, large = (case.difference(o, outs[0]) for o in outs[1:])
    if small > 1e-12:
        return True
    return None if large > case.tolerance or differ(scores[0], scores[2]) else False


def _spans(rows: Tensor) -> str:
    """ "8 to 15", "8 to 15 and 24 to 31"; the number of them where there are many spans."""
    at = torch.nonzero(rows).flatten().tolist()
    starts = [i for i in at if i - 1 not in at]
    ends = [i for i in at if i + 1 not in at]
    if len(starts) > 3:
        return f"{at[0]}, {at[1]} and {len(at) - 2} more"
    return " and ".join(f"{a} to {b}" if b > a else f"{a}" for a, b in zip(starts, ends))
