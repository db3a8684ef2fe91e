"""Torch modules over core; one mechanism per file, one line per module here."""

from regard.nn.alibi_bias import AlibiBias as AlibiBias
from regard.nn.attention_pool import AttentionPool as AttentionPool
from regard.nn.bam import BAM as BAM
from regard.nn.cbam import CBAM as CBAM
from regard.nn.channel_attention import ChannelAttention as ChannelAttention
from regard.nn.compact_cache import CompactKVCache as CompactKVCache
from regard.nn.coordinate_attention import CoordinateAttention as CoordinateAttention
from regard.nn.efficient_channel import EfficientChannelAttention as EfficientChannelAttention
from regard.nn.favor_attention import FavorAttention as FavorAttention
from regard.nn.feed_forward import FeedForward as FeedForward, GatedFeedForward as GatedFeedForward
from regard.nn.grid_attention import GridAttention as GridAttention
from regard.nn.kv_cache import KVCache as KVCache
from regard.nn.learned_position import Learned as Learned
from regard.nn.linear_attention import LinearAttention as LinearAttention
from regard.nn.linear_cache import LinearCache as LinearCache
from regard.nn.lsh_attention import LSHAttention as LSHAttention
from regard.nn.multi_head import MultiHeadAttention as MultiHeadAttention
from regard.nn.neighborhood import NeighborhoodAttention2D as NeighborhoodAttention2D
from regard.nn.patch_merging import PatchMerging as PatchMerging
from regard.nn.position_2d import Rotary2D as Rotary2D, Sinusoidal2D as Sinusoidal2D
from regard.nn.relative_bias import RelativeBias as RelativeBias
from regard.nn.shifted_window import ShiftedWindowAttention as ShiftedWindowAttention
from regard.nn.spatial_attention import SpatialAttention as SpatialAttention
from regard.nn.spatial_channel_se import SpatialChannelSE as SpatialChannelSE
from regard.nn.squeeze_excitation import SqueezeExcitation as SqueezeExcitation
from regard.nn.swin_block import SwinBlock as SwinBlock
from regard.nn.talking_heads import TalkingHeadsAttention as TalkingHeadsAttention
from regard.nn.transformer_block import TransformerBlock as TransformerBlock
from regard.nn.window_attention import WindowAttention as WindowAttention
from regard.nn.window_partition import window_merge as window_merge, window_partition as window_partition
