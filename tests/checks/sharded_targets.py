"""Modules that say how they are cut among processes: right, and with one fault each. Loaded by tests as a user's file."""

import time

import torch
import torch.distributed as dist
from torch import nn

from regard.core.attention import attention
from regard.mask import causal
from regard.parallel import sequence_parallel, shard


class Attention(nn.Module):
    """Causal self-attention, batch first."""

    # regard: design sharded="cut"

    def __init__(self, embed_dim: int = 32, num_heads: int = 4):
        super().__init__()
        self.num_heads = num_heads
        self.qkv = nn.Linear(embed_dim, 3 * embed_dim)
        self.out = nn.Linear(embed_dim, embed_dim)
        self.attend = attention

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = (y.unflatten(-1, (self.num_heads, -1)).transpose(1, 2) for y in self.qkv(x).chunk(3, dim=-1))
        return self.out(self.attend(q, k, v, mask=causal()).transpose(1, 2).flatten(2))


class WithoutOthers(Attention):
    # regard: design sharded="cut_without_others"
    pass


class Detached(Attention):
    # regard: design sharded="cut_detached"
    pass


class Stuck(Attention):
    # regard: design sharded="cut_stuck"
    pass


class Raising(Attention):
    # regard: design sharded="cut_raising"
    pass


class Undeclared(Attention):
    # regard: design layout="BLD"
    pass


def cut(module, group):
    module.attend = sequence_parallel(attention, group)
    return lambda x: module(shard(x, group))


def cut_without_others(module, group):
    return lambda x: module(shard(x, group))


def cut_detached(module, group):
    together = sequence_parallel(attention, group)
    module.attend = lambda q, k, v, mask: together(q, k.detach(), v, mask=mask)
    return lambda x: module(shard(x, group))


def cut_stuck(module, group):
    if dist.get_rank(group) == 1:
        time.sleep(600)
    return cut(module, group)


def cut_raising(module, group):
    raise ValueError("only one machine here")
