"""local-attention: without a mask, the zero tokens that pad the last window are attended to (ATT104)."""

import torch
from local_attention import LocalMHA

torch.manual_seed(0)
layer = LocalMHA(dim=32, window_size=4, heads=4, dim_head=8).eval()
for length in (8, 6):
    x = torch.randn(1, length, 32)
    every = torch.ones(1, length, dtype=torch.bool)
    difference = (layer(x) - layer(x, mask=every)).abs().max().item()
    print(f"length {length}, window 4: no mask and a mask that hides nothing differ by {difference:.3g}")
    assert (difference > 1e-3) == (length == 6)
