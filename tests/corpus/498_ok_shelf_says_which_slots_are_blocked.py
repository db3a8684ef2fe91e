"""An argument with no name of a mask: its text says which slots are blocked.

Kind: correct
"""

import torch
from torch import nn


class Shelves(nn.Module):
    """Reads a shelf of notes twice.

    wish (items, 10): what is asked for
    notes (items, slots, 14): the shelf, some of its slots free
    shut (items, slots): bool, which slots are blocked
    """

    def __init__(self, wish=10, note=14, dim=18, rounds=2, answers=6):
        super().__init__()
        self.ask, self.rounds = nn.Linear(wish, dim), rounds
        self.key, self.value = nn.Linear(note, dim), nn.Linear(note, dim)
        self.turn, self.answer = nn.Linear(dim, dim), nn.Linear(dim, answers)

    def forward(self, wish, notes, shut=None):
        state, key, value = self.ask(wish).tanh(), self.key(notes), self.value(notes)
        for _ in range(self.rounds):
            score = torch.einsum("bd,bsd->bs", state, key) * key.shape[-1] ** -0.5
            if shut is not None:
                score = score.masked_fill(shut, torch.finfo(score.dtype).min)
            read = torch.einsum("bs,bsd->bd", score.softmax(1), value)
            state = self.turn(state).tanh() + read
        return self.answer(state)


def build() -> nn.Module:
    return Shelves()


EXPECTED = {"kind": "correct", "severity": None, "looks_like": "mask-inverted"}
CALL = {
    "attention": "cross",
    "layout": "BLD",
    "inputs": {"wish": (3, 10), "notes": (3, 6, 14)},
    "query_arg": "wish",
    "context_arg": "notes",
    "mask": {"arg": "shut", "shape": (3, 6), "on": "context", "polarity": "hide", "dtype": "bool"},
    "embed_dim": 18,
    "heads": 1,
    "head_dim": 18,
    "returns": "out",
}
