"""Gradients reach every parameter."""

from __future__ import annotations

import contextlib
import copy
import re
from typing import Any

import torch
from torch import Tensor, nn

from regard.checks.call import Call
from regard.checks.case import Case, Verdict
from regard.checks.choice import Choices, differ
from regard.checks.evidence import largest_code
from regard.checks.infer import float_tensors
from regard.checks.one_weight import over_one_made_up, softmax_of_one
from regard.checks.redraw import SEEDS, other_numbers, redrawn
from regard.checks.rule import rule
from regard.checks.sites import alike_keys, attention_sites, watch
from regard.checks.subject import as_dtype
from regard.checks.switched_off import never_ran, switched_off

LARGEST_MAP = 1024  # pixels of the larger maps that are tried
END = r"s?(\.|_|\d|$)"
QK = rf"(^|\.|_)(q|k|qk|query|queries|key|wq|wk){END}"
VALUES = rf"(^|\.|_)(v|value|wv|kv|qkv|in_proj|c_attn){END}"


def gradients(
    case: Case,
    *,
    pristine: bool = False,
    call: Call | None = None,
    number: int = 4,
    tokens: int | dict[str, int] | None = None,
    grids: dict[str, tuple[int, ...]] | None = None,
    size: float = 1.0,
    module: Any = None,
    every: bool = False,
) -> dict[str, Tensor | None]:
    """Parameter name -> gradient of a random projection of the output; None where nothing arrives. `size`: of the input; `every`: all outputs count."""
    module = module or case.subject.instance(fresh=True)
    if pristine:
        module = as_dtype(copy.deepcopy(case.subject.pristine), case.subject.dtype).eval()
    call = call or case.call
    batch = {
        n: x * size if x.is_floating_point() else x for n, x in case.sample(number, call=call, tokens=tokens).items()
    }
    raw = case.raw(batch, call=call, grad=True, module=module, grids=grids)
    others = [
        t for p, t in float_tensors(raw) if (every and p != call.output) or call.output not in ((), (0,), p)
    ]  # it is not the first that is looked at
    outputs = [t for t in (call.main_output(raw), *_second_stream(call, raw), *others) if t.requires_grad]
    if not outputs:
        return {n: None for n, p in module.named_parameters() if p.requires_grad}
    generator = torch.Generator().manual_seed(5)
    sums = [(out * torch.randn(out.shape, generator=generator, dtype=out.dtype)).sum() for out in outputs]
    torch.stack([s.to(torch.float64) for s in sums]).sum().backward()
    return {n: p.grad for n, p in module.named_parameters() if p.requires_grad}


def _second_stream(call: Call, raw: Any) -> list[Tensor]:
    """What stands for the context's tokens, where both streams are updated and returned."""
    if not call.is_cross:
        return []
    keys, own = call.sources[call.keys], call.sources[call.query]
    if keys.layout.axes != "BLD":
        return [t for _, t in float_tensors(raw) if tuple(t.shape) == keys.shape != own.shape and t.is_floating_point()]
    place = (keys.batch, keys.tokens)  # in any width: two streams may come out as wide as their attention is
    return [
        t
        for _, t in float_tensors(raw)
        if t.ndim == 3 and tuple(t.shape[:2]) == place and keys.tokens != own.tokens and t.is_floating_point()
    ]


def _arrives(grad: Tensor | None) -> bool:
    return grad is not None and bool((grad.abs() > 1e-14).any())


