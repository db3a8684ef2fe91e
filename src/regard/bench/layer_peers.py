"""Our attention layer against those that people have: the same weights, the same numbers, how long each takes.

Axes: B batch, T tokens, E channels (512), H heads (8).
"""

from __future__ import annotations

import os
from collections.abc import Callable

import torch
from torch import Tensor, nn

from regard.bench.line import Line, Pair, Work, compare
from regard.bench.timing import forward, normal, training
from regard.nn.multi_head import MultiHeadAttention

B, E, H = 4, 512, 8
Layer = Callable[[Tensor], Tensor]


def lines(tokens: int) -> list[Line]:
    """Every peer, forward and forward + backward: a plain layer is as fast as torch's kernel lets it be, so 0.9 is asked, not more."""
    made = []
    flops = 2 * B * tokens * (4 * E * E + 2 * tokens * E)
    for against, build, needs in (
        ("nn.MultiheadAttention", _torch, ()),
        ("x-transformers, as it comes", lambda ours: _x_transformers(ours, flash=False), ("x_transformers",)),
        ("x-transformers, flash", lambda ours: _x_transformers(ours, flash=True), ("x_transformers",)),
        ("Hugging Face BERT, eager", lambda ours: _bert(ours, "eager"), ("transformers",)),
        ("Hugging Face BERT, sdpa", lambda ours: _bert(ours, "sdpa"), ("transformers",)),
        ("Keras MultiHeadAttention (torch)", _keras, ("keras",)),
    ):
        for name, step, factor in (("forward", forward, 1), ("forward + backward to the input", training, 2)):

            def make(build=build, step=step) -> Pair:
                ours = _ours()
                return step(ours, normal(B, tokens, E)), step(build(ours), normal(B, tokens, E))

            what = f"layer of {E} with {H} heads, {B} x {tokens}, {name}"
            made.append(compare(what, against, make, 0.9, needs=needs, work=Work(factor * flops)))
    return made


def _ours() -> MultiHeadAttention:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        layer = MultiHeadAttention(E, H).eval()
    for projection in (layer.q_proj, layer.k_proj, layer.v_proj, layer.out_proj):
        nn.init.zeros_(projection.bias)
    return layer


def _torch(ours: MultiHeadAttention) -> Layer:
    peer = nn.MultiheadAttention(E, H, batch_first=True).eval()
    with torch.no_grad():
        peer.in_proj_weight.copy_(torch.cat([ours.q_proj.weight, ours.k_proj.weight, ours.v_proj.weight]))
        nn.init.zeros_(peer.in_proj_bias)
        peer.out_proj.load_state_dict(ours.out_proj.state_dict())
    return lambda x: peer(x, x, x, need_weights=False)[0]


def _x_transformers(ours: MultiHeadAttention, *, flash: bool) -> Layer:
    from x_transformers.x_transformers import Attention  # pyright: ignore[reportMissingImports]

    peer = Attention(dim=E, heads=H, dim_head=E // H, flash=flash).eval()
    weights = {f"to_{name[0]}.weight": getattr(ours, f"{name[0]}_proj").weight for name in ("query", "key", "value")}
    peer.load_state_dict({**weights, "to_out.weight": ours.out_proj.weight})

    def call(x: Tensor) -> Tensor:
        output = peer(x)
        return output[0] if isinstance(output, tuple) else output

    return call


def _bert(ours: MultiHeadAttention, kind: str) -> Layer:
    from transformers import BertConfig  # pyright: ignore[reportMissingImports]
    from transformers.models.bert.modeling_bert import BertSelfAttention  # pyright: ignore[reportMissingImports]

    config = BertConfig(hidden_size=E, num_attention_heads=H, attention_probs_dropout_prob=0.0)
    config._attn_implementation = kind
    peer, out = BertSelfAttention(config).eval(), ours.out_proj
    for name in ("query", "key", "value"):
        getattr(peer, name).load_state_dict(getattr(ours, f"{name[0]}_proj").state_dict())
    return lambda x: out(peer(x)[0])


def _keras(ours: MultiHeadAttention) -> Layer:
    os.environ.setdefault("KERAS_BACKEND", "torch")
    import keras  # pyright: ignore[reportMissingImports]

    if keras.backend.backend() != "torch":
        raise RuntimeError(f"Keras runs on {keras.backend.backend()}; start with KERAS_BACKEND=torch to compare layers")
    peer = keras.layers.MultiHeadAttention(H, E // H)
    peer.build((B, 1, E), (B, 1, E))
    weights = []
    for mine in (ours.q_proj, ours.k_proj, ours.v_proj):
        weights += [mine.weight.detach().T.reshape(E, H, E // H), torch.zeros(H, E // H)]
    weights += [ours.out_proj.weight.detach().T.reshape(H, E // H, E), torch.zeros(E)]
    names = ("query", "key", "value", "output")
    targets = [v for name in names for v in getattr(peer, f"_{name}_dense").weights]
    for variable, value in zip(targets, weights, strict=True):
        variable.assign(value.numpy())
    return lambda x: peer(x, x)
