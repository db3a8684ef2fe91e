"""performer-pytorch: in float16 the normaliser vanishes and outputs are not finite (ATT603)."""

import torch
from performer_pytorch import FastAttention

torch.manual_seed(0)
layer = FastAttention(dim_heads=64)
q, k, v = torch.randn(3, 1, 2, 512, 64)
finite = torch.isfinite(layer(q, k, v)).float().mean().item()
half = torch.isfinite(layer.half()(q.half(), k.half(), v.half())).float().mean().item()
print(f"finite outputs: {finite:.0%} in float32, {half:.0%} in float16")
assert finite == 1.0
assert half < 1.0
