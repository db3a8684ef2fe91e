"""The open form: matmul, softmax, matmul. Takes every call, and holds the T x S weights."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from regard.core.call import Call
from regard.core.transform import under_vmap


class OpenForm:
    """Attention written out; softmax in float32 for 16-bit inputs."""

    name = "open"
    replaces = False

    def refuses(self, call: Call) -> str | None:
        return None

    def slower(self, call: Call) -> str | None:
        return None

    def repairs(self, call: Call) -> list[str]:
        return []

    def run(self, call: Call) -> Tensor:
        weights, dead = _weights(call)
        weights = weights.to(call.value.dtype)
        if call.dropout > 0:
            weights = F.dropout(weights, call.dropout, training=True)
        output = grouped_matmul(weights, call.value)
        return output if dead is None else output.masked_fill(dead, 0.0)


def softmax_weights(call: Call) -> Tensor:
    """(B, H, t, S), float32 or float64: scale, softcap, bias, mask, softmax. A row that sees no key is 0."""
    weights, dead = _weights(call)
    return weights if dead is None else weights.masked_fill(dead, 0.0)


def masked_scores(call: Call) -> Tensor:
    """(B, H, t, S), float32 or float64, without a gradient: scale, softcap, bias; -inf where the mask hides."""
    scores = grouped_matmul(call.query.detach() * call.scale, call.key.detach().mT)
    scores = scores.to(torch.promote_types(scores.dtype, torch.float32))
    if call.softcap is not None:
        scores = call.softcap * torch.tanh(scores / call.softcap)
    if call.bias is not None:
        scores = scores + call.bias.detach().to(scores.dtype)
    attend = call.attend()
    return scores if attend is None else scores.masked_fill(~attend, float("-inf"))


def _weights(call: Call) -> tuple[Tensor, Tensor | None]:
    """The weights, and (B, H, t, 1): the rows that see no key, which have any weights, and pass no gradient on."""
    scores = grouped_matmul(call.query * call.scale, call.key.mT)
    scores = scores.to(torch.promote_types(scores.dtype, torch.float32))
    if call.softcap is not None:
        scores = call.softcap * torch.tanh(scores / call.softcap)
    attend = call.attend()
    given = [x for x in (call.query, call.key, call.bias, attend) if x is not None]
    fill = _filled if under_vmap(*given) else _fill
    if call.bias is not None:
        scores = scores + call.bias.to(scores.dtype)
    if attend is not None:
        scores = fill(scores, ~attend, float("-inf"))
    if call.sink is not None:
        sink = call.sink.to(scores.dtype)[None, :, None, None].expand(*scores.shape[:3], 1)
        scores = torch.cat([scores, sink], dim=-1)
    dead = None
    if (attend is not None or call.bias is not None) and scores.shape[-1] > 0:
        dead = scores.detach().amax(dim=-1, keepdim=True) == float("-inf")
        scores = fill(scores, dead, 0.0)
    weights = scores.softmax(dim=-1)
    return (weights if call.sink is None else weights[..., :-1]), dead


def _fill(scores: Tensor, where: Tensor, value: float) -> Tensor:
    """In place and unseen by autograd: weights of 0 and outputs that are masked pass no gradient back anyway."""
    with torch.no_grad():
        scores.masked_fill_(where, value)
    return scores


def _filled(scores: Tensor, where: Tensor, value: float) -> Tensor:
    """The same where `where` may have a batch axis that scores have not."""
    return scores.masked_fill(where, value)


def grouped_matmul(left: Tensor, right: Tensor) -> Tensor:
    """(B, H, T, M) times (B, Hkv, M, N): head i reads i // (H / Hkv); the group becomes rows, nothing is repeated."""
    B, H, T, M = left.shape
    shared = right.shape[1]
    if shared == H:
        return left @ right
    return (left.reshape(B, shared, H // shared * T, M) @ right).reshape(B, H, T, right.shape[3])


BACKEND = OpenForm()
