"""x-metaformer: one reshape splits query, key and value along the batch, so samples mix (ATT301)."""

import torch
from x_metaformer.layers.attention_layers import Attention

torch.manual_seed(0)
layer = Attention(channel_loc=1, dim=32, head_dim=8, num_heads=4).eval()
x = torch.randn(3, 32, 5, 6)
other = x.clone()
other[1:] = torch.randn(2, 32, 5, 6)  # sample 0 stays

difference = (layer(x) - layer(other))[0].abs().max().item()
print(f"sample 0 changes by {difference:.3g} when samples 1 and 2 are replaced")
assert difference > 1e-3
