"""Gates of images and signals: squeezed over space or time, one value per pixel, bounded, and reacting."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from regard.checks.case import Case, Verdict
from regard.checks.gate import FLAT, ONE_MAP, Gate, _flat, meant, positive_image, read_gate, run_image, squeezes
from regard.checks.inner_gates import first_wrong
from regard.checks.pools import pools_seen
from regard.checks.rule import rule

ABOVE = 2.5  # 1 + sigmoid reaches 2


@rule("ATT901", kinds=("channel-no-squeeze", "spatial-gate-per-channel"))
def gate_shape(case: Case) -> Verdict | None:
    """A channel gate has one value per channel that depends on the whole image; a spatial gate one value per pixel.

    A gate inside a larger block is read on its own, where its class says what it gates. A signal (B, C, L) is read where the
    text says that channels are squeezed, excited or gated.
    What goes wrong: the pooling is constructed and not called, so the gate is computed pixel by pixel; the spatial
    branch's convolution gives C maps instead of one.
    Why it matters: it trains and is a gated convolution, not the attention that was meant.

    Bad:
        return x * self.fc(x)
    Good:
        return x * self.fc(self.pool(x))
    References: Hu et al. 2018, section 3.1; Roy et al. 2018 (scSE).
    """
    return first_wrong(case, _shape)


def _shape(case: Case) -> Verdict | None:
    gate = read_gate(case)
    wanted = meant(case)
    unused = _unused_pool(case)
    varies = not gate.spatially_flat and not gate.pixelwise
    if wanted == "spatial" and varies and not gate.channel_flat and _one_map(case) and _local(case, gate):
        return _map_per_channel(
            gate,
            f"a spatial gate that is said to be one map ({_one_map(case)!r})",
            cause="the last convolution has one map per channel (groups=channels) instead of one",
            fix="nn.Conv2d(channels, 1, k)",
        )
    if wanted == "spatial" and not gate.channel_flat and not gate.spatially_flat and _reads_pooled_channels(case, gate):
        return _map_per_channel(
            gate,
            "a spatial gate that reads only what is pooled over channels",
            cause="the convolution over the pooled maps has one output per channel instead of one",
            fix="nn.Conv2d(2, 1, k, padding=k // 2)",
        )
    image = gate.x.shape[2] > 1  # a signal has one axis to squeeze
    if wanted == "channel" and image and varies and (_flat(gate.values, (2,)) or _flat(gate.values, (3,))):
        return _one_axis_only(gate, case.evidence.says(DIRECTED))
    if gate.spatially_flat or gate.channel_flat or not gate.pixelwise:
        return None
    if wanted == "spatial":
        return _map_per_channel(
            gate,
            "a spatial gate",
            cause="the last convolution has C output channels instead of 1",
            fix="nn.Conv2d(channels, 1, 1)",
        )
    pooled = wanted == "channel" and (image or (squeezes(case) and case.evidence.says(EACH_STEP) is None))
    return _not_squeezed(gate, "error" if pooled or unused else "question", unused)


def _map_per_channel(gate: Gate, what: str, *, cause: str, fix: str) -> Verdict:
    return Verdict(
        "error",
        f"{what} has another value for each of {gate.values.shape[1]} channels",
        kind="spatial-gate-per-channel",
        measured=float(gate.values[0, :, 0, 0].std()),
        allowed="one value per pixel",
        cause=cause,
        fix=fix,
        example=f"{tuple(gate.x.shape)}",
    )


EACH_STEP = r"\b(each|every|per)[- ](\w+ )?(step|frame|sample|token|position|moment|bin)"
DIRECTED = r"(^|[^a-z])(height|width|rows?|columns?|strips?|axis|axes|axial|frequency|time|temporal|direction\w*|coord\w*|vertical|horizontal|band)"


def _one_axis_only(gate: Gate, directed: str | None) -> Verdict:
    return Verdict(
        "question" if directed else "error",
        "a channel gate has another value for each row or column: it is squeezed over one spatial axis only"
        + (f"; its text says {directed.strip()!r}: is that meant?" if directed else ""),
        kind="channel-no-squeeze",
        measured=float(gate.values.std((2, 3)).max()),
        allowed="one value per channel",
        cause="the mean runs over one axis",
        fix="x.mean((2, 3))",
        example=f"{tuple(gate.x.shape)}",
    )


def _not_squeezed(gate: Gate, level: str, unused: str | None) -> Verdict:
    words = f" although {unused} is constructed" if unused else ""
    one, whole, axes = ("pixel", "image", "(2, 3)") if gate.x.shape[2] > 1 else ("step", "signal", "2")
    return Verdict(
        level,
        f"the gate of a {one} depends on that {one} only{words}: nothing is squeezed over the {whole}"
        + ("" if level == "error" else "; is that meant?"),
        kind="channel-no-squeeze",
        measured=f"no reaction to other {one}s",
        allowed=f"one value per channel from the whole {whole}",
        cause="the pooling is never called",
        fix=f"compute the gate from x.mean({axes}, keepdim=True)",
        example=f"{tuple(gate.x.shape)}",
    )


def _one_map(case: Case) -> str | None:
    return case.evidence.says(
        rf"shared (by|across|over) (the |all )?channels|one (map|value|gate)[^.]{{0,30}}(pixel|position|location)|spatial (gate|attention|map)|{ONE_MAP}"
    )


def _reads_pooled_channels(case: Case, gate: Gate) -> bool:
    """Does the gate stay as it is when the channels of the image are exchanged? Then it reads their mean or maximum."""
    turned = gate.x.roll(1, 1)
    return float((run_image(case, turned) / turned - gate.values).abs().max()) < FLAT


def _local(case: Case, gate: Gate) -> bool:
    """Does a pixel have no effect on the gate of the opposite corner?"""
    moved = gate.x.clone()
    moved[0, :, 0, 0] *= 1.7
    return float(((run_image(case, moved) / moved)[0, :, -1, -1] - gate.values[0, :, -1, -1]).abs().max()) < FLAT


POOLS = (nn.AdaptiveAvgPool1d, nn.AdaptiveMaxPool1d, nn.AdaptiveAvgPool2d, nn.AdaptiveMaxPool2d)


def _unused_pool(case: Case) -> str | None:
    if not case.subject.is_module:
        return None
    from regard.checks.sites import watch

    pools = {n for n, m in case.subject.pristine.named_modules() if isinstance(m, POOLS) and n}
    if not pools:
        return None
    called = watch(case, case.sample()).seen.calls
    return next((n for n in sorted(pools) if not called.get(n)), None)


@rule("ATT902", kinds=("gate-constant",))
def gate_reacts(case: Case) -> Verdict | None:
    """The gate changes when the image does.

    What goes wrong: channels // reduction is 0 for few channels, and the bottleneck is a constant.
    Why it matters: the module is an expensive multiplication by 0.5.

    Bad:
        nn.Linear(channels, channels // reduction)
    Good:
        nn.Linear(channels, max(channels // reduction, 4))
    """
    gate = read_gate(case)
    other = positive_image(case, 5) * torch.linspace(0.3, 3.0, gate.x.shape[1], dtype=torch.float64)[:, None, None]
    change = float((run_image(case, other) / other - gate.values).abs().max())
    if change > FLAT:
        return None
    empty = [n for n, p in case.subject.pristine.named_parameters() if p.numel() == 0] if case.subject.is_module else []
    return Verdict(
        "error",
        "the gate is a constant: it does not react to the image",
        kind="gate-constant",
        measured=change,
        allowed="a change",
        cause=f"{', '.join(empty[:2])} have no elements: channels // reduction is 0"
        if empty
        else "the branch that makes the gate never reads the image",
        fix="max(channels // reduction, 4)",
        example=f"two images {tuple(gate.x.shape)}",
    )


@rule("ATT903", kinds=("gate-unbounded",))
def gate_bounded(case: Case) -> Verdict | None:
    """The gate stays bounded when the image grows.

    What goes wrong: the sigmoid before the product is missing.
    Why it matters: the module squares its input; training diverges at a learning rate that used to work.

    Bad:
        return x * self.conv(pooled)
    Good:
        return x * torch.sigmoid(self.conv(pooled))
    References: Woo et al. 2018 (CBAM), equation 3.
    """
    gate = read_gate(case)
    if not (gate.spatially_flat or gate.channel_flat or gate.far):
        case.need(False, "the gate is computed pixel by pixel")
    sizes = [float((run_image(case, gate.x * s) / (gate.x * s)).abs().max()) for s in (1.0, 10.0, 1000.0)]
    if sizes[2] < 10 * sizes[1] or sizes[2] < 5.0:
        return _above_one(gate, sizes) if max(sizes) > ABOVE else None
    flat = gate.spatially_flat or gate.channel_flat
    return Verdict(
        "error" if meant(case) and flat else "question",
        f"the gate grows with the image: at most {sizes[0]:.3g}, {sizes[1]:.3g} and {sizes[2]:.3g} for images x1, x10 and x1000",
        kind="gate-unbounded",
        measured=sizes[2],
        allowed="bounded",
        cause="no sigmoid before the product",
        fix="x * torch.sigmoid(gate)",
        example=f"images {tuple(gate.x.shape)} x1, x10, x1000",
    )


def _above_one(gate: Gate, sizes: list[float]) -> Verdict:
    return Verdict(
        "question", f"the gate is bounded, and reaches {max(sizes):.3g}: is it meant to be larger than 1?",
        kind="gate-unbounded", measured=max(sizes), allowed="0 to 1, or 0 to 2 for 1 + gate",
        cause="a piecewise sigmoid without its division", fix="relu6(x + 3) / 6", example=f"images {tuple(gate.x.shape)} x1, x10, x1000",
    )  # fmt: skip


@rule("ATT904", kinds=("coordinate-swap",))
def coordinate_gate(case: Case) -> Verdict | None:
    """In a gate made of a row factor and a column factor, the row factor reads the row.

    Mass is moved inside one row, so that every row mean stays: only the two touched columns may change elsewhere.
    What goes wrong: the two pooled vectors are concatenated in one order and split in the other.
    Why it matters: silent on square images; every position gets the gate of another.

    Bad:
        y = conv(cat([x_w, x_h], 2)); y_h, y_w = y.split([h, w], 2)
    Good:
        y = conv(cat([x_h, x_w], 2)); y_h, y_w = y.split([h, w], 2)
    References: Hou et al. 2021 (coordinate attention), equation 6.
    """
    gate = read_gate(case)
    case.need(
        not gate.spatially_flat and gate.far and _separable(gate),
        "the gate is no product of a row factor and a column factor",
    )
    x = gate.x
    h, w = x.shape[2:]
    case.need(h >= 3 and w >= 4, "too small")
    row, c1, c2 = h - 1, 1, w - 1
    moved = x.clone()
    moved[:, :, row, c1] += 0.4
    moved[:, :, row, c2] -= 0.4
    change = (run_image(case, moved) / moved - gate.values).abs().amax((0, 1))
    elsewhere = change.clone()
    elsewhere[row] = 0
    elsewhere[:, [c1, c2]] = 0
    if float(elsewhere.max()) <= FLAT:
        return None
    rows = (elsewhere.amax(1) > FLAT).nonzero().flatten().tolist()
    region = torch.ones_like(change, dtype=torch.bool)
    region[row], region[:, [c1, c2]] = False, False
    case.need(not bool((change[region] > FLAT).all()), "the factors read more than their row or column")
    return Verdict(
        "error",
        f"mass moved inside row {row} (columns {c1} and {c2}) changes the gate in rows {rows}: rows are gated by columns",
        kind="coordinate-swap",
        measured=float(elsewhere.max()),
        allowed=0.0,
        cause="the pooled rows and columns are joined in one order and split in the other",
        fix="cat([x_h, x_w]) goes with split([h, w])",
        example=f"image {h} x {w}",
    )


def _separable(gate: Gate) -> bool:
    """log g(h, w) = a(h) + b(w), and varies along both."""
    if bool((gate.values <= 0).any()):
        return False
    log = gate.values.log()
    model = log.mean(2, keepdim=True) + log.mean(3, keepdim=True) - log.mean((2, 3), keepdim=True)
    return float((log - model).abs().max()) < 1e-6 and float(log.std(2).max()) > 1e-9 and float(log.std(3).max()) > 1e-9


@rule("ATT905", kinds=("channel-branch-lost",))
def gate_branches(case: Case) -> Verdict | None:
    """Where the source pools by maximum and by mean, the gate reacts to both.

    What goes wrong: one branch is computed and the other is used twice, or its result is dropped.
    Why it matters: half of the module does nothing.

    Bad:
        avg, mx = self.mlp(self.avg(x)), self.mlp(self.avg(x))
    Good:
        avg, mx = self.mlp(self.avg(x)), self.mlp(self.max(x))
    References: Woo et al. 2018 (CBAM), equation 2.
    """
    return first_wrong(case, _branches)


def _branches(case: Case) -> Verdict | None:
    gate = read_gate(case)
    peak = case.evidence.says(
        r"\bamax\b|max_?pool|AdaptiveMaxPool|\.max\((dim\s*=\s*)?-?\d|torch\.max\(\w+, (dim\s*=\s*)?-?\d",
        where="source",
    )
    mean = case.evidence.says(r"\.mean\(|avg_?pool|AdaptiveAvgPool", where="source")
    if peak is None or mean is None:
        peak, mean = pools_seen(case, gate)
    case.need(peak is not None and mean is not None, "it does not pool by maximum and by mean")
    case.need(gate.spatially_flat or gate.channel_flat, "neither a channel gate nor a spatial gate")
    dims = (2, 3) if gate.spatially_flat else (1,)
    for name, moved in (("maximum", _move_peak(gate.x, dims)), ("mean", _move_mean(gate.x, dims))):
        change = float((run_image(case, moved) / moved - gate.values).abs().max())
        if change <= FLAT:
            return Verdict(
                "error",
                f"the gate does not react to the {name}, although it pools by {peak if name == 'maximum' else mean}",
                kind="channel-branch-lost",
                measured=change,
                allowed="a change",
                cause=f"the {name} branch is not used",
                fix="add both branches before the sigmoid",
                example=f"the {name} moved, the other kept",
            )
    return None


def _move_peak(x: Tensor, dims: tuple[int, ...]) -> Tensor:
    """Another maximum, the same mean."""
    flat, back = _flattened(x, dims)
    moved = flat.clone()
    top = moved.argmax(-1, keepdim=True)
    low = moved.argmin(-1, keepdim=True)
    step = 0.2
    moved.scatter_add_(-1, top, torch.full_like(top, step, dtype=x.dtype))
    moved.scatter_add_(-1, low, torch.full_like(low, -step, dtype=x.dtype))
    return back(moved)


def _move_mean(x: Tensor, dims: tuple[int, ...]) -> Tensor:
    """Another mean, the same maximum."""
    flat, back = _flattened(x, dims)
    moved = flat.clone()
    low = moved.argmin(-1, keepdim=True)
    moved.scatter_add_(-1, low, torch.full_like(low, -0.3, dtype=x.dtype))
    return back(moved)


def _flattened(x: Tensor, dims: tuple[int, ...]):
    if dims == (1,):
        return x.movedim(1, -1), lambda y: y.movedim(-1, 1)
    return x.flatten(2), lambda y: y.reshape(x.shape)
