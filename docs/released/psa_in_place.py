"""fightingcv-attention: PSA writes into its argument, and most of its layers are not registered (ATT704, ATT705)."""

import torch
from fightingcv_attention.attention.PSA import PSA

torch.manual_seed(0)
layer = PSA(channel=64, reduction=4).eval()
x = torch.randn(2, 64, 8, 8)
before = x.clone()
with torch.no_grad():
    layer(x)
changed = (x != before).sum().item()
listed = sum(p.numel() for p in layer.parameters())
held = sum(p.numel() for part in [*layer.convs, *layer.se_blocks] for p in part.parameters())
print(
    f"{changed} of {x.numel()} entries of the argument changed; parameters() lists {listed} numbers, its layers hold {held}"
)
assert changed
assert listed < held
