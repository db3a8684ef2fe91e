"""Items of a batch do not see each other."""

from __future__ import annotations

from torch import Tensor, nn

from regard.checks.case import Batch, Case, Verdict
from regard.checks.cross_talk import across_on_purpose, cause_of_cross_talk, change_and_item, others_replaced
from regard.checks.outputs import float_tensors
from regard.checks.rule import rule
from regard.checks.sites import watch


@rule("ATT301", kinds=("batch-cross-talk", "batch-first", "softmax-axis-batch"))
def batch_independence(case: Case) -> Verdict | None:
    """An item's output does not depend on the other items of its batch.

    What goes wrong: heads are folded into the batch and unfolded in another order, a reshape stands where a transpose
    is needed, a softmax runs over the batch axis, or a sequence-first layer is given batch-first tensors.
    Why it matters: training mixes samples without an error; results change with the batch they are served in.

    Bad:
        x = x.reshape(L, B, D)            # B, L, D read as L, B, D
    Good:
        x = x.transpose(0, 1)
    References: pytorch nn.MultiheadAttention, batch_first.
    """
    case.need(case.call.sources[case.call.query].batch > 1, "the call runs for one item at a time only")
    case.need_determinism()
    batch, base = case.base
    change, item = change_and_item(case)
    if change <= case.big:
        return _elsewhere(case) or _by_place(case)
    kind, cause, fix = cause_of_cross_talk(case)
    alone, meant = case.call.free_batch, across_on_purpose(case)
    asked = "" if alone else "; a single item does not run: does the caller compose the batch axis?"
    if case.call.stretched:
        alone, asked = False, "; the output has an axis more than the input: is it called with one too few?"
    return Verdict(
        "error" if alone and meant is None else "question",
        f"item {item} changes by {change:.2g} (relative) when only the other items of the batch are replaced" + (f"; {meant}: is that meant, in inference too?" if meant else asked),
        kind=kind, measured=change, allowed=case.tolerance, cause=cause, fix=fix,
        example=f"batch {base.shape[0]}, length {next(iter(batch.values())).shape[1]}, random tokens",
    )  # fmt: skip


def _elsewhere(case: Case) -> Verdict | None:
    """Is the main output the same and another one not, while the attention inside runs over as many keys as there are items?

    A class token that reads nothing but itself leaves the logits alone; the patches beside it are mixed with other images.
    """
    if not case.call.free_batch or across_on_purpose(case) is not None or not _keys_are_items(case):
        return None
    before, after = (_per_item(case, b) for b in (case.base[0], others_replaced(case, 0)))
    for path in [p for p in before if p in after and before[p].shape == after[p].shape]:
        change = case.difference(after[path][0], before[path][0])
        if change > case.big:
            name = "".join(f"[{k!r}]" for k in path)
            kind, cause, fix = cause_of_cross_talk(case)
            return Verdict(
                "error", f"item 0 of output{name} changes by {change:.2g} (relative) when only the other items of the batch are replaced, and the attention inside has as many keys as there are items",
                kind=kind, measured=change, allowed=case.tolerance, cause=cause, fix=fix, example=f"batch {before[path].shape[0]}, random tokens",
            )  # fmt: skip
    return None


def _per_item(case: Case, batch: Batch) -> dict[tuple[object, ...], Tensor]:
    """Every output of three or more axes of which the first alone has the size of the batch."""
    items = next(iter(batch.values())).shape[0]
    raw = case.raw(batch)
    tensors = {path: x.detach() for path, x in float_tensors(raw) if not x.is_complex()}
    return {
        p: x.double() for p, x in tensors.items() if x.ndim > 2 and x.shape[0] == items and items not in x.shape[1:]
    }


def _keys_are_items(case: Case) -> bool:
    """Has some attention inside as many keys as the batch has items, for two batches?"""
    items = case.call.sources[case.call.query].batch
    runs = [[s.key for s in watch(case, case.sample(batch=n)).sites] for n in (items, items + 2)]
    pairs = [(a, b) for a, b in zip(*runs) if a is not None and b is not None and min(a.ndim, b.ndim) > 2]
    return len(runs[0]) == len(runs[1]) and any((a.shape[-2], b.shape[-2]) == (items, items + 2) for a, b in pairs)


def _by_place(case: Case) -> Verdict | None:
    """Does an item get another output at another place of the batch? Looked at where the axis of the batch was told by behaviour.

    A fixed number of items may be nodes or channels with embeddings of their own; where the author wrote the mixing himself,
    so may any number.
    """
    if not (case.facts.get("axis_by_behaviour") and case.call.follows and case.call.free_batch):
        return None
    batch, base = case.base
    turned = case.run({n: x.roll(1, 0) for n, x in batch.items()})
    change = case.difference(turned, base.roll(1, 0)) if turned.shape == base.shape else 0.0
    if change <= case.big or not _more_items_run(case):
        return None
    torch_first = any(
        isinstance(m, nn.MultiheadAttention) and not m.batch_first for m in case.subject.pristine.modules()
    )
    return Verdict(
        "error" if torch_first else "question",
        f"tokens mix along the first axis, and what stands elsewhere on the second gets another output ({change:.2g}, relative): positions lie along one axis and attention along the other"
        + ("" if torch_first else "; are they nodes or channels?"),
        kind="batch-first", measured=change, allowed=case.tolerance, example=f"input {tuple(case.call.sources[case.call.query].shape)}, the second axis turned by one",
        cause="an nn.MultiheadAttention or encoder layer with batch_first=False is given (B, L, D)", fix="construct it with batch_first=True",
    )  # fmt: skip


def _more_items_run(case: Case) -> bool:
    """Is the number of items free upwards too? One item goes with a table of any length."""
    try:
        case.run(case.sample(batch=case.call.sources[case.call.query].batch + 2))
    except Exception:
        return False
    return True
