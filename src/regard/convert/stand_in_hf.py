"""Our layer under the signature of a Hugging Face attention module: its masks, angles, caches and recorded weights.

Axes: B samples, T queries, S keys, H query heads, D channels of a head.
The module's own signature binds the arguments, so that any order in which a model gives them is right. What is given and
not known here is refused. The mask is read as `regard.adapt.hf` reads it.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from regard.adapt.hf_call import Settings, run
from regard.core.errors import AdaptError, ConversionError
from regard.core.position import Rotary
from regard.nn.multi_head import MultiHeadAttention

CACHES = ("cache", "past_key_values", "past_key_value", "layer_past")
READ = ("hidden_states", "attention_mask", "position_embeddings", "residual", "alibi", *CACHES)
CROSS = ("key_value_states", "encoder_hidden_states", "encoder_attention_mask")


class InHuggingFace(nn.Module):
    """In the place of a self-attention of transformers. Made by `stand_in`."""

    layer: MultiHeadAttention
    layer_idx: int
    is_causal: bool
    _signature: inspect.Signature

    def forward(self, *given: Any, **named: Any) -> tuple[Tensor, Tensor | None]:
        """(output, weights): (B, T, E), and (B, H, T, S) where the model records them, else None."""
        known, others = self._bound(given, named)
        layer, x = self.layer, known["hidden_states"]
        q = layer.q_proj(x).unflatten(-1, (-1, layer.head_dim)).transpose(1, 2)
        k = layer.k_proj(x).unflatten(-1, (-1, layer.head_dim)).transpose(1, 2)
        v = layer.v_proj(x).unflatten(-1, (-1, layer.value_head_dim)).transpose(1, 2)
        if layer.q_norm is not None and layer.k_norm is not None:
            q, k = layer.q_norm(q), layer.k_norm(k)
        if known["position_embeddings"] is not None:
            pairing = layer.position.pairing if isinstance(layer.position, Rotary) else "half"
            cos, sin = known["position_embeddings"]
            q, k = turned(q, cos, sin, pairing), turned(k, cos, sin, pairing)
        cache = next((known[name] for name in CACHES if known[name] is not None), None)
        if cache is not None:
            cache = getattr(cache, "self_attention_cache", cache)
            k, v = cache.update(k, v, self.layer_idx)
        others |= {"dropout": layer.dropout if self.training else 0.0, "scaling": layer.scale, "softcap": layer.softcap}
        if known["alibi"] is not None:  # (B * H, 1, S)
            others["position_bias"] = known["alibi"].unflatten(0, (len(x), -1))
        output, weights = run(Settings(), self, q, k, v, known["attention_mask"], others)
        output = layer.out_proj(output.flatten(2))
        return output if known["residual"] is None else output + known["residual"], weights

    def _bound(self, given: Any, named: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        """What this file reads, None where it is not given, and the rest."""
        held = dict(self._signature.bind(*given, **named).arguments)
        held |= held.pop("kwargs", {})
        known = {name: held.pop(name, None) for name in READ}
        crossing = [name for name in CROSS if held.pop(name, None) is not None]
        if crossing:
            raise AdaptError(
                f"{', '.join(crossing)} came to {type(self).__name__}, which stands in for self-attention only"
            )
        if known["hidden_states"] is None:
            raise AdaptError(f"{type(self).__name__} got no hidden_states")
        return known, held


def stand_in(layer: MultiHeadAttention, module: nn.Module) -> nn.Module:
    """Our layer in the place of this module; an instance of the module's class too, so that transformers records it.

    Raises:
        ConversionError: Cross-attention, or a module that is not called as self-attention on hidden_states.
    """
    signature = inspect.signature(module.forward)
    name = type(module).__name__
    if "hidden_states" not in signature.parameters or "position_bias" in signature.parameters:
        raise ConversionError(f"{name} is not called as attention on hidden_states, a mask and angles alone")
    if "key_value_states" in signature.parameters and getattr(module, "is_decoder", False):
        raise ConversionError(f"{name} of a decoder may be called as cross-attention with a cache of its own")
    if getattr(module, "is_cross_attention", False) or "Cross" in name:
        raise ConversionError(f"{name} is cross-attention, whose keys come with a cache of their own")
    made = type(name, (InHuggingFace, type(module)), {"__module__": __name__})
    found = made.__new__(made)
    nn.Module.__init__(found)
    found.layer, found._signature = layer, signature
    for held in ("layer_idx", "config", "is_causal", "num_key_value_groups", "is_decoder", "layer_type", "head_dim"):
        value = getattr(module, held, None)
        if value is not None:
            setattr(found, held, value)
    if not hasattr(found, "is_causal"):
        found.is_causal = layer.mask is not None
    return found


def turned(x: Tensor, cos: Tensor, sin: Tensor, pairing: str) -> Tensor:
    """(B, H, T, D), its first channels turned by the angles that the model made, (B or 1, T, width) each."""
    cos, sin = cos[:, None].to(x.dtype), sin[:, None].to(x.dtype)
    width = cos.shape[-1]
    part, rest = x[..., :width], x[..., width:]
    if pairing == "half":
        one, other = part.chunk(2, dim=-1)
        across = torch.cat([-other, one], dim=-1)
    else:
        across = torch.stack([-part[..., 1::2], part[..., ::2]], dim=-1).flatten(-2)
    return torch.cat([part * cos + across * sin, rest], dim=-1)


def first_of(output: Any) -> tuple[Tensor, int]:
    """The tensor of an attention's result, and how many parts the result has."""
    if isinstance(output, Tensor):
        return output, 1
    if isinstance(output, Mapping) or not output or not isinstance(output[0], Tensor):
        raise ConversionError(f"it returns {type(output).__name__}, in which no tensor comes first")
    return output[0], len(output)
