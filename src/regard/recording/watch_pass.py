"""One observed forward pass: opened by the outermost module call of the model, closed when that call returns.

Two process-wide forward hooks, put up for recorded steps only; they leave the fast paths of torch.nn on, which hooks on the
model would not. Nothing that the model computes is touched.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook

from regard.intercept.observe import observe
from regard.intercept.site import Site
from regard.recording.watch_padding import Padding, SiteMask
from regard.recording.watch_scores import SiteScores, score_site
from regard.recording.watch_trail import Trail, first_tensor

_WITH_KWARGS: dict[int, bool] = getattr(torch.nn.modules.module, "_global_forward_hooks_with_kwargs", {})
PASSES = 2  # forward passes of one step that are looked at; gradient accumulation repeats the same
EVAL_PASSES = 3  # of one validation: enough to see a cache grow twice


class Pass:
    """What was seen in one forward pass. `sites` are (path, place among the sites of the pass at that path, site's numbers)."""

    def __init__(self, training: bool, validating: bool = False):
        self.training, self.validating = training, validating
        self.trail, self.padding = Trail(), Padding()
        self.sites: list[tuple[str, int, SiteScores, dict[str, Any]]] = []
        self.loss: Tensor | None = None
        self.broken: dict[str, Any] | None = None  # the first non-finite value
        self.unknown: list[str] = []
        self._places: dict[str, int] = {}

    def take(self, site: Site) -> None:
        """Read one attention site; called inside the dispatcher, where nothing is recorded by autograd."""
        scores = score_site(site)
        if scores is None:
            self.unknown.append(f"weights of unknown shape at {site.where}")
            return
        place = self._places[site.path] = self._places.get(site.path, -1) + 1
        drops = site.dropout > 0 or any(s.op == "dropout" and (s.number or 0) > 0 for s in site.after)
        extra = {
            "where": site.where,
            "kernel": site.kernel,
            "dropout": bool(drops),
            "kv_heads": site.key.shape[1] if site.key is not None and site.key.dim() == 4 else scores.heads,
        }
        self.sites.append((site.path, place, scores, extra))
        if site.output is not None:
            self.trail.add(
                "attention",
                site.path,
                site.output,
                where=site.where,
                module=site.innermost,
                masked_rows=scores.masked_rows,
            )

    def padding_row(self) -> dict[str, Any] | None:
        """What the self-attention sites do with padding (see `Padding.verdict`)."""
        of_text = [s for _, _, s, _ in self.sites if s.queries == s.keys]
        ahead = [max((a for a in s.per_head["ahead"] if a is not None), default=0.0) for s in of_text]
        return self.padding.verdict(
            [SiteMask((s.samples, s.keys), a < 1e-6, s.rows, s.seen) for s, a in zip(of_text, ahead)]
        )


class Watcher:
    """Puts up the hooks, opens and closes passes, hands each finished one to `done`."""

    def __init__(self, model: nn.Module, done: Callable[[Pass], None]):
        self.model, self.done = model, done
        self.inside = {id(m) for m in model.modules()}
        self.left = 0  # passes still to look at
        self.validating = False
        self.open: Pass | None = None
        self._outermost: nn.Module | None = None
        self._observer: observe | None = None
        self._handles: list = []
        self._leftover: list = []  # hooks of an observer whose pass raised

    def start(self, passes: int, *, validating: bool = False) -> None:
        """Look at the next `passes` forward passes."""
        self.left, self.validating = passes, validating
        if not self._handles:
            if any("_orig_mod" in m._modules for m in self.model.modules()):
                # torch warns of hooks that see the compiled model too: ours mean to
                warnings.filterwarnings("ignore", "Using `torch.compile.module.` when there are global hooks")
            self._thread = threading.get_ident()
            before, after = torch.compiler.disable(self._before), torch.compiler.disable(self._after)
            self._handles = [
                register_module_forward_pre_hook(before),  # pyright: ignore[reportArgumentType]
                register_module_forward_hook(after, with_kwargs=True, always_call=True),  # pyright: ignore[reportArgumentType]
            ]

    def stop(self) -> None:
        for handle in [*self._handles, *self._leftover]:
            handle.remove()
            _WITH_KWARGS.pop(handle.id, None)  # torch leaves this one entry behind, and compiled models warn of it
        self._handles, self._leftover, self.left = [], [], 0
        self._close(None)

    def _ours(self, module: nn.Module) -> bool:
        """Whether a module is part of the model, or the model compiled: what is opened before compiled code runs is seen."""
        return id(module) in self.inside or id(module._modules.get("_orig_mod")) in self.inside

    def _before(self, module: nn.Module, args: tuple) -> None:
        if not self._ours(module) or threading.get_ident() != self._thread:
            return
        if self.open is None:
            recomputing = torch._C._current_autograd_node() is not None  # gradient checkpoints run again in backward
            if self.left > 0 and not recomputing:
                self._begin(module, args)
        elif isinstance(module, nn.Embedding):
            self.open.padding.embedding(module, args)

    def _begin(self, module: nn.Module, args: tuple) -> None:
        self.left -= 1
        self.open = Pass(torch.is_grad_enabled() and not self.validating, self.validating)
        self._outermost = module
        self.open.trail.add("input", "", args, where="")
        self.open.padding.embedding(module, args)
        self._observer = observe(self.model, on_site=self._site, copy=False)
        self._observer.__enter__()
        self._observer.stack._enter(module, args)  # the observer was not there when this call began

    def _site(self, site: Site) -> None:
        assert self.open is not None
        assert self._observer is not None
        self.open.take(site)
        for softmax in self._observer.follower.softmaxes:  # a layer's logits are let go when it has been read
            if softmax.used:
                softmax.logits = None

    def _after(self, module: nn.Module, args: tuple, *rest: Any) -> None:
        """rest: (kwargs, output); torch leaves kwargs out after an error in forward, where output is None."""
        kwargs, output = rest if len(rest) == 2 else ({}, None)
        if self.open is None or threading.get_ident() != self._thread or not self._ours(module):
            return
        with torch.no_grad():
            self.open.trail.add(
                "module", self._observer.stack.name(module) if self._observer else "", output, module=module
            )
        if module is self._outermost:
            if len(rest) != 2:  # torch iterates over its hooks now, so none may be removed
                self._leftover += self._observer.stack._handles if self._observer else []
                if self._observer:
                    self._observer.stack._handles = []
            self.open.padding.arguments(module, args, kwargs)
            self._close(output)

    def _close(self, output: Any) -> None:
        if self.open is None or self._observer is None:
            return
        self._observer.__exit__(None, None, None)
        seen, self.open = self.open, None
        texts = self._observer.seen.unknown
        seen.unknown += [t for t in texts if not (seen.sites and "multiplied no values" in t)]  # the softmax of a loss
        seen.broken = seen.trail.first()  # now: after the update the parameters are not those of this pass
        self._observer, self._outermost = None, None
        loss = output.get("loss") if isinstance(output, dict) else getattr(output, "loss", None)
        tensor = first_tensor(loss)
        seen.loss = tensor.detach() if tensor is not None and tensor.numel() == 1 else None
        self.done(seen)
