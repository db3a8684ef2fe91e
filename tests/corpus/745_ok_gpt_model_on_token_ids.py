"""Correct: a whole small GPT on token ids, tied embeddings, pre-norm, learned positions, dropout.

Kind: correct
"""

import torch
import torch.nn as nn
from torch.nn import functional as F


class Config:
    vocab_size, block_size, n_layer, n_head, n_embd, dropout = 40, 16, 2, 2, 24, 0.1


class Block(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(c.n_embd), nn.LayerNorm(c.n_embd)
        self.c_attn, self.c_proj = nn.Linear(c.n_embd, 3 * c.n_embd), nn.Linear(c.n_embd, c.n_embd)
        self.mlp = nn.Sequential(nn.Linear(c.n_embd, 4 * c.n_embd), nn.GELU(), nn.Linear(4 * c.n_embd, c.n_embd))
        self.n_head, self.p, self.drop = c.n_head, c.dropout, nn.Dropout(c.dropout)

    def attend(self, x):
        B, T, C = x.size()
        q, k, v = (t.view(B, T, self.n_head, -1).transpose(1, 2) for t in self.c_attn(x).split(C, dim=2))
        p = self.p if self.training else 0.0
        y = F.scaled_dot_product_attention(q, k, v, dropout_p=p, is_causal=True)
        return self.drop(self.c_proj(y.transpose(1, 2).reshape(B, T, C)))

    def forward(self, x):
        x = x + self.attend(self.ln_1(x))
        return x + self.drop(self.mlp(self.ln_2(x)))


class GPT(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.wte = nn.Embedding(config.vocab_size, config.n_embd)
        self.wpe = nn.Embedding(config.block_size, config.n_embd)
        self.drop = nn.Dropout(config.dropout)
        self.h = nn.ModuleList([Block(config) for _ in range(config.n_layer)])
        self.ln_f = nn.LayerNorm(config.n_embd)
        self.lm_head = nn.Linear(config.n_embd, config.vocab_size, bias=False)
        self.lm_head.weight = self.wte.weight

    def forward(self, idx, targets=None):
        pos = torch.arange(idx.size(1), device=idx.device)
        x = self.drop(self.wte(idx) + self.wpe(pos))
        for block in self.h:
            x = block(x)
        logits = self.lm_head(self.ln_f(x))
        loss = None
        if targets is not None:
            loss = F.cross_entropy(logits.view(-1, logits.size(-1)), targets.view(-1), ignore_index=-1)
        return logits, loss


def build() -> nn.Module:
    return GPT(Config())


EXPECTED = {"kind": "correct", "severity": None, "looks_like": None}
CALL = {
    "attention": "causal",
    "layout": "BL",
    "inputs": {"idx": (2, 8)},
    "mask": None,
    "causal": True,
    "position": "learned",
    "embed_dim": 24,
    "heads": 2,
    "head_dim": 12,
    "returns": "(out, loss)",
    "dropout": 0.1,
}
