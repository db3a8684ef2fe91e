"""The self-check of a capture: weights of a few rows, times the values, must be the output that the model got."""

from __future__ import annotations

import torch

from regard.core.backends.open_form import softmax_weights
from regard.recording.heads import Attention
from regard.recording.weighing import call_of

CHECKED = 4  # rows of the first sample
AGREES, AGREES_IN_16_BITS = 2e-3, 4e-2  # largest error, relative to the largest output


@torch.no_grad()
def disagreement(attention: Attention) -> str:
    """What the self-check says: weights of a few rows times the values must be the output that the model got. "" when they are."""
    site = attention.site
    if attention.output is None or attention.value is None or (site.dropout and attention.weights is None):
        return ""
    if attention.weights is not None and site.weights_used is None:
        return ""
    T = attention.queries
    rows = torch.tensor(
        sorted({round(i * (T - 1) / max(1, CHECKED - 1)) for i in range(CHECKED)}), device=attention.output.device
    )
    heads = list(range(attention.heads))
    if attention.weights is None:
        weights = softmax_weights(call_of(attention, 0, heads, rows))[0]
    elif site.dropout or site.kind == "exp":
        return ""
    else:
        weights = attention.weights[0][:, rows]
    value = attention.value[0]
    value = (
        value.repeat_interleave(attention.heads // value.shape[0], 0) if value.shape[0] != attention.heads else value
    )
    made = weights.float() @ value[..., : weights.shape[-1], :].float()
    got = attention.output[0][:, rows].float()
    if made.shape != got.shape:
        return f"weights and values make {tuple(made.shape)}, the model's output has {tuple(got.shape)}"
    error, size = float((made - got).abs().nan_to_num(0).max()), float(got.abs().nan_to_num(0).max())
    allowed = AGREES if got.dtype == torch.float32 and attention.output.dtype == torch.float32 else 4e-2
    return (
        f"the weights times the values miss the output by {error:.2g} (allowed {allowed * max(size, 1e-6):.2g})"
        if error > allowed * max(size, 1e-6)
        else ""
    )
