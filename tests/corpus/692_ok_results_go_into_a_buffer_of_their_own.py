"""The buffer is flat and contiguous from the start, whatever strides the queries have.

Kind: correct
"""

import torch
from torch import nn


class HeadByHead(nn.Module):
    """One head at a time, to save memory. query (B, H, T, D), key and value (B, H, S, D); returns (B, H, T, D)."""

    def forward(self, query, key, value):
        queries = query.flatten(0, 1)
        into = torch.zeros(queries.shape, dtype=query.dtype, device=query.device)
        for one, (k, v) in enumerate(zip(key.flatten(0, 1), value.flatten(0, 1))):
            scores = queries[one] @ k.mT / k.shape[-1] ** 0.5
            into[one] = scores.softmax(-1) @ v
        return into.unflatten(0, query.shape[:2])


def build() -> nn.Module:
    return HeadByHead()


EXPECTED = {"kind": "correct", "severity": None, "looks_like": "non-contiguous"}
CALL = {
    "attention": "cross",
    "layout": "BHLD",
    "inputs": {"query": (2, 4, 6, 8), "key": (2, 4, 9, 8), "value": (2, 4, 9, 8)},
    "query_arg": "query",
    "context_arg": "key",
    "mask": None,
    "heads": 4,
    "head_dim": 8,
    "returns": "out",
}
