"""Two attentions on the same random input: how far their outputs are apart, call by call.

Axes: B samples, T queries, S keys, E channels.
A wrong layout never raises, so numbers decide. The input is scaled so that the scores spread by about 1: with a flat
softmax, wrong heads would hardly show.
"""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor, nn

from regard.adapt.found import Adapter, Found
from regard.adapt.keras_layers import is_keras
from regard.adapt.layout import Projections
from regard.convert.build import layer_of, own_mask, projections_of
from regard.core.errors import ConversionError
from regard.core.mask.sequences import padding
from regard.core.mask.table import dense
from regard.nn.multi_head import MultiHeadAttention

B, T, S = 2, 7, 9
LENGTHS = (7, 4)  # real tokens of each sample where there is padding
SPREAD = 1.0  # standard deviation of the scores that the input is scaled to
RELATIVE = 1e-5  # of the largest output: float32 keeps 1e-7, and a wrong layout is off by 1e-2 and more


@dataclass(frozen=True)
class Conversion:
    """What was compared, and how far apart it was.

    Attributes:
        source: What the weights came from, or went to.
        differences: Case ("self", "padding", ...) -> largest difference, over queries that see a key.
        allowed: From here on the conversion would have been refused.
        how: "both sides ran", "golden case", "example" or "not verified".
        layout: How the weights lie there.
    """

    source: str
    differences: dict[str, float] = field(default_factory=dict)
    allowed: float = math.nan
    how: str = "not verified"
    layout: Any = None

    @property
    def difference(self) -> float:
        """The largest of all cases; NaN where nothing was compared."""
        return max(self.differences.values(), default=math.nan)

    def __str__(self) -> str:
        cases = ", ".join(f"{name} {value:.1e}" for name, value in self.differences.items())
        allowed = f" (allowed {self.allowed:.1e})" if math.isfinite(self.allowed) else ""
        said = f": {cases}{allowed}" if cases else ""
        return f"{self.source}, {self.how}{said}"


@dataclass(frozen=True)
class Case:
    """One call, the same for both sides."""

    name: str
    query: Tensor  # (B, T, E)
    context: Tensor | None  # (B, S, E)
    extra: Tensor  # (B, T, S) bool: what the call hides besides the layer's own mask
    attend: Tensor  # (B, T, S) bool: with it


def cases_for(names: tuple[str, ...], parts: Projections, mask: Any, scale: float | None, heads: int) -> list[Case]:
    """The calls of these names, with inputs scaled to these projections."""
    generator = torch.Generator().manual_seed(20261130)
    weight = parts.query.weight
    width, context_width = weight.shape[1], max(parts.key.weight.shape[1], parts.value.weight.shape[1])
    plain = torch.randn(B, T, width, generator=generator)
    other = torch.randn(B, S, context_width, generator=generator)
    size = _spreading(plain, parts, scale, heads)
    query, context = (plain * size).to(weight.dtype), (other * size).to(weight.dtype)
    if context_width != width or parts.key.weight.shape[1] != width or parts.value.weight.shape[1] != width:
        names = tuple(name for name in names if name == "cross")  # keys cannot be the queries
    elif mask is not None:
        names = tuple(name for name in names if name != "cross")  # where queries stand among other keys is nobody's say
    made = []
    for name in names:
        keys = S if name == "cross" else T
        extra = torch.ones(B, T, keys, dtype=torch.bool)
        if "padding" in name or name == "cross":
            extra = extra & (torch.arange(keys) < torch.tensor(LENGTHS)[:, None])[:, None]
        if "causal" in name:
            extra = extra & torch.ones(T, T).tril().bool()
        attend = extra if name == "cross" and mask is None else extra & own_mask(mask, T, keys)
        made.append(Case(name, query, context if name == "cross" else None, extra, attend))
    return made


def ours(layer: MultiHeadAttention, case: Case) -> Tensor:
    """Our layer's output (B, T, E) for a case, by the mask that a user would write."""
    if case.name == "padding":
        mask = padding(case.extra[:, 0])
    elif case.name == "self":
        mask = None
    else:
        mask = dense(case.extra[:, None])
    if case.context is None:
        return layer(case.query, mask=mask)
    key = case.context[..., : layer.key_dim]
    return layer(case.query, key, case.context[..., : layer.value_dim], mask=mask)


