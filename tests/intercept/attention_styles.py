"""Attention written by hand in many styles, over one projection module: what the interceptor has to understand."""

import math

import torch
from torch import nn
from torch.nn import functional as F

B, H, T, D = 2, 4, 7, 8
E = H * D
CAUSAL = torch.ones(T, T).tril().bool()


class Attention(nn.Module):
    """Projects to q, k, v of shape (B, H, T, D), applies `core`, projects back."""

    def __init__(self, core):
        super().__init__()
        self.q, self.k, self.v, self.o = (nn.Linear(E, E) for _ in range(4))
        self.core = core

    def forward(self, x):
        q, k, v = (layer(x).view(x.shape[0], -1, H, D).transpose(1, 2) for layer in (self.q, self.k, self.v))
        return self.o(self.core(q, k, v).transpose(1, 2).reshape(x.shape[0], -1, E))


def flat(t):
    return t.reshape(-1, t.shape[-2], t.shape[-1])


def matmul_masked_fill(q, k, v):
    return ((q @ k.transpose(-1, -2)) / math.sqrt(D)).masked_fill(~CAUSAL, float("-inf")).softmax(-1) @ v


def einsum(q, k, v):
    scores = torch.einsum("bhid,bhjd->bhij", q, k) * D**-0.5
    return torch.einsum("bhij,bhjd->bhid", scores.softmax(-1), v)


def einsum_heads_last(q, k, v):
    scores = torch.einsum("bhid,bhjd->bijh", q * D**-0.5, k)
    return torch.einsum("bijh,bhjd->bhid", scores.softmax(2), v)


def folded_bmm(q, k, v):
    weights = (torch.bmm(flat(q), flat(k).transpose(1, 2)) * D**-0.5).softmax(dim=-1)
    return torch.bmm(weights, flat(v)).view(q.shape)


def baddbmm_additive(q, k, v):
    start = torch.zeros(q.shape[0] * H, T, T)
    scores = torch.baddbmm(start, flat(q), flat(k).transpose(1, 2), beta=0, alpha=D**-0.5)
    scores = scores.view(-1, H, T, T) + torch.where(CAUSAL, 0.0, -1e9)
    return scores.softmax(-1) @ v


def softmax_with_dtype(q, k, v):
    scores = (q @ k.mT * D**-0.5).to(torch.bfloat16)
    return F.softmax(scores, dim=-1, dtype=torch.float32).type_as(v) @ v


def where_mask(q, k, v):
    scores = torch.where(CAUSAL, q @ k.mT / D**0.5, torch.tensor(torch.finfo(q.dtype).min))
    return scores.softmax(-1) @ v


def exp_over_sum(q, k, v):
    scores = (q * D**-0.5) @ k.mT
    e = (scores - scores.max(-1, keepdim=True).values).exp() * CAUSAL
    return (e / e.sum(-1, keepdim=True)) @ v


def exp_divided_afterwards(q, k, v):
    scores = (q * D**-0.5) @ k.mT
    e = (scores - scores.amax(-1, keepdim=True)).exp()
    return (e @ v) / e.sum(-1, keepdim=True)


def log_softmax_exp(q, k, v):
    return (q @ k.mT * D**-0.5).log_softmax(-1).exp() @ v


def in_place(q, k, v):
    scores = q @ k.mT
    scores *= D**-0.5
    scores.masked_fill_(~CAUSAL, -1e4)
    return scores.softmax(-1) @ v


def transposed_nonlocal(q, k, v):
    weights = torch.bmm(flat(q), flat(k).mT).mul(D**-0.5).softmax(-1)
    return torch.bmm(flat(v).mT, weights.mT).mT.reshape(q.shape)


def keys_first(q, k, v):
    """Scores laid out (keys, queries), normalised over dim -2: right, in an unusual order."""
    weights = (k @ q.mT * D**-0.5).softmax(-2)
    return weights.mT @ v


def dropout_after(q, k, v):
    return F.dropout((q @ k.mT * D**-0.5).softmax(-1), 0.25, training=True) @ v


def sdpa(q, k, v):
    return F.scaled_dot_product_attention(q, k, v)


def sdpa_causal(q, k, v):
    return F.scaled_dot_product_attention(q, k, v, is_causal=True)


def sdpa_bool_mask(q, k, v):
    return F.scaled_dot_product_attention(q, k, v, attn_mask=CAUSAL)


def sdpa_scale(q, k, v):
    return F.scaled_dot_product_attention(q, k, v, scale=0.5)


def grouped_einsum(q, k, v):
    """One key head for all query heads, through one einsum that folds heads into rows."""
    scores = torch.einsum("bhid,bjd->bhij", q, k[:, 0]) * D**-0.5
    return torch.einsum("bhij,bjd->bhid", scores.softmax(-1), v[:, 0])


def sink_column(q, k, v):
    scores = q @ k.mT * D**-0.5
    sink = torch.zeros(1, H, 1, 1).expand(q.shape[0], H, T, 1)
    return torch.cat([scores, sink], -1).softmax(-1)[..., :-1] @ v


def softcap(q, k, v):
    return (torch.tanh(q @ k.mT * D**-0.5 / 5.0) * 5.0).softmax(-1) @ v


# wrong on purpose


def over_queries(q, k, v):
    return (q @ k.mT * D**-0.5).softmax(2) @ v


def over_heads(q, k, v):
    return (q @ k.mT * D**-0.5).softmax(1) @ v


RIGHT = [
    matmul_masked_fill, einsum, einsum_heads_last, folded_bmm, baddbmm_additive, softmax_with_dtype, where_mask, exp_over_sum,
    exp_divided_afterwards, log_softmax_exp, in_place, transposed_nonlocal, keys_first, dropout_after, sdpa, sdpa_causal,
    sdpa_bool_mask, sdpa_scale, grouped_einsum, sink_column, softcap,
]  # fmt: skip
MASKED = {matmul_masked_fill, baddbmm_additive, where_mask, exp_over_sum, in_place, sdpa_causal, sdpa_bool_mask}
