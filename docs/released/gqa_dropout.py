"""grouped-query-attention-pytorch: MultiheadGQA keeps its dropout rate and never hands it on (ATT502)."""

import torch
from grouped_query_attention_pytorch.attention import MultiheadGQA

torch.manual_seed(0)
layer = MultiheadGQA(embed_dim=64, query_heads=4, kv_heads=2, dropout=0.9).train()
x = torch.randn(2, 5, 64)
difference = (layer(x, x, x)[0] - layer(x, x, x)[0]).abs().max().item()
print(f"two training calls with dropout 0.9 differ by {difference:.3g}")
assert difference == 0.0
