"""The attention that tutorials teach, in twelve small classes: five are right, seven have one classic fault each.

Try to find the faults by reading. Then let the checker look, which reads nothing and only calls:

    regard check examples/tutorial_attention.py

Right: FusedSelfAttention, PerHeadSelfAttention (made of OneHead), MultiHeadAttention, CrossAttention,
CachedCausalAttention.
Wrong, with the answer at the end of this file: HeadListAttention, ReshapedHeadsAttention, EncoderAttention,
TranslationAttention, SentenceAttention, StreamingAttention, ClassifierAttention.

Axes: B samples, T queries, S keys, E model width, H heads, D width of one head (E / H).
"""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F


def split_heads(x: Tensor, num_heads: int) -> Tensor:
    """(B, T, E) -> (B, H, T, D)."""
    B, T, E = x.shape
    return x.view(B, T, num_heads, E // num_heads).transpose(1, 2)


def merge_heads(x: Tensor) -> Tensor:
    """(B, H, T, D) -> (B, T, E)."""
    B, H, T, D = x.shape
    return x.transpose(1, 2).reshape(B, T, H * D)


class FusedSelfAttention(nn.Module):
    """Self-attention with one projection for query, key and value, on torch's fused kernel."""

    def __init__(self, embed_dim: int = 32, num_heads: int = 4, dropout: float = 0.1):
        super().__init__()
        self.num_heads, self.dropout = num_heads, dropout
        self.qkv = nn.Linear(embed_dim, 3 * embed_dim)
        self.out = nn.Linear(embed_dim, embed_dim)

    def forward(self, x: Tensor) -> Tensor:
        """x: (B, T, E). Returns (B, T, E)."""
        query, key, value = (split_heads(part, self.num_heads) for part in self.qkv(x).chunk(3, dim=-1))
        dropout = self.dropout if self.training else 0.0
        return self.out(merge_heads(F.scaled_dot_product_attention(query, key, value, dropout_p=dropout)))


class OneHead(nn.Module):
    """A single head with its own three projections."""

    def __init__(self, embed_dim: int = 32, head_dim: int = 8, dropout: float = 0.1):
        super().__init__()
        self.query = nn.Linear(embed_dim, head_dim, bias=False)
        self.key = nn.Linear(embed_dim, head_dim, bias=False)
        self.value = nn.Linear(embed_dim, head_dim, bias=False)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        """x: (B, T, E). Returns (B, T, D)."""
        query, key, value = self.query(x), self.key(x), self.value(x)
        scores = query @ key.transpose(-2, -1) / math.sqrt(query.size(-1))  # (B, T, S)
        return self.dropout(scores.softmax(dim=-1)) @ value


class PerHeadSelfAttention(nn.Module):
    """Self-attention as a list of heads, each with projections of its own."""

    def __init__(self, embed_dim: int = 32, num_heads: int = 4, dropout: float = 0.1):
        super().__init__()
        self.heads = nn.ModuleList(OneHead(embed_dim, embed_dim // num_heads, dropout) for _ in range(num_heads))
        self.out = nn.Linear(embed_dim, embed_dim)

    def forward(self, x: Tensor) -> Tensor:
        """x: (B, T, E). Returns (B, T, E)."""
        return self.out(torch.cat([head(x) for head in self.heads], dim=-1))


class MultiHeadAttention(nn.Module):
    """Multi-head attention with a mask over the keys."""

    def __init__(self, embed_dim: int = 32, num_heads: int = 4, dropout: float = 0.1):
        super().__init__()
        self.num_heads = num_heads
        self.w_query = nn.Linear(embed_dim, embed_dim)
        self.w_key = nn.Linear(embed_dim, embed_dim)
        self.w_value = nn.Linear(embed_dim, embed_dim)
        self.w_out = nn.Linear(embed_dim, embed_dim)
        self.dropout = nn.Dropout(dropout)

    def forward(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Tensor:
        """query: (B, T, E); key, value: (B, S, E); mask: (B, S) bool, True = a key that takes part. Returns (B, T, E)."""
        query = split_heads(self.w_query(query), self.num_heads)
        key = split_heads(self.w_key(key), self.num_heads)
        value = split_heads(self.w_value(value), self.num_heads)
        scores = query @ key.transpose(-2, -1) / math.sqrt(query.size(-1))  # (B, H, T, S)
        if mask is not None:
            hidden = ~mask[:, None, None, :]
            scores = scores.masked_fill(hidden, torch.finfo(scores.dtype).min)
            weights = scores.softmax(dim=-1).masked_fill(hidden, 0.0)  # a sample without any key gets zeros
        else:
            weights = scores.softmax(dim=-1)
        return self.w_out(merge_heads(self.dropout(weights) @ value))


class CrossAttention(nn.Module):
    """Queries of one sequence look at another sequence, which may have another width."""

    def __init__(self, embed_dim: int = 32, context_dim: int = 48, num_heads: int = 4, dropout: float = 0.1):
        super().__init__()
        self.num_heads, self.dropout = num_heads, dropout
        self.to_query = nn.Linear(embed_dim, embed_dim, bias=False)
        self.to_key = nn.Linear(context_dim, embed_dim, bias=False)
        self.to_value = nn.Linear(context_dim, embed_dim, bias=False)
        self.to_out = nn.Linear(embed_dim, embed_dim)

    def forward(self, x: Tensor, context: Tensor, context_mask: Tensor | None = None) -> Tensor:
        """x: (B, T, E); context: (B, S, context_dim); context_mask: (B, S) bool, True = attend. Returns (B, T, E)."""
        query = split_heads(self.to_query(x), self.num_heads)
        key = split_heads(self.to_key(context), self.num_heads)
        value = split_heads(self.to_value(context), self.num_heads)
        attend = None if context_mask is None else context_mask[:, None, None, :]
        dropout = self.dropout if self.training else 0.0
        return self.to_out(merge_heads(F.scaled_dot_product_attention(query, key, value, attend, dropout)))


class CachedCausalAttention(nn.Module):
    """Causal self-attention that can go on from the keys and values of earlier calls."""

    def __init__(self, embed_dim: int = 32, num_heads: int = 4, dropout: float = 0.1):
        super().__init__()
        self.num_heads = num_heads
        self.qkv = nn.Linear(embed_dim, 3 * embed_dim)
        self.out = nn.Linear(embed_dim, embed_dim)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor, past: tuple[Tensor, Tensor] | None = None) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """x: (B, T, E), the new tokens; past: what the last call returned. Returns (B, T, E) and (keys, values)."""
        query, key, value = (split_heads(part, self.num_heads) for part in self.qkv(x).chunk(3, dim=-1))
        if past is not None:
            key, value = torch.cat([past[0], key], dim=2), torch.cat([past[1], value], dim=2)
        T, S = query.size(2), key.size(2)
        future = torch.ones(T, S, dtype=torch.bool, device=x.device).triu(diagonal=S - T + 1)
        scores = query @ key.transpose(-2, -1) / math.sqrt(query.size(-1))  # (B, H, T, S)
        weights = self.dropout(scores.masked_fill(future, float("-inf")).softmax(dim=-1))
        return self.out(merge_heads(weights @ value)), (key, value)


class HeadListAttention(nn.Module):
    """Self-attention as lists of projections, one entry for each head."""

    def __init__(self, embed_dim: int = 32, num_heads: int = 4, dropout: float = 0.1):
        super().__init__()
        head_dim = embed_dim // num_heads
        self.scale = embed_dim**-0.5
        self.queries = nn.ModuleList(nn.Linear(embed_dim, head_dim, bias=False) for _ in range(num_heads))
        self.keys = nn.ModuleList(nn.Linear(embed_dim, head_dim, bias=False) for _ in range(num_heads))
        self.values = nn.ModuleList(nn.Linear(embed_dim, head_dim, bias=False) for _ in range(num_heads))
        self.out = nn.Linear(embed_dim, embed_dim)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        """x: (B, T, E). Returns (B, T, E)."""
        heads = []
        for query, key, value in zip(self.queries, self.keys, self.values, strict=True):
            scores = query(x) @ key(x).transpose(-2, -1) * self.scale  # (B, T, S)
            heads.append(self.dropout(scores.softmax(dim=-1)) @ value(x))
        return self.out(torch.cat(heads, dim=-1))


class ReshapedHeadsAttention(nn.Module):
    """Self-attention with one projection for query, key and value."""

    def __init__(self, embed_dim: int = 32, num_heads: int = 4, dropout: float = 0.1):
        super().__init__()
        self.num_heads, self.head_dim = num_heads, embed_dim // num_heads
        self.qkv = nn.Linear(embed_dim, 3 * embed_dim)
        self.out = nn.Linear(embed_dim, embed_dim)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        """x: (B, T, E). Returns (B, T, E)."""
        B, T, E = x.shape
        query, key, value = self.qkv(x).chunk(3, dim=-1)
        query = query.reshape(B, self.num_heads, T, self.head_dim)
        key = key.reshape(B, self.num_heads, T, self.head_dim)
        value = value.reshape(B, self.num_heads, T, self.head_dim)
        scores = query @ key.transpose(-2, -1) / math.sqrt(self.head_dim)  # (B, H, T, S)
        return self.out((self.dropout(scores.softmax(dim=-1)) @ value).reshape(B, T, E))


class EncoderAttention(nn.Module):
    """Self-attention of an encoder; key_padding_mask as in torch.nn.MultiheadAttention."""

    def __init__(self, embed_dim: int = 32, num_heads: int = 4, dropout: float = 0.1):
        super().__init__()
        self.num_heads, self.dropout = num_heads, dropout
        self.qkv = nn.Linear(embed_dim, 3 * embed_dim)
        self.out = nn.Linear(embed_dim, embed_dim)

    def forward(self, x: Tensor, key_padding_mask: Tensor | None = None) -> Tensor:
        """x: (B, T, E); key_padding_mask: (B, T) bool, True = padding, to be ignored. Returns (B, T, E)."""
        query, key, value = (split_heads(part, self.num_heads) for part in self.qkv(x).chunk(3, dim=-1))
        mask = None if key_padding_mask is None else key_padding_mask[:, None, None, :]
        dropout = self.dropout if self.training else 0.0
        return self.out(merge_heads(F.scaled_dot_product_attention(query, key, value, mask, dropout)))


class TranslationAttention(nn.Module):
    """The decoder's look at the encoder's output."""

    def __init__(self, embed_dim: int = 32, num_heads: int = 4, dropout: float = 0.1):
        super().__init__()
        self.num_heads = num_heads
        self.to_query = nn.Linear(embed_dim, embed_dim)
        self.to_key_value = nn.Linear(embed_dim, 2 * embed_dim)
        self.out = nn.Linear(embed_dim, embed_dim)
        self.dropout = nn.Dropout(dropout)
        self.register_buffer("hidden_score", torch.tensor(-1e20), persistent=False)

    def forward(self, x: Tensor, context: Tensor, context_mask: Tensor | None = None) -> Tensor:
        """x: (B, T, E); context: (B, S, E); context_mask: (B, S) bool, True = a real token. Returns (B, T, E)."""
        query = split_heads(self.to_query(x), self.num_heads)
        key, value = (split_heads(part, self.num_heads) for part in self.to_key_value(context).chunk(2, dim=-1))
        scores = query @ key.transpose(-2, -1) / math.sqrt(query.size(-1))  # (B, H, T, S)
        if context_mask is not None:
            hidden = 1 - context_mask[:, None, None, :].to(scores.dtype)
            scores = scores + hidden * self.hidden_score
        return self.out(merge_heads(self.dropout(scores.softmax(dim=-1)) @ value))


class SentenceAttention(nn.Module):
    """Self-attention over a batch of padded sentences."""

    def __init__(self, embed_dim: int = 32, num_heads: int = 4, dropout: float = 0.1):
        super().__init__()
        self.num_heads = num_heads
        self.qkv = nn.Linear(embed_dim, 3 * embed_dim)
        self.out = nn.Linear(embed_dim, embed_dim)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """x: (B, T, E); mask: (B, T) bool, True = a real token. Returns (B, T, E)."""
        query, key, value = (split_heads(part, self.num_heads) for part in self.qkv(x).chunk(3, dim=-1))
        scores = query @ key.transpose(-2, -1) / math.sqrt(query.size(-1))  # (B, H, T, S)
        if mask is not None:
            scores = scores.masked_fill(~mask[:, None, None, :], float("-inf"))
        return self.out(merge_heads(self.dropout(scores.softmax(dim=-1)) @ value))


class StreamingAttention(nn.Module):
    """Causal self-attention that keeps its keys and values; call reset() before the next sequence."""

    def __init__(self, embed_dim: int = 32, num_heads: int = 4, dropout: float = 0.1):
        super().__init__()
        self.num_heads = num_heads
        self.qkv = nn.Linear(embed_dim, 3 * embed_dim)
        self.out = nn.Linear(embed_dim, embed_dim)
        self.dropout = nn.Dropout(dropout)
        self.position, self.keys, self.values = 0, None, None

    def reset(self) -> None:
        """Start a new sequence."""
        self.position = 0

    def forward(self, x: Tensor) -> Tensor:
        """x: (B, T, E), the new tokens. Returns (B, T, E)."""
        query, key, value = (split_heads(part, self.num_heads) for part in self.qkv(x).chunk(3, dim=-1))
        if self.keys is not None:
            key, value = torch.cat([self.keys, key], dim=2), torch.cat([self.values, value], dim=2)
        self.keys, self.values, self.position = key.detach(), value.detach(), self.position + x.size(1)
        T, S = query.size(2), key.size(2)
        visible = torch.ones(T, S, dtype=torch.bool, device=x.device).tril(diagonal=S - T)
        scores = query @ key.transpose(-2, -1) / math.sqrt(query.size(-1))  # (B, H, T, S)
        weights = self.dropout(scores.masked_fill(~visible, float("-inf")).softmax(dim=-1))
        return self.out(merge_heads(weights @ value))


class ClassifierAttention(nn.Module):
    """Self-attention before a classifier, with dropout on the weights."""

    def __init__(self, embed_dim: int = 32, num_heads: int = 4, dropout: float = 0.1):
        super().__init__()
        self.num_heads, self.dropout = num_heads, dropout
        self.to_query = nn.Linear(embed_dim, embed_dim)
        self.to_key = nn.Linear(embed_dim, embed_dim)
        self.to_value = nn.Linear(embed_dim, embed_dim)
        self.out = nn.Linear(embed_dim, embed_dim)

    def forward(self, x: Tensor) -> Tensor:
        """x: (B, T, E). Returns (B, T, E)."""
        query = split_heads(self.to_query(x), self.num_heads)
        key = split_heads(self.to_key(x), self.num_heads)
        value = split_heads(self.to_value(x), self.num_heads)
        scores = query @ key.transpose(-2, -1) / math.sqrt(query.size(-1))  # (B, H, T, S)
        weights = F.dropout(scores.softmax(dim=-1), self.dropout)
        return self.out(merge_heads(weights @ value))


# The answers.
#
# HeadListAttention       divides the scores by the root of the model's width; the width of a head is what is summed over.
# ReshapedHeadsAttention  splits with a bare reshape: a "head" is a block of neighbouring tokens, not a slice of the features.
# EncoderAttention        hands torch's key_padding_mask (True = ignore) to the fused kernel, where True means attend.
# TranslationAttention    keeps -1e20 in a buffer: after .half() it is -inf, and 0 * -inf makes every visible score NaN.
# SentenceAttention       hides with -inf: a sentence without any real token gets softmax(-inf, ..., -inf) = NaN.
# StreamingAttention      resets the position and not the keys: the next sequence attends to the last one.
# ClassifierAttention     F.dropout has training=True by default, so the answers of the finished model are random.
