"""The gradient of the loss with respect to attention weights, read from the backward operators while they run.

A fused backward receives grad_out, q, k and v, so dL/dA = grad_out v^T; the backward of a softmax receives dL/dA itself.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

from torch import Tensor

from regard.intercept.lineage import key_of
from regard.intercept.site import Site, _like_heads


class Gradients:
    """Matches backward calls with the sites whose forward was seen, by the storage of the output."""

    def __init__(self) -> None:
        self.expected: dict[int, weakref.ref[Site]] = {}
        self.on_gradient: Callable[[Site, Tensor], None] | None = None

    def expect(self, site: Site) -> None:
        """Remember a site; `site.grad_weights` (or `on_gradient`) is filled when its backward runs."""
        tensor = site.output if site.kind == "fused" else site.weights_made
        key = key_of(tensor) if tensor is not None and tensor.requires_grad is not None else None
        if key is not None:
            self.expected[key[0]] = weakref.ref(site)

    def _find(self, tensor: Tensor) -> Site | None:
        key = key_of(tensor)
        found = self.expected.get(key[0]) if key is not None else None
        return found() if found is not None else None

    def fused(self, call: dict[str, Any]) -> None:
        site = self._find(call["out"])
        if site is not None:
            grad = call["grad_out"] if "grad_out" in call else call["grad_out_"]
            value = _like_heads(call["value"].detach(), grad)
            self._give(site, grad @ value.transpose(-1, -2))

    def softmax(self, grad: Tensor, output: Tensor) -> None:
        site = self._find(output)
        if site is not None and site.weights_made is not None and site.weights_made.shape == grad.shape:
            self._give(site, grad)

    def _give(self, site: Site, grad: Tensor) -> None:
        if self.on_gradient is not None:
            self.on_gradient(site, grad.detach())
        else:
            site.grad_weights = grad.detach()
