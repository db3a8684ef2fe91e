"""Time series: does attention over the past forecast better than a linear map, and better than repeating the last day?

Axes: B windows, T hours of the past, S hours ahead, C channels, P patches, E width.
Models: `patch` (a linear map that is fitted at once, and attention over patches of each channel's past for what it leaves), `linear`
(trend and rest, one linear map each, no attention), `points` (each measured hour a token of all channels, its time the rotary position:
for rows that are missing or irregular).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard.core.errors import DataError
from regard.core.mask.sequences import padding
from regard.nn.feed_forward import FeedForward
from regard.nn.learned_position import Learned
from regard.nn.transformer_block import TransformerBlock
from regard.recipes.data import defaults, hub
from regard.recipes.data.table import Series, read_series
from regard.recipes.encoder import Sizes, mixer
from regard.recipes.job import Job, Restored, read_config, weights_into
from regard.recipes.linear_start import LinearStart
from regard.recipes.order import Order
from regard.recipes.plan import Batch, Work

TASK = "series"
DATA = {"weather": defaults.weather}
TREND = 25  # hours over which the trend is the mean: a day, and an odd number


@dataclass(frozen=True)
class Settings:
    """`model` patch, linear or points; `past` and `ahead` in rows; `position` none, learned, rotary or relative; `keep`: share of past
    rows that is seen; `skip`: the linear map beside the patches' attention, `all` channels together, each its `own`, or `none`; `fill`:
    repeat the value before a missing one."""

    model: str = "patch"
    past: int = 96
    ahead: int = 24
    patch: int = 16
    stride: int = 8
    width: int = 32
    layers: int = 2
    heads: int = 4
    position: str = "learned"
    dropout: float = 0.2
    keep: float = 1.0
    skip: str = "all"
    fill: bool = False
    batch: int = 64
    steps: int = 300
    evaluate: int = 60
    lr: float = 0.001
    weight_decay: float = 0.01
    average: float = 0.0


LONG = {"steps": 2000, "evaluate": 200}
VARIANTS = {
    "linear": {"model": "linear"},
    "patches, no positions": {"position": "none", "skip": "none"},
    "patches, learned": {"skip": "none"},
    "patches, rotary": {"position": "rotary", "skip": "none"},
    "patches beside own linear maps": {"skip": "own"},
    "patches beside one linear map": {},
    "points": {"model": "points"},
    "points, half of the rows": {"model": "points", "keep": 0.5},
}
SKIPS = ("all", "own", "none")


class LinearModel(nn.Module):
    """Zeng et al. 2023, arXiv:2205.13504: the moving mean and what is left, mapped from T to S by one matrix each."""

    def __init__(self, settings: Settings):
        super().__init__()
        self.trend, self.rest = (nn.Linear(settings.past, settings.ahead) for _ in range(2))
        for layer in (self.trend, self.rest):
            nn.init.constant_(layer.weight, 1 / settings.past)

    def forward(self, past: Tensor, hours: Tensor, keep: Tensor) -> Tensor:
        """(B, T, C) to (B, S, C)."""
        x = past.transpose(1, 2)  # (B, C, T)
        mean = F.avg_pool1d(F.pad(x, (TREND // 2, TREND // 2), mode="replicate"), TREND, 1)
        return (self.trend(mean) + self.rest(x - mean)).transpose(1, 2)


class PatchModel(nn.Module):
    """Nie et al. 2023, arXiv:2211.14730: each channel, freed of its mean and deviation, as a sequence of patches; the same weights for all.
    Beside a linear start the attention forecasts what that leaves; at the beginning, nothing."""

    def __init__(self, settings: Settings, channels: int):
        super().__init__()
        if settings.skip not in SKIPS:
            raise DataError(f"skip={settings.skip} is not one of {', '.join(SKIPS)}")
        self.patch, self.stride = settings.patch, settings.stride
        count = (settings.past - settings.patch) // settings.stride + 2  # the last one reaches over the end
        inner = "none" if settings.position == "learned" else settings.position
        sizes = Sizes(0, settings.width, settings.layers, settings.heads, inner, count, settings.dropout)
        self.embed = nn.Linear(settings.patch, settings.width)
        self.place = Learned(count, settings.width) if settings.position == "learned" else None
        self.blocks = nn.ModuleList(
            TransformerBlock(
                settings.width,
                mixer(sizes),
                dropout=settings.dropout,
                feed_forward=FeedForward(settings.width, 2 * settings.width),
            )
            for _ in range(settings.layers)
        )
        self.norm, self.dropout = nn.LayerNorm(settings.width), nn.Dropout(settings.dropout)
        self.head = nn.Linear(count * settings.width, settings.ahead)
        self.start = None
        if settings.skip != "none":
            self.start = LinearStart(settings.past, settings.ahead, channels, own=settings.skip == "own")
            for part in (self.head.weight, self.head.bias):
                nn.init.zeros_(part)

    def forward(self, past: Tensor, hours: Tensor, keep: Tensor) -> Tensor:
        """(B, T, C) to (B, S, C)."""
        B, T, C = past.shape
        mean = past.mean(1, keepdim=True)
        deviation = past.std(1, keepdim=True, unbiased=False) + 1e-5
        scaled = (past - mean) / deviation
        rows = F.pad(scaled.transpose(1, 2).reshape(B * C, T), (0, self.stride), mode="replicate")
        x = self.embed(rows.unfold(1, self.patch, self.stride))  # (B C, P, E)
        x = self.dropout(x if self.place is None else self.place(x))
        for block in self.blocks:
            x = block(x)
        ahead = self.head(self.norm(x).flatten(1)).unflatten(0, (B, C)).transpose(1, 2)  # (B, S, C)
        return ahead * deviation + (mean if self.start is None else self.start(past))


class PointModel(nn.Module):
    """Measured hours and hours ahead are tokens of one sequence; positions are their hours, so gaps need no special case."""

    def __init__(self, settings: Settings, channels: int):
        super().__init__()
        self.ahead = settings.ahead
        sizes = Sizes(0, settings.width, settings.layers, settings.heads, "rotary", 0, settings.dropout)
        self.embed = nn.Linear(channels, settings.width)
        self.asked = nn.Parameter(torch.randn(settings.width) * 0.1)
        self.blocks = nn.ModuleList(
            TransformerBlock(
                settings.width,
                mixer(sizes),
                dropout=settings.dropout,
                feed_forward=FeedForward(settings.width, 2 * settings.width),
            )
            for _ in range(settings.layers)
        )
        self.norm, self.head = nn.LayerNorm(settings.width), nn.Linear(settings.width, channels)

    def forward(self, past: Tensor, hours: Tensor, keep: Tensor) -> Tensor:
        """Past (B, T, C), the hours (B, T + S) of all rows, which past rows were measured (B, T); to (B, S, C)."""
        seen = keep[..., None].float()
        mean = (past * seen).sum(1, keepdim=True) / seen.sum(1, keepdim=True)
        x = torch.cat([self.embed((past - mean) * seen), self.asked.expand(len(past), self.ahead, -1)], 1)
        mask = padding(F.pad(keep, (0, self.ahead), value=False))  # hours ahead are asked for, and tell nothing
        for block in self.blocks:
            x = block(x, mask=mask, positions=hours)
        return self.head(self.norm(x[:, -self.ahead :])) + mean


def network(about: dict) -> nn.Module:
    """The model of a config."""
    settings = Settings(**about["settings"])
    if settings.model == "linear":
        return LinearModel(settings)
    if settings.model == "patch":
        return PatchModel(settings, len(about["channels"]))
    if settings.model == "points":
        return PointModel(settings, len(about["channels"]))
    raise DataError(f"model={settings.model} is not one of patch, linear, points")


class Windows:
    """The samples: T rows and the S behind them, at each place of a series. Starts are rows of the series.

    Args:
        values: (rows, C), scaled.
        hours: (rows,), integer.
        settings: T, S and the share of past rows that is seen.
    """

    def __init__(self, values: Tensor, hours: Tensor, settings: Settings):
        self.values, self.hours, self.settings = values, hours, settings
        self.past, self.ahead = settings.past, settings.ahead

    def at(self, starts: Tensor, draw: Tensor) -> tuple[Tensor, ...]:
        """Past (B, T, C), hours (B, T + S), which past rows are seen (B, T), what is ahead (B, S, C); `draw` (B, T) decides."""
        rows = starts[:, None] + torch.arange(self.past + self.ahead)
        whole, when = self.values[rows], self.hours[rows]
        keep = draw < self.settings.keep
        keep[:, -1] = True
        here = when[:, self.past - 1 : self.past]
        return whole[:, : self.past], when - here + self.past - 1, keep, whole[:, self.past :]

    def between(self, first: int, last: int, every: int = 1) -> Iterator[tuple[Tensor, ...]]:
        """Blocks of those whose rows ahead lie from `first` to before `last`."""
        generator = torch.Generator().manual_seed(0)
        for starts in torch.arange(first - self.past, last - self.past - self.ahead + 1, every).split(256):
            yield self.at(starts, torch.rand(len(starts), self.past, generator=generator))

    def judged(self, model: nn.Module, first: int, last: int, every: int = 1) -> dict[str, float]:
        """The model's mean squared and absolute error there."""
        from torchmetrics.functional.regression import mean_absolute_error, mean_squared_error

        device, made, right = next(model.parameters()).device, [], []
        for *inputs, ahead in self.between(first, last, every):
            made.append(model(*(x.to(device) for x in inputs)).float().cpu())
            right.append(ahead)
        a, b = torch.cat(made).flatten(), torch.cat(right).flatten()
        return {"mse": float(mean_squared_error(a, b)), "mae": float(mean_absolute_error(a, b))}


