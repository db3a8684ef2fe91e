"""Correct: soft cap first, sliding causal mask second, query scale from its own constant, grouped heads by repeat_kv.

Kind: correct
"""

import torch
from torch import nn


def repeat_kv(hidden_states, n_rep):
    b, h, t, d = hidden_states.shape
    return hidden_states[:, :, None].expand(b, h, n_rep, t, d).reshape(b, h * n_rep, t, d)


class Gemma2Attention(nn.Module):
    def __init__(
        self, hidden=32, heads=4, kv_heads=2, head_dim=8, query_pre_attn_scalar=16, softcap=3.0, sliding_window=4
    ):
        super().__init__()
        self.heads, self.kv_heads, self.head_dim = heads, kv_heads, head_dim
        self.scaling, self.softcap, self.sliding_window = query_pre_attn_scalar**-0.5, softcap, sliding_window
        self.q_proj = nn.Linear(hidden, heads * head_dim, bias=False)
        self.k_proj, self.v_proj = (nn.Linear(hidden, kv_heads * head_dim, bias=False) for _ in range(2))
        self.o_proj = nn.Linear(heads * head_dim, hidden, bias=False)

    def forward(self, hidden_states):
        """Each token sees itself and the sliding_window - 1 tokens before it."""
        B, T, _ = hidden_states.shape
        q = self.q_proj(hidden_states).view(B, T, self.heads, -1).transpose(1, 2)
        k = repeat_kv(
            self.k_proj(hidden_states).view(B, T, self.kv_heads, -1).transpose(1, 2), self.heads // self.kv_heads
        )
        v = repeat_kv(
            self.v_proj(hidden_states).view(B, T, self.kv_heads, -1).transpose(1, 2), self.heads // self.kv_heads
        )
        s = torch.matmul(q, k.transpose(2, 3)) * self.scaling
        s = torch.tanh(s / self.softcap) * self.softcap
        ones = torch.ones(T, T, dtype=torch.bool, device=s.device)
        s = s.masked_fill(~(ones.tril() & ones.triu(1 - self.sliding_window)), torch.finfo(s.dtype).min)
        return self.o_proj(torch.matmul(s.softmax(-1), v).transpose(1, 2).reshape(B, T, -1))


def build() -> nn.Module:
    return Gemma2Attention()


EXPECTED = {"kind": "correct", "severity": None, "looks_like": "softcap-after-mask"}
CALL = {
    "attention": "causal",
    "layout": "BLD",
    "inputs": {"hidden_states": (2, 9, 32)},
    "mask": None,
    "causal": True,
    "window": 4,
    "embed_dim": 32,
    "heads": 4,
    "kv_heads": 2,
    "head_dim": 8,
    "returns": "out",
    "declared_scale": 0.25,
}
