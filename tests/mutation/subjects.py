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
    "neighborhood": (_made("neighborhood:NeighborhoodAttention2D", 16, 2, kernel_size=3), {**IMAGE, "window": 3}),
}


def first_input(subject: str) -> tuple[int, ...]:
    """The shape of an input that the unchanged subject takes."""
    return (2, 16, 6, 9) if list(SUBJECTS).index(subject) >= list(SUBJECTS).index("se") else (2, 5, E)


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
