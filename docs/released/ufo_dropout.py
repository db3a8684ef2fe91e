"""fightingcv-attention: the dropout of UFOAttention is made and never applied (ATT502)."""

import torch
from fightingcv_attention.attention.UFOAttention import UFOAttention

torch.manual_seed(0)
layer = UFOAttention(d_model=32, d_k=8, d_v=8, h=4, dropout=0.9).train()
x = torch.randn(2, 5, 32)
difference = (layer(x, x, x) - layer(x, x, x)).abs().max().item()
print(f"two training calls with dropout 0.9 differ by {difference:.3g}")
assert difference == 0.0
