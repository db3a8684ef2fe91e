"""The open form: matmul, softmax, matmul. Takes every call, and holds the T x S weights."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from regard.core.call import Call


class OpenForm:
    """Attention written out; softmax in float32 for 16-bit inputs."""

    name = "open"
    replaces = False

    def refuses(self, call: Call) -> str | None:
        return None

    def repairs(self, call: Call) -> list[str]:
        return []

    def run(self, call: Call) -> Tensor:
        weights = softmax_weights(call).to(call.value.dtype)
        if call.dropout > 0:
            weights = F.dropout(weights, call.dropout, training=True)
        return grouped_matmul(weights, call.value)


def softmax_weights(call: Call) -> Tensor:
    """(B, H, t, S), float32 or float64: scale, softcap, bias, mask, softmax. A row that sees no key is 0."""
    scores = grouped_matmul(call.query * call.scale, call.key.mT)
    scores = scores.to(torch.promote_types(scores.dtype, torch.float32))
    if call.softcap is not None:
        scores = call.softcap * torch.tanh(scores / call.softcap)
    if call.bias is not None:
        scores = scores + call.bias.to(scores.dtype)
    attend = call.attend()
    if attend is not None:
        scores = scores.masked_fill(~attend, float("-inf"))
    if call.sink is not None:
        sink = call.sink.to(scores.dtype)[None, :, None, None].expand(*scores.shape[:3], 1)
        scores = torch.cat([scores, sink], dim=-1)
    if attend is None and call.bias is None:
        weights = scores.softmax(dim=-1)
    else:
        nothing = (scores == float("-inf")).all(dim=-1, keepdim=True)
        weights = scores.masked_fill(nothing, 0.0).softmax(dim=-1).masked_fill(nothing, 0.0)
    return weights if call.sink is None else weights[..., :-1]


def grouped_matmul(left: Tensor, right: Tensor) -> Tensor:
    """(B, H, T, M) times (B, Hkv, M, N): head i reads i // (H / Hkv); the group becomes rows, nothing is repeated."""
    B, H, T, M = left.shape
    shared = right.shape[1]
    if shared == H:
        return left @ right
    return (left.reshape(B, shared, H // shared * T, M) @ right).reshape(B, H, T, right.shape[3])


BACKEND = OpenForm()
