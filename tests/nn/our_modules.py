"""Our sequence modules, small and ready to run: name -> factory without arguments. Whoever examines modules starts here."""

from __future__ import annotations

from collections.abc import Callable

from torch import nn

from regard.mask import causal, global_tokens, prefix, sliding_window
from regard.nn import (
    AlibiBias,
    FavorAttention,
    GatedFeedForward,
    LinearAttention,
    LSHAttention,
    MultiHeadAttention,
    RelativeBias,
    TalkingHeadsAttention,
    TransformerBlock,
)
from regard.position import Rotary

E = 32  # width of the tokens; every module takes (batch, length, E)


def block(mixer: nn.Module, **options) -> TransformerBlock:
    return TransformerBlock(E, mixer, **options)


OUR_MODULES: dict[str, Callable[[], nn.Module]] = {
    "attention": lambda: MultiHeadAttention(E, 4),
    "attention causal": lambda: MultiHeadAttention(E, 4, mask=causal()),
    "attention windowed": lambda: MultiHeadAttention(E, 4, mask=causal() & sliding_window(left=2)),
    "attention around": lambda: MultiHeadAttention(E, 4, mask=sliding_window(2, 2) | global_tokens([0])),
    "attention prefix": lambda: MultiHeadAttention(E, 4, mask=causal() | prefix(2)),
    "attention grouped": lambda: MultiHeadAttention(E, 4, num_kv_heads=2, head_dim=6, mask=causal()),
    "attention multi-query": lambda: MultiHeadAttention(E, 4, num_kv_heads=1, head_dim=(8, 6), mask=causal()),
    "attention rotary": lambda: MultiHeadAttention(E, 4, position=Rotary(8, pairing="half"), mask=causal()),
    "attention alibi": lambda: MultiHeadAttention(E, 4, attention_bias=AlibiBias(4), mask=causal()),
    "attention relative": lambda: MultiHeadAttention(E, 4, attention_bias=RelativeBias(4)),
    "attention normed": lambda: MultiHeadAttention(E, 4, qk_norm=nn.RMSNorm, softcap=20.0, bias=False, mask=causal()),
    "attention with dropout": lambda: MultiHeadAttention(E, 4, dropout=0.1),
    "talking heads": lambda: TalkingHeadsAttention(E, 4),
    "talking heads causal": lambda: TalkingHeadsAttention(E, 4, num_kv_heads=2, mask=causal()),
    "linear": lambda: LinearAttention(E, 4),
    "linear relu": lambda: LinearAttention(E, 4, feature_map="relu", num_kv_heads=2, head_dim=(8, 6)),
    "linear causal": lambda: LinearAttention(E, 4, num_kv_heads=2, causal=True, chunk=4),
    "favor": lambda: FavorAttention(E, 4),
    "favor causal": lambda: FavorAttention(E, 4, num_kv_heads=1, num_features=20, causal=True),
    "hashed": lambda: LSHAttention(E, 4, num_hashes=2, num_buckets=4, bucket_size=4),
    "hashed exact": lambda: LSHAttention(E, 4),
    "hashed causal": lambda: LSHAttention(E, 4, num_hashes=2, num_buckets=4, bucket_size=4, causal=True),
    "block": lambda: block(MultiHeadAttention(E, 4)),
    "block causal": lambda: block(MultiHeadAttention(E, 4, mask=causal()), dropout=0.1),
    "block post-norm": lambda: block(MultiHeadAttention(E, 4), norm_first=False),
    "block gated": lambda: block(
        MultiHeadAttention(E, 4, num_kv_heads=2, position=Rotary(8, pairing="half"), mask=causal(), bias=False),
        feed_forward=GatedFeedForward(E),
        norm=nn.RMSNorm,
    ),
}

CROSS_MODULES: dict[str, Callable[[], nn.Module]] = {  # called with (x, context), both (batch, length, E)
    "cross-attention": lambda: MultiHeadAttention(E, 4),
    "cross-attention linear": lambda: LinearAttention(E, 4),
    "cross-attention favor": lambda: FavorAttention(E, 4, num_kv_heads=2),
    "cross-attention grouped": lambda: MultiHeadAttention(E, 4, num_kv_heads=2, head_dim=(6, 10)),
    "block with cross-attention": lambda: block(
        MultiHeadAttention(E, 4, mask=causal()), cross=MultiHeadAttention(E, 4)
    ),
}
