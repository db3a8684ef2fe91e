"""One call of transformers' attention interface, read into one call of ours: masks, biases, windows, sinks, weights.

Axes: B samples, H query heads, G key heads, T queries, S keys, D channels of a head.
The contract (transformers 5): the function gets the module, query (B, H, T, D), key and value (B, G, S, D), the mask that
the mask interface made (bool (B, 1, T, S), True = attend; or None: causal from the first key if the module is causal and
T > 1, else nothing is hidden), and named settings. A setting that we do not know and that is not None is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from regard.core.attention import attention, attention_weights
from regard.core.errors import AdaptError
from regard.core.mask.band import causal
from regard.core.mask.expression import Mask
from regard.core.mask.sequences import padding
from regard.core.mask.table import from_bool

Attention = Callable[..., Tensor]  # called as regard.attention

UNUSED = frozenset(  # what callers pass through and no attention reads once the mask is made
    {
        *(
            "sliding_window",
            "local_attention",
            "position_ids",
            "cache_position",
            "position_embeddings",
            "past_key_values",
        ),
        *(
            "past_key_value",
            "cache",
            "use_cache",
            "output_attentions",
            "output_hidden_states",
            "return_dict",
            "layer_idx",
        ),
        *(
            "num_items_in_batch",
            "output_router_logits",
            "deterministic",
            "logits_to_keep",
            "max_length_q",
            "max_length_k",
        ),
    }
)
PACKED = ("cu_seq_lens_q", "cu_seq_lens_k", "cu_seqlens", "cu_seqlens_q", "cu_seqlens_k")  # ends of packed sequences


@dataclass
class Settings:
    """What `use()` was given, read at every call.

    Attributes:
        backend: For `regard.attention`; None: chosen by rule.
        mask: Joined (and) with the mask of every call; None: only the model's own.
        attention: Computes the output; `regard.attention` unless a sharded one stands in.
    """

    backend: str | None = None
    mask: Mask | None = None
    attention: Attention = attention


def run(
    settings: Settings,
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    given: Mapping[str, Any],
) -> tuple[Tensor, Tensor | None]:
    """((B, T, H, D), and (B, H, T, S) weights where the caller records them), as transformers wants them.

    Raises:
        AdaptError: An argument that is not None and that we do not implement.
    """
    known = dict(given)
    dropout = float(known.pop("dropout", None) or 0.0)
    scale, softcap, sink = known.pop("scaling", None), known.pop("softcap", None), known.pop("s_aux", None)
    bias, is_causal = known.pop("position_bias", None), known.pop("is_causal", None)
    refuse_unknown(module, known, attention_mask)
    query, key, value = _one_dtype(*_one_batch(query, key, value))
    if is_causal is None:
        is_causal = bool(getattr(module, "is_causal", True))
    mask, extra = read_mask(module, attention_mask, is_causal and query.shape[2] > 1)
    if extra is not None:
        bias = extra if bias is None else bias + extra
    if settings.mask is not None:
        mask = settings.mask if mask is None else mask & settings.mask
    scores: dict[str, Any] = {"mask": mask, "bias": None if bias is None else bias.to(query.dtype)}
    scores |= {"scale": scale, "softcap": softcap, "sink": None if sink is None else sink.to(query.dtype)}
    how: dict[str, Any] = {} if settings.backend is None else {"backend": settings.backend}
    output = settings.attention(query, key, value, dropout=dropout, **scores, **how)
    weights = None
    if wants_weights(module, given):
        if settings.attention is not attention:
            raise AdaptError(
                "output_attentions=True needs the weights of regard.attention, and another attention= stands in this model"
            )
        weights = attention_weights(query, key, **scores)
    return output.transpose(1, 2).contiguous(), weights


def read_mask(module: nn.Module, given: Tensor | None, is_causal: bool) -> tuple[Mask | None, Tensor | None]:
    """The mask, and what is added to the scores instead, of whatever form the model made.

    Returns:
        A mask or None, and a float bias (B or 1, H or 1, T, S) or None.

    A key mask that was spread over all queries without a copy (stride 0) is taken for the key mask it is, so that
    kernels for padding and windows apply.
    """
    if given is None:
        return (causal(offset=0) if is_causal else None), None
    name = type(module).__name__
    if not isinstance(given, Tensor):
        raise AdaptError(f"{name} passes a mask of type {type(given).__name__}; a tensor (B, 1, T, S) was expected")
    if given.ndim != 4:
        raise AdaptError(
            f"{name} passes a mask of shape {tuple(given.shape)}; (B, 1, T, S) was expected: bool, True = attend, or "
            "float to be added"
        )
    if given.dtype.is_floating_point:
        return None, given
    if given.dtype != torch.bool:
        raise AdaptError(f"{name} passes a mask of {given.dtype}, whose meaning is not fixed; pass bool, True = attend")
    spread = given.shape[2] == 1 or given.stride(2) == 0
    if spread and given.shape[1] == 1 and not torch.compiler.is_compiling():
        return padding(given[:, 0, 0]), None
    return from_bool(given), None


def refuse_unknown(module: nn.Module, given: Mapping[str, Any], attention_mask: Any) -> None:
    """Raise on what would change the result and is not implemented here."""
    if attention_mask is None:
        ends = [name for name in PACKED if given.get(name) is not None]
        if ends:
            raise AdaptError(
                f"{type(module).__name__} passes {', '.join(ends)}: sequences packed in one row, and no mask that keeps them "
                "apart; pass position_ids that start anew with each sequence, and transformers makes that mask"
            )
    unknown = [name for name, value in given.items() if _says_something(name, value)]
    if unknown:
        raise AdaptError(
            f"{type(module).__name__} passes {', '.join(sorted(unknown))} to its attention, which ours does not implement; "
            "leaving it out would change the result without a word"
        )


def wants_weights(module: nn.Module, given: Mapping[str, Any]) -> bool:
    """Whether the caller records attention weights in this forward."""
    if given.get("output_attentions"):
        return True
    if getattr(getattr(module, "config", None), "output_attentions", False):
        return True
    recorded = _recorder()
    found = None if recorded is None else recorded.get()
    return bool(found) and any("attentions" in name for name in found)


def _says_something(name: str, value: Any) -> bool:
    return value is not None and value is not False and name not in UNUSED and name not in PACKED


def _recorder() -> Any:
    """Where transformers 5 keeps what a forward records; None in versions that hand output_attentions down."""
    try:
        from transformers.utils import output_capturing
    except ImportError:
        return None
    return getattr(output_capturing, "_active_collector", None)


def _one_batch(query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Learned queries may come once for all samples."""
    B = max(len(query), len(key))
    return tuple(x.expand(B, -1, -1, -1) if len(x) != B and len(x) == 1 else x for x in (query, key, value))  # pyright: ignore


def _one_dtype(query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Under autocast rotary angles may have lifted queries and keys above the values: to the dtype of autocast."""
    device = query.device.type
    if query.dtype == key.dtype == value.dtype or not torch.is_autocast_enabled(device):
        return query, key, value
    dtype = torch.get_autocast_dtype(device)
    return query.to(dtype), key.to(dtype), value.to(dtype)
