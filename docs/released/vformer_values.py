"""vformer: MemoryEfficientAttention slices its values out of the keys: the value rows of its projection are never read (ATT707)."""

import torch
from vformer.attention.memory_efficient import MemoryEfficientAttention

torch.manual_seed(0)
layer = MemoryEfficientAttention(dim=32, num_heads=2, head_dim=8).eval()
x = torch.randn(2, 5, 32)
before = layer(x)
with torch.no_grad():
    layer.to_qkv.weight[32:] = 0.0  # rows 32 to 47 make the values
change = (layer(x) - before).abs().max().item()
print(f"with all value weights set to zero the output changes by {change:.2g} (it is at most {before.abs().max():.2g})")
assert change == 0.0