class Comparison:
    """The other side's outputs, computed once; our layer can then be compared in several readings.

    Args:
        adapter: Who runs the module.
        module: In whatever mode; it is not changed.
        found: As it was read; says which calls can be made.
    """

    def __init__(self, adapter: Adapter, module: Any, found: Found):
        layer = layer_of(found)
        q, k, v, out = projections_of(layer)
        parts = Projections(q.map(_wide), k.map(_wide), v.map(_wide), out)
        self.cases = cases_for(found.cases, parts, found.facts.mask, layer.scale, layer.num_heads)
        self._drawn: dict[str, Tensor] | None = None
        module = _exact(module)
        self.theirs = self._run(adapter, module)
        if _silent(self.theirs) and isinstance(module, nn.Module) and not is_keras(module):
            _draw(module)  # a last projection that starts at 0 shows nothing: compare with other weights
            self._drawn = adapter.find(module, {"num_heads": found.layout.num_heads, "mask": None}).arrays
            self.theirs = self._run(adapter, module)

    def _run(self, adapter: Adapter, module: Any) -> list[Tensor]:
        with torch.no_grad():
            return [adapter.run(module, c.query, c.context, c.attend).detach() for c in self.cases]

    def measure(self, layer: MultiHeadAttention, found: Found) -> Conversion:
        """How far our layer is from the other side, case by case; a NaN on either side is an infinite difference."""
        layer = _exact(layer if self._drawn is None else layer_of(replace(found, arrays=self._drawn)))
        apart, largest = {}, 0.0
        with torch.no_grad():
            for case, theirs in zip(self.cases, self.theirs, strict=True):
                mine = ours(layer, case)
                if theirs.shape != mine.shape:
                    raise ConversionError(
                        f"{found.source} gives {tuple(theirs.shape)} for {tuple(case.query.shape)}, and our layer "
                        f"{tuple(mine.shape)}"
                    )
                seen = case.attend.any(dim=2, keepdim=True)  # (B, T, 1): rows without keys differ by design
                gap = (mine - theirs).abs().masked_fill(~seen, 0).amax().item()
                apart[case.name] = math.inf if math.isnan(gap) else gap
                largest = max(largest, mine.abs().amax().item())
        how = "both sides ran" if self._drawn is None else "both sides ran with drawn weights, as the own ones give 0"
        return Conversion(found.source, apart, allowance(largest), how, found.layout)


def against(layer: MultiHeadAttention, example: tuple[Any, Any], found: Found) -> Conversion:
    """Compare with an input and an output that were recorded elsewhere: (B, T, E) both."""
    layer = _exact(layer)
    given, expected = (torch.as_tensor(x).detach().cpu() for x in example)
    with torch.no_grad():
        output = layer(given.to(layer.q_proj.weight.dtype))
    if output.shape != expected.shape:
        raise ConversionError(
            f"example has an output of {tuple(expected.shape)}; the layer gives {tuple(output.shape)}"
        )
    gap = (output - expected).abs().amax().item()
    return Conversion(found.source, {"example": gap}, allowance(output.abs().amax().item()), "example", found.layout)


def allowance(largest: float) -> float:
    """How far apart two float32 outputs may be."""
    return RELATIVE * max(largest, 1e-6)


def _silent(outputs: list[Tensor]) -> bool:
    """Whether no output depends on the token: then nothing that attention does could be seen."""
    return all(bool((x - x[:, :1]).abs().amax() <= 1e-6 * max(float(x.abs().amax()), 1e-6)) for x in outputs)


def _draw(module: nn.Module) -> None:
    """Random parameters in place of all."""
    generator = torch.Generator().manual_seed(20261130)
    with torch.no_grad():
        for parameter in module.parameters():
            drawn = torch.randn(parameter.shape, generator=generator) / max(parameter.shape[-1], 1) ** 0.5
            parameter.copy_(drawn)


def _wide(x: Tensor) -> Tensor:
    """In float32 where it was 16-bit, on the CPU: what `_exact` computes in."""
    return x.cpu().to(torch.promote_types(x.dtype, torch.float32))


def _exact(module: Any) -> Any:
    """A copy in eval mode, in float32 where it was 16-bit; what is no torch module as it is."""
    if not isinstance(module, nn.Module) or is_keras(module):  # a Keras layer is told to leave dropout out at the call
        return module
    module = copy.deepcopy(module).cpu().eval()
    small = any(p.dtype in (torch.float16, torch.bfloat16) for p in module.parameters())
    return module.float() if small else module


def _spreading(x: Tensor, parts: Projections, scale: float | None, heads: int) -> float:
    """By what to multiply x so that the scores of the first head spread by about `SPREAD`."""
    width = parts.query.weight.shape[0] // heads
    query, key = (p.weight.detach().float().cpu()[:width] for p in (parts.query, parts.key))
    if key.shape[1] != x.shape[2]:
        return 1.0
    scores = (x @ query.T) @ (x @ key.T).transpose(1, 2) * (width**-0.5 if scale is None else scale)
    spread = scores.std().item()
    return 1.0 if not 0 < spread < math.inf else min(max((SPREAD / spread) ** 0.5, 1e-2), 1e3)