def prepare(settings: Settings, data: str | None, seed: int) -> Job:
    """The series cut in time, scaled by the training part; windows of past and future are the samples."""
    found, (train_end, val_end, test_end) = _read(settings, data)
    T, S = settings.past, settings.ahead
    if train_end < 2 * (T + S) or test_end - val_end < S:
        raise DataError(
            f"{len(found.values)} rows leave {train_end} to train, too few for windows of {T} + {S}; give more rows, or --set past=48"
        )
    mean, deviation = found.values[:train_end].mean(0), found.values[:train_end].std(0) + 1e-8
    values = torch.from_numpy(((found.values - mean) / deviation).astype(np.float32))
    windows = Windows(values, torch.from_numpy(np.round(found.hours).astype(np.int64)), settings)
    about = {
        "settings": vars(settings),
        "channels": found.channels,
        "mean": mean.tolist(),
        "deviation": deviation.tolist(),
    }

    def collate(indices: Tensor) -> Batch:
        inputs = windows.at(indices, torch.rand(len(indices), T))
        return Batch(inputs, inputs[-1].numel())

    torch.manual_seed(seed)
    model = network(about)
    start = model.start if isinstance(model, PatchModel) else None
    if start is not None:
        start.fit(lambda: windows.between(T, train_end), lambda: windows.between(train_end, val_end))
    work = Work(
        model=model,
        order=Order(train_end - T - S + 1, settings.batch, seed=seed),
        collate=collate,
        loss=lambda model, batch: (model(*batch[:3]) - batch[3]).square().sum(),
        evaluate=lambda model: windows.judged(model, train_end, val_end, 2),
        score="mse",
        higher=False,
    )

    def baselines() -> dict[str, float]:
        simple = repeated(values, val_end, test_end, T, S) | ridge(values, train_end, val_end, test_end, T, S)
        alone = (
            {} if start is None else {"the linear start alone, mse": start.error(windows.between(val_end, test_end))}
        )
        return simple | alone

    sizes = f"{len(found.channels)} channels; rows: {train_end:,} to train, {val_end - train_end:,} to choose, {test_end - val_end:,} to test"
    return Job(work, about, lambda model: windows.judged(model, val_end, test_end), sizes, "mse", baselines=baselines)


