"""How to call the attention of each library, for `conventions`: functions where there are some, modules with plain weights else."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard.convert.conventions import Library


def _sdpa(q: Tensor, k: Tensor, v: Tensor, attend: Tensor) -> Tensor:
    return F.scaled_dot_product_attention(q, k, v, attn_mask=attend)


def _mha(q: Tensor, k: Tensor, v: Tensor, attend: Tensor) -> Tensor:
    """Identity projections, one head, and `v` as the input."""
    layer = nn.MultiheadAttention(v.shape[3], 1, bias=False, batch_first=True).eval()
    with torch.no_grad():
        eye, none = torch.eye(v.shape[3]), torch.zeros(v.shape[3], v.shape[3])
        layer.in_proj_weight.copy_(torch.cat([none, none, eye]))
        layer.out_proj.weight.copy_(eye)
        return layer(v[0], v[0], v[0], attn_mask=attend[0, 0])[0][None]


def _flex(q: Tensor, k: Tensor, v: Tensor, attend: Tensor) -> Tensor:
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    mask = create_block_mask(lambda b, h, i, j: attend[0, 0, i, j], None, None, q.shape[2], k.shape[2], device="cpu")
    return flex_attention(q, k, v, block_mask=mask)  # pyright: ignore


def _ours(q: Tensor, k: Tensor, v: Tensor, attend: Tensor) -> Tensor:
    from regard.core.attention import attention

    return attention(q, k, v, mask=attend)


def _our_window(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    from regard.core.attention import attention
    from regard.core.mask.band import causal, sliding_window

    return attention(q, k, v, mask=causal() & sliding_window(left=2))


def _our_causal(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    from regard.core.attention import attention
    from regard.core.mask.band import causal

    return attention(q, k, v, mask=causal())


def _our_groups(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    from regard.core.attention import attention

    return attention(q, k, v)


def _hf_config() -> Any:
    from transformers import LlamaConfig

    return LlamaConfig(hidden_size=8, num_attention_heads=2, num_key_value_heads=2)


def _hf(q: Tensor, k: Tensor, v: Tensor, attend: Tensor) -> Tensor:
    """The function "eager" of Llama, with the additive mask that its model makes of a boolean one."""
    from transformers.models.llama.modeling_llama import eager_attention_forward

    module: Any = nn.Module().eval()
    module.num_key_value_groups = q.shape[1] // k.shape[1]
    added = torch.zeros(attend.shape).masked_fill(~attend, torch.finfo(torch.float32).min)
    return eager_attention_forward(module, q, k, v, added, scaling=1.0)[0].transpose(1, 2)


def _hf_window(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    from transformers.masking_utils import sliding_window_causal_mask_function

    rule = sliding_window_causal_mask_function(2)
    rows, columns = torch.meshgrid(torch.arange(q.shape[2]), torch.arange(k.shape[2]), indexing="ij")
    return _hf(q, k, v, torch.as_tensor(rule(0, 0, rows, columns))[None, None])


def _hf_turned(x: Tensor) -> Tensor:
    from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding, apply_rotary_pos_emb

    cos, sin = LlamaRotaryEmbedding(_hf_config())(x, torch.arange(x.shape[2])[None])
    return apply_rotary_pos_emb(x, x, cos, sin)[0]


def _hf_groups(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return _hf(q, k, v, torch.ones(1, 1, q.shape[2], k.shape[2], dtype=torch.bool))


def _timm(fused: bool):
    def call(q: Tensor, k: Tensor, v: Tensor, attend: Tensor) -> Tensor:
        from timm.layers.attention import Attention

        layer: Any = Attention(v.shape[3], 1).eval()
        layer.fused_attn = fused
        with torch.no_grad():
            eye, none = torch.eye(v.shape[3]), torch.zeros(v.shape[3], v.shape[3])
            layer.qkv.weight.copy_(torch.cat([none, none, eye]))
            layer.proj.weight.copy_(eye)
            layer.proj.bias.zero_()
            return layer(v[0], attn_mask=attend)[None]

    return call


def _timm_turned(x: Tensor) -> Tensor:
    from timm.layers.pos_embed_sincos import apply_rot_embed_cat

    angle = torch.arange(x.shape[2])[:, None] * torch.ones(x.shape[3])
    return apply_rot_embed_cat(x, torch.cat([angle.sin(), angle.cos()], dim=-1))


def _keras(q: Tensor, k: Tensor, v: Tensor, attend: Tensor | None, **options: Any) -> Tensor:
    from regard.adapt.keras_layers import keras, to_numpy

    layer = keras().layers.MultiHeadAttention(1, v.shape[3], use_bias=False, **options.pop("layer", {}))
    layer.build((None, None, v.shape[3]), (None, None, v.shape[3]))
    eye = torch.eye(v.shape[3]).numpy()
    layer.query_dense.kernel.assign(0 * eye[:, None])
    layer.key_dense.kernel.assign(eye[:, None])
    layer.value_dense.kernel.assign(eye[:, None])
    layer.output_dense.kernel.assign(eye[None])
    ops = keras().ops
    x = ops.convert_to_tensor(v[0].numpy())
    query = ops.convert_to_tensor(torch.zeros(1, q.shape[2], v.shape[3]).numpy())
    mask = None if attend is None else ops.convert_to_tensor(attend[0].numpy())
    return torch.from_numpy(to_numpy(layer(query, x, attention_mask=mask, **options)))[None]


def _keras_groups(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    from regard.adapt.keras_layers import keras, to_numpy

    D = v.shape[3]
    layer = keras().layers.GroupQueryAttention(D, 4, 2, use_bias=False)
    layer.build((None, None, D), (None, None, D))
    layer._query_dense.kernel.assign(torch.zeros(D, 4, D).numpy())
    heads = torch.stack([torch.zeros(D, D), torch.eye(D)], dim=1)  # value head g gives g times the input of ones
    layer._value_dense.kernel.assign(heads.numpy())
    one = torch.zeros(4, D, D)
    one[torch.arange(4), :, torch.arange(4)] = 1.0 / D  # head i is shown in channel i
    layer._output_dense.kernel.assign(one.numpy())
    x = keras().ops.convert_to_tensor(torch.ones(1, 3, D).numpy())
    output = torch.from_numpy(to_numpy(layer(x, x)))[0, :, :4]  # (T, head)
    return output.T[None, :, :, None]


def _onnx(q: Tensor, k: Tensor, v: Tensor, attend: Tensor | None, **attributes: Any) -> Tensor:
    from onnx import TensorProto, helper
    from onnx.reference import ReferenceEvaluator

    given = {"Q": q, "K": k, "V": v} | ({} if attend is None else {"M": attend})
    node = helper.make_node("Attention", list(given), ["Y"], **attributes)
    kinds = {torch.float32: TensorProto.FLOAT, torch.bool: TensorProto.BOOL}
    inputs = [helper.make_tensor_value_info(n, kinds[x.dtype], list(x.shape)) for n, x in given.items()]
    graph = helper.make_graph([node], "g", inputs, [helper.make_tensor_value_info("Y", TensorProto.FLOAT, None)])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 25)])
    return torch.from_numpy(ReferenceEvaluator(model).run(None, {n: x.numpy() for n, x in given.items()})[0])  # pyright: ignore


def _x(flash: bool):
    def call(q: Tensor, k: Tensor, v: Tensor, attend: Tensor | None, causal: bool = False) -> Tensor:
        from x_transformers.attend import Attend

        return Attend(causal=causal, flash=flash, heads=q.shape[1], scale=1.0)(q, k, v, mask=attend)[0]

    return call


def _x_window(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    from x_transformers.x_transformers import Attention

    width = v.shape[3]
    layer: Any = Attention(width, dim_head=width, heads=1, causal=True, max_attend_past=2, project_out=True).eval()
    with torch.no_grad():
        layer.to_q.weight.zero_()
        layer.to_v.weight.copy_(torch.eye(v.shape[3]))
        layer.to_out.weight.copy_(torch.eye(v.shape[3]))
        return layer(v[0])[None]


def _x_turned(x: Tensor) -> Tensor:
    from x_transformers.x_transformers import RotaryEmbedding, apply_rotary_pos_emb

    freqs, _ = RotaryEmbedding(x.shape[3])(torch.arange(x.shape[2]))
    return apply_rotary_pos_emb(x, freqs)


def _local(exact: bool):
    def call(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        from local_attention import LocalAttention

        layer = LocalAttention(2, causal=True, exact_windowsize=exact, use_rotary_pos_emb=False, autopad=True)
        return layer(q, k, v)

    return call


def _local_masked(q: Tensor, k: Tensor, v: Tensor, attend: Tensor) -> Tensor:
    """Its mask is of keys: a row without keys is one whose window is hidden."""
    from local_attention import LocalAttention

    return LocalAttention(4, autopad=True, use_rotary_pos_emb=False, look_forward=0, look_backward=0)(
        q, k, v, mask=attend[0, :, 1]
    )


def _jax(q: Tensor, k: Tensor, v: Tensor, attend: Tensor | None = None, **options: Any) -> Tensor:
    import jax
    import jax.numpy as jnp

    given = [jnp.asarray(x.transpose(1, 2).numpy()) for x in (q, k, v)]  # (B, T, H, D)
    mask = None if attend is None else jnp.asarray(attend.numpy())
    output = torch.tensor(jax.nn.dot_product_attention(*given, mask=mask, **options).tolist())
    return output.transpose(1, 2)


def _flax(q: Tensor, k: Tensor, v: Tensor, attend: Tensor) -> Tensor:
    import jax.numpy as jnp
    from flax import nnx

    given = [jnp.asarray(x.transpose(1, 2).numpy()) for x in (q, k, v)]
    return torch.tensor(nnx.dot_product_attention(*given, mask=jnp.asarray(attend.numpy())).tolist()).transpose(1, 2)


LIBRARIES = (
    Library("regard.attention", "torch", _ours, _our_causal, _our_window, None, _our_groups),
    Library(
        "torch scaled_dot_product_attention",
        "torch",
        _sdpa,
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True),
        None,
        None,
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, enable_gqa=True),
    ),
    Library("torch nn.MultiheadAttention", "torch", _mha),
    Library("torch flex_attention", "torch", _flex),
    Library("transformers Llama and Mistral (eager)", "transformers", _hf, None, _hf_window, _hf_turned, _hf_groups),
    Library("timm Attention (fused)", "timm", _timm(True), None, None, _timm_turned),
    Library("timm Attention (not fused)", "timm", _timm(False), None, None, _timm_turned),
    Library(
        "keras MultiHeadAttention",
        "keras",
        lambda q, k, v, attend: _keras(q, k, v, attend),
        lambda q, k, v: _keras(q, k, v, None, use_causal_mask=True),
        lambda q, k, v: _keras(q, k, v, None, use_causal_mask=True, layer={"sliding_window": 2}),
        None,
        _keras_groups,
    ),
    Library(
        "onnx Attention (opset 25)",
        "onnx",
        _onnx,
        lambda q, k, v: _onnx(q, k, v, None, is_causal=1),
        lambda q, k, v: _onnx(q, k, v, None, is_causal=1, left_window_size=2),
        None,
        lambda q, k, v: _onnx(q, k, v, None),
    ),
    Library(
        "x_transformers (not flash)",
        "x_transformers",
        _x(False),
        lambda q, k, v: _x(False)(q, k, v, None, causal=True),
        _x_window,
        _x_turned,
        lambda q, k, v: _x(False)(q, k, v, None),
    ),
    Library(
        "x_transformers (flash)",
        "x_transformers",
        _x(True),
        lambda q, k, v: _x(True)(q, k, v, None, causal=True),
        None,
        _x_turned,
        lambda q, k, v: _x(True)(q, k, v, None),
    ),
    Library("local_attention", "local_attention", _local_masked, None, _local(False)),
    Library("local_attention (exact_windowsize)", "local_attention", None, None, _local(True)),
    Library(
        "jax.nn.dot_product_attention",
        "jax",
        _jax,
        lambda q, k, v: _jax(q, k, v, is_causal=True),
        lambda q, k, v: _jax(q, k, v, is_causal=True, local_window_size=(2, 0)),
        None,
        _jax,
    ),
    Library("flax nnx.dot_product_attention", "flax", _flax),
)
