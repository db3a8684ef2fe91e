"""fightingcv-attention: the softmax of DoubleAttention runs over the batch (ATT301, ATT402)."""

import warnings

import torch
from fightingcv_attention.attention.A2Atttention import DoubleAttention

warnings.simplefilter("ignore")
torch.manual_seed(0)
layer = DoubleAttention(32, 16, 8, True).eval()
for parameter in layer.parameters():
    torch.nn.init.normal_(parameter, std=0.3)
x = torch.randn(3, 32, 5, 6)
difference = (layer(x)[:1] - layer(x[:1])).abs().max().item()
print(f"sample 0 alone and in a batch of three differ by {difference:.3g}")
assert difference > 1e-3