def repeated(values: Tensor, first: int, last: int, past: int, ahead: int) -> dict[str, float]:
    """The error of the last value, and of the same hour of the last day, repeated."""
    starts = torch.arange(first - past, last - past - ahead + 1)
    errors = {"last value, mse": 0.0, "last day, mse": 0.0}
    for block in starts.split(512):
        rows = block[:, None] + torch.arange(past + ahead)
        whole = values[rows]
        right, before = whole[:, past:], whole[:, :past]
        day = before[:, -24:].repeat(1, -(-ahead // 24), 1)[:, :ahead]
        for name, guess in (("last value, mse", before[:, -1:]), ("last day, mse", day)):
            errors[name] += float((guess - right).square().mean((1, 2)).sum()) / len(starts)
    return errors


def ridge(values: Tensor, train_end: int, first: int, last: int, past: int, ahead: int) -> dict[str, float]:
    """The error of one linear map from all channels' past to all channels' future, with the penalty 100."""
    from sklearn.linear_model import Ridge

    def windows(begin: int, end: int) -> tuple[np.ndarray, np.ndarray]:
        rows = torch.arange(begin, end - past - ahead + 1)[:, None] + torch.arange(past + ahead)
        whole = values[rows].numpy()
        return whole[:, :past].reshape(len(whole), -1), whole[:, past:].reshape(len(whole), -1)

    model = Ridge(alpha=100.0).fit(*windows(0, train_end))
    x, y = windows(first - past, last)
    return {"ridge over all channels, mse": float(((model.predict(x) - y) ** 2).mean())}


def restore(folder: Path) -> Restored:
    """The model of a run, and what it forecasts behind the end of a CSV file."""
    about = read_config(folder)
    settings, model = Settings(**about["settings"]), weights_into(network(about), folder)
    mean, deviation = (np.asarray(about[name], np.float32) for name in ("mean", "deviation"))

    def tensors(path: str) -> tuple[Tensor, ...]:
        found = read_series(path, fill=settings.fill)
        if found.channels != about["channels"] or len(found.values) < settings.past:
            raise DataError(
                f"{path} has {len(found.values)} rows of {', '.join(found.channels)}; the model reads {settings.past} of "
                f"{', '.join(about['channels'])}"
            )
        past = torch.from_numpy((found.values[-settings.past :] - mean) / deviation).float()[None]
        step = float(np.median(np.diff(found.hours)))
        hours = [*found.hours[-settings.past :], *(found.hours[-1] + step * (1 + i) for i in range(settings.ahead))]
        when = torch.tensor(np.round(np.asarray(hours) - found.hours[-1] + settings.past - 1), dtype=torch.long)[None]
        return past, when, torch.ones(1, settings.past, dtype=torch.bool)

    def predict(path: str) -> list[str]:
        with torch.no_grad():
            ahead = model(*tensors(path))[0].numpy() * deviation + mean
        rows = [f"+{i + 1}  " + "  ".join(f"{x:.4g}" for x in row) for i, row in enumerate(ahead)]
        return ["step  " + "  ".join(about["channels"]), *rows]

    return Restored(model, predict)


def _read(settings: Settings, data: str | None) -> tuple[Series, tuple[int, int, int]]:
    """The series, and where its parts end: ETT's own 12, 4 and 4 months, else 70, 10 and 20 percent."""
    if hub.is_hub(data):
        raise DataError(f"{data}: a series is read from a CSV file; save the data set as one first")
    if data is None or data in DATA or not Path(data).exists():
        found = defaults.weather() if data is None else defaults.named(data, DATA, TASK)
    else:
        found = read_series(data, fill=settings.fill)
    rows = len(found.values)
    month = 30 * 24
    if data is not None and Path(data).name.startswith("ETTh") and rows >= 20 * month:
        return found, (12 * month, 16 * month, 20 * month)
    return found, (int(0.6 * rows), int(0.7 * rows), rows) if data is None or data in DATA else (
        int(0.7 * rows),
        int(0.8 * rows),
        rows,
    )
