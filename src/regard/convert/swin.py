"""Swin: windows and whole blocks of timm, and windows of Hugging Face, to ours; verified where the windows divide the map.

timm rolls a map before it pads it, so that pixels of opposite borders meet where windows do not divide (see
docs/vision.md); there ours differs on purpose. The comparison is made on a map of two by three windows.
"""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor, nn

from regard.convert.doors import remember
from regard.convert.verify import Conversion, allowance
from regard.core.errors import ConversionError
from regard.nn.swin_block import SwinBlock
from regard.nn.swin_weights import swin_block_state
from regard.nn.window_attention import WindowAttention

_PREFIX = "attention."


def from_swin(module: nn.Module, *, verify: bool = True) -> WindowAttention | SwinBlock:
    """Our `SwinBlock` from a Swin block of timm (versions 1 and 2), or our `WindowAttention` from a window attention.

    Args:
        module: timm's SwinTransformerBlock, SwinTransformerV2Block or WindowAttention, or Hugging Face's SwinAttention.
        verify: Run both on random input, and refuse where they differ.

    Returns:
        In eval mode, (B, C, H, W) in and out. `regard.convert.report` says what was compared.

    Raises:
        ConversionError: It is none of these, or the two differ.
    """
    if hasattr(module, "attn") and hasattr(module, "norm1") and hasattr(module.attn, "window_size"):
        made, run = _block(module)
    elif hasattr(module, "q_proj") and hasattr(module, "relative_position_bias"):
        made, run = _hf_window(module)
    elif hasattr(module, "qkv") and hasattr(module, "window_size"):
        made, run = _timm_window(module)
    else:
        raise ConversionError(f"a Swin block or window attention was expected, got {type(module).__name__}")
    made.eval()
    report = Conversion(type(module).__name__)
    if verify:
        report = _compared(made, run, type(module).__name__)
    remember(made, report)
    return made


def _block(module: Any) -> tuple[SwinBlock, Any]:
    version = 2 if hasattr(module.attn, "logit_scale") else 1
    weight = module.attn.qkv.weight
    block = SwinBlock(
        weight.shape[1],
        module.attn.num_heads,
        window_size=tuple(module.attn.window_size),
        shift=tuple(module.shift_size),
        version=version,
        mlp_ratio=module.mlp.fc1.weight.shape[0] / weight.shape[1],
        qkv_bias=getattr(module.attn.qkv, "bias", None) is not None or getattr(module.attn, "q_bias", None) is not None,
        dropout=float(module.attn.attn_drop.p),
        pretrained_window=_pretrained(module.attn),
        device=weight.device,
        dtype=weight.dtype,
    )
    block.load_state_dict(swin_block_state(dict(module.state_dict()), "timm", block))
    theirs = copy.deepcopy(module).eval()
    rows, columns = block.attention.window_size
    if hasattr(theirs, "attn_mask"):  # made for one size of map: make it for ours
        theirs.input_resolution = (2 * rows, 3 * columns)
        theirs.attn_mask = theirs.get_attn_mask(torch.zeros(1, 2 * rows, 3 * columns, 1).to(weight))

    def run(x: Tensor) -> Tensor:
        return theirs(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)

    return block, run


def _timm_window(module: Any) -> tuple[WindowAttention, Any]:
    version = 2 if hasattr(module, "logit_scale") else 1
    weight = module.qkv.weight
    biased = module.qkv.bias is not None or getattr(module, "q_bias", None) is not None
    ours = WindowAttention(
        weight.shape[1],
        module.num_heads,
        window_size=tuple(module.window_size),
        version=version,
        qkv_bias=biased,
        dropout=float(module.attn_drop.p),
        pretrained_window=_pretrained(module),
        device=weight.device,
        dtype=weight.dtype,
    )
    _load(ours, {f"attn.{name}": x for name, x in module.state_dict().items()})
    theirs = copy.deepcopy(module).eval()
    return ours, lambda x: _by_windows(theirs, x, ours.window_size)


def _hf_window(module: Any) -> tuple[WindowAttention, Any]:
    projections = (module.q_proj, module.k_proj, module.v_proj)
    weight = module.q_proj.weight
    table = module.relative_position_bias.relative_position_bias_table
    side = round((round(len(table) ** 0.5) + 1) / 2)
    ours = WindowAttention(
        weight.shape[1],
        module.num_attention_heads,
        window_size=side,
        qkv_bias=module.q_proj.bias is not None,
        dropout=float(module.attention_dropout),
        device=weight.device,
        dtype=weight.dtype,
    )
    state = {"attn.qkv.weight": torch.cat([p.weight for p in projections]), "attn.relative_position_bias_table": table}
    state |= {f"attn.proj.{name}": x for name, x in module.o_proj.state_dict().items()}
    if module.q_proj.bias is not None:
        state["attn.qkv.bias"] = torch.cat([p.bias for p in projections])
    _load(ours, state)
    theirs = copy.deepcopy(module).eval()
    return ours, lambda x: _by_windows(lambda windows: theirs(windows)[0], x, ours.window_size)


def _load(ours: WindowAttention, state: dict[str, Tensor]) -> None:
    """Load entries that have the names they have in a block."""
    block = SwinBlock(
        ours.channels, ours.num_heads, window_size=ours.window_size, version=2 if ours.version == 2 else 1
    )
    renamed = swin_block_state(state, "timm", block)
    ours.load_state_dict({name[len(_PREFIX) :]: x for name, x in renamed.items() if name.startswith(_PREFIX)})


def _pretrained(attention: Any) -> tuple[int, int] | None:
    sizes = getattr(attention, "pretrained_window_size", None)
    return None if sizes is None or not all(sizes) else (int(sizes[0]), int(sizes[1]))


def _by_windows(attend: Any, x: Tensor, window: tuple[int, int]) -> Tensor:
    """Cut (B, C, H, W) into windows (n, wh ww, C), attend, and put together again."""
    (rows, columns), (B, C, H, W) = window, x.shape
    cut = x.reshape(B, C, H // rows, rows, W // columns, columns).permute(0, 2, 4, 3, 5, 1)
    mixed = attend(cut.reshape(-1, rows * columns, C)).reshape(B, H // rows, W // columns, rows, columns, C)
    return mixed.permute(0, 5, 1, 3, 2, 4).reshape(B, C, H, W)


def _compared(made: WindowAttention | SwinBlock, run: Any, source: str) -> Conversion:
    window = made.attention.window_size if isinstance(made, SwinBlock) else made.window_size
    parameter = next(made.parameters())
    channels = made.attention.channels if isinstance(made, SwinBlock) else made.channels
    generator = torch.Generator().manual_seed(20261130)
    x = torch.randn(2, channels, 2 * window[0], 3 * window[1], generator=generator).to(parameter)
    with torch.no_grad():
        theirs, ours = run(x), made(x)
    gap, largest = (theirs - ours).abs().amax().item(), ours.abs().amax().item()
    report = Conversion(source, {"two by three windows": gap}, allowance(largest), "both sides ran")
    if not gap <= report.allowed:
        raise ConversionError(
            f"{source} and ours differ by {gap:.2g} on a map of two by three windows (allowed {report.allowed:.1g}); "
            "the module has an option that ours lacks"
        )
    return report
