"""Watch two training runs: one that is right, and one whose attention divides by d in place of the root of d.

`python examples/watch_training.py [FOLDER]` trains both (about ten seconds on one core), prints what is wrong with each, and leaves
their records in FOLDER/right.jsonl and FOLDER/wrong.jsonl for `regard diagnose` and for the plots.
"""

import pathlib
import sys

import torch
from torch import nn
from torch.nn import functional as F

import regard

WIDTH, TOKENS, BATCH, STEPS = 32, 16, 16, 120


class SelfAttention(nn.Module):
    """One head over (B, T, WIDTH). `temperature` divides the scores: the root of WIDTH is usual."""

    def __init__(self, temperature: float):
        super().__init__()
        self.temperature = temperature
        self.q_proj, self.k_proj, self.v_proj = (nn.Linear(WIDTH, WIDTH) for _ in range(3))

    def forward(self, x):
        scores = self.q_proj(x) @ self.k_proj(x).transpose(-1, -2) / self.temperature  # (B, T, T)
        return scores.softmax(-1) @ self.v_proj(x)


class Sorter(nn.Module):
    """(B, T) ids to (B, T, 24) scores of the same ids in order."""

    def __init__(self, temperature: float):
        super().__init__()
        self.embed, self.place = nn.Embedding(24, WIDTH), nn.Parameter(torch.randn(TOKENS, WIDTH) * 0.1)
        self.layers = nn.ModuleList(SelfAttention(temperature) for _ in range(2))
        self.norms = nn.ModuleList(nn.LayerNorm(WIDTH) for _ in range(2))
        self.head = nn.Linear(WIDTH, 24)

    def forward(self, ids):
        x = self.embed(ids) + self.place
        for norm, layer in zip(self.norms, self.layers):
            x = x + layer(norm(x))
        return self.head(x)


def train(temperature: float, file: pathlib.Path) -> regard.watch:
    """A plain loop: `run.step(loss)` at the end of each step is all that is added."""
    torch.manual_seed(0)
    model = Sorter(temperature)
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
    with regard.watch(model, every=10, out=file) as run:
        for _ in range(STEPS):
            ids = torch.randint(0, 24, (BATCH, TOKENS))
            loss = F.cross_entropy(model(ids).flatten(0, 1), ids.sort(1).values.flatten())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            run.step(loss)
        model.eval()
        with run.validating(), torch.no_grad():
            ids = torch.randint(0, 24, (BATCH, TOKENS))
            loss = F.cross_entropy(model(ids).flatten(0, 1), ids.sort(1).values.flatten())
        run.log(validation_loss=float(loss))
    return run


if __name__ == "__main__":
    folder = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".")
    for name, temperature in (("right", WIDTH**0.5), ("wrong", float(WIDTH))):
        print(f"{name}:", train(temperature, folder / f"{name}.jsonl").diagnosis(), end="\n\n")
