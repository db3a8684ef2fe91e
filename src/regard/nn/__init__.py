"""Torch modules over core; one mechanism per file, one line per module here."""

from regard.nn.feed_forward import FeedForward as FeedForward, GatedFeedForward as GatedFeedForward
from regard.nn.kv_cache import KVCache as KVCache
from regard.nn.multi_head import MultiHeadAttention as MultiHeadAttention
from regard.nn.transformer_block import TransformerBlock as TransformerBlock
