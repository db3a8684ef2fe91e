"""vformer: SpatialAttention with sr_ratio=1 has a norm layer that nothing uses (ATT701)."""

import torch
from vformer.attention import SpatialAttention

torch.manual_seed(0)
layer = SpatialAttention(dim=64, num_heads=4)
layer(torch.randn(1, 64, 64), 8, 8).sum().backward()
unused = [name for name, parameter in layer.named_parameters() if parameter.grad is None]
print(f"without a gradient: {', '.join(unused)}")
assert unused
