"""fightingcv-attention: EMSA asks for keys and values, and with ratio > 1 reads neither (ATT306)."""

import torch
from fightingcv_attention.attention.EMSA import EMSA

torch.manual_seed(0)
layer = EMSA(d_model=64, d_k=16, d_v=16, h=4, H=8, W=8, ratio=2).eval()
queries, keys, values, others = torch.randn(4, 2, 64, 64)
change = (layer(queries, keys, values) - layer(queries, others, others)).abs().max().item()
print(f"ratio=2: other keys and values change the output by {change:.3g}")
assert change == 0
