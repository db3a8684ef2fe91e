"""In a decoding step only the mask of the new tokens is looked at, so left padding in the cache becomes visible.

Kind: cache-mask
"""

import torch
import torch.nn.functional as F
from torch import nn


class LlamaLikeAttention(nn.Module):
    """attention_mask: (batch, past + new), 1 = token, 0 = padding."""

    def __init__(self, hidden_size=32, num_heads=4):
        super().__init__()
        self.num_heads = num_heads
        self.q_proj, self.k_proj, self.v_proj, self.o_proj = (
            nn.Linear(hidden_size, hidden_size, bias=False) for _ in range(4)
        )

    def forward(self, hidden_states, attention_mask=None, past_key_value=None, use_cache=True):
        bsz, q_len, _ = hidden_states.size()
        q, k, v = (
            f(hidden_states).view(bsz, q_len, self.num_heads, -1).transpose(1, 2)
            for f in (self.q_proj, self.k_proj, self.v_proj)
        )
        if past_key_value is not None:
            k, v = torch.cat([past_key_value[0], k], 2), torch.cat([past_key_value[1], v], 2)
        kv_len = k.shape[2]
        keep = torch.ones(q_len, kv_len, dtype=torch.bool, device=q.device).tril(kv_len - q_len)[None, None]
        if attention_mask is not None:
            new = attention_mask[:, -q_len:].bool()
            new = F.pad(new, (kv_len - q_len, 0), value=True)
            keep = keep & new[:, None, None]
        w = (q @ k.mT * q.shape[-1] ** -0.5).masked_fill(~keep, torch.finfo(q.dtype).min).softmax(-1)
        out = self.o_proj((w @ v).transpose(1, 2).flatten(2))
        return out, (k, v) if use_cache else None


def build() -> nn.Module:
    return LlamaLikeAttention()


EXPECTED = {"kind": "cache-mask", "severity": "error"}
CALL = {
    "attention": "kv-cache",
    "layout": "BLD",
    "inputs": {"hidden_states": (2, 8, 32)},
    "mask": {"arg": "attention_mask", "shape": (2, 8), "on": "keys", "polarity": "keep", "dtype": "long"},
    "causal": True,
    "embed_dim": 32,
    "heads": 4,
    "head_dim": 8,
    "returns": "(out, cache)",
    "cache": {"style": "tuple", "arg": "past_key_value", "ret": 1},
}
