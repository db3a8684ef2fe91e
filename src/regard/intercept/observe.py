"""Watch a module run and list its attention sites; the output stays bit-identical.

A dispatch mode sees every operator after autograd and before the kernel, so it runs exactly what would have run. Fused kernels
are read by name; hand-written softmax(q k^T) v is found by following tensors from product to softmax to product.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch._ops import OpOverload
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes

from regard.core.call import Call
from regard.intercept import kernels
from regard.intercept.flex import Uncompiled, flex_site, is_flex
from regard.intercept.follow import Follower
from regard.intercept.gradients import Gradients
from regard.intercept.lineage import Lineage, key_of
from regard.intercept.place import ModuleStack, source_line
from regard.intercept.pooled import pooled
from regard.intercept.products import PRODUCTS, Products
from regard.intercept.site import Site
from regard.intercept.whole_calls import Inside, WholeCalls


@dataclass
class Seen:
    """What was seen: attention sites in the order of their softmax, and texts for what was seen and not understood."""

    sites: list[Site] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)
    calls: dict[str, int] = field(default_factory=dict)  # module path -> how often it ran

    def note(self, text: str) -> None:
        if text not in self.unknown:
            self.unknown.append(text)


class _Mode(TorchDispatchMode):
    """Runs each operator as it is, then shows it to `follow`."""

    supports_higher_order_operators = True  # flex_attention is one; without this torch refuses to run it here

    def __init__(self, follow: Callable, unknown: Callable[[str], None]):
        super().__init__()
        self.follow, self.unknown = follow, unknown

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if _is_composite(
            func
        ):  # under inference_mode composite operators arrive whole: run their own parts, seen one by one
            with self:
                return func._op_dk(torch._C.DispatchKey.CompositeImplicitAutograd, *args, **kwargs)
        out = func(*args, **kwargs)
        try:
            self.follow(func, args, kwargs, out)
        except Exception as error:  # looking must never stop the run that is looked at
            self.unknown(f"{func} could not be followed: {type(error).__name__}: {error}")
        return out


class observe:
    """Context manager: `with observe(module) as seen: module(x)`, then `seen.sites` and `seen.unknown`.

    Args:
        module: Gives the names of the modules that run; None leaves class names.
        on_site: Called with each site as soon as it is complete; with it, sites are not kept in `seen`.
        hold: "all", or "used": softmax inputs are not kept, so that no T x S tensor is alive that the module has let go.
        keep_graph: Leave what was recorded attached to autograd, so that `torch.autograd.grad(loss, site.weights_used)` works.
        copy: Keep copies, safe from later writes in place (caches); off when `on_site` consumes at once.
        max_bytes: Stop keeping tensors of further sites once this much is held; a note says so.
    """

    def __init__(
        self,
        module: nn.Module | None = None,
        *,
        on_site: Callable[[Site], None] | None = None,
        hold: str = "all",
        keep_graph: bool = False,
        copy: bool | None = None,
        max_bytes: int = 1 << 30,
    ):
        self.mode = _Mode(self._follow, self._unknown)
        self.seen = Seen()
        self.stack = ModuleStack(module)
        self.lineage = Lineage()
        self.on_site = on_site
        self.keep_graph = keep_graph
        self.copy = (on_site is None and not keep_graph) if copy is None else copy
        self.max_bytes, self.held, self.order = max_bytes, 0, 0
        self.follower = Follower(self.lineage, self._now, hold == "all")
        self.products = Products(self.lineage, self.follower, self._unknown)
        self.gradients = Gradients()
        self.flex = Uncompiled()
        self.whole = WholeCalls(lambda: len(self.follower.softmaxes), self._close)
        for tensor in [] if module is None else [*module.parameters(), *module.buffers()]:
            self._learn(tensor)

    def __enter__(self) -> Seen:
        torch.clear_autocast_cache()  # weights cast earlier would not be known for weights
        self.eager = torch.compiler.set_stance(
            "force_eager"
        )  # else what runs first under observation is never compiled later
        self.eager.__enter__()
        self.stack.__enter__()
        self.flex.__enter__()
        self.whole.__enter__()
        self.mode.__enter__()
        return self.seen

    def __exit__(self, *error) -> None:
        self.mode.__exit__(*error)
        self.whole.__exit__()
        self.flex.__exit__()
        self.stack.__exit__(*error)
        self.eager.__exit__(*error)
        self.seen.calls = self.stack.calls
        self.seen.sites.sort(key=lambda s: s.order)
        for softmax in self.follower.softmaxes:
            if not softmax.used:
                shape = tuple(softmax.shape)
                self.seen.note(f"a softmax over axis {softmax.dim} of {shape} at {softmax.where} multiplied no values")
        self.follower.softmaxes.clear()
        self.lineage.clear()

    def _scaled(self, site: Site) -> Site:
        """The site with the scalars that its query and key were multiplied by before the kernel."""
        for name in ("query", "key"):
            node = self.lineage.get(getattr(site, name))
            setattr(site, f"{name}_factors", node.scalars() if node is not None else [])
        return site

    def _follow(self, func, args: tuple, kwargs: dict, out: Any) -> None:
        if not isinstance(func, OpOverload):
            if is_flex(func):
                self._emit(flex_site(func, args, kwargs, out, **self._seen()))
            return
        space, name = func._schema.name.split("::")
        if space != "aten":
            if "attn" in name or "attention" in name:
                self._unknown(f"the operator {space}::{name} is an attention kernel that is not known here")
            return
        if torch._C._current_autograd_node() is not None:  # inside a backward pass: gradients only, no new sites
            self._follow_backward(func, name, args, kwargs)
            return
        if name.endswith("_") and not name.endswith("__"):
            name = name[:-1]
            self._forget_written(args)
        for arg in args:
            if isinstance(arg, nn.Parameter):
                self._learn(arg)
        if name in kernels.FUSED:
            self._emit(
                self._scaled(kernels.fused_site(name, kernels.arguments(func, args, kwargs), out, **self._seen()))
            )
        elif name in kernels.NATIVE:
            self._emit(kernels.native_site(name, kernels.arguments(func, args, kwargs), out, **self._seen()))
        elif name in kernels.OPAQUE:
            self._unknown(f"aten::{name} was called on packed sequences")
        elif name in PRODUCTS and isinstance(out, Tensor):
            self._emit(self.products.apply(name, args, kwargs, out))
        else:
            self._emit(pooled(self.follower.apply(name, args, kwargs, out)))

    def _follow_backward(self, func, name: str, args: tuple, kwargs: dict) -> None:
        if name in kernels.FUSED_BACKWARD:
            self.gradients.fused(kernels.arguments(func, args, kwargs))
        elif name == "_softmax_backward_data":
            self.gradients.softmax(args[0], args[1])

    def _close(self, inside: Inside, call: Call | None, backend: str, output: Tensor | None) -> None:
        """A call of `regard.attention` is over: pass on what was seen inside, or one site of the whole call."""
        with _disable_current_modes():  # what is done with a site is not part of the run
            if call is None or output is None:
                for site in inside.sites:
                    self._emit(site)
                for text in inside.notes:
                    self.seen.note(text)
                return
            for softmax in self.follower.softmaxes[inside.softmaxes :]:
                softmax.used = True
            self._emit(self._scaled(kernels.whole_site(call, backend, output, **self._seen())))

    def _emit(self, site: Site | None) -> None:
        if site is None:
            return
        if self.whole.inside is not None:
            self.whole.inside.sites.append(site)
            return
        if site.kind in ("softmax", "exp", "other"):
            for name, value in self._seen().items():
                setattr(site, name, value)
        site.order, self.order = self.order, self.order + 1
        self.gradients.expect(site)
        if not self.keep_graph:
            _detach(site, self.copy)
        if self.on_site is not None:
            self.on_site(site)
            return
        self.held += _bytes(site)
        if self.held > self.max_bytes:
            _drop(site)
            self._unknown(
                f"tensors of sites after the first {len(self.seen.sites)} were not kept: over {self.max_bytes} bytes"
            )
        self.seen.sites.append(site)

    def _seen(self) -> dict[str, Any]:
        path = self.stack.path
        return {
            "order": self.order,
            "path": path,
            "where": source_line(),
            "call": self.stack.calls.get(path, 0),
            "batch": self.stack.batch,
            "input_shape": self.stack.shape,
            "innermost": self.stack.innermost,
        }

    def _now(self) -> tuple[str, str, int]:
        return self.stack.path, source_line(), self.order

    def _unknown(self, text: str) -> None:
        where = source_line()
        text = f"{text} ({self.stack.path or 'root'}, {where})" if where else text
        if self.whole.inside is not None:
            self.whole.inside.notes.append(text)
        else:
            self.seen.note(text)

    def _forget_written(self, args: tuple) -> None:
        """A buffer that is written to holds data (a cache), not something learned."""
        key = key_of(args[0]) if args and isinstance(args[0], Tensor) else None
        if key is not None and key[0] in self.lineage.learned:
            self.lineage.learned.discard(key[0])

    def _learn(self, tensor: Tensor) -> None:
        key = key_of(tensor)
        if key is not None:
            self.lineage.learned.add(key[0])


def _is_composite(func) -> bool:
    key = "CompositeImplicitAutograd"
    return torch.is_inference_mode_enabled() and torch._C._dispatch_has_kernel_for_dispatch_key(func.name(), key)


_TENSORS = ("query", "key", "value", "output", "logits", "weights_used", "lse", "bias", "hidden", "weights_made")


def _detach(site: Site, copy: bool) -> None:
    site.sources.clear()
    done: dict[int, Tensor] = {}
    for name in _TENSORS:
        tensor = getattr(site, name)
        if tensor is not None:
            if id(tensor) not in done:
                done[id(tensor)] = tensor.detach().clone() if copy else tensor.detach()
            setattr(site, name, done[id(tensor)])


def _bytes(site: Site) -> int:
    tensors = {id(t): t for t in (getattr(site, n) for n in _TENSORS) if t is not None}
    return sum(t.numel() * t.element_size() for t in tensors.values())


def _drop(site: Site) -> None:
    for name in _TENSORS:
        setattr(site, name, None)
