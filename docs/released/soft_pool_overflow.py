"""channel-attention: LocalAttention pools with exponentials whose maximum is not taken off (ATT604)."""

import torch
from channel_attention import LocalAttention

torch.manual_seed(0)
layer = LocalAttention(n_dims=2, n_channels=16).eval()
x = torch.randn(2, 16, 32, 32)
with torch.no_grad():
    finite = {size: bool(torch.isfinite(layer(x * size)).all()) for size in (1, 300)}
print(f"finite outputs: {finite[1]} for normal inputs, {finite[300]} for inputs 300 times as large")
assert finite == {1: True, 300: False}
