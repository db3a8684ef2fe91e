"""fightingcv-attention: HaloAttention hides the real pixels and attends to the zeros around the map (ATT106, ATT307, ATT701)."""

import torch
from fightingcv_attention.attention.HaloAttention import HaloAttention

torch.manual_seed(0)
layer = HaloAttention(dim=16, block_size=4, halo_size=2, dim_head=8, heads=2).eval()
x, y = torch.randn(2, 1, 16, 8, 8)
layer(x).sum().backward()
change = (layer(x) - layer(y)).abs().max().item()
without = [name for name, p in layer.named_parameters() if p.grad is None or not p.grad.any()]
print(f"two maps of 8 x 8 with nothing in common: outputs differ by {change:.3g}; no gradient for {', '.join(without)}")
assert change == 0
assert "to_kv.weight" in without
