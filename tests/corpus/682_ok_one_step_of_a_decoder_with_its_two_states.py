"""One step of a recurrent decoder: a token, the two states of its LSTM, what was encoded, and which of it is visible.

Kind: correct
"""

import torch
from torch import nn


class DecoderStep(nn.Module):
    """One step of a translator. token: (batch,) ids; state: (h, c), each (1, batch, dim); encoded: (batch, words, dim);
    visible: (batch, words), True = word.
    """

    def __init__(self, words=40, dim=24):
        super().__init__()
        self.embed, self.ask = nn.Embedding(words, dim), nn.Linear(dim, dim, bias=False)
        self.lstm, self.out = nn.LSTM(2 * dim, dim, batch_first=True), nn.Linear(2 * dim, words)

    def forward(self, token, state, encoded, visible):
        before = state[0][-1]
        score = (encoded @ self.ask(before)[:, :, None])[..., 0].masked_fill(~visible, -1e9)
        read = (score.softmax(-1)[:, None] @ encoded)[:, 0]
        y, state = self.lstm(torch.cat([self.embed(token), read], -1)[:, None], state)
        return self.out(torch.cat([y[:, 0], read], -1)), state


def build() -> nn.Module:
    return DecoderStep()


EXPECTED = {"kind": "correct", "severity": None, "looks_like": None}
CALL = {
    "attention": "cross",
    "layout": "BLD",
    "inputs": {"encoded": (2, 6, 24)},
    "mask": {"arg": "visible", "shape": (2, 6), "on": "keys", "polarity": "keep", "dtype": "bool"},
    "returns": "(logits, (h, c))",
}
