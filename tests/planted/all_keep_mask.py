"""A padding mask takes the place of the causal mask: whoever gives one turns causality off."""

import torch
from torch import nn

RULES = {"ATT104"}


class Right(nn.Module):
    def __init__(self, n_embd=12):
        super().__init__()
        self.c_attn = nn.Linear(n_embd, 3 * n_embd)

    def allowed(self, keep, t):
        causal = torch.ones(t, t, dtype=torch.bool).tril()
        return causal if keep is None else causal & keep[:, None]

    def forward(self, x, keep=None):
        """keep: (B, T), True = real token, False = padding at the end."""
        q, k, v = self.c_attn(x).chunk(3, dim=-1)
        att = torch.einsum("btc,bsc->bts", q, k) / q.size(-1) ** 0.5
        att = torch.where(self.allowed(keep, x.size(1)), att, torch.finfo(att.dtype).min)
        return torch.einsum("bts,bsc->btc", att.softmax(-1), v)


class Wrong(Right):
    def allowed(self, keep, t):
        return torch.ones(t, t, dtype=torch.bool).tril() if keep is None else keep[:, None]


def right():
    return Right()


def wrong():
    return Wrong()
