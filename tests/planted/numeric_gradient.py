"""A softmax with a backward of its own that leaves out the sum over the row."""

import torch
from torch import nn

RULES = set()
ASKED = {"ATT706"}


class Softmax(torch.autograd.Function):
    @staticmethod
    def forward(ctx, scores):
        y = scores.softmax(-1)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, grad):
        (y,) = ctx.saved_tensors
        return y * (grad - (grad * y).sum(-1, keepdim=True))


class HalfSoftmax(Softmax):
    @staticmethod
    def backward(ctx, grad):
        (y,) = ctx.saved_tensors
        return y * grad


class Right(nn.Module):
    softmax = Softmax

    def __init__(self, dim=12):
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(dim, dim) for _ in range(3))

    def forward(self, x):
        return self.softmax.apply(self.q(x) @ self.k(x).mT * x.shape[-1] ** -0.5) @ self.v(x)


class Wrong(Right):
    softmax = HalfSoftmax


def right():
    return Right()


def wrong():
    return Wrong()
