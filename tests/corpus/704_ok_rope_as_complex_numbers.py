"""Correct: Llama-like causal attention, rotary positions by complex multiplication, grouped heads interleaved.

Kind: correct
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn


@dataclass
class ModelArgs:
    dim: int = 32
    n_heads: int = 4
    n_kv_heads: int = 2
    max_seq_len: int = 64


def precompute_freqs_cis(dim, end, theta=10000.0):
    freqs = 1.0 / (theta ** (torch.arange(0, dim, 2).double() / dim))
    return torch.polar(torch.ones(end, dim // 2, dtype=torch.double), torch.outer(torch.arange(end).double(), freqs))


def apply_rotary_emb(x, freqs_cis):
    turned = torch.view_as_complex(x.double().reshape(*x.shape[:-1], -1, 2)) * freqs_cis[None, :, None, :]
    return torch.view_as_real(turned).flatten(3).type_as(x)


class RMSNorm(nn.Module):
    def __init__(self, dim, eps=1e-6):
        super().__init__()
        self.eps, self.weight = eps, nn.Parameter(torch.ones(dim))

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps) * self.weight


class TransformerBlock(nn.Module):
    def __init__(self, args):
        super().__init__()
        self.args, self.head_dim = args, args.dim // args.n_heads
        self.wq = nn.Linear(args.dim, args.n_heads * self.head_dim, bias=False)
        self.wk = nn.Linear(args.dim, args.n_kv_heads * self.head_dim, bias=False)
        self.wv = nn.Linear(args.dim, args.n_kv_heads * self.head_dim, bias=False)
        self.wo = nn.Linear(args.n_heads * self.head_dim, args.dim, bias=False)
        self.w1, self.w3 = nn.Linear(args.dim, 48, bias=False), nn.Linear(args.dim, 48, bias=False)
        self.w2 = nn.Linear(48, args.dim, bias=False)
        self.attention_norm, self.ffn_norm = RMSNorm(args.dim), RMSNorm(args.dim)
        self.freqs_cis = precompute_freqs_cis(self.head_dim, args.max_seq_len)

    def forward(self, x):
        B, T, _ = x.shape
        y = self.attention_norm(x)
        q = self.wq(y).view(B, T, self.args.n_heads, self.head_dim)
        k = self.wk(y).view(B, T, self.args.n_kv_heads, self.head_dim)
        v = self.wv(y).view(B, T, self.args.n_kv_heads, self.head_dim)
        q, k = apply_rotary_emb(q, self.freqs_cis[:T]), apply_rotary_emb(k, self.freqs_cis[:T])
        rep = self.args.n_heads // self.args.n_kv_heads
        k, v = (t[:, :, :, None].expand(-1, -1, -1, rep, -1).reshape(B, T, -1, self.head_dim) for t in (k, v))
        o = F.scaled_dot_product_attention(*(t.transpose(1, 2) for t in (q, k, v)), is_causal=True)
        x = x + self.wo(o.transpose(1, 2).reshape(B, T, -1))
        y = self.ffn_norm(x)
        return x + self.w2(F.silu(self.w1(y)) * self.w3(y))


def build() -> nn.Module:
    return TransformerBlock(ModelArgs())


EXPECTED = {"kind": "correct", "severity": None, "looks_like": "gqa-order"}
CALL = {
    "attention": "causal",
    "layout": "BLD",
    "inputs": {"x": (2, 6, 32)},
    "mask": None,
    "causal": True,
    "position": "rope",
    "embed_dim": 32,
    "heads": 4,
    "kv_heads": 2,
    "head_dim": 8,
    "returns": "out",
}
