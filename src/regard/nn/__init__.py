"""Torch modules over core; one mechanism per file, one line per module here."""

from regard.nn.alibi_bias import AlibiBias as AlibiBias
from regard.nn.bam import BAM as BAM
from regard.nn.cbam import CBAM as CBAM
from regard.nn.channel_attention import ChannelAttention as ChannelAttention
from regard.nn.coordinate_attention import CoordinateAttention as CoordinateAttention
from regard.nn.efficient_channel import EfficientChannelAttention as EfficientChannelAttention
from regard.nn.feed_forward import FeedForward as FeedForward, GatedFeedForward as GatedFeedForward
from regard.nn.kv_cache import KVCache as KVCache
from regard.nn.learned_position import Learned as Learned
from regard.nn.multi_head import MultiHeadAttention as MultiHeadAttention
from regard.nn.relative_bias import RelativeBias as RelativeBias
from regard.nn.spatial_attention import SpatialAttention as SpatialAttention
from regard.nn.spatial_channel_se import SpatialChannelSE as SpatialChannelSE
from regard.nn.squeeze_excitation import SqueezeExcitation as SqueezeExcitation
from regard.nn.transformer_block import TransformerBlock as TransformerBlock
