"""Attention of other frameworks, small and filled with random weights: name -> factory, for whoever converts."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import nn

from regard.bench.timm_peer import load_timm

E, HEADS, D = 32, 4, 8


def draws(*shape: int, seed: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def filled(module: nn.Module) -> nn.Module:
    """Fixed random weights, large enough that the softmax is not flat; in eval mode."""
    for seed, parameter in enumerate(module.parameters()):
        parameter.data = draws(*parameter.shape, seed=seed) / parameter.shape[-1] ** 0.5
    return module.eval()


def hf(family: str, cls: str, config: str, *given: Any, options: dict | None = None, **settings: Any) -> nn.Module:
    """An attention module of transformers with a tiny configuration."""
    code = importlib.import_module(f"transformers.models.{family}.modeling_{family}")
    made = getattr(importlib.import_module("transformers"), config)(attn_implementation="eager", **settings)
    return filled(getattr(code, cls)(made, *given, **(options or {})))


def bert() -> nn.Module:
    return hf("bert", "BertAttention", "BertConfig", hidden_size=E, num_attention_heads=HEADS)


def gpt2() -> nn.Module:
    return hf("gpt2", "GPT2Attention", "GPT2Config", n_embd=E, n_head=HEADS, options={"layer_idx": 0})


def gpt_neox() -> nn.Module:
    sizes = {"hidden_size": E, "num_attention_heads": HEADS}
    return hf("gpt_neox", "GPTNeoXAttention", "GPTNeoXConfig", options={"layer_idx": 0}, **sizes)


def bloom() -> nn.Module:
    return hf("bloom", "BloomAttention", "BloomConfig", hidden_size=E, n_head=HEADS, options={"layer_idx": 0})


def llama(kv_heads: int = HEADS, **settings: Any) -> nn.Module:
    sizes = {"hidden_size": E, "num_attention_heads": HEADS, "num_key_value_heads": kv_heads}
    return hf("llama", "LlamaAttention", "LlamaConfig", options={"layer_idx": 0}, **sizes, **settings)


def whisper() -> nn.Module:
    code = importlib.import_module("transformers.models.whisper.modeling_whisper")
    config = importlib.import_module("transformers").WhisperConfig(attn_implementation="eager")
    return filled(code.WhisperAttention(E, HEADS, config=config))


def timm_attention(**options: Any) -> nn.Module:
    (code,) = load_timm("layers.attention")
    return filled(code.Attention(E, HEADS, qkv_bias=True, **options))


def x_attention(**options: Any) -> nn.Module:
    code = importlib.import_module("x_transformers.x_transformers")
    return filled(code.Attention(E, heads=HEADS, dim_head=D, **options))


def keras_layer(kv_heads: int = HEADS) -> Any:
    """A built Keras layer with random biases too (they start at 0)."""
    layers = importlib.import_module("keras").layers
    plain = kv_heads == HEADS
    layer = layers.MultiHeadAttention(HEADS, D) if plain else layers.GroupQueryAttention(D, HEADS, kv_heads)
    layer.build((None, None, E), (None, None, E))
    rng = np.random.default_rng(3)
    for weight in layer.weights:
        weight.assign((rng.standard_normal(weight.shape) / E**0.5).astype(np.float32))
    return layer


def onnx_attention(kv_heads: int = HEADS, *, cross: bool = False) -> Any:
    """A graph as an exporter writes it: three projections, Attention (opset 24) on three axes, the last projection."""
    from onnx import TensorProto, helper, numpy_helper

    from regard.adapt.onnx_graph import Attention

    widths = {"q": HEADS * D, "k": kv_heads * D, "v": kv_heads * D, "o": E}
    stored, nodes = [], []
    for seed, (name, width) in enumerate(widths.items()):
        source = {"q": "x", "o": "attended"}.get(name, "y" if cross else "x")
        weight, bias = draws(E, width, seed=seed) / E**0.5, draws(width, seed=10 + seed) / 4
        stored += [numpy_helper.from_array(x.numpy(), f"{name}.{kind}") for kind, x in (("w", weight), ("b", bias))]
        nodes.append(helper.make_node("MatMul", [source, f"{name}.w"], [f"{name}.product"]))
        nodes.append(helper.make_node("Add", [f"{name}.product", f"{name}.b"], [name]))
    attention = helper.make_node("Attention", ["q", "k", "v"], ["attended"], q_num_heads=HEADS, kv_num_heads=kv_heads)
    nodes.insert(6, attention)
    names = ("x", "y") if cross else ("x",)
    inputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["B", f"T_{name}", E]) for name in names]
    output = helper.make_tensor_value_info("o", TensorProto.FLOAT, ["B", "T_x", E])
    graph = helper.make_graph(nodes, "attention", inputs, [output], stored)
    return Attention(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 24)], ir_version=10))


def torch_mha(**options: Any) -> nn.Module:
    return filled(nn.MultiheadAttention(E, HEADS, batch_first=True, **options))


Factory = Callable[[], Any]
