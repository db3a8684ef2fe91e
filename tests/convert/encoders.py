"""The same encoder twice: in PyTorch, and in Keras with its weights; and ways to spoil the Keras one."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import torch
from torch import nn

E, HEADS, HIDDEN = 16, 4, 24


class TorchEncoder(nn.Module):
    """Two post-norm blocks; what a port would start from."""

    def __init__(self, blocks: int = 2):
        super().__init__()
        self.project = nn.Linear(E, E)
        self.blocks = nn.ModuleList([Block() for _ in range(blocks)])

    def forward(self, x: torch.Tensor, keep: torch.Tensor | None = None) -> torch.Tensor:
        x = self.project(x)
        for block in self.blocks:
            x = block(x, keep)
        return x


class Block(nn.Module):
    """Attention, norm, feed-forward, norm."""

    def __init__(self):
        super().__init__()
        self.attention = nn.MultiheadAttention(E, HEADS, batch_first=True, dropout=0.1)
        self.norm1, self.norm2 = nn.LayerNorm(E, eps=1e-5), nn.LayerNorm(E, eps=1e-5)
        self.up, self.down = nn.Linear(E, HIDDEN), nn.Linear(HIDDEN, E)

    def forward(self, x: torch.Tensor, keep: torch.Tensor | None) -> torch.Tensor:
        hidden = None if keep is None else ~keep
        x = self.norm1(x + self.attention(x, x, x, key_padding_mask=hidden, need_weights=False)[0])
        return self.norm2(x + self.down(torch.relu(self.up(x))))


def torch_encoder() -> TorchEncoder:
    model = TorchEncoder()
    for seed, parameter in enumerate(model.parameters()):
        draw = torch.randn(parameter.shape, generator=torch.Generator().manual_seed(seed))
        parameter.data = 1 + draw / 4 if parameter.ndim == 1 and "norm" in str(seed) else draw / E**0.5
    return model.eval()


def keras_encoder(source: TorchEncoder, fault: str = "") -> Any:
    """The same in Keras (functional, inputs x and keep), with the weights of `source`, and at most one fault."""
    keras = importlib.import_module("keras")
    layers = keras.layers
    x, keep = keras.Input((None, E)), keras.Input((None,), dtype="bool")
    mask = keras.ops.expand_dims(keep, 1)
    if fault == "mask polarity":
        mask = keras.ops.logical_not(mask)
    made: list[tuple[Any, Any]] = []

    def use(layer: Any, part: Any, *given: Any, **named: Any) -> Any:
        made.append((layer, part))
        return layer(*given, **named)

    y = use(layers.Dense(E), source.project, x)
    if fault == "scale":
        y = y * E**0.5
    epsilon = 1e-3 if fault == "epsilon" else 1e-5
    activation = "gelu" if fault == "activation" else "relu"
    for part in source.blocks:
        attention = layers.MultiHeadAttention(HEADS, E // HEADS, dropout=0.1)
        causal = {"use_causal_mask": True} if fault == "causality" else {}
        given = {} if fault == "mask ignored" else {"attention_mask": mask}
        z = use(attention, part.attention, y, y, **given, **causal)
        y = use(layers.LayerNormalization(epsilon=epsilon), part.norm1, z if fault == "residual" else y + z)
        z = use(layers.Dense(HIDDEN, activation=activation), part.up, y)
        z = use(layers.Dense(E), part.down, z)
        y = use(layers.LayerNormalization(epsilon=epsilon), part.norm2, y + z)
    model = keras.Model([x, keep], y)
    for layer, part in made:
        copy_weights(layer, part, fault)
    return model


def copy_weights(layer: Any, part: nn.Module, fault: str) -> None:
    """What a careful port does by hand, or what a careless one does."""
    if isinstance(part, nn.MultiheadAttention):
        copy_attention(layer, part, fault)
    elif isinstance(part, nn.LayerNorm):
        layer.gamma.assign(array(part.weight))
        layer.beta.assign(array(part.bias))
    else:
        square = part.weight.shape[0] == part.weight.shape[1]
        layer.kernel.assign(array(part.weight if fault == "transposition" and square else part.weight.T))
        layer.bias.assign(array(part.bias) * (0 if fault == "bias" else 1))


def copy_attention(layer: Any, part: nn.MultiheadAttention, fault: str) -> None:
    weights, biases = list(part.in_proj_weight.chunk(3)), list(part.in_proj_bias.chunk(3))
    if fault == "head permutation":
        weights[0] = weights[0].unflatten(0, (HEADS, -1)).flip(0).flatten(0, 1)
        biases[0] = biases[0].unflatten(0, (HEADS, -1)).flip(0).flatten(0, 1)
    if fault == "roles swapped":
        weights[0], weights[1], biases[0], biases[1] = weights[1], weights[0], biases[1], biases[0]
    for dense, weight, bias in zip((layer.query_dense, layer.key_dense, layer.value_dense), weights, biases):
        dense.kernel.assign(array(weight.T).reshape(E, HEADS, -1))
        dense.bias.assign(array(bias).reshape(HEADS, -1))
    layer.output_dense.kernel.assign(array(part.out_proj.weight.T).reshape(HEADS, -1, E))
    layer.output_dense.bias.assign(array(part.out_proj.bias))


def array(x: torch.Tensor) -> np.ndarray:
    return x.detach().numpy().copy()


def inputs() -> tuple[torch.Tensor, torch.Tensor]:
    x = torch.randn(3, 6, E, generator=torch.Generator().manual_seed(5))
    return x, torch.arange(6) < torch.tensor([6, 4, 2])[:, None]
