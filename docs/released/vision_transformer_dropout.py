"""vision-transformer-pytorch: the dropout of the attention is made and never applied (ATT502)."""

import torch
from vision_transformer_pytorch.model import SelfAttention

torch.manual_seed(0)
layer = SelfAttention(64, heads=4, dropout_rate=0.9).train()
for parameter in layer.parameters():
    torch.nn.init.normal_(parameter, std=0.1)
x = torch.randn(2, 5, 64)
difference = (layer(x) - layer(x)).abs().max().item()
print(f"two training calls with dropout 0.9 differ by {difference:.3g}")
assert difference == 0.0
