"""A short program that shows a finding without regard: load, build, call twice, print the difference."""

from __future__ import annotations

import inspect
import os
from typing import Any

from torch import nn

from regard.checks.build import DuckConfig
from regard.checks.call import Call, Source
from regard.checks.case import Case, Verdict
from regard.checks.mask_use import HIDE, MaskUse
from regard.checks.masks import call_for, keep_pattern, named_mask
from regard.checks.subject import untouched_globals

BODIES = {
    "ATT301": "changes = []\nfor item in (0, -1):\n    moved = {x}.clone()\n    moved[:] = {other_all}\n    moved{item} = {x}{item}\n    a, b = call({x}={x}), call({x}=moved)\n    changes.append((a{item} - b{item}).abs().max().item())\nprint('an item changes by', max(changes))",
    "ATT201": "moved = {x}.clone()\nmoved{last} = {other_last}\na, b = call({x}={x}), call({x}=moved)\nprint('earlier outputs change by', (a - b){before}.abs().max().item())",
    "ATT501": "torch.manual_seed(1); a = call()\ntorch.manual_seed(2); b = call()\nprint('two eval calls differ by', (a - b).abs().max().item())",
    "ATT502": "model.train()\ntorch.manual_seed(1); a = call()\ntorch.manual_seed(2); b = call()\nprint('two training calls differ by', (a - b).abs().max().item())",
    "ATT503": "a = call()\nmodel.train()\nb = call()\nprint('train and eval differ by', (a - b).abs().max().item())",
    "ATT605": "for seed in range(20):\n    torch.manual_seed(seed)\n    a = call({x}=torch.randn_like({x}))\n    if not a.isfinite().all():\n        print('seed', seed, 'gives', a[~a.isfinite()][0].item()); break",
    "ATT604": "model.float()\na = call({x}={x}.float() * 300)\nprint('finite:', bool(a.isfinite().all()))",
    "ATT704": "before = {x}.clone()\ncall()\nprint('argument unchanged:', torch.equal({x}, before))",
}
MASKED = {
    "ATT101": "hidden = ~keep\nmoved = {source}.clone()\nmoved{hide} = {other_hide}\na, b = call({mask}=mask), call({source}=moved, {mask}=mask)\nprint('hidden content changes real outputs by', (a - b){rows}.abs().max().item())",
    "ATT104": "keep[:] = True\n{encode}\na, b = call(), call({mask}=mask)\nprint('a mask that hides nothing changes the output by', (a - b).abs().max().item())",
    "ATT105": "a, b = call(), call({mask}=mask)\nprint('hiding keys changes the output by', (a - b).abs().max().item())",
    "ATT103": "a = call({mask}=mask)\nkeep[1:, -1] = ~keep[1:, -1]\n{encode}\nb = call({mask}=mask)\nprint('item 0 changes by', (a{first} - b{first}).abs().max().item())",
    "ATT601": "keep[0] = False\n{encode}\na = call({mask}=mask)\nprint('finite:', bool(a.isfinite().all()))",
    "ATT602": "keep[0] = False\n{encode}\ntorch.set_grad_enabled(True)\nout = call({mask}=mask)\nout{other}.square().sum().backward()\nprint('finite gradients:', all(p.grad is None or p.grad.isfinite().all() for p in model.parameters()))",
    "ATT503": "a = call({mask}=mask)\nmodel.train()\nb = call({mask}=mask)\nprint('train and eval differ by', (a - b){rows}.abs().max().item())",
    "ATT704": "before = mask.clone()\ncall({mask}=mask)\nprint('argument unchanged:', torch.equal(mask, before))",
    "ATT108": "a = call({mask}=mask)\nb = call({mask}=mask.int())\nprint('bool and int masks differ by', (a - b).abs().max().item())",
}


def write_script(case: Case, code: str, verdict: Verdict, target: str) -> str | None:
    """Python source, or None where there is no short form for this rule."""
    use = _use(case, verdict, code) if code in MASKED else None
    body = MASKED.get(code) if use is not None else BODIES.get(code)
    if body is None or not case.subject.is_module:
        return None
    call = call_for(case, use.parameter) if use is not None else case.call
    load = _loading(case, target)
    if load is None:
        return None
    inputs, names = _inputs(case, call)
    x = names[call.keys if use is None or use.source not in names else use.source]
    source = call.sources[call.query if use is None else use.source]
    words = {"x": x, "source": x, **_slices(call.sources[call.query].layout.axes)}
    words |= {f"other_{part}": _other(source, words[part]) for part in ("all", "last")}
    if use is not None:
        s = call.sources[use.source]
        encode = _encode(use, call.sources[call.query].tokens)
        inputs += [f"keep = torch.tensor({_pattern(case, call, use)}).bool()  # 1 = attend", encode]
        words |= {
            "mask": use.parameter,
            "encode": encode,
            "hide": _at(s.layout.axes, "hidden"),
            "other_hide": _other(s, _at(s.layout.axes, "hidden")),
            "rows": _rows(case, call, use),
        }
    feed = ", ".join(
        f"{p}={names[source]}" if p != names[source] else f"{p}={p}" for p, source in call.arguments.items()
    )
    path = "".join(f"[{k!r}]" for k in call.output)
    lines = [
        "import torch", *load, f"model = model.to({case.subject.dtype}).eval()", "torch.manual_seed(0)", "torch.set_grad_enabled(False)", *inputs,
        "def call(**changed):", f"    return model(**{{**dict({feed}), **changed}}){path}", body.format(**words),
    ]  # fmt: skip
    return "\n".join(lines) + "\n"


