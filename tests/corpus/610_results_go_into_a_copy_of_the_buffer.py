"""The buffer takes its strides from the queries; flattened it is a copy where those were transposed, and results are lost.

Kind: non-contiguous
"""

import torch
from torch import nn


class HeadByHead(nn.Module):
    """One head at a time, to save memory. query (B, H, T, D), key and value (B, H, S, D); returns (B, H, T, D)."""

    def forward(self, query, key, value):
        result = torch.zeros_like(query)
        into, queries = result.reshape(-1, *query.shape[2:]), query.flatten(0, 1)
        for one, (k, v) in enumerate(zip(key.flatten(0, 1), value.flatten(0, 1))):
            scores = queries[one] @ k.mT / k.shape[-1] ** 0.5
            into[one] = scores.softmax(-1) @ v
        return result


def build() -> nn.Module:
    return HeadByHead()


EXPECTED = {"kind": "non-contiguous", "severity": "error"}
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
