"""Linear attention computed piece by piece: the state is started anew at each piece."""

import torch
import torch.nn.functional as F
from torch import nn

RULES = {"ATT202"}


class Right(nn.Module):
    def __init__(self, dim=8, chunk_size=4):
        super().__init__()
        self.chunk_size = chunk_size
        self.q, self.k, self.v = (nn.Linear(dim, dim) for _ in range(3))

    def carried(self, state, new):
        return state + new

    def forward(self, x):
        q, k = F.elu(self.q(x)) + 1, F.elu(self.k(x)) + 1
        v = F.pad(self.v(x), (0, 1), value=1.0)  # the last channel sums the weights
        state, out = torch.zeros(()), []
        for at in range(0, x.shape[1], self.chunk_size):
            piece = slice(at, at + self.chunk_size)
            inside = (q[:, piece] @ k[:, piece].mT).tril() @ v[:, piece]
            out.append(inside + (q[:, piece] @ state if at else 0.0))
            new = k[:, piece].mT @ v[:, piece]
            state = self.carried(state, new) if at else new
        total = torch.cat(out, 1)
        return total[..., :-1] / total[..., -1:]


class Wrong(Right):
    def carried(self, state, new):
        return new


def right():
    return Right()


def wrong():
    return Wrong()
