"""fightingcv-attention: MUSEAttention makes its mixing weights anew in every call, and the optimizer keeps the old ones (ATT705)."""

import torch
from fightingcv_attention.attention.MUSEAttention import MUSEAttention

torch.manual_seed(0)
layer = MUSEAttention(d_model=32, d_k=8, d_v=8, h=4)
optimizer = torch.optim.SGD(layer.parameters(), lr=1.0)
first = layer.dy_paras
x = torch.randn(2, 7, 32)
layer(x, x, x).square().sum().backward()
optimizer.step()
held = any(p is layer.dy_paras for group in optimizer.param_groups for p in group["params"])
print(f"after one step the optimizer holds the parameter in use: {held}; gradient of the one it holds: {first.grad}")
assert not held
assert first.grad is None
