"""The backends, in the order of preference: the first that does not refuse computes the call."""

from __future__ import annotations

from regard.core.backends import blocks, fused, open_form, packed, tiled, window
from regard.core.backends.contract import Backend

BACKENDS: tuple[Backend, ...] = (
    packed.BACKEND,
    blocks.BACKEND,
    window.BACKEND,
    fused.BACKEND,
    tiled.BACKEND,
    open_form.BACKEND,
)