def _anywhere(case: Case) -> dict[str, Tensor | None]:
    """Gradients by name, each from the first run in which one arrives: other inputs, training, other weights, a context."""
    got = gradients(case)
    for number, size in ((5, 1.0), (6, 1.0), (7, 5.0), (8, -25.0)):  # a ReLU may be shut for one input
        if all(_arrives(g) for g in got.values()):
            break
        other = gradients(case, number=number, size=size).values()
        got = {n: g if _arrives(g) else h for (n, g), h in zip(got.items(), other)}
    if not all(_arrives(g) for g in got.values()):  # or kept ready for eval, and computed in training only
        trained = gradients(case, module=case.subject.instance(fresh=True, train=True)).values()
        got = {n: g if _arrives(g) else h for (n, g), h in zip(got.items(), trained)}
    for seed in SEEDS:  # or for every input, with weights that happen to be so
        if all(_arrives(g) for g in got.values()):
            break
        other = gradients(case, module=redrawn(case, seed), size=5.0).values()
        got = {n: g if _arrives(g) else h for (n, g), h in zip(got.items(), other)}
    for call in () if all(_arrives(g) for g in got.values()) else other_numbers(case):
        with contextlib.suppress(Exception):
            got = {n: g if _arrives(g) else h for (n, g), h in zip(got.items(), gradients(case, call=call).values())}
    if case.cross is not None:
        for n, g in gradients(case, call=case.cross).items():
            got[n] = got[n] if _arrives(got.get(n)) else g
    return got


@rule("ATT701", kinds=("output-unused", "unused-parameters", "gradient-cut", "softmax-axis-singleton"))
def gradient_reaches_parameters(case: Case) -> list[Verdict]:
    """Every parameter gets a gradient from the output.

    What goes wrong: the attention's result is computed and not used; a projection is never called; detach, no_grad or
    .data cuts queries or keys off.
    Why it matters: part of the model never learns; nothing complains.

    Bad:
        attn_out, _ = self.attn(y, y, y)
        return x + self.ff(self.norm(x))           # attn_out is dropped
    Good:
        x = x + attn_out
    """
    case.need(case.subject.is_module, "a function has no parameters")
    case.need(any(p.requires_grad for p in case.subject.pristine.parameters()), "it has no trainable parameters")
    got = _anywhere(case)
    dead = [n for n, g in got.items() if not _arrives(g) and not _exempt(case, n, got)]
    dead = [n for n in dead if n not in _used_whenlonger_inputs(case, dead)] if dead else dead
    if not dead:
        return _without_effect(case, got)
    fresh = case.subject.instance(fresh=True)
    if len(dead) == len(got) and not case.run(case.sample(4), grad=True, module=fresh).requires_grad:
        return [_inference_only(len(got))]
    if (verdict := softmax_of_one(case, dead)) is not None:
        return [verdict]
    tells(case)
    attention = _is_attention(case, dead)
    never = never_ran(dead, _calls(case))
    kind = (
        "unused-parameters"
        if never
        else "output-unused"
        if attention == "all"
        else "gradient-cut"
        if attention == "qk"
        else "unused-parameters"
    )
    if not never and _by_choice(case, dead):
        return [_chosen(dead, len(got))]
    optional = len(attention_sites(case)) > 1 or case.leaves_out
    leads = _leads_back(case, dead) if kind != "gradient-cut" and not never else None
    if leads == "zero" and kind == "unused-parameters":
        return [_zero(dead, len(got))]
    if leads is True:
        case.notes.append(f"{', '.join(dead[:4])}: used by another output, or by what is kept for a loss")
        return []
    if leads is False and not optional and kind == "unused-parameters":
        return [_result_dropped(dead, len(got))]
    certain = kind != "unused-parameters" or (never and attention != "none")
    if never and switched_off(case.subject.pristine, dead, _calls(case), guarded=certain):
        certain, optional = False, True
    level = "error" if certain else "question" if optional else "warning"
    return [Verdict(
        level, f"no gradient reaches {', '.join(dead[:4])}{f' and {len(dead) - 4} more' if len(dead) > 4 else ''}", kind=kind,
        measured=f"{len(dead)} of {len(got)} parameters without gradient", allowed="0", example="a random projection of the output", cause=CAUSES[kind], fix=FIXES[kind],
    )]  # fmt: skip


CAUSES = {
    "output-unused": "the attention is computed and its result is not used",
    "gradient-cut": "queries or keys are detached, or their scores never reach the output",
    "unused-parameters": "the layer is made and never called",
}
FIXES = {
    "output-unused": "add the attention's result to the residual stream",
    "gradient-cut": "remove detach(), .data or no_grad() on the way",
    "unused-parameters": "call it, or remove it",
}


