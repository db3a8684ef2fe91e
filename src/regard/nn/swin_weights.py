"""Swin weights from timm and torchvision: their names for our parameters, block by block.

A foreign model is walked by its own names (timm: `layers.2.blocks.5.`; torchvision: `features.5.5.`): take the entries
under one block's prefix, and give them to `swin_block_state`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from torch import Tensor

from regard.core.bias import resize_window_table
from regard.core.errors import ShapeError
from regard.nn.swin_block import SwinBlock

Source = Literal["timm", "torchvision"]

_SHARED = {
    "norm1": "norm1",
    "norm2": "norm2",
    "attn.qkv": "attention.qkv",
    "attn.proj": "attention.out_proj",
    "attn.relative_position_bias_table": "attention.position_bias.table",
    "attn.logit_scale": "attention.log_temperature",
    "attn.cpb_mlp.0": "attention.position_bias.hidden",
    "attn.cpb_mlp.2": "attention.position_bias.out",
    "attn.q_bias": "attention.q_bias",
    "attn.v_bias": "attention.v_bias",
}
NAMES: dict[str, dict[str, str]] = {
    "timm": {**_SHARED, "mlp.fc1": "mlp.up", "mlp.fc2": "mlp.down"},
    "torchvision": {**_SHARED, "mlp.0": "mlp.up", "mlp.3": "mlp.down"},
}
_COMPUTED = (  # buffers that follow from the window; ours are made from it again
    "attn_mask",
    "attn.relative_position_index",
    "attn.relative_coords_table",
    "attn.k_bias",
)


def under(prefix: str, state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The entries whose names start with `prefix`, without it.

    >>> list(under("layers.0.", {"layers.0.norm1.weight": None, "head.bias": None}))
    ['norm1.weight']
    """
    return {name[len(prefix) :]: value for name, value in state.items() if name.startswith(prefix)}


def swin_block_state(state: Mapping[str, Tensor], source: Source, block: SwinBlock) -> dict[str, Tensor]:
    """The state dict of one foreign Swin block, under our names, ready for `block.load_state_dict`.

    Args:
        state: Of one block, names without the prefix of the model.
        source: Whose names they are.
        block: Where they will go; a bias table of another window is resized to its window.

    Raises:
        ShapeError: A name that is not of a Swin block, or a bias table that no square window has.
    """
    if source not in NAMES:
        raise ShapeError(f"source is one of {', '.join(NAMES)}, got {source!r}")
    ours: dict[str, Tensor] = {}
    for name, value in state.items():
        if name in _COMPUTED:
            continue
        stem, kind = (name, "") if name in NAMES[source] else name.rpartition(".")[::2]
        if stem not in NAMES[source]:
            raise ShapeError(f"{name!r} is no parameter of a {source} Swin block; give one block's, without its prefix")
        ours[NAMES[source][stem] + (f".{kind}" if kind else "")] = value
    _split_bias(ours, block)
    _fit_table(ours, block)
    return ours


def merging_state(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The state dict of a patch merging of timm or torchvision: its names (`norm`, `reduction`) are ours."""
    return {name: value for name, value in state.items() if name.startswith(("norm.", "reduction."))}


def _split_bias(ours: dict[str, Tensor], block: SwinBlock) -> None:
    """torchvision keeps one bias for queries, keys and values in version 2, too."""
    packed = ours.get("attention.qkv.bias")
    if packed is None or block.version == 1:
        return
    query, _, value = ours.pop("attention.qkv.bias").chunk(3)  # the part of the keys is set to 0 in its forward
    ours["attention.q_bias"], ours["attention.v_bias"] = query, value


def _fit_table(ours: dict[str, Tensor], block: SwinBlock) -> None:
    table = ours.get("attention.position_bias.table")
    if table is None:
        return
    rows, columns = block.attention.window_size
    if len(table) == (2 * rows - 1) * (2 * columns - 1):
        return
    side = round(len(table) ** 0.5)
    if side * side != len(table) or side % 2 == 0:
        raise ShapeError(
            f"a bias table of {len(table)} offsets is of no square window and not of {rows} x {columns}; resize it "
            "with regard.core.bias.resize_window_table before loading"
        )
    window = (side + 1) // 2
    ours["attention.position_bias.table"] = resize_window_table(table, window, (rows, columns))
