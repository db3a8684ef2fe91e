"""After a call was found: float64 where it runs, which axis is the batch, whether calls leave state, whether eval is random."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from regard.checks.call import Call
from regard.checks.case import Case
from regard.checks.infer_forms import time_first
from regard.checks.layout import Layout
from regard.checks.subject import Subject

SECONDS = 3.0  # of the processor, for the sizes of arguments that are turned
SWAP = {"BLD": "LBD", "LBD": "BLD", "BL": "LB", "LB": "BL"}


def settle_dtype(subject: Subject, call: Call) -> None:
    """float64 if the subject runs and stays in it, else float32."""
    for dtype in (torch.float64, torch.float32):
        try:
            raw = subject.call(
                call.lay_out(_tokens(call), dtype), dtype=dtype, module=subject.instance(dtype=dtype, fresh=True)
            )
            out = raw
            for key in call.output:
                out = out[key] if not isinstance(key, str) or isinstance(out, dict) else getattr(out, key)
        except Exception:
            continue
        if out.dtype == dtype or dtype == torch.float32 or out.is_complex():
            subject.dtype = dtype
            return


def _tokens(call: Call, seed: int = 3) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return {n: s.sample(generator) for n, s in call.sources.items()}


def settle_state(subject: Subject, call: Call) -> None:
    """Stateful: a second call on the same object, or its attributes, differ from the first."""
    if not subject.is_module:
        return
    module = subject.instance(fresh=True)
    before = _state(module)
    kwargs = call.lay_out(_tokens(call), subject.dtype)
    try:
        subject.call(kwargs, module=module)
    except Exception:
        return
    subject.stateful = _state(module) != before


def _state(module: nn.Module) -> list[Any]:
    """A fingerprint of buffers and plain attributes."""
    out: list[Any] = []
    for name, part in module.named_modules():
        for key, value in sorted(vars(part).items()):
            if key in ("_parameters", "_modules") or key.startswith(("_forward", "_backward")):
                continue
            out.append((name, key, _mark(value)))
    return out


def _mark(value: Any) -> Any:
    if isinstance(value, Tensor):
        return (
            tuple(value.shape),
            float(value.detach().double().abs().sum()) if value.numel() and not value.is_complex() else 0,
        )
    if isinstance(value, dict):
        return [(str(k), _mark(v)) for k, v in value.items()]
    if isinstance(value, (list, tuple)):
        return [_mark(v) for v in value]
    return value if isinstance(value, (int, float, str, bool, type(None))) else type(value).__name__


def settle_batch_axis(case: Case) -> None:
    """Sequence first or batch first: the axis along which tokens mix is the sequence; both or none keeps batch first."""
    source = case.call.sources[case.call.query]
    declared = case.design.layout
    if source.layout.axes not in SWAP or not case.call.follows:
        return
    if declared in SWAP:
        if source.layout.axes != declared:
            _swap(case)
        return
    along_batch, along_tokens = mixing(case)
    if along_batch and not along_tokens:
        case.facts["axis_by_behaviour"] = True
        if not _companions_turned(case):
            _swap(case)


def _companions_turned(case: Case) -> bool:
    """Where tensors were made up beside the streams, they lie sequence first as well: their sizes are found anew."""
    if not case.call.made_up:
        return False
    call = time_first(case.subject, case.signature, case.call, SECONDS)
    if call is None or not call.follows:
        return False
    previous, case.call = case.call, call
    case.__dict__.pop("base", None)
    along_batch, along_tokens = mixing(case)
    if along_batch or not along_tokens:
        case.call = previous
        case.__dict__.pop("base", None)
    return case.call is call


def mixing(case: Case) -> tuple[bool, bool]:
    """(does anything pass between items, does anything pass between tokens of an item)."""
    batch, base = case.base
    if base.shape[1] < 2 or base.shape[0] < 2:
        return False, True
    changed = torch.zeros(base.shape[:2], dtype=torch.bool)
    spots = [(0, 0), (0, base.shape[1] - 1), (1, 1)]
    across = along = False
    for b, t in spots:
        moved = {n: x.clone() for n, x in batch.items()}
        for x in moved.values():
            _replace_token(x, b, min(t, x.shape[1] - 1))
        out = case.run(moved)
        changed = (out - base).abs().amax(-1) > case.tolerance * max(float(base.abs().max()), 1e-12)
        across |= bool(changed[[i for i in range(base.shape[0]) if i != b]].any())
        along |= bool(changed[b, [i for i in range(base.shape[1]) if i != t]].any())
    return across, along


def _replace_token(x: Tensor, b: int, t: int) -> None:
    if x.is_floating_point():
        x[b, t] = x[b, t].roll(1, -1) * 1.5 + 0.3
    else:
        x[b, t] = (x[b, t] + 3) % max(int(x.max()) + 1, 4)


def _swap(case: Case) -> None:
    """Read the first two axes the other way round, and keep 3 items of 7 tokens."""
    sources = {}
    for name, s in case.call.sources.items():
        sources[name] = replace(s, layout=Layout(SWAP[s.layout.axes]))
    layout = Layout(SWAP.get(case.call.output_layout.axes, case.call.output_layout.axes))
    swapped = case.call.but(sources=sources, output_layout=layout)
    previous = case.call
    count = previous.sources[previous.query].tokens  # a number of items that is fixed stays what it was
    as_many = swapped.but(sources={n: replace(s, batch=count) for n, s in sources.items()})
    for case.call in (_longer_context(swapped), swapped, as_many, previous):
        case.__dict__.pop("base", None)
        try:
            _ = case.base
        except Exception:  # equal lengths are needed, or the axes stand as they stood
            continue
        return


def _longer_context(call: Call) -> Call:
    """More keys than queries, so that the two cannot be taken for each other."""
    query = call.sources[call.query]
    longer = {
        n: replace(s, grid=(s.tokens + 2,)) for n, s in call.sources.items() if n != call.query and s.grid == query.grid
    }
    return call.but(sources={**call.sources, **longer})


def settle_freedom(case: Case) -> None:
    """Do other lengths and other batch sizes run?"""
    source = case.call.sources[case.call.query]
    length = batch = False
    if len(source.grid) == 1:
        for n in (source.tokens + 1, source.tokens + 5, 2 * source.tokens):
            length |= _runs(case, tokens={k: s.tokens + n - source.tokens for k, s in case.call.sources.items()})
    batch = _runs(case, batch=1) and source.batch > 1
    case.call = case.call.but(free_length=length, free_batch=batch)


def _runs(case: Case, **sizes: Any) -> bool:
    try:
        case.run(case.sample(**sizes))
    except Exception:
        return False
    return True


def fitted_vocabularies(subject: Subject, call: Call) -> Call:
    """The call with ids that every table of the subject holds: streams may have tables of their own, of other sizes."""
    parts = subject.pristine.modules() if subject.is_module else ()
    sizes = sorted({m.num_embeddings for m in parts if isinstance(m, nn.Embedding)}, reverse=True)
    for name in [n for n, s in call.sources.items() if s.vocabulary is not None]:
        for size in [n for n in sizes if n > 8]:
            fitted = call.but(sources={**call.sources, name: replace(call.sources[name], vocabulary=size)})
            generator = torch.Generator().manual_seed(1)
            tokens = {n: s.sample(generator) for n, s in fitted.sources.items()}
            tokens[name] = torch.full_like(tokens[name], size - 1)
            try:
                subject.call(fitted.lay_out(tokens, subject.dtype), module=subject.trial())
            except IndexError:
                continue
            except Exception:  # such ids mean something else to it
                break
            call = fitted
            break
    return call


def settle_randomness(case: Case) -> None:
    """Eval with two seeds: the same numbers?"""
    batch = case.sample()
    a, b = case.run(batch, seed=11), case.run(batch, seed=12)
    case.stochastic = case.difference(a, b) > case.tolerance
