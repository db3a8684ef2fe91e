"""torch-multi-head-attention: the mask of a batch of several samples reaches other samples (ATT101, ATT103).

Heads are folded into the batch sample by sample, the mask is repeated head by head.
"""

import torch
from torch_multi_head_attention import MultiHeadAttention

torch.manual_seed(0)
layer = MultiHeadAttention(in_features=32, head_num=4).eval()
x = torch.randn(2, 5, 32)
keep = torch.ones(2, 5, 5)
keep[0, :, 3:] = 0  # sample 0 has 3 tokens, sample 1 has 5

alone = layer(x[:1], x[:1], x[:1], keep[:1])
together = layer(x, x, x, keep)[:1]
difference = (alone - together)[:, :3].abs().max().item()
print(f"sample 0 alone and in a batch of two differ by {difference:.3g}")
assert difference > 1e-3
