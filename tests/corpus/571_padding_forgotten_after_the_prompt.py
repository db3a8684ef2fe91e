"""The padding mask is used while there is no cache; decoding attends to the padding of the prompt.

Kind: cache-mask
"""

import torch
from torch import nn


class CachedPadded(nn.Module):
    """attention_mask: long [B, all tokens so far], 1 = token; prompts are padded on the left."""

    def __init__(self, dim=32, heads=4):
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v, self.o = (nn.Linear(dim, dim) for _ in range(4))

    def forward(self, x, attention_mask=None, past_key_values=None):
        q, k, v = (f(x).unflatten(-1, (self.heads, -1)).transpose(1, 2) for f in (self.q, self.k, self.v))
        if past_key_values is not None:
            k, v = torch.cat((past_key_values[0], k), 2), torch.cat((past_key_values[1], v), 2)
        n, m = q.size(2), k.size(2)
        hide = torch.ones(n, m, dtype=torch.bool).triu(m - n + 1)[None, None]
        if attention_mask is not None and past_key_values is None:
            hide = hide | (attention_mask == 0)[:, None, None, :]
        s = (q @ k.mT / q.size(-1) ** 0.5).masked_fill(hide, torch.finfo(q.dtype).min)
        return self.o((s.softmax(-1) @ v).transpose(1, 2).flatten(2)), (k, v)


def build() -> nn.Module:
    return CachedPadded()


EXPECTED = {"kind": "cache-mask", "severity": "error"}
CALL = {
    "attention": "kv-cache",
    "layout": "BLD",
    "inputs": {"x": (2, 8, 32)},
    "causal": True,
    "mask": {"arg": "attention_mask", "shape": (2, 8), "on": "keys", "polarity": "keep", "dtype": "long"},
    "embed_dim": 32,
    "heads": 4,
    "head_dim": 8,
    "returns": "(out, cache)",
    "cache": {"style": "tuple", "arg": "past_key_values", "ret": 1},
}
