"""RMS-normed queries and keys, grouped keys, rotation of the first half of each head only.

Kind: correct
"""

import torch
import torch.nn.functional as F
from torch import nn


class RMSNorm(nn.Module):
    def __init__(self, dim, eps=1e-6):
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.ones(dim)), eps

    def forward(self, x):
        return self.weight * x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps)


def rotate_half(x):
    a, b = x.chunk(2, dim=-1)
    return torch.cat((-b, a), dim=-1)


class Attention(nn.Module):
    def __init__(self, hidden_size=64, num_heads=4, num_key_value_heads=2, head_dim=16, rotary_dim=8):
        super().__init__()
        self.num_heads, self.num_kv, self.head_dim, self.rotary_dim = (
            num_heads,
            num_key_value_heads,
            head_dim,
            rotary_dim,
        )
        self.q_proj = nn.Linear(hidden_size, num_heads * head_dim, bias=False)
        self.k_proj = nn.Linear(hidden_size, num_key_value_heads * head_dim, bias=False)
        self.v_proj = nn.Linear(hidden_size, num_key_value_heads * head_dim, bias=False)
        self.o_proj = nn.Linear(num_heads * head_dim, hidden_size, bias=False)
        self.q_norm, self.k_norm = RMSNorm(head_dim), RMSNorm(head_dim)

    def rope(self, x):
        r = self.rotary_dim
        freq = 10000 ** (-torch.arange(0, r, 2, device=x.device, dtype=x.dtype) / r)
        t = (torch.arange(x.shape[-2], device=x.device, dtype=x.dtype)[:, None] * freq).repeat(1, 2)
        turned, rest = x[..., :r], x[..., r:]
        return torch.cat((turned * t.cos() + rotate_half(turned) * t.sin(), rest), dim=-1)

    def forward(self, hidden_states):
        shape = (*hidden_states.shape[:-1], -1, self.head_dim)
        q = self.rope(self.q_norm(self.q_proj(hidden_states).view(shape)).transpose(1, 2))
        k = self.rope(self.k_norm(self.k_proj(hidden_states).view(shape)).transpose(1, 2))
        v = self.v_proj(hidden_states).view(shape).transpose(1, 2)
        n = self.num_heads // self.num_kv
        k, v = k.repeat_interleave(n, dim=1), v.repeat_interleave(n, dim=1)
        out = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.o_proj(out.transpose(1, 2).flatten(2)), None


def build() -> nn.Module:
    return Attention()


EXPECTED = {"kind": "correct", "severity": None, "looks_like": None}
CALL = {
    "attention": "causal",
    "layout": "BLD",
    "inputs": {"hidden_states": (2, 7, 64)},
    "mask": None,
    "causal": True,
    "position": "rope",
    "embed_dim": 64,
    "heads": 4,
    "kv_heads": 2,
    "head_dim": 16,
    "returns": "(out, None)",
}
