"""aft-pytorch: exponentials of the keys without their maximum taken off overflow (ATT604)."""

import torch
from aft_pytorch import AFTFull, AFTLocal

torch.manual_seed(0)
said = []
for kind in (AFTFull, AFTLocal):
    layer = kind(max_seqlen=8, dim=16, hidden_dim=16).eval()
    x = torch.randn(2, 8, 16)
    with torch.no_grad():
        largest = layer.to_k(x).abs().max().item()
        finite = [torch.isfinite(layer(x * (size / largest))).all().item() for size in (1.0, 120.0)]
    said.append(f"{kind.__name__}: finite with keys up to 1: {finite[0]}, up to 120: {finite[1]}")
    assert finite == [True, False]
print("; ".join(said))
