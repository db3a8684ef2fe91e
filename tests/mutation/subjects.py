"""Which modules are checked for a mutant of which file: small instances, built after the mutant was put in place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

E = 16
MASK = {"mask": {"arg": "mask", "polarity": "keep", "dtype": "bool"}}
IMAGE = {"layout": "BCHW", "inputs": {"x": (2, 16, 6, 9)}}


def _attention(**options: Any) -> Any:
    from regard.nn.multi_head import MultiHeadAttention

    return MultiHeadAttention(E, 4, **options)


def _causal(**options: Any) -> Any:
    from regard.mask import causal

    return _attention(mask=causal(), **options)


def _windowed() -> Any:
    from regard.mask import causal, sliding_window

    return _attention(mask=causal() & sliding_window(left=2))


def _around() -> Any:
    from regard.mask import global_tokens, sliding_window

    return _attention(mask=sliding_window(2, 2) | global_tokens([0]))


def _prefix() -> Any:
    from regard.mask import causal, prefix

    return _attention(mask=causal() | prefix(2))


def _rotary() -> Any:
    from regard.position import Rotary

    return _causal(num_kv_heads=2, position=Rotary(4, pairing="half"))


def _through(name: str, make: Callable[[], Any]) -> Callable[[], Any]:
    """Small calls go through a backend that is chosen for large ones alone, wherever it can compute them."""

    def made() -> Any:
        import regard.core.attention as core

        backend = next(b for b in core.BACKENDS if b.name == name)
        core.BACKENDS = (_Preferred(backend), *(b for b in core.BACKENDS if b is not backend))
        return make()

    return made


class _Preferred:
    def __init__(self, backend: Any) -> None:
        self.backend = backend

    def slower(self, call: Any) -> None:
        return None

    def __getattr__(self, name: str) -> Any:
        return getattr(self.backend, name)


def _documents() -> Any:
    import torch

    from regard.mask import causal, documents

    return _attention(mask=causal() & documents(torch.tensor([0, 0, 1, 1, 1, 2])))


def _blocks() -> Any:
    import torch

    from regard.mask import blocks

    return _attention(mask=blocks(torch.ones(64, 64).tril().triu(-1) > 0, size=2))


def _biased(path: str, *arguments: Any, **options: Any) -> Callable[[], Any]:
    """Causal attention with a bias of positions."""
    return lambda: _causal(attention_bias=_made(path, *arguments, **options)())


def _transformer() -> Any:
    from regard.nn.transformer_block import TransformerBlock

    return TransformerBlock(E, _causal(), dropout=0.1)


def _made(path: str, *arguments: Any, **options: Any) -> Callable[[], Any]:
    """An instance of `module:Class` of regard.nn."""

    def make() -> Any:
        import importlib

        module, _, name = path.partition(":")
        return getattr(importlib.import_module(f"regard.nn.{module}"), name)(*arguments, **options)

    return make


SUBJECTS: dict[str, tuple[Callable[[], Any], dict[str, Any] | None]] = {
    "plain": (_attention, MASK),
    "causal": (_causal, MASK),
    "windowed": (_windowed, MASK),
    "around": (_around, MASK),
    "prefix": (_prefix, MASK),
    "rotary": (_rotary, MASK),
    "softcap": (lambda: _causal(softcap=5.0, dropout=0.1), MASK),
    "tiled": (_through("tiled", lambda: _causal(softcap=5.0)), MASK),
    "in windows": (_through("window", _windowed), MASK),
    "in windows with tokens": (_through("window", _around), MASK),
    "in parts": (_through("packed", _causal), MASK),
    "documents": (_through("packed", _documents), {"inputs": {"query": (2, 6, E)}}),
    "blocks": (_through("blocks", _blocks), None),
    "linear": (_made("linear_attention:LinearAttention", E, 4), MASK),
    "linear causal": (_made("linear_attention:LinearAttention", E, 4, causal=True, chunk=4), MASK),
    "favor": (_made("favor_attention:FavorAttention", E, 4), MASK),
    "favor causal": (_made("favor_attention:FavorAttention", E, 4, causal=True), MASK),
    "lsh": (_made("lsh_attention:LSHAttention", E, 4, num_buckets=4, bucket_size=4), MASK),
    "lsh causal": (_made("lsh_attention:LSHAttention", E, 4, num_buckets=4, bucket_size=4, causal=True), MASK),
    "talking": (_made("talking_heads:TalkingHeadsAttention", E, 4), MASK),
    "t5": (_biased("relative_bias:RelativeBias", 4), MASK),
    "alibi": (_biased("alibi_bias:AlibiBias", 4), MASK),
    "transformer": (_transformer, MASK),
    "se": (_made("squeeze_excitation:SqueezeExcitation", 16), None),
    "eca": (_made("efficient_channel:EfficientChannelAttention", 16), None),
    "channel": (_made("channel_attention:ChannelAttention", 16), None),
    "spatial": (_made("spatial_attention:SpatialAttention"), None),
    "cbam": (_made("cbam:CBAM", 16), None),
    "bam": (_made("bam:BAM", 16), None),
    "coordinate": (_made("coordinate_attention:CoordinateAttention", 16), None),
    "scse": (_made("spatial_channel_se:SpatialChannelSE", 16), None),
    "window": (_made("window_attention:WindowAttention", 16, 2, window_size=4), {**IMAGE, "window": 4}),
    "shifted": (
        _made("shifted_window:ShiftedWindowAttention", 16, 2, window_size=4),
        {**IMAGE, "window": 4, "shift": 2},
    ),
    "grid": (_made("grid_attention:GridAttention", 16, 2, grid_size=3), {**IMAGE, "window": "grid 3x3"}),
    "swin": (_made("swin_block:SwinBlock", 16, 2, window_size=4, shift=2), {**IMAGE, "window": 4, "shift": 2}),
    "merging": (_made("patch_merging:PatchMerging", 16), IMAGE),
    "pool": (_made("attention_pool:AttentionPool", 16, 2), IMAGE),
    "neighborhood": (_made("neighborhood:NeighborhoodAttention2D", 16, 2, kernel_size=3), {**IMAGE, "window": 3}),
}


def first_input(subject: str) -> tuple[int, ...]:
    """The shape of an input that the unchanged subject takes."""
    return (2, 16, 6, 9) if list(SUBJECTS).index(subject) >= list(SUBJECTS).index("se") else (2, 6, E)


SEQUENCE = ("causal", "windowed", "rotary", "plain")
FILES: dict[str, tuple[str, ...]] = {  # module -> subjects, the likeliest to notice first
    "regard.nn.multi_head": ("rotary", "softcap", "plain", "windowed"),
    "regard.nn.kv_cache": ("causal", "windowed", "rotary"),
    "regard.nn.heads": SEQUENCE,
    "regard.nn.mask_with_cache": ("causal", "windowed", "prefix"),
    "regard.core.attention": SEQUENCE,
    "regard.core.mask.band": ("windowed", "causal", "around", "prefix"),
    "regard.core.mask.convert": SEQUENCE,
    "regard.core.mask.expression": ("windowed", "around", "prefix", "causal"),
    "regard.core.mask.places": ("windowed", "causal", "around"),
    "regard.core.mask.sequences": ("causal", "windowed", "prefix"),
    "regard.core.mask.structure": ("windowed", "causal", "around", "prefix"),
    "regard.core.mask.table": ("causal", "around", "prefix"),
    "regard.core.mask.tokens": ("around", "prefix"),
    "regard.core.mask.tree": ("windowed", "around", "causal"),
    "regard.core.mask.values": ("windowed", "causal"),
    "regard.core.backends.fused": SEQUENCE,
    "regard.core.backends.kernel": SEQUENCE,
    "regard.core.backends.open_form": ("softcap", "causal", "plain"),
    "regard.core.backends.blocks": ("blocks", "causal"),
    "regard.core.backends.packed": ("in parts", "documents", "causal"),
    "regard.core.backends.tiled": ("tiled", "causal"),
    "regard.core.backends.window": ("in windows", "in windows with tokens", "windowed"),
    "regard.core.block_sparse": ("blocks",),
    "regard.core.chunks": ("linear causal", "lsh"),
    "regard.core.favor": ("favor", "favor causal"),
    "regard.core.finite": ("causal", "in parts", "in windows", "tiled"),
    "regard.core.linear": ("linear", "linear causal"),
    "regard.core.local": ("in windows", "in windows with tokens"),
    "regard.core.local_blocks": ("in windows", "in windows with tokens"),
    "regard.core.local_form": ("in windows", "in windows with tokens", "windowed"),
    "regard.core.lsh": ("lsh", "lsh causal"),
    "regard.core.mask.packed": ("in parts", "documents", "blocks"),
    "regard.core.mask.spans": ("in parts", "documents", "blocks"),
    "regard.core.packed": ("in parts", "documents"),
    "regard.core.talking_heads": ("talking",),
    "regard.core.tiled": ("tiled",),
    "regard.core.tiles": ("tiled",),
    "regard.core.bias": ("alibi", "t5"),
    "regard.core.position": ("rotary", "t5", "alibi"),
    "regard.nn.alibi_bias": ("alibi",),
    "regard.nn.relative_bias": ("t5",),
    "regard.nn.head_projections": ("rotary", "linear causal", "talking"),
    "regard.nn.kernel_attention": ("linear", "linear causal", "favor causal"),
    "regard.nn.linear_attention": ("linear", "linear causal"),
    "regard.nn.linear_cache": ("linear causal", "favor causal"),
    "regard.nn.favor_attention": ("favor", "favor causal"),
    "regard.nn.lsh_attention": ("lsh", "lsh causal"),
    "regard.nn.talking_heads": ("talking",),
    "regard.nn.key_mask": ("linear", "lsh", "talking"),
    "regard.nn.token_positions": ("rotary", "t5"),
    "regard.nn.transformer_block": ("transformer",),
    "regard.nn.feed_forward": ("transformer",),
    "regard.nn.swin_block": ("swin",),
    "regard.nn.patch_merging": ("merging",),
    "regard.nn.attention_pool": ("pool",),
    "regard.nn.map_pooling": ("coordinate", "cbam"),
    "regard.nn.squeeze_excitation": ("se", "scse"),
    "regard.nn.efficient_channel": ("eca",),
    "regard.nn.channel_attention": ("channel", "cbam"),
    "regard.nn.spatial_attention": ("spatial", "cbam"),
    "regard.nn.cbam": ("cbam",),
    "regard.nn.bam": ("bam",),
    "regard.nn.coordinate_attention": ("coordinate",),
    "regard.nn.spatial_channel_se": ("scse",),
    "regard.nn.feature_map": ("se", "coordinate", "window"),
    "regard.nn.window_attention": ("window", "shifted"),
    "regard.nn.window_partition": ("shifted", "window", "grid"),
    "regard.nn.window_bias": ("window", "shifted"),
    "regard.nn.shifted_window": ("shifted",),
    "regard.nn.grid_attention": ("grid",),
    "regard.nn.neighborhood": ("neighborhood",),
}
