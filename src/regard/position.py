"""Positions: rotary, sinusoidal, learned. The public door to `regard.core.position` and the learned table of `regard.nn`."""

from regard.core.position import Rotary as Rotary, Sinusoidal as Sinusoidal, convert_pairing as convert_pairing
from regard.core.rotary_scaling import NTK as NTK, Linear as Linear, Llama3 as Llama3, YaRN as YaRN
from regard.nn.learned_position import Learned as Learned