def tells(case: Case) -> None:
    """NotExercised where this size, or this mask, leaves parameters without a say."""
    sites = attention_sites(case)
    one = any(s.shape is not None and s.shape[-1] <= 1 for s in sites) or over_one_made_up(case)
    case.need(not one, "there is one key only at this size, so queries and keys have no say")
    alike = any(alike_keys(case, s) for s in sites)
    case.need(not alike, "keys were made up, the same for all tokens: queries and keys have no say")
    for name in case.signature.masks:
        most = largest_code(case.evidence.source, name)
        case.need(most < 2, f"{name} is compared with {most} too, and no call here gives it more than 0 and 1")


def _leads_back(case: Case, dead: list[str]) -> bool | str | None:
    """Does anything that is returned or kept lead back to the dead parameters, in either mode? None: their layers do not all run.

    "zero": it does, and their gradients are zero by mathematics.
    """
    called = _calls(case)
    if not all("." in n and called.get(n.rpartition(".")[0]) for n in dead):
        return None
    reached: set[str] = set()
    moved: set[str] = set()
    for train in (False, True):
        module = case.subject.instance(fresh=True, train=train)
        raw = case.raw(case.sample(4), grad=True, module=module)
        kept = [v for part in module.modules() for v in vars(part).values()]  # a loss for the trainer to collect
        outs = [t for _, t in float_tensors([raw, kept]) if t.requires_grad and t.grad_fn is not None]
        named = {n: p for n, p in module.named_parameters() if n in dead}
        if not outs or len(named) < len(dead):
            return None
        grads = torch.autograd.grad([t.abs().sum() for t in outs], list(named.values()), allow_unused=True)
        reached |= {n for n, g in zip(named, grads) if g is not None}
        moved |= {n for n, g in zip(named, grads) if _arrives(g)}
    if len(reached) == len(dead) and not moved and not any("bias" in n.rpartition(".")[2] for n in dead):
        return "zero"
    return True if len(reached) == len(dead) else None if reached else False


def _result_dropped(dead: list[str], parameters: int) -> Verdict:
    return Verdict(
        "error",
        f"{', '.join(dead[:4])} run in the forward, and nothing that is returned depends on them: their result is dropped",
        kind="unused-parameters", measured=f"{len(dead)} of {parameters} parameters without gradient", allowed="0", example="a random projection of the output",
        cause="what the layer computes is never added or used", fix="use it, or remove the layer",
    )  # fmt: skip


def _without_effect(case: Case, got: dict[str, Tensor | None]) -> list[Verdict]:
    """Tables whose gradient is rounding beside the others', and which may hold anything at any length without a change of the output."""
    sizes = {n: float(g.abs().max()) for n, g in got.items() if g is not None and g.numel()}
    flat = [n for n, size in sizes.items() if size < 1e-12 * max(sizes.values()) and got[n].ndim > 1]  # pyright: ignore
    if not flat or case.stochastic:
        return []
    for longer in ({}, *longer_inputs(case)):
        with contextlib.suppress(Exception):
            if _moved_by(case, flat, 3.0, longer)[0] > 1e-9:
                return []
    return [_zero(flat, len(got))]


def _zero(dead: list[str], parameters: int) -> Verdict:
    return Verdict(
        "question",
        f"{', '.join(dead[:4])} take part, and whatever their values, the output is the same: what is added to every key alike, a softmax removes; is that meant?",
        kind="unused-parameters", measured=f"{len(dead)} of {parameters} parameters with a gradient of zero", allowed="0", example="a random projection of the output",
        cause="the bias of all visible keys is read from one entry of the table, or is added along the other axis", fix="look at the places that the table is read with",
    )  # fmt: skip


def _inference_only(parameters: int) -> Verdict:
    return Verdict(
        "question", "no gradient at all reaches the parameters: is it meant for inference only?",
        kind="gradient-cut", measured=f"0 of {parameters} parameters", allowed="all",
        cause="torch.no_grad() or detach() around the forward", fix="remove it where training is meant",
    )  # fmt: skip


def _chosen(dead: list[str], parameters: int) -> Verdict:
    return Verdict(
        "question",
        f"{', '.join(dead[:4])} act only through a choice of keys (top-k, hash, rounding) and get no gradient: is there a loss of their own?",
        kind="gradient-cut", measured=f"{len(dead)} of {parameters} parameters without gradient", allowed="0",
        example="a small change of them changes nothing, a large one does", cause="a discrete choice", fix="a loss of its own, or a straight-through estimator",
    )  # fmt: skip


