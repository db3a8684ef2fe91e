"""vformer: SpatialAttention multiplies scores by sqrt(head_dim) where the paper divides (ATT401)."""

import torch
from vformer.attention import SpatialAttention

torch.manual_seed(0)
layer = SpatialAttention(dim=64, num_heads=4).eval()
assert layer.scale == 16**0.5  # head_dim is 16
x = torch.randn(1, 64, 64)
weights = []
layer.attn.register_forward_hook(lambda module, inputs, output: weights.append((inputs[0], output)))
layer(x, 8, 8)
scores, _ = weights[0]
q, k = layer.q(x).view(1, 64, 4, 16).transpose(1, 2), layer.kv(x)[..., :64].view(1, 64, 4, 16).transpose(1, 2)
factor = (scores / (q @ k.mT)).median().item()
print(f"scores are {factor:.3g} times query . key; 1 / sqrt(head_dim) is {16**-0.5:.3g}")
assert abs(factor - 4.0) < 1e-3
