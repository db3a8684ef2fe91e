"""Multi-query self-attention. The mask's words name what is hidden by a sort of token: filler, which is none of the usual words.

Kind: correct
"""

from torch import nn


class PhraseMixer(nn.Module):
    """Tokens of a phrase look at each other; a phrase is filled up to the longest one of the batch."""

    def __init__(self, width=24, heads=3):
        super().__init__()
        self.heads = heads
        self.ask, self.answer = nn.Linear(width, width), nn.Linear(width, 2 * width // heads)
        self.back = nn.Linear(width, width)

    def forward(self, phrase, gaps=None):
        """phrase: [B, N, width]; gaps: [B, N], True on filler tokens."""
        q = self.ask(phrase).unflatten(-1, (self.heads, -1)).transpose(1, 2)
        k, v = self.answer(phrase)[:, None].chunk(2, -1)
        s = q @ k.mT / q.shape[-1] ** 0.5
        if gaps is not None:
            s = s.masked_fill(gaps[:, None, None], -1e30)
        return self.back((s.softmax(-1) @ v).transpose(1, 2).flatten(2))


def build() -> nn.Module:
    return PhraseMixer()


EXPECTED = {"kind": "correct", "severity": None, "looks_like": "mask-inverted"}
CALL = {
    "attention": "self",
    "layout": "BLD",
    "inputs": {"phrase": (2, 6, 24)},
    "mask": {"arg": "gaps", "shape": (2, 6), "on": "phrase", "polarity": "ignore", "dtype": "bool"},
    "embed_dim": 24,
    "heads": 3,
    "head_dim": 8,
    "returns": "out",
}
