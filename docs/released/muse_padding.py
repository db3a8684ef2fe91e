"""fightingcv-attention: the convolutions of MUSEAttention read tokens that the mask hides (ATT101)."""

import torch
from fightingcv_attention.attention.MUSEAttention import MUSEAttention

torch.manual_seed(0)
layer = MUSEAttention(d_model=32, d_k=8, d_v=8, h=4).eval()
x = torch.randn(1, 7, 32)
other = x.clone()
other[:, 5:] = torch.randn(1, 2, 32)
hidden = (torch.arange(7) >= 5).expand(1, 4, 7, 7)
with torch.no_grad():
    layer(x, x, x, hidden)  # the first calls settle dy_paras
    weights = layer.dy_paras.clone()
    a = layer(x, x, x, hidden)[:, :5]
    layer.dy_paras = torch.nn.Parameter(weights)
    b = layer(other, other, other, hidden)[:, :5]
change = ((a - b).abs().amax((0, 2)) / a.abs().max()).tolist()
print(
    f"tokens 5 and 6 are hidden and replaced; tokens 0 to 4 change by {', '.join(f'{c:.3g}' for c in change)} (relative)"
)
assert max(change) > 1e-3
