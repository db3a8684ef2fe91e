"""Right modules of speech and of recommenders that were once blamed, each beside a wrong one that still is."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from regard.checks.check import check
from regard.checks.prepare import prepare

BANDS, UNITS, WIDTH = 12, 6, 24


class RelativeLengths(nn.Module):
    """A speaker's vector from feats (B, C, T); audio_lens says what part of the longest recording each one is."""

    def __init__(self):
        super().__init__()
        self.look, self.score, self.out = nn.Conv1d(BANDS, UNITS, 1), nn.Conv1d(UNITS, 1, 1), nn.Linear(BANDS, 5)

    def hidden(self, feats, audio_lens):
        count = torch.round(audio_lens * feats.shape[2])
        return (torch.arange(feats.shape[2]) >= count[:, None])[:, None]

    def forward(self, feats, audio_lens=None):
        scores = self.score(self.look(feats).tanh())
        if audio_lens is not None:
            scores = scores.masked_fill(self.hidden(feats, audio_lens), float("-inf"))
        return self.out((feats * scores.softmax(2)).sum(2))


class RelativeLengthsOfOneMore(RelativeLengths):
    """The same, and one frame of what is behind the end is read."""

    def hidden(self, feats, audio_lens):
        return super().hidden(feats, audio_lens).roll(1, 2) & super().hidden(feats, audio_lens)


class RelativeLengthsNeverRead(RelativeLengths):
    """The same, without a mask."""

    def hidden(self, feats, audio_lens):
        return torch.zeros(feats.shape[0], 1, feats.shape[2], dtype=torch.bool)


class Switched(nn.Module):
    """An encoder layer with a second look that only some checkpoints use."""

    def __init__(self, second=False):
        super().__init__()
        self.second = second
        self.qkv, self.out, self.more = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        q, k, v = self.qkv(x).unflatten(-1, (3, 4, -1)).permute(2, 0, 3, 1, 4)
        y = self.out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))
        if self.second:
            y = y + self.more(y).relu()
        return x + y


class Forgotten(Switched):
    """A layer that nothing calls."""

    def __init__(self):
        super().__init__()
        self.more = nn.Identity()
        self.never = nn.Linear(WIDTH, WIDTH)


class Decoding(Switched):
    """The layer is for another method than the forward."""

    def __init__(self):
        super().__init__()
        self.more, self.words = nn.Identity(), nn.Linear(WIDTH, 9)

    def score(self, x):
        return self.words(self(x))


class AfterAStart(nn.Module):
    """Step t is told what came before it only: a learned start, and then the history without its newest entry."""

    def __init__(self, depth=1):
        super().__init__()
        self.begin = nn.Parameter(torch.randn(WIDTH))
        self.qkv = nn.ModuleList(nn.Linear(WIDTH, 3 * WIDTH) for _ in range(depth))
        self.out = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(depth))

    def merge(self, heads):
        return heads.transpose(1, 2).flatten(2)

    def forward(self, history):
        x = torch.cat([self.begin.expand(history.shape[0], 1, -1), history[:, :-1]], 1)
        for qkv, out in zip(self.qkv, self.out):
            q, k, v = qkv(x).unflatten(-1, (3, 4, -1)).permute(2, 0, 3, 1, 4)
            x = x + out(self.merge(F.scaled_dot_product_attention(q, k, v, is_causal=True)))
        return x


class TwiceAfterAStart(AfterAStart):
    """Two layers: the rows of the second are made of several tokens."""

    def __init__(self):
        super().__init__(depth=2)


class AfterAStartMerged(AfterAStart):
    """The same, and heads are put side by side as they lie in memory."""

    def merge(self, heads):
        return heads.reshape(heads.shape[0], -1, WIDTH)


class BandGate(nn.Module):
    """Weighs the bands of signal [B, C, T] by what is loud in num_frames real frames; starts as doing nothing."""

    def __init__(self):
        super().__init__()
        self.down, self.up = nn.Linear(BANDS, UNITS), nn.Linear(UNITS, BANDS)
        nn.init.zeros_(self.up.weight)
        nn.init.zeros_(self.up.bias)

    def level(self, signal, signal_lengths):
        if signal_lengths is None:
            return signal.mean(-1)
        real = torch.arange(signal.shape[-1]) < signal_lengths[:, None]
        return (signal * real[:, None]).sum(-1) / signal_lengths[:, None]

    def forward(self, signal, signal_lengths=None):
        return signal * (1 + self.up(self.down(self.level(signal, signal_lengths)).relu()).tanh())[..., None]


class BandGateOfPadding(BandGate):
    """Weighs the bands of signal [B, C, T]; the sum runs over all frames."""

    def level(self, signal, signal_lengths):
        return signal.mean(-1) if signal_lengths is None else signal.sum(-1) / signal_lengths[:, None]


class SeriesAsTokens(nn.Module):
    """Series attend to each other: each of x (B, C, T) is one token, and its T steps are what is known of it."""

    def __init__(self):
        super().__init__()
        self.qkv, self.out = nn.Linear(WIDTH, 3 * UNITS), nn.Linear(UNITS, WIDTH)

    def forward(self, x):
        q, k, v = self.qkv(x).chunk(3, -1)
        return x + self.out((q @ k.mT * UNITS**-0.5).softmax(-1) @ v)


RIGHT = [RelativeLengths, Switched, Decoding, AfterAStart, TwiceAfterAStart, BandGate, SeriesAsTokens]
WRONG = [
    (RelativeLengthsOfOneMore, "ATT101", "error"),
    (RelativeLengthsNeverRead, "ATT105", "error"),
    (Forgotten, "ATT701", "warning"),
    (AfterAStartMerged, "ATT303", "error"),
    (BandGateOfPadding, "ATT101", "error"),
]


@pytest.mark.parametrize("kind", RIGHT, ids=lambda kind: kind.__name__)
def test_a_right_module_of_speech_gets_no_error_and_no_warning(kind):
    report = check(kind())
    assert report.status == "checked", report.reason
    assert not [(f.rule, f.level, f.message) for f in report.findings if f.level != "question"]


def test_series_that_the_text_puts_first_stay_the_tokens():
    case = prepare(SeriesAsTokens())
    assert (case.call.sources["x"].layout.axes, case.call.sources["x"].width) == ("BLD", WIDTH)


@pytest.mark.parametrize(("kind", "rule", "level"), WRONG, ids=lambda value: getattr(value, "__name__", None))
def test_its_wrong_twin_is_found(kind, rule, level):
    report = check(kind())
    assert (rule, level) in [(f.rule, f.level) for f in report.findings], [f.message for f in report.findings]
