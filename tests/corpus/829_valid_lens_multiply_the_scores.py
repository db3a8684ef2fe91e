"""用有效长度做掩码时把分数乘以 0: 填充位置的 logit 是 0 而不是负无穷.

Kind: mask-multiplied
"""

import torch
import torch.nn.functional as F
from torch import nn


class MaskedDotProduct(nn.Module):
    def __init__(self, num_hiddens=24):
        super().__init__()
        self.W_q, self.W_k, self.W_v = (nn.Linear(num_hiddens, num_hiddens, bias=False) for _ in range(3))

    @staticmethod
    def sequence_mask(X, valid_len):
        mask = torch.arange(X.size(-1), device=X.device)[None, None] < valid_len[:, None, None]
        return X * mask

    def forward(self, queries, keys, values, valid_lens=None):
        q, k, v = self.W_q(queries), self.W_k(keys), self.W_v(values)
        scores = torch.bmm(q, k.transpose(1, 2)) / q.shape[-1] ** 0.5
        if valid_lens is not None:
            scores = self.sequence_mask(scores, valid_lens)
        return torch.bmm(F.softmax(scores, dim=-1), v)


def build() -> nn.Module:
    return MaskedDotProduct()


EXPECTED = {"kind": "mask-multiplied", "severity": "error"}
CALL = {
    "attention": "cross",
    "layout": "BLD",
    "inputs": {"queries": (2, 4, 24), "keys": (2, 6, 24), "values": (2, 6, 24)},
    "mask": {"arg": "valid_lens", "shape": (2,), "on": "keys", "polarity": "lengths", "dtype": "long"},
    "returns": "out",
}
