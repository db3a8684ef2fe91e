"""A static cache that is full to the last slot hides that slot."""

import torch
from torch import nn

RULES = {"ATT206"}


class Right(nn.Module):
    def __init__(self, dim=12):
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(dim, dim) for _ in range(3))

    def new_cache(self, batch, length):
        """Room for `length` keys and values, and how many are written."""
        width = self.k.out_features
        empty = torch.zeros(batch, length, width, dtype=self.k.weight.dtype)
        return {"keys": empty, "values": empty.clone(), "written": 0}

    def shown(self, places, room):
        return torch.arange(room) <= places[:, None]

    def forward(self, x, cache=None):
        q, k, v, first = self.q(x), self.k(x), self.v(x), 0
        if cache is not None:
            first, last = cache["written"], cache["written"] + x.shape[1]
            cache["keys"][:, first:last], cache["values"][:, first:last], cache["written"] = k, v, last
            k, v = cache["keys"], cache["values"]
        shown = (
            self.shown(first + torch.arange(x.shape[1]), k.shape[1])
            if cache is not None
            else torch.ones(x.shape[1], x.shape[1]).tril().bool()
        )
        return (q @ k.mT * x.shape[-1] ** -0.5).masked_fill(~shown, float("-inf")).softmax(-1) @ v


class Wrong(Right):
    def shown(self, places, room):
        return (torch.arange(room) <= places[:, None]) & (torch.arange(room) < room - 1)


def right():
    return Right()


def wrong():
    return Wrong()
