"""x-metaformer: SeqPool takes its softmax over the score axis, which has size one: every weight is 1 (ATT701)."""

import torch
from x_metaformer.layers.mixing_layers import SeqPool

torch.manual_seed(0)
layer = SeqPool(channel_loc=1, in_dim=32)
x = torch.randn(2, 32, 6, 6)
change = (layer(x) - x.sum((2, 3))).abs().max().item()
layer(x).square().sum().backward()
reached = [name for name, p in layer.named_parameters() if p.grad is not None and p.grad.abs().max() > 1e-6]
print(f"the pool differs from a plain sum by {change:.2g}; parameters with a gradient: {len(reached)} of 2")
assert change < 1e-4
assert not reached
