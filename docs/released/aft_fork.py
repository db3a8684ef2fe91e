"""aft-pt: the same code as aft-pytorch: exponentials overflow, and AFTLocal renews its bias in every call (ATT604, ATT705)."""

import torch
from aft_pt.aft_pytorch import AFTFull, AFTLocal

torch.manual_seed(0)
x = torch.randn(2, 8, 16)
finite = []
for kind in (AFTFull, AFTLocal):
    layer = kind(max_seqlen=8, dim=16, hidden_dim=16).eval()
    with torch.no_grad():
        largest = layer.to_k(x).abs().max().item()
        finite.append(bool(torch.isfinite(layer(x * (120.0 / largest))).all()))
first = layer.wbias
layer(x)
print(
    f"finite with keys up to 120: AFTFull {finite[0]}, AFTLocal {finite[1]}; AFTLocal keeps its bias: {layer.wbias is first}"
)
assert finite == [False, False]
assert layer.wbias is not first
