"""Scores of free slots are multiplied by zero, and zero has a weight.

Kind: mask-multiplied
"""

import torch
from torch import nn


class Shelves(nn.Module):
    """Reads a shelf of notes twice.

    wish (items, 10): what is asked for
    notes (items, slots, 14): the shelf, some of its slots free
    filled (items, slots): bool, which slots are in use
    """

    def __init__(self, wish=10, note=14, dim=18, rounds=2, answers=6):
        super().__init__()
        self.ask, self.rounds = nn.Linear(wish, dim), rounds
        self.key, self.value = nn.Linear(note, dim), nn.Linear(note, dim)
        self.turn, self.answer = nn.Linear(dim, dim), nn.Linear(dim, answers)

    def forward(self, wish, notes, filled=None):
        state, key, value = self.ask(wish).tanh(), self.key(notes), self.value(notes)
        for _ in range(self.rounds):
            score = torch.einsum("bd,bsd->bs", state, key) * key.shape[-1] ** -0.5
            if filled is not None:
                score = score * filled
            read = torch.einsum("bs,bsd->bd", score.softmax(1), value)
            state = self.turn(state).tanh() + read
        return self.answer(state)


def build() -> nn.Module:
    return Shelves()


EXPECTED = {"kind": "mask-multiplied", "severity": "error"}
CALL = {
    "attention": "cross",
    "layout": "BLD",
    "inputs": {"wish": (3, 10), "notes": (3, 6, 14)},
    "query_arg": "wish",
    "context_arg": "notes",
    "mask": {"arg": "filled", "shape": (3, 6), "on": "context", "polarity": "keep", "dtype": "bool"},
    "embed_dim": 18,
    "heads": 1,
    "head_dim": 18,
    "returns": "out",
}
