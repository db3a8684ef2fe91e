"""aft-pytorch: AFTLocal makes its position bias anew in every call, and the optimizer keeps the old one (ATT705)."""

import torch
from aft_pytorch import AFTLocal

torch.manual_seed(0)
layer = AFTLocal(max_seqlen=8, dim=16, hidden_dim=16, s=3)
optimizer = torch.optim.SGD(layer.parameters(), lr=1.0)
first = layer.wbias
layer(torch.randn(2, 8, 16)).square().sum().backward()
optimizer.step()
held = any(p is layer.wbias for group in optimizer.param_groups for p in group["params"])
print(f"after one step the optimizer holds the bias in use: {held}; gradient of the one it holds: {first.grad}")
assert not held
assert first.grad is None