def _other(source: Source, part: str) -> str:
    """An expression for other tokens in place of a part of `moved`."""
    if source.vocabulary is not None:
        return f"(moved{part} + 1) % {source.vocabulary}"
    return f"torch.randn_like(moved{part}) * 5"


def _use(case: Case, verdict: Verdict, code: str) -> MaskUse | None:
    named = named_mask(case, verdict.message)
    return named or (case.masks[0] if case.masks and code not in BODIES else None)


def _pattern(case: Case, call: Call, use: MaskUse) -> list[list[int]]:
    return keep_pattern(use, case.sample(1, call=call)).int().tolist()


def _loading(case: Case, target: str) -> list[str] | None:
    cls = type(case.subject.pristine)
    init = case.facts.get("init", {})
    if any(
        isinstance(v, DuckConfig) or not isinstance(v, (int, float, str, bool, type(None), tuple))
        for v in init.values()
    ):
        return None
    arguments = ", ".join(f"{k}={v!r}" for k, v in init.items())
    module = inspect.getmodule(cls)
    file, _, name = target.rpartition(":")
    factory = case.facts.get("factory")
    if factory is not None and "<" not in factory.__qualname__:  # what it makes may differ from a plain instance
        return _called(factory, arguments)
    if module is not None and module.__name__.startswith(
        "regard_target_"
    ):  # a file outside packages has no name to import
        file, name = os.path.relpath(module.__file__ or ""), cls.__qualname__
    if file.endswith(".py"):
        return ["import runpy", f"model = runpy.run_path({file!r})[{name!r}]({arguments})"]
    if (
        module is None
        or module.__name__ in ("__main__",)
        or not isinstance(case.subject.pristine, nn.Module)
        or (not init and not _plain(cls))
        or not _alike(cls, init, case.subject.pristine)
    ):
        return None
    return [f"from {module.__name__} import {cls.__qualname__}", f"model = {cls.__qualname__}({arguments})"]


def _called(factory: Any, arguments: str) -> list[str]:
    """Lines that call the function that made the module."""
    name, module = factory.__qualname__, factory.__module__
    if module.startswith("regard_target_") or module == "__main__":
        file = os.path.relpath(inspect.getsourcefile(factory) or "")
        return ["import runpy", f"model = runpy.run_path({file!r})[{name!r}]({arguments})"]
    return [f"from {module} import {name}", f"model = {name}({arguments})"]


def _alike(cls: type, init: dict[str, Any], module: nn.Module) -> bool:
    """Does the class, built with these arguments, have the parts of the module that was checked?"""
    try:
        with untouched_globals(0):
            made = cls(**init)
    except Exception:
        return False
    return [type(m) for m in made.modules()] == [type(m) for m in module.modules()]


def _plain(cls: type) -> bool:
    try:
        return all(
            p.default is not p.empty or p.kind in (p.VAR_KEYWORD, p.VAR_POSITIONAL)
            for p in inspect.signature(cls).parameters.values()
        )
    except (TypeError, ValueError):
        return False


def _inputs(case: Case, call: Any) -> tuple[list[str], dict[str, str]]:
    lines, names = [], {}
    for source, s in call.sources.items():
        name = next(p for p, fed in call.arguments.items() if fed == source)
        names[source] = name
        if s.vocabulary is not None:
            lines.append(f"{name} = torch.randint(0, {s.vocabulary}, {s.shape})")
        else:
            lines.append(f"{name} = torch.randn({', '.join(map(str, s.shape))}, dtype={case.subject.dtype})")
    return lines, names


def _slices(axes: str) -> dict[str, str]:
    if axes == "LBD":
        return {
            "first": "[:, 0]",
            "rest": "[:, 1:]",
            "last": "[-1]",
            "before": "[:-1]",
            "other": "[:, 1:]",
            "item": "[:, item]",
            "all": "[:]",
        }
    return {
        "first": "[0]",
        "rest": "[1:]",
        "last": "[:, -1]",
        "before": "[:, :-1]",
        "other": "[1:]",
        "item": "[item]",
        "all": "[:]",
    }


def _at(axes: str, name: str) -> str:
    return f"[{name}.T]" if axes == "LBD" else f"[{name}]"


def _rows(case: Case, call: Any, use: MaskUse) -> str:
    if not (call.follows and use.source == call.query):
        return ""
    return _at(call.output_layout.axes, "keep") if call.output_layout.axes in ("BLD", "LBD") else ""


def _encode(use: MaskUse, queries: int) -> str:
    index = {"BS": "", "B11S": "[:, None, None]", "B1S": "[:, None]", "BS1": "[:, :, None]"}.get(use.shape)
    shaped = f"keep{index}" if index is not None else {
        "BTS": f"keep[:, None].expand(-1, {queries}, -1)", "B1TS": f"keep[:, None, None].expand(-1, 1, {queries}, -1)", "BHTS": f"keep[:, None, None].expand(-1, {use.heads}, {queries}, -1)",
        "HTS": f"keep[:, None].expand(-1, {queries}, -1).repeat_interleave({use.heads}, 0)", "SB": "keep.T", "PTS": "(keep[:, None] & keep[:, :, None])", "TS": f"keep[:1].expand({queries}, -1)", "SS": "keep[:1].expand(keep.shape[1], -1)", "S": "keep[0]", "lengths": "keep.sum(-1)",
    }[use.shape]  # fmt: skip
    if use.shape == "lengths":
        return f"mask = {shaped}" + (" / keep.shape[1]" if use.dtype == "fraction" else "")
    if use.dtype == "additive":
        return f"mask = torch.zeros(()).masked_fill(~{shaped}, {HIDE:g})"
    value = shaped if use.polarity == "keep" else f"~{shaped}"
    return f"mask = ({value})" + {"bool": "", "int": ".long()", "float": ".float()"}[use.dtype]
