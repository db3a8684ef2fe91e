"""Right modules that once drew an alarm: each is written here in a few lines, and stays quiet."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.checks.check import check


def said(module: nn.Module, *rules: str) -> list[tuple[str, str]]:
    report = check(module, select=list(rules) or None)
    assert report.status == "checked", report.reason
    return [(f.rule, f.level) for f in report.findings]


class FilledInDouble(nn.Module):
    """The softmax runs in float32, where the smallest float64 is -inf; in float32 nothing is NaN."""

    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(16, 48)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """mask: (batch, keys), True = attend."""
        q, k, v = self.qkv(x).chunk(3, -1)
        scores = q @ k.mT / 4
        if mask is not None:
            scores = scores.masked_fill(~mask[:, None], torch.finfo(scores.dtype).min)
        out = scores.softmax(-1, dtype=torch.float32).to(x.dtype) @ v
        return out if mask is None else out.masked_fill(~mask.any(-1)[:, None, None], 0.0)


def test_a_gradient_that_is_nan_in_float64_only_is_a_question():
    assert said(FilledInDouble(), "ATT602") == [("ATT602", "question")]


class Patches(nn.Module):
    """Pixels at one place of their patches see each other, after a 3 x 3 convolution: far parts by design, nothing is rolled."""

    def __init__(self, channels=12):
        super().__init__()
        self.conv = nn.Conv2d(channels, channels, 3, padding=1)
        self.qkv = nn.Linear(channels, 3 * channels)

    def forward(self, x: Tensor) -> Tensor:
        b, c, h, w = x.shape
        y = self.conv(x).reshape(b, c, h // 7, 7, w // 7, 7).permute(0, 3, 5, 2, 4, 1).reshape(b * 49, -1, c)
        q, k, v = self.qkv(y).chunk(3, -1)
        y = (q @ k.mT * c**-0.5).softmax(-1) @ v
        return y.reshape(b, 7, 7, h // 7, w // 7, c).permute(0, 5, 3, 1, 4, 2).reshape(b, c, h, w)


class Frames(nn.Module):
    """A class token that all see, and frames of 8 tokens that see themselves and it."""

    def __init__(self, dim=16):
        super().__init__()
        self.frame = 8
        self.qkv = nn.Linear(dim, 3 * dim)

    def forward(self, x: Tensor) -> Tensor:
        frame = (torch.arange(x.shape[1]) - 1).div(self.frame, rounding_mode="floor")
        if (x.shape[1] - 1) % self.frame or x.shape[1] < 3 * self.frame:
            raise ValueError("three or more whole frames and one class token")
        see = (frame[:, None] == frame) | (frame == -1) | (frame == -1)[:, None]
        q, k, v = self.qkv(x).chunk(3, -1)
        return (q @ k.mT / 4).masked_fill(~see, -torch.inf).softmax(-1) @ v


class WindowAndGlobal(nn.Module):
    """A sliding window of two each side, and a first and last token that see and are seen by all."""

    def __init__(self, dim=16):
        super().__init__()
        self.qkv = nn.Linear(dim, 3 * dim)

    def forward(self, x: Tensor) -> Tensor:
        at = torch.arange(x.shape[1])
        end = (at == 0) | (at == x.shape[1] - 1)
        see = ((at[:, None] - at).abs() <= 2) | end | end[:, None]
        q, k, v = self.qkv(x).chunk(3, -1)
        return (q @ k.mT / 4).masked_fill(~see, -torch.inf).softmax(-1) @ v


@pytest.mark.parametrize("module", [Patches(), Frames(), WindowAndGlobal()], ids=lambda m: type(m).__name__)
def test_far_parts_that_are_no_rolled_window_are_left_alone(module):
    assert said(module, "ATT805") == []


class BuiltForOneSize(nn.Module):
    """Shifted windows of 4 over a map whose size the constructor asks for; other sizes run, with a mask that is not theirs."""

    def __init__(self, dim, window_size, shift_size, fmap_size):
        super().__init__()
        self.window, self.shift = window_size, shift_size
        self.fmap_size = (fmap_size, fmap_size) if isinstance(fmap_size, int) else fmap_size
        self.qkv = nn.Linear(dim, 3 * dim)
        place = [
            (torch.arange(n) >= n - window_size).long() + (torch.arange(n) >= n - shift_size) for n in self.fmap_size
        ]
        region = self.cut((3 * place[0][:, None] + place[1])[None, :, :, None].float())[..., 0]  # (windows, n * n)
        self.register_buffer("see", region[:, :, None] == region[:, None])

    def cut(self, x):
        n = self.window
        return x.unflatten(2, (-1, n)).unflatten(1, (-1, n)).transpose(2, 3).reshape(-1, n * n, x.shape[-1])

    def forward(self, x: Tensor) -> Tensor:
        b, h, w, c = x.shape
        n, s = self.window, self.shift
        q, k, v = self.qkv(self.cut(x.roll((-s, -s), (1, 2)))).chunk(3, -1)
        scores = (q @ k.mT * c**-0.5).unflatten(0, (-1, self.see.shape[0])).masked_fill(~self.see, -torch.inf)
        y = scores.flatten(0, 1).softmax(-1) @ v
        y = y.reshape(b, h // n, w // n, n, n, c).transpose(2, 3).reshape(b, h, w, c)
        return y.roll((s, s), (1, 2))


def test_another_size_than_the_one_it_was_built_for_is_a_question():
    assert said(BuiltForOneSize(16, 4, 2, 8), "ATT805") == [("ATT805", "question")]


class TwoFeatures(nn.Module):
    """A channel gate with a bottleneck of two features that are both shut for small inputs."""

    def __init__(self, channels=32):
        super().__init__()
        self.narrow, self.wide = nn.Linear(channels, 2), nn.Linear(2, channels)
        nn.init.constant_(self.narrow.bias, -1.0)

    def forward(self, x: Tensor) -> Tensor:
        gate = torch.sigmoid(self.wide(torch.relu(self.narrow(x.mean((2, 3))))))
        return gate[..., None, None].expand_as(x)


class ShutByChance(TwoFeatures):
    """The same with weights for which the features of no input open."""

    def __init__(self, channels=32):
        super().__init__(channels)
        self.middle = nn.Linear(2, 2)
        with torch.no_grad():
            self.middle.weight.copy_(-self.middle.weight.abs())
            self.middle.bias.copy_(-self.middle.bias.abs())

    def forward(self, x: Tensor) -> Tensor:
        few = torch.relu(self.middle(torch.relu(self.narrow(x.mean((2, 3))))))
        return torch.sigmoid(self.wide(few))[..., None, None].expand_as(x)


@pytest.mark.parametrize("module", [TwoFeatures(), ShutByChance()], ids=lambda m: type(m).__name__)
def test_features_that_are_shut_by_their_weights_are_not_dead(module):
    assert said(module) == []


class StartsTiny(nn.Module):
    """Cross-attention whose projections start at 0.001: scores differ by less than rounding until it has learned."""

    def __init__(self, dim=32):
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(dim, dim) for _ in range(3))
        for layer in (self.q, self.k, self.v):
            nn.init.normal_(layer.weight, std=0.001)
            nn.init.zeros_(layer.bias)

    def forward(self, x: Tensor, context: Tensor) -> Tensor:
        weights = (self.q(x) @ self.k(context).mT * x.shape[-1] ** -0.5).float().softmax(-1)
        return weights @ self.v(context).float()


def test_a_query_behind_weights_that_start_tiny_is_read():
    assert said(StartsTiny(), "ATT306") == []


class ThreeBranches(nn.Module):
    """A softmax over three branches weighs them, channel by channel, and a linear layer reads the sum: there are no keys."""

    def __init__(self, dim=32):
        super().__init__()
        self.branches = nn.ModuleList(nn.Linear(dim, dim) for _ in range(3))
        self.weigh, self.out, self.drop = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim), nn.Dropout(0.1)

    def forward(self, x: Tensor) -> Tensor:
        a, b, c = (branch(x) for branch in self.branches)
        weights = self.drop(self.weigh((a + b + c).mean((1, 2)))).unflatten(-1, (-1, 3)).permute(2, 0, 1).softmax(0)
        weights = weights[:, :, None, None]  # (3, B, 1, 1, dim)
        return self.out(a * weights[0] + b * weights[1] + c * weights[2])


def test_weights_of_branches_are_no_weights_of_keys():
    assert said(ThreeBranches(), "ATT402", "ATT507", "ATT701") == []


class PaddedForAKernel(nn.Module):
    """Queries and keys of 6 channels are padded to the 10 of the values, since a kernel wants one width; 1 / sqrt(6) is right."""

    def __init__(self, dim=32, heads=2):
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v = nn.Linear(dim, 6 * heads), nn.Linear(dim, 6 * heads), nn.Linear(dim, 10 * heads)
        self.out = nn.Linear(10 * heads, dim)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (f(x).unflatten(-1, (self.heads, -1)).transpose(1, 2) for f in (self.q, self.k, self.v))
        q, k = F.pad(q, (0, 4)), F.pad(k, (0, 4))
        return self.out(F.scaled_dot_product_attention(q, k, v, scale=6**-0.5).transpose(1, 2).flatten(2))


def test_channels_that_were_padded_for_a_kernel_are_no_head_width():
    assert said(PaddedForAKernel(), "ATT401") == []


class SelfOrCross(nn.Module):
    """Reads its context in one of two configurations; this one is the other."""

    def __init__(self, dim=32, is_cross=False):
        super().__init__()
        self.is_cross = is_cross
        self.q, self.kv = nn.Linear(dim, dim), nn.Linear(dim, 2 * dim)

    def forward(self, x: Tensor, context: Tensor | None = None) -> Tensor:
        if self.is_cross:
            assert context is not None
            context = F.normalize(context, dim=-1)
        else:
            context = x
        k, v = self.kv(context).chunk(2, -1)
        return (self.q(x) @ k.mT * x.shape[-1] ** -0.5).softmax(-1) @ v


def test_a_context_that_this_configuration_does_not_read_is_a_question():
    assert said(SelfOrCross(), "ATT306") == [("ATT306", "question")]


class ForgetsContext(SelfOrCross):
    """The same without a setting: the context is never read, and that is an error."""

    def forward(self, x: Tensor, context: Tensor | None = None) -> Tensor:
        k, v = self.kv(x).chunk(2, -1)
        return (self.q(x) @ k.mT * x.shape[-1] ** -0.5).softmax(-1) @ v


def test_a_context_that_no_setting_keeps_away_stays_an_error():
    assert said(ForgetsContext(), "ATT306") == [("ATT306", "error")]


class PooledKeys(nn.Module):
    """Keys and values are one token for every 7 x 7 pixels: on a small map there is a single key, and queries have no say."""

    def __init__(self, dim=32):
        super().__init__()
        self.q, self.kv = nn.Conv2d(dim, dim, 1), nn.Conv2d(dim, 2 * dim, 7, stride=7)

    def forward(self, x: Tensor) -> Tensor:
        q = self.q(x).flatten(2).mT
        k, v = self.kv(x).flatten(2).mT.chunk(2, -1)
        return ((q @ k.mT * x.shape[1] ** -0.5).softmax(-1) @ v).mT.unflatten(2, x.shape[2:])


class Indexed(nn.Module):
    """An indexer chooses at most 4096 keys by scores of its own, which no gradient reaches: at any length here it chooses all."""

    def __init__(self, dim=32):
        super().__init__()
        self.qkv, self.index = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(x).chunk(3, -1)
        near = self.index(x) @ self.index(x).mT
        chosen = near.topk(min(4096, x.shape[1]), -1).indices
        hidden = torch.ones_like(near, dtype=torch.bool).scatter(-1, chosen, False)
        return (q @ k.mT * x.shape[-1] ** -0.5).masked_fill(hidden, -torch.inf).softmax(-1) @ v


@pytest.mark.parametrize(("module", "level"), [(PooledKeys(), []), (Indexed(), [("ATT701", "question")])])
def test_parameters_that_matter_at_a_larger_size_or_by_a_choice_are_not_dead(module, level):
    assert said(module, "ATT701") == level


class AnglesFromOutside(nn.Module):
    """Rotary angles are a required argument and may be None."""

    def __init__(self, dim=32, heads=4):
        super().__init__()
        self.heads, self.qkv = heads, nn.Linear(dim, 3 * dim)

    def forward(self, x: Tensor, rotary_emb) -> Tensor:
        q, k, v = self.qkv(x).unflatten(-1, (3, self.heads, -1)).movedim(2, 0).transpose(2, 3)
        if rotary_emb is not None:
            turned = [torch.cat([-t[..., 4:], t[..., :4]], -1) for t in (q, k)]
            q, k = (t * rotary_emb.cos() + r * rotary_emb.sin() for t, r in zip((q, k), turned))
        return F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)


def test_rotary_angles_that_were_not_given_are_not_missed():
    report = check(AnglesFromOutside(), select=["ATT802"])
    assert report.findings == []


class TwoModes(nn.Module):
    """Each of two modes has a mask of its own."""

    def __init__(self, dim=32, inverted=False):
        super().__init__()
        self.inverted, self.qkv = inverted, nn.Linear(dim, 3 * dim)

    def forward(self, x: Tensor, mask: Tensor | None = None, row_mask: Tensor | None = None) -> Tensor:
        """mask, row_mask: (batch, keys), True = attend."""
        q, k, v = self.qkv(x).chunk(3, -1)
        scores = q @ k.mT * x.shape[-1] ** -0.5
        hide = None if mask is None else ~mask[:, None]
        if self.inverted:
            hide = None if row_mask is None else ~row_mask[:, :, None]
        if hide is not None:
            scores = scores.masked_fill(hide, torch.finfo(scores.dtype).min)
        return scores.softmax(-2 if self.inverted else -1) @ v


def test_a_mask_of_the_other_mode_is_a_question():
    assert said(TwoModes(), "ATT105") == [("ATT105", "question")]


class KeptForEval(nn.Module):
    """The bias that eval uses is looked up once, without gradients, when the mode changes; training looks it up each time."""

    def __init__(self, dim=32, length=8):
        super().__init__()
        self.qkv, self.table = nn.Linear(dim, 3 * dim), nn.Parameter(torch.zeros(2 * length - 1))
        self.register_buffer("index", torch.arange(length)[:, None] - torch.arange(length) + length - 1)

    @torch.no_grad()
    def train(self, mode: bool = True):
        super().train(mode)
        self.kept = None if mode else self.table[self.index]
        return self

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(x).chunk(3, -1)
        bias = self.table[self.index] if self.training else self.kept
        return (q @ k.mT * x.shape[-1] ** -0.5 + bias).softmax(-1) @ v


def test_a_table_that_is_kept_for_eval_gets_its_gradient_in_training():
    assert said(KeptForEval(), "ATT701") == []


class ComplexAngles(nn.Module):
    """Rotary angles are a complex buffer, as in the code that came with the first open language models."""

    def __init__(self, dim=32, heads=4, length=64):
        super().__init__()
        self.heads, self.qkv = heads, nn.Linear(dim, 3 * dim)
        angles = torch.outer(torch.arange(length).float(), 10_000.0 ** -torch.linspace(0, 0.75, dim // heads // 2))
        self.register_buffer("rope", torch.polar(torch.ones_like(angles), angles), persistent=False)

    def turn(self, x: Tensor) -> Tensor:
        pairs = torch.view_as_complex(x.reshape(*x.shape[:-1], -1, 2))
        return torch.view_as_real(pairs * self.rope[: x.shape[-2]]).flatten(-2).to(x.dtype)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(x).unflatten(-1, (3, self.heads, -1)).movedim(2, 0).transpose(2, 3)
        return F.scaled_dot_product_attention(self.turn(q), self.turn(k), v).transpose(1, 2).flatten(2)


def test_complex_angles_keep_their_imaginary_part_when_the_module_is_cast():
    assert said(ComplexAngles(), "ATT801") == []


class ChannelsOfSignals(nn.Module):
    """A gate for each of four channels of a signal (batch, channels, time), from its mean and its maximum over time."""

    def __init__(self, n_signals=4):
        super().__init__()
        self.narrow, self.wide = nn.Linear(n_signals, 1), nn.Linear(1, n_signals)
        self.mean, self.top = nn.AdaptiveAvgPool1d(1), nn.AdaptiveMaxPool1d(1)

    def forward(self, x: Tensor) -> Tensor:
        both = [self.wide(torch.relu(self.narrow(pool(x).flatten(1)))) for pool in (self.mean, self.top)]
        return torch.sigmoid(both[0] + both[1])[:, :, None] * x


def test_channels_are_not_taken_for_as_many_tokens():
    report = check(ChannelsOfSignals())
    assert report.inferred["inputs"]["x"]["layout"] == "BDL"
    assert report.findings == []


class BothWays(nn.Module):
    """Two streams read each other through one table of scores, and both are returned."""

    def __init__(self, dim=32):
        super().__init__()
        self.key, self.value, self.out = nn.Linear(dim, dim), nn.Linear(dim, dim), nn.Linear(dim, dim)
        self.context_key, self.context_value = nn.Linear(dim, dim), nn.Linear(dim, dim)
        self.context_out = nn.Linear(dim, dim)

    def forward(self, x: Tensor, context: Tensor) -> tuple[Tensor, Tensor]:
        scores = self.key(x) @ self.context_key(context).mT * x.shape[-1] ** -0.5
        read = scores.softmax(-1) @ self.context_value(context)
        back = scores.mT.softmax(-1) @ self.value(x)
        return self.out(read), self.context_out(back)


def test_gradients_are_taken_from_both_streams_that_are_returned():
    assert said(BothWays(), "ATT701") == []
