"""One run of `regard export`: an attention module to an ONNX file or a torch.export file, compared before it is written."""

from __future__ import annotations

from pathlib import Path

import typer

from regard.core.errors import ConversionError

ENDINGS = {".onnx": "onnx", ".pt2": "torch"}


def export_session(target: str, out: Path, takes: list[str], opset: int | None) -> int:
    """Write the file and say what was compared; 0.

    Raises:
        ConversionError, TargetError: A target, an ending or an opset that cannot be used.
    """
    if out.suffix not in ENDINGS:
        raise ConversionError(f"--out {out} ends with {out.suffix!r}; .onnx and .pt2 (torch.export) are written")
    if not out.parent.is_dir():
        raise ConversionError(f"--out {out}: there is no folder {out.parent}")
    from regard.cli_align import made
    from regard.convert.export import OPSET, exportable, to_exported, to_onnx

    if out.suffix == ".pt2" and opset is not None:
        raise ConversionError("--opset is for .onnx files")
    layer = exportable(made(target))
    if out.suffix == ".onnx":
        exported = to_onnx(layer, out, takes=takes, opset=OPSET if opset is None else opset)
    else:
        import torch

        exported = to_exported(layer, takes=takes)
        torch.export.save(exported.program, str(out))
    typer.echo(f"{out}: {', '.join(exported.inputs)} -> {', '.join(exported.outputs)}")
    typer.echo(str(exported.report))
    if exported.nodes:
        typer.echo(f"{sum(exported.nodes.values())} nodes, {exported.nodes['Attention']} of them Attention")
    return 0
