"""Make swin_golden.npz: inputs, weights and outputs of timm's and torchvision's Swin blocks, in float64.

Run once, from the root of the repository, with timm installed and a torchvision wheel unpacked somewhere:

    python tests/golden/make_swin_golden.py --torchvision FOLDER

FOLDER holds the package `torchvision`; its Swin file is loaded alone, with empty classes for what it imports and does not
use in a block, so that torchvision need not fit the installed torch.
"""

from __future__ import annotations

import argparse
import importlib.util
import pathlib
import sys

import numpy as np
import torch

from regard.bench.timm_peer import EmptyTorchvision, load_timm

CHANNELS, HEADS, WINDOW = 8, 2, 4
SIZE = (8, 12)  # divisible by the window: there the peers are right
SEED = 20261130


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--torchvision", type=pathlib.Path, required=True, help="folder that holds the package")
    folder = parser.parse_args().torchvision
    v1, v2 = load_timm("models.swin_transformer", "models.swin_transformer_v2")
    vision = load_torchvision_swin(folder / "torchvision")
    entries: dict[str, np.ndarray] = {}
    sizes = {"input_resolution": SIZE, "num_heads": HEADS, "window_size": WINDOW, "mlp_ratio": 2.0}
    for shift in (0, 2):
        record(entries, f"timm.1.{shift}", v1.SwinTransformerBlock(CHANNELS, shift_size=shift, **sizes))
        record(entries, f"timm.2.{shift}", v2.SwinTransformerV2Block(CHANNELS, shift_size=shift, **sizes))
        given = {"num_heads": HEADS, "window_size": [WINDOW] * 2, "shift_size": [shift] * 2, "mlp_ratio": 2.0}
        record(entries, f"torchvision.1.{shift}", vision.SwinTransformerBlock(CHANNELS, **given))
        record(entries, f"torchvision.2.{shift}", vision.SwinTransformerBlockV2(CHANNELS, **given))
    record(entries, "timm.1.merging", v1.PatchMerging(CHANNELS), size=(5, 7))
    record(entries, "timm.2.merging", v2.PatchMerging(CHANNELS, 2 * CHANNELS), size=(5, 7))
    record(entries, "torchvision.1.merging", vision.PatchMerging(CHANNELS), size=(5, 7))
    record(entries, "torchvision.2.merging", vision.PatchMergingV2(CHANNELS), size=(5, 7))
    np.savez_compressed(pathlib.Path(__file__).with_name("swin_golden.npz"), **entries)


def record(entries: dict[str, np.ndarray], name: str, module: torch.nn.Module, *, size=SIZE) -> None:
    """The state of the module under `name.state.*`, and one input and output in (B, H, W, C)."""
    generator = torch.Generator().manual_seed(SEED)
    module = module.eval()
    with torch.no_grad():
        for value in module.parameters():
            value.copy_(torch.randn(value.shape, generator=generator) * 0.3)
        x = torch.randn(1, *size, CHANNELS, generator=generator)
        parameters = {key: value.float().numpy() for key, value in module.named_parameters()}
        output = module.double()(x.double())
    entries |= {f"{name}.state.{key}": value for key, value in parameters.items()}
    entries |= {f"{name}.input": x.numpy(), f"{name}.output": output.numpy()}


def load_torchvision_swin(package: pathlib.Path):
    """The module `torchvision.models.swin_transformer` from an unpacked wheel."""
    finder = EmptyTorchvision()
    sys.meta_path.append(finder)
    for name in ("ops.misc", "ops.stochastic_depth", "models.swin_transformer"):
        full, path = f"torchvision.{name}", package.joinpath(*name.split(".")).with_suffix(".py")
        importlib.import_module(full.rpartition(".")[0])
        spec = importlib.util.spec_from_file_location(full, path)
        module = sys.modules[full] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    sys.meta_path.remove(finder)
    return module


if __name__ == "__main__":
    main()