def longer_inputs(case: Case) -> list[dict[str, Any]]:
    """Longer inputs, or larger maps, as `tokens` and `grids` of a run: there a top-k leaves keys out, and pools hold several."""
    name = case.call.query
    grid = case.call.sources[name].grid
    if case.call.free_length:
        return [{"tokens": tokens} for tokens in (32, 128, case.call.sources[name].tokens + 8)]
    if len(grid) != 2 or case.call.is_cross:
        return []
    larger = [(2 * grid[0], 2 * grid[1]), (2 * grid[0], 3 * grid[1]), (4 * grid[0], 4 * grid[1])]
    return [{"tokens": {name: h * w}, "grids": {name: (h, w)}} for h, w in larger if h * w <= LARGEST_MAP]


def _used_whenlonger_inputs(case: Case, dead: list[str]) -> set[str]:
    """Parameters that get a gradient at a longer input: position tables, pools of several tokens."""
    found: set[str] = set()
    for sizes in longer_inputs(case):
        try:
            longer = gradients(case, **sizes)
        except Exception:
            continue
        found |= {n for n in dead if _arrives(longer.get(n))}
    return found


def _by_choice(case: Case, names: list[str]) -> bool:
    """Do these parameters act through a choice only? A small change of them changes nothing, and a large one changes the output
    at some length, or else what a top-k looks at: one that keeps more than there is chooses everything.
    """
    if case.stochastic:
        return False
    looks = False
    for sizes in ({}, *longer_inputs(case)):
        with contextlib.suppress(Exception):
            (small, _), (large, chosen) = (_moved_by(case, names, size, sizes) for size in (1e-6, 3.0))
            if small >= 1e-12:
                return False
            if large > case.tolerance:
                return True
            looks |= chosen
    return looks


def _moved_by(case: Case, names: list[str], size: float, sizes: dict[str, Any]) -> tuple[float, bool]:
    """How far the output moves when these parameters do, and whether a choice inside sees other scores."""
    batch = case.sample(tokens=sizes.get("tokens"))
    runs: list[tuple[Tensor, list[Tensor]]] = []
    for by in (0.0, size):
        module = case.subject.instance(fresh=True)
        generator = torch.Generator().manual_seed(12)
        with torch.no_grad():
            for name, p in module.named_parameters():
                if name in names:
                    p.add_(by * torch.randn(p.shape, generator=generator, dtype=p.dtype))
        with Choices() as seen:
            out = case.run(batch, grids=sizes.get("grids"), module=module)
        runs.append((out, seen.scores))
    return case.difference(runs[1][0], runs[0][0]), differ(runs[0][1], runs[1][1])


def _calls(case: Case) -> dict[str, int]:
    return watch(case, case.sample()).seen.calls


def _exempt(case: Case, name: str, got: dict[str, Tensor | None]) -> bool:
    """A key bias shifts all scores of a row alike: a gradient arrives and is zero by mathematics, while its weight's is not."""
    parameter = dict(case.subject.pristine.named_parameters())[name]
    sibling = name.removesuffix("bias") + "weight"
    return parameter.ndim == 1 and got[name] is not None and (_arrives(got.get(sibling)) or not name.endswith("bias"))


def _is_attention(case: Case, dead: list[str]) -> str:
    """ "all" when an attention's own projections are dead with its values, "qk" when queries and keys are and values are not."""
    parameters = dict(case.subject.pristine.named_parameters())
    heads = {n.rsplit(".", 2)[0] for n in dead if "in_proj" in n or "out_proj" in n}
    if any(
        isinstance(m, nn.MultiheadAttention) and name in heads | {n.rsplit(".", 1)[0] for n in dead}
        for name, m in case.subject.pristine.named_modules()
    ):
        return "all"
    qk = [n for n in dead if re.search(QK, n.lower()) and not n.endswith("bias")]
    values = [n for n in dead if re.search(VALUES, n.lower())]
    if values and len(dead) < len(parameters):
        return "all"
    return "qk" if qk else "none"
