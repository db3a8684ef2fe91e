"""NaN is replaced after the softmax: the output is finite, the gradient is not."""

import torch
from torch import nn

RULES = {"ATT602"}


class Right(nn.Module):
    def __init__(self, dim=12):
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(dim, dim) for _ in range(3))

    def weights(self, scores, keep):
        safe = keep | ~keep.any(-1, keepdim=True)  # a row without a key is opened, and emptied after the softmax
        return scores.masked_fill(~safe, float("-inf")).softmax(-1) * keep.any(-1, keepdim=True)

    def forward(self, x, keep):
        """keep: (B, T) bool, True = attend."""
        scores = self.q(x) @ self.k(x).mT * x.shape[-1] ** -0.5
        return self.weights(scores, keep[:, None]) @ self.v(x)


class Wrong(Right):
    def weights(self, scores, keep):
        return torch.nan_to_num((scores + torch.where(keep, 0.0, float("-inf")).to(scores)).softmax(-1))


def right():
    return Right()


def wrong():
    return Wrong()
