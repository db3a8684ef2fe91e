"""Images: does a gate help a small residual network, what does it cost, and where does it belong?

Axes: B images, C channels, H rows, W columns.
The network is `SmallResNet`; `regard.insert` puts SE, CBAM, coordinate attention, ECA or window attention at the end of each residual
branch, after the stages, or in the stem. The baseline is the same network without any.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard.core.errors import DataError
from regard.nn.cbam import CBAM
from regard.nn.coordinate_attention import CoordinateAttention
from regard.nn.efficient_channel import EfficientChannelAttention
from regard.nn.insert import insert
from regard.nn.shifted_window import ShiftedWindowAttention
from regard.nn.squeeze_excitation import SqueezeExcitation
from regard.recipes.data import defaults, hub
from regard.recipes.data.pictures import Pictures, PictureSplits, read_one, read_pictures
from regard.recipes.job import Job, Restored, read_config, weights_into
from regard.recipes.order import Order
from regard.recipes.plan import Batch, Work
from regard.recipes.resnet import SmallResNet

TASK = "vision"
SMALL = 16  # images below this side are left as they are: two pixels are much of them
DATA = {"fashion": defaults.fashion, "digits": defaults.digits}


@dataclass(frozen=True)
class Settings:
    """`gate`: none, se, eca, cbam, ca or window; `where`: residual, stages or stem; `limit` 0: all images; `flip`: mirror and move;
    `move`: by up to so many pixels; `erase`: side of a square that is taken out of each image, 0: none; `mirror`: judge an image
    by the mean of its scores and those of its mirror image."""

    gate: str = "cbam"
    where: str = "residual"
    reduction: int = 16
    width: int = 16
    depth: int = 1
    stem_stride: int = 2
    side: int = 0
    limit: int = 12_000
    flip: bool = True
    move: int = 2
    erase: int = 0
    mirror: bool = False
    batch: int = 128
    steps: int = 400
    evaluate: int = 200
    lr: float = 0.008
    weight_decay: float = 0.02
    average: float = 0.0
    warmup: int = 20


LONG = {"limit": 0, "steps": 3300, "evaluate": 400}
VARIANTS = {
    "none": {"gate": "none"},
    "SE, residual": {"gate": "se"},
    "SE, residual, reduction 4": {"gate": "se", "reduction": 4},
    "CBAM, residual": {"gate": "cbam"},
    "CBAM, after stages": {"gate": "cbam", "where": "stages"},
    "CA, residual": {"gate": "ca"},
    "windows, after stages": {"gate": "window", "where": "stages"},
}
VARIANTS_LONG = VARIANTS | {
    "ECA, residual": {"gate": "eca"},
    "SE, after stages": {"gate": "se", "where": "stages"},
    "CBAM, residual, reduction 4": {"gate": "cbam", "reduction": 4},
    "CBAM, stem": {"gate": "cbam", "where": "stem"},
    "CA, after stages": {"gate": "ca", "where": "stages"},
    "CA, residual, reduction 4": {"gate": "ca", "reduction": 4},
    "windows, residual": {"gate": "window"},
}


class Windows(nn.Module):
    """x + shifted window attention over the channels' norm: (B, C, H, W) to the same, with windows of 7 x 7 and heads of 8."""

    def __init__(self, channels: int):
        super().__init__()
        self.norm = nn.GroupNorm(1, channels)
        self.attention = ShiftedWindowAttention(channels, max(1, channels // 8), window_size=7)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.attention(self.norm(x))


def gates(reduction: int) -> dict:
    """The gates by name: each is made from a number of channels."""
    return {
        "se": partial(SqueezeExcitation, reduction=reduction),
        "eca": EfficientChannelAttention,
        "cbam": partial(CBAM, reduction=reduction),
        "ca": partial(CoordinateAttention, reduction=reduction),
        "window": Windows,
    }


def network(about: dict) -> nn.Module:
    """The network of a config, with its gates. `about["cost"]` is what they add."""
    settings = Settings(**about["settings"])
    channels, height, width = about["shape"]
    model = SmallResNet(
        channels, len(about["classes"]), width=settings.width, depth=settings.depth, stem_stride=settings.stem_stride
    )
    for weight in model.parameters():
        if weight.dim() == 4:  # as the images: see `scaled`
            weight.data = weight.data.contiguous(memory_format=torch.channels_last)
    if settings.gate == "none":
        about["cost"] = {"parameters": 0, "flops": 0}
        return model
    places = {"residual": "residual", "stages": ["stage1", "stage2", "stage3"], "stem": "stem"}
    kinds = gates(settings.reduction)
    if settings.gate not in kinds or settings.where not in places:
        raise DataError(
            f"gate={settings.gate} at where={settings.where}: gates are none, {', '.join(kinds)}; places are {', '.join(places)}"
        )
    example = torch.zeros(1, channels, height, width)
    report = insert(model, kinds[settings.gate], places[settings.where], stem=settings.where == "stem", example=example)
    about["cost"] = {"parameters": report.parameters, "flops": report.flops}
    return model


def prepare(settings: Settings, data: str | None, seed: int) -> Job:
    """Images, network and work."""
    found = _read(settings, data)
    train = found.train
    if settings.limit and settings.limit < len(train.labels):
        kept = np.random.default_rng(0).permutation(len(train.labels))[: settings.limit]
        train = Pictures(train.images[kept], train.labels[kept])
    pixels = train.images.astype(np.float32) / 255
    about = {
        "settings": vars(settings),
        "classes": found.classes,
        "shape": list(train.images.shape[1:]),
        "mean": pixels.mean((0, 2, 3)).tolist(),
        "deviation": (pixels.std((0, 2, 3)) + 1e-6).tolist(),
    }
    images, labels = torch.from_numpy(train.images), torch.from_numpy(train.labels)

    def collate(indices: Tensor) -> Batch:
        batch = images[indices]
        if not settings.flip or images.shape[-1] < SMALL:
            return Batch((scaled(batch, about), labels[indices]), len(indices))
        batch = scaled(moved(batch, settings.move), about)
        return Batch((erased(batch, settings.erase), labels[indices]), len(indices))

    torch.manual_seed(seed)
    work = Work(
        model=network(about),
        order=Order(len(labels), min(settings.batch, len(labels)), seed=seed),
        collate=collate,
        loss=lambda model, batch: F.cross_entropy(model(batch[0]), batch[1], reduction="sum", label_smoothing=0.05),
        evaluate=lambda model: measured(model, found.val, about),
        score="accuracy",
    )
    sizes = f"{len(labels):,} images to train, {len(found.val.labels):,} to choose, {len(found.test.labels):,} to test"
    return Job(work, about, lambda model: measured(model, found.test, about), sizes, "accuracy")


def measured(model: nn.Module, part: Pictures, about: dict) -> dict[str, float]:
    """Accuracy in percent, and the loss."""
    from torchmetrics.functional.classification import multiclass_accuracy

    device = next(model.parameters()).device
    blocks = (scaled(torch.from_numpy(part.images[i : i + 500]), about) for i in range(0, len(part.labels), 500))
    scores = torch.cat([judged(model, block.to(device), about) for block in blocks]).float().cpu()
    labels = torch.from_numpy(part.labels)
    right = multiclass_accuracy(scores, labels, num_classes=scores.shape[1], average="micro")
    return {"accuracy": 100 * float(right), "loss": float(F.cross_entropy(scores, labels))}


def judged(model: nn.Module, images: Tensor, about: dict) -> Tensor:
    """The scores (B, classes) of scaled images, as `mirror` asks."""
    if not about["settings"].get("mirror"):
        return model(images)
    return (model(images) + model(images.flip(3))) / 2


def scaled(images: Tensor, about: dict) -> Tensor:
    """Bytes (B, C, H, W) to float32 with mean 0 and deviation 1 over the training images, the channels of a pixel side by side:
    convolutions on CPUs then take 0.6 of the time."""
    mean, deviation = (torch.tensor(about[name])[:, None, None] for name in ("mean", "deviation"))
    return ((images.float() / 255 - mean) / deviation).contiguous(memory_format=torch.channels_last)


def moved(images: Tensor, pixels: int) -> Tensor:
    """Half of the images mirrored; each moved on its own by up to `pixels` down, up, right and left, with black coming in."""
    B, _, H, W = images.shape
    mirrored = torch.where((torch.rand(B) < 0.5)[:, None, None, None], images.flip(3), images)
    places = F.pad(mirrored, (pixels,) * 4).unfold(2, H, 1).unfold(3, W, 1)  # (B, C, down, right, H, W), a view
    down, right = torch.randint(0, 2 * pixels + 1, (2, B))
    return places[torch.arange(B), :, down, right]


def erased(images: Tensor, side: int) -> Tensor:
    """A square of side x side, anywhere in each image, set to 0, which is the mean; as much of it as lies inside.

    Source: DeVries and Taylor 2017, arXiv:1708.04552 (cutout).
    """
    B, _, H, W = images.shape
    rows, columns = (torch.arange(n) - torch.randint(0, n, (B, 1)) + side // 2 for n in (H, W))  # places in the square
    inside = ((rows >= 0) & (rows < side))[:, :, None] & ((columns >= 0) & (columns < side))[:, None]
    return images.masked_fill(inside[:, None], 0.0)


def restore(folder: Path) -> Restored:
    """The model of a run, and what it says about an image file."""
    about = read_config(folder)
    model = weights_into(network(about), folder)

    def predict(path: str) -> list[str]:
        image = read_one(path, about["shape"])
        with torch.no_grad():
            shares = judged(model, scaled(torch.from_numpy(image)[None], about), about)[0].softmax(0)
        best = shares.argsort(descending=True)[:3].tolist()
        return [f"{about['classes'][i]}  {100 * float(shares[i]):.1f} %" for i in best]

    return Restored(model, predict)


def _read(settings: Settings, data: str | None) -> PictureSplits:
    if hub.is_hub(data):
        raise DataError(
            f"{data}: images are read from an ImageFolder (a folder or .zip); save the data set as one first"
        )
    if data is not None and (data in DATA or not Path(data).exists()):
        return defaults.named(data, DATA, TASK)
    return read_pictures(data, side=settings.side or None) if data is not None else defaults.fashion()
