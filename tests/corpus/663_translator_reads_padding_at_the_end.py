"""A recurrent translator on ids that reads one place beyond its source.

Kind: padding-off-by-one
"""

import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence


def memory_of(model, source):
    return model.encoder(model.read(source))[0]


class Translator(nn.Module):
    """source: (batch, words) ids, source_len: (batch,) how many are words (one at least); target: (batch, steps) ids that are fed."""

    def __init__(self, words=30, others=25, dim=16):
        super().__init__()
        self.read, self.say = nn.Embedding(words, dim), nn.Embedding(others, dim)
        self.encoder, self.cell = nn.GRU(dim, dim, batch_first=True), nn.GRUCell(2 * dim, dim)
        self.ask, self.out = nn.Linear(dim, dim), nn.Linear(2 * dim, others)

    def forward(self, source, source_len, target):
        packed = pack_padded_sequence(self.read(source), source_len, batch_first=True, enforce_sorted=False)
        _, h = self.encoder(packed)
        memory, h = memory_of(self, source), h[0]
        outside = torch.arange(source.shape[1])[None] > source_len[:, None]
        said = []
        for x in self.say(target).unbind(1):
            score = (memory @ self.ask(h)[:, :, None])[..., 0].masked_fill(outside, -1e9)
            context = (score.softmax(-1)[:, None] @ memory)[:, 0]
            h = self.cell(torch.cat([x, context], -1), h)
            said.append(self.out(torch.cat([h, context], -1)))
        return torch.stack(said, 1)


def build() -> nn.Module:
    return Translator()


EXPECTED = {"kind": "padding-off-by-one", "severity": "error"}
CALL = {
    "attention": "cross",
    "layout": "BL",
    "inputs": {"source": (2, 7), "target": (2, 5)},
    "mask": {"arg": "source_len", "shape": (2,), "on": "keys", "polarity": "lengths", "dtype": "long"},
    "returns": "logits",
}
