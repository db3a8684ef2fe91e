"""torch's fused CPU kernel by its own name: it also returns the log-sum-exp, and takes a mask beside the causal flag.

Axes: N samples, H query heads, Hkv key heads, T queries, S keys, D channels of a head.
The operator is private, so it is used only where a probe has found that it does what is said here; every caller has a
public way that gives the same.
"""

from __future__ import annotations

import torch
from torch import Tensor

from regard.core.call import Call
from regard.core.transform import under_vmap


def forward(query: Tensor, key: Tensor, value: Tensor, *, causal: bool, added: Tensor | None, scale: float):
    """softmax(scale * q k^T + added) v.

    Args:
        query: (N, H, T, D). key, value: (N, Hkv, S, D). Any strides, but the channels next to each other.
        causal: Key j is hidden from query i where j > i, besides what `added` hides.
        added: Float, broadcastable to (N, H, T, S), -inf where hidden; float32 or the dtype of query.

    Returns:
        output (N, H, T, D), and lse (N, H, T), float32 or float64. A row that sees nothing is 0 in both.
    """
    return torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(
        query, key, value, 0.0, causal, attn_mask=added, scale=scale
    )


def backward(
    upstream: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    output: Tensor,
    lse: Tensor,
    *,
    causal: bool,
    added: Tensor | None,
    scale: float,
):
    """The gradients of query, key and value; `output` and `lse` may be those of a softmax over more keys than these."""
    return torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward(
        upstream, query, key, value, output, lse, 0.0, causal, attn_mask=added, scale=scale
    )


def refuses(call: Call) -> str | None:
    """Why the operator cannot be called by name for this call; None when it can."""
    if not KNOWN:
        return "this torch has no fused CPU kernel that takes a mask beside the causal flag"
    if call.query.device.type != "cpu":
        return f"the kernel with a mask beside the causal flag is for the CPU, and the call is on {call.query.device}"
    if torch.compiler.is_exporting():
        return "an exported program names public operators only"
    if under_vmap(call.query, call.key, call.value):
        return "torch.vmap has no rule for torch's fused kernel and would run it sample by sample"
    return None


def as_autocast(*tensors: Tensor) -> list[Tensor]:
    """The tensors in the dtype in which autocast would hand them to torch's public attention; float64 stays."""
    if not torch.is_autocast_enabled("cpu"):
        return list(tensors)
    dtype = torch.get_autocast_dtype("cpu")
    return [x if x.dtype == torch.float64 else x.to(dtype) for x in tensors]


def _probe() -> bool:
    """Whether the operator exists and gives causal and key mask together, forward and backward, on six numbers."""
    try:
        with torch.enable_grad():
            x = torch.arange(12.0, device="cpu", dtype=torch.float64).sin().reshape(1, 1, 6, 2)
            added = torch.zeros(1, 1, 1, 6, device="cpu", dtype=torch.float64)
            added[..., :2] = -torch.inf
            output, lse = forward(x, x, x, causal=True, added=added, scale=0.5)
            scores = (0.5 * x @ x.mT + added).masked_fill(torch.ones_like(x[0, 0] @ x[0, 0].mT).triu(1) > 0, -torch.inf)
            dead = torch.tensor([True, True, False, False, False, False], device="cpu")[:, None]
            weights = scores.masked_fill(dead, 0.0).softmax(-1).masked_fill(dead, 0.0)
            given = backward(x, x, x, x, output, lse, causal=True, added=added, scale=0.5)
        upon_value = weights.mT @ x
        same = torch.allclose(output, weights @ x) and torch.allclose(given[2], upon_value)
        return same and all(bool(g.isfinite().all()) for g in given) and tuple(lse.shape) == (1, 1, 6)
    except Exception:  # whatever a torch without this operator says, the answer is no
        return False


KNOWN = _probe()
