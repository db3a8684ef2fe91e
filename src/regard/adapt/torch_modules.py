"""Attention of torch itself, and of anybody who writes a module with projections under known names.

`torch.nn.MultiheadAttention` is read exactly: its layout is documented. Any other module is read by the names of its
matrices and of its sizes, which is a guess that the caller verifies.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from regard.adapt.found import CASES, Facts, Found, heads_of, store_in_place
from regard.adapt.layout import Layout
from regard.adapt.names import HEAD_DIM, HEADS, KV_HEADS, find_arrays, parameters_of, size_of
from regard.core.errors import ConversionError
from regard.core.mask.band import causal


def find(module: Any, said: Mapping[str, Any]) -> Found:
    """Read a torch module, or a mapping from names to tensors."""
    if isinstance(module, nn.MultiheadAttention):
        return _find_torch(module)
    if isinstance(module, Mapping):
        return find_state(module, said)
    if not isinstance(module, nn.Module):
        raise ConversionError(f"a torch module or its state dict was expected, got {type(module).__name__}")
    source = type(module).__name__
    arrays, _ = find_arrays(parameters_of(module), source)
    layout = guessed_layout(arrays, said, source, _sizes(module))
    facts = Facts(dropout=_dropout(module))
    found = Found(source, arrays, layout, facts, ("self",), sure=False)
    if "mask" not in said and _looks_only_back(module, arrays):
        found = found.told({"mask": causal()})
    return found


def find_state(state: Mapping[str, Any], said: Mapping[str, Any], source: str = "the state dict") -> Found:
    """Read the state dict of one attention; nothing can be run, so names that nobody knows are refused."""
    tensors = {name: torch.as_tensor(value) for name, value in state.items()}
    arrays, _ = find_arrays(tensors, source, strict=True)
    return Found(source, arrays, guessed_layout(arrays, said, source, {}), Facts(), (), sure=False)


def guessed_layout(arrays: Mapping[str, Tensor], said: Mapping[str, Any], source: str, sizes: Mapping) -> Layout:
    """The layout that names, shapes and sizes suggest.

    Raises:
        ConversionError: The number of heads is neither said nor read.
    """
    heads = heads_of(said, sizes.get("num_heads"), source)
    kv_heads = said.get("num_kv_heads") or sizes.get("num_kv_heads")
    head_dim = said.get("head_dim") or sizes.get("head_dim")
    packed = arrays.get("qkv")
    transposed = packed is not None and packed.shape[1] > packed.shape[0]  # (E, 3 E)
    if kv_heads is None and packed is None and head_dim and "k" in arrays:
        rows = arrays["k"].shape[0]  # fewer key heads show in the width of the key projection
        kv_heads = rows // head_dim if rows % head_dim == 0 and heads % max(1, rows // head_dim) == 0 else None
    return Layout(heads, kv_heads, head_dim, transposed=transposed)


def run(module: Any, query: Tensor, context: Tensor | None, attend: Tensor) -> Tensor:
    """(B, T, E): what the module gives."""
    if isinstance(module, nn.MultiheadAttention):
        return _run_torch(module, query, context, attend)
    return first_tensor(_called(module, query))


def store(module: Any, arrays: Mapping[str, Tensor]) -> None:
    store_in_place(find(module, {"mask": None}), arrays)


def first_tensor(output: Any) -> Tensor:
    """The output itself, or the first part of a tuple."""
    while isinstance(output, tuple | list):
        output = output[0]
    return output


def _find_torch(module: nn.MultiheadAttention) -> Found:
    if module.bias_k is not None or module.add_zero_attn:
        raise ConversionError("add_bias_kv and add_zero_attn add a key of their own, which our layer does not have")
    named = {
        "qkv": module.in_proj_weight,
        "q": module.q_proj_weight,
        "k": module.k_proj_weight,
        "v": module.v_proj_weight,
        "out": module.out_proj.weight,
        "out.bias": module.out_proj.bias,
    }
    arrays = {name: tensor for name, tensor in named.items() if tensor is not None}
    bias = module.in_proj_bias
    if bias is not None and "qkv" in arrays:
        arrays["qkv.bias"] = bias
    elif bias is not None:
        arrays |= dict(zip(("q.bias", "k.bias", "v.bias"), bias.chunk(3)))
    return Found(
        "torch.nn.MultiheadAttention", arrays, Layout(module.num_heads), Facts(dropout=module.dropout), CASES, True
    )


def _run_torch(module: nn.MultiheadAttention, query: Tensor, context: Tensor | None, attend: Tensor) -> Tensor:
    hidden = ~attend.repeat_interleave(module.num_heads, dim=0)  # True = hidden there
    key = query if context is None else context
    tensors = (query, key, key) if module.batch_first else tuple(x.transpose(0, 1) for x in (query, key, key))
    if module.kdim != module.embed_dim or module.vdim != module.embed_dim:
        tensors = (tensors[0], _widened(tensors[1], module.kdim), _widened(tensors[2], module.vdim))
    output = module(*tensors, attn_mask=hidden, need_weights=False)[0]
    return output if module.batch_first else output.transpose(0, 1)


def _widened(x: Tensor, width: int | None) -> Tensor:
    return x[..., :width]


def _sizes(module: nn.Module) -> dict[str, int]:
    read = {"num_heads": HEADS, "num_kv_heads": KV_HEADS, "head_dim": HEAD_DIM}
    return {name: size for name, names in read.items() if (size := size_of(module, names)) is not None}


def _dropout(module: nn.Module) -> float:
    """The rate of a dropout that is named for the weights; one that is not may stand elsewhere."""
    for name, part in module.named_modules():
        if isinstance(part, nn.Dropout) and "att" in name.lower():
            return part.p
    return 0.0


def _called(module: nn.Module, query: Tensor) -> Any:
    """Self-attention, by however many tensors the module wants."""
    wanted = [
        p
        for p in inspect.signature(module.forward).parameters.values()
        if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) and p.default is p.empty
    ]
    problems = []
    for count in dict.fromkeys((max(1, min(len(wanted), 3)), 1, 3)):
        try:
            return module(*[query] * count)
        except Exception as error:  # somebody else's code may raise anything
            problems.append(f"with {count}: {type(error).__name__}: {error}")
    raise ConversionError(
        f"{type(module).__name__} could not be called as self-attention on (B, T, E) ({'; '.join(problems)}); "
        "give verify=False, or example=(input, output)"
    )


def _looks_only_back(module: nn.Module, arrays: Mapping[str, Tensor]) -> bool:
    """Whether the first outputs ignore later tokens: measured, in eval mode, by changing the last token."""
    weight = arrays["qkv"] if "qkv" in arrays else arrays["q"]
    width = min(weight.shape) if "qkv" in arrays else weight.shape[1]
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(1, 4, width, generator=generator, dtype=torch.float32).to(weight)
    other = x.clone()
    other[:, -1] += 1.0
    training = module.training
    module.eval()
    try:
        with torch.no_grad():
            first, second = (first_tensor(_called(module, given)) for given in (x, other))
    except ConversionError:
        return False
    finally:
        module.train(training)
    return first.shape == x.shape and bool((first[:, :-1] == second[:, :-1]).all())
