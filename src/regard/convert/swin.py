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
from regard.nn.swin_weights import NAMES, swin_block_state
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
    made, run = _reader(module)(module)
    made.eval()
    source = type(module).__name__
    remember(made, _compared(made, run, source) if verify else Conversion(source))
    return made


def to_swin(layer: WindowAttention | SwinBlock, into: nn.Module, *, verify: bool = True) -> nn.Module:
    """Fill a Swin block or window attention of timm, or Hugging Face's SwinAttention, with the weights of ours.

    Args:
        into: Made with the same widths, heads and windows; from timm for a `SwinBlock`.

    Raises:
        ConversionError: Its entries are others, or have other shapes; or the two differ.
    """
    theirs = dict(into.named_parameters())
    made = _theirs(layer, theirs)
    missing = sorted(set(theirs) - set(made))
    wrong = [name for name in made if name not in theirs or made[name].shape != theirs[name].shape]
    if missing or wrong:
        first = missing[0] if missing else wrong[0]
        raise ConversionError(
            f"{type(into).__name__} and the layer do not fit: {len(missing)} entries are missing and {len(wrong)} have "
            f"another name or shape, such as {first!r}; make it with the same widths, heads, windows and biases"
        )
    with torch.no_grad():
        for name, value in made.items():
            theirs[name].copy_(value)
    source = type(into).__name__
    _, run = _reader(into)(into)
    remember(into, _compared(copy.deepcopy(layer).eval(), run, source) if verify else Conversion(source))
    return into


def _theirs(layer: WindowAttention | SwinBlock, names: dict[str, nn.Parameter]) -> dict[str, Tensor]:
    """Our parameters under the names that the target has."""
    state = {name: x.detach() for name, x in layer.named_parameters()}
    if isinstance(layer, WindowAttention):
        state = {f"attention.{name}": x for name, x in state.items()}
    back = {ours: theirs for theirs, ours in NAMES["timm"].items()}
    made: dict[str, Tensor] = {}
    for name, value in state.items():
        stem, _, kind = (name, "", "") if name in back else name.rpartition(".")
        made[back[stem] + (f".{kind}" if kind else "")] = value
    if isinstance(layer, WindowAttention):
        made = {name.removeprefix("attn."): x for name, x in made.items()}
    if "q_proj.weight" in names:  # Hugging Face: three matrices
        for kind in ("weight", "bias"):
            packed = made.pop(f"qkv.{kind}", None)
            if packed is not None:
                made |= {f"{x}_proj.{kind}": part for x, part in zip("qkv", packed.chunk(3))}
        made["relative_position_bias.relative_position_bias_table"] = made.pop("relative_position_bias_table")
        made = {name.replace("proj.", "o_proj.") if name.startswith("proj.") else name: x for name, x in made.items()}
    return made


def _reader(module: Any) -> Any:
    """Which of the readers below is for this module.

    Raises:
        ConversionError: None.
    """
    if hasattr(module, "attn") and hasattr(module, "norm1") and hasattr(module.attn, "window_size"):
        return _block
    if hasattr(module, "q_proj") and hasattr(module, "relative_position_bias"):
        return _hf_window
    if hasattr(module, "qkv") and hasattr(module, "window_size"):
        return _timm_window
    raise ConversionError(f"a Swin block or window attention was expected, got {type(module).__name__}")


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
