"""Attention of Hugging Face transformers: read by class family, run with the masks, angles and tables its model would make.

A module that adds a residual or a norm after its last projection (BertAttention, BLOOM) is read up to that projection;
one that ends with its joined heads (BertSelfAttention) has no last projection, and none is made up.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from regard.adapt.found import Buckets, Facts, Found, additive, store_in_place
from regard.adapt.layout import Layout
from regard.adapt.names import HEAD_DIM, HEADS, find_arrays, parameters_of, size_of
from regard.adapt.torch_modules import find_state, first_tensor, guessed_layout
from regard.core.bias import alibi_slopes
from regard.core.errors import ConversionError
from regard.core.mask.band import causal, sliding_window
from regard.core.position import Rotary
from regard.core.rotary_scaling import Linear, Llama3, YaRN

PER_HEAD = ("gpt_neox", "gpt_neox_japanese", "bloom")  # families that pack each head's query, key and value together
INTERLEAVED = ("cohere", "cohere2", "gptj", "codegen", "glm", "glm4", "ernie4_5")  # rotary pairs 2i with 2i + 1
NORM_OVER_ALL_HEADS = ("olmo2", "olmo3")  # their norm is over the joined heads, which ours is not


def find(module: Any, said: Mapping[str, Any]) -> Found:
    """Read an attention module of transformers, or the state dict of one."""
    if isinstance(module, Mapping):
        return find_state(module, said, "the Hugging Face state dict")
    if not isinstance(module, nn.Module):
        raise ConversionError(f"a Hugging Face attention module was expected, got {type(module).__name__}")
    source, family = type(module).__name__, _family(module)
    arrays, paths = find_arrays(parameters_of(module), source)
    read = {"num_heads": HEADS, "head_dim": HEAD_DIM}
    sizes: dict[str, int | None] = {}
    sizes |= {name: size for name, names in read.items() if (size := size_of(module, names)) is not None}
    groups, heads = size_of(module, ("num_key_value_groups",)), sizes.get("num_heads")
    sizes["num_kv_heads"] = heads // groups if groups and heads else None  # a config may speak of other parts
    layout = guessed_layout(arrays, said, source, sizes)
    turned = _conv1d(module, paths)
    packing = "per_head" if family in PER_HEAD else "concatenated"
    layout = Layout(layout.num_heads, layout.num_kv_heads, layout.head_dim, packing=packing, transposed=turned)
    if family in NORM_OVER_ALL_HEADS:
        raise ConversionError(f"{source} normalises queries over all heads at once, which our layer does not")
    cross = bool({"key_value_states", "encoder_hidden_states"} & set(_parameters(module)))
    facts = _facts(module, family, layout)
    only_cross = cross and ("Cross" in source or getattr(module, "is_cross_attention", False))
    cases = ("cross",) if only_cross else ("self", "padding", "causal", "causal and padding")
    if cross and not only_cross and facts.buckets is None and family in ("t5", "mt5", "bart", "whisper", "marian"):
        cases = (*cases, "cross")
    return Found(source, arrays, layout, facts, cases, True)


def run(module: Any, query: Tensor, context: Tensor | None, attend: Tensor) -> Tensor:
    """(B, T, E): what the last projection gives, or the module where it has none."""
    taken = _parameters(module)
    given: dict[str, Any] = {}
    for name in ("attention_mask", "mask"):
        if name in taken:
            given[name] = additive(attend, query.dtype)
    for name in ("key_value_states", "encoder_hidden_states"):
        if context is not None and name in taken:
            given[name] = context
    if context is not None and "encoder_attention_mask" in taken:  # GPT-2 reads it there
        given["encoder_attention_mask"] = additive(attend, query.dtype)
    positions = torch.arange(query.shape[1])[None]
    if "position_embeddings" in taken:
        given["position_embeddings"] = _angles(module, query, positions)
    if "position_ids" in taken:
        given["position_ids"] = positions
    if "residual" in taken:
        given["residual"] = torch.zeros_like(query)
    if "alibi" in taken:
        given["alibi"] = _bloom_alibi(module, attend, query)
    caught: list[Tensor] = []
    with _plain_backend(module), _catching(module, caught):
        output = first_tensor(module(query, **given))
    return caught[-1] if caught else output


def store(module: Any, arrays: Mapping[str, Tensor]) -> None:
    store_in_place(find(module, {}), arrays)


def _family(module: nn.Module) -> str:
    """The package of the model: "bert", "gpt_neox"."""
    words = type(module).__module__.split(".")
    return words[-2] if len(words) > 1 else words[-1]


def _parameters(module: nn.Module) -> list[str]:
    return list(inspect.signature(module.forward).parameters)


def _conv1d(module: nn.Module, paths: Mapping[str, str]) -> bool:
    path = paths.get("qkv") or paths.get("q") or ""
    return type(module.get_submodule(path.rpartition(".")[0])).__name__ == "Conv1D"


class _catching:
    """Catch what the last projection gives while the module runs."""

    def __init__(self, module: nn.Module, caught: list[Tensor]):
        _, paths = find_arrays(parameters_of(module), type(module).__name__)
        stem = paths.get("out", "").rpartition(".")[0]
        self._place = module.get_submodule(stem) if stem else None
        self._caught = caught

    def __enter__(self) -> None:
        if self._place is not None:
            self._handle = self._place.register_forward_hook(lambda m, given, output: self._caught.append(output))  # pyright: ignore

    def __exit__(self, *error) -> None:
        if self._place is not None:
            self._handle.remove()


@contextmanager
def _plain_backend(module: nn.Module) -> Iterator[None]:
    """Backends that take no additive mask (flash, flex, a registered one) give way to "eager" for this call."""
    configs = {id(c): c for part in module.modules() if (c := getattr(part, "config", None)) is not None}.values()
    was = [(config, getattr(config, "_attn_implementation", None)) for config in configs]
    for config, name in was:
        if name not in (None, "eager", "sdpa"):
            config._attn_implementation = "eager"
    try:
        yield
    finally:
        for config, name in was:
            if name not in (None, "eager", "sdpa"):
                config._attn_implementation = name


def _facts(module: nn.Module, family: str, layout: Layout) -> Facts:
    config = next((part.config for part in module.modules() if hasattr(part, "config")), None)
    mask = causal() if _is_causal(module, family) else None
    window = getattr(module, "sliding_window", None) or (
        getattr(config, "sliding_window", None) if family == "mistral" else None
    )
    if window and mask is not None:
        mask = mask & sliding_window(left=int(window) - 1)
    scales = [getattr(part, "scaling", None) for part in module.modules()]
    scale = next((x for x in scales if isinstance(x, float)), None)
    softcap = getattr(config, "attn_logit_softcapping", None) if family.startswith("gemma") else None
    norms = tuple(part for name in ("q_norm", "k_norm") if isinstance(part := getattr(module, name, None), nn.Module))
    return Facts(
        mask=mask,
        scale=scale,
        softcap=softcap,
        dropout=_dropout(module),
        position=_rotary(config, family, layout, module) if _turns(module) else None,
        alibi=family == "bloom",
        buckets=_buckets(module),
        norms=(norms[0], norms[1]) if len(norms) == 2 else None,
    )


def _is_causal(module: nn.Module, family: str) -> bool:
    said = [part.is_causal for part in module.modules() if isinstance(getattr(part, "is_causal", None), bool)]
    return any(said) or family == "bloom"


def _dropout(module: nn.Module) -> float:
    for part in module.modules():
        for name in ("attention_dropout", "attn_dropout", "dropout"):
            rate = getattr(part, name, None)
            rate = rate.p if isinstance(rate, nn.Dropout) else rate
            if isinstance(rate, float):
                return rate
    return 0.0


def _buckets(module: nn.Module) -> Buckets | None:
    table = getattr(module, "relative_attention_bias", None)
    if table is None:
        return None
    return Buckets(table.weight, int(module.relative_attention_max_distance), not module.is_decoder)  # pyright: ignore


def _rotary(config: Any, family: str, layout: Layout, module: nn.Module) -> Rotary:
    head_dim = size_of(module, HEAD_DIM) or layout.head_dim
    if head_dim is None:
        raise ConversionError(f"{type(module).__name__} turns its queries and does not say the width of a head")
    said = dict(getattr(config, "rope_parameters", None) or getattr(config, "rope_scaling", None) or {})
    width = getattr(module, "rotary_dim", None)
    if width is not None:  # GPT-J makes its own angles
        return Rotary(head_dim, pairing="interleaved", width=int(width))
    if not said and getattr(config, "rope_theta", None) is None:
        raise ConversionError(f"{type(module).__name__} turns its queries, and its config has no rope_parameters")
    base = float(said.get("rope_theta") or getattr(config, "rope_theta", None) or 10_000.0)
    share = float(said.get("partial_rotary_factor") or getattr(config, "partial_rotary_factor", None) or 1.0)
    width = int(head_dim * share)
    pairing = "interleaved" if family in INTERLEAVED else "half"
    scaling = _scaling(said, config)
    return Rotary(head_dim, pairing=pairing, width=None if width == head_dim else width, base=base, scaling=scaling)


def _turns(module: nn.Module) -> bool:
    return "position_embeddings" in _parameters(module) or hasattr(module, "rotary_dim")


def _scaling(said: Mapping[str, Any], config: Any):
    kind = said.get("rope_type", "default")
    factor = said.get("factor", 1.0)
    trained = said.get("original_max_position_embeddings") or getattr(config, "max_position_embeddings", 0)
    if kind == "default":
        return None
    if kind == "linear":
        return Linear(factor)
    if kind == "llama3":
        return Llama3(factor, trained, said.get("low_freq_factor", 1.0), said.get("high_freq_factor", 4.0))
    if kind == "yarn":
        fast, slow = said.get("beta_fast") or 32.0, said.get("beta_slow") or 1.0
        return YaRN(factor, trained, fast, slow, said.get("attention_factor"))
    raise ConversionError(f"rope_type {kind!r} is not one of default, linear, llama3 and yarn, which we have")


def _angles(module: nn.Module, query: Tensor, positions: Tensor) -> tuple[Tensor, Tensor]:
    """Cosine and sine from the rotary class that stands beside the module in its file."""
    file = sys.modules[type(module).__module__]
    config = next(part.config for part in module.modules() if hasattr(part, "config"))
    classes = [x for name, x in vars(file).items() if name.endswith("RotaryEmbedding") and isinstance(x, type)]
    if not classes:
        raise ConversionError(
            f"{type(module).__name__} wants position_embeddings, and its file makes none; verify=False"
        )
    cos, sin = classes[0](config)(query, positions)
    return cos, sin


def _bloom_alibi(module: nn.Module, attend: Tensor, query: Tensor) -> Tensor:
    """(B * H, 1, S): slope times the place of the key; a row's own distance drops out in the softmax."""
    heads, keys = size_of(module, HEADS) or 1, attend.shape[2]
    slopes = alibi_slopes(heads).to(query.dtype)
    return (slopes[:, None] * torch.arange(keys)).repeat(len(attend), 1)[:, None]
