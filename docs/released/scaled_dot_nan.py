"""fightingcv-attention: an item whose keys are all hidden makes the output NaN, and one loss over the batch with it (ATT601)."""

import torch
from fightingcv_attention.attention.SelfAttention import ScaledDotProductAttention
from fightingcv_attention.attention.SimplifiedSelfAttention import SimplifiedScaledDotProductAttention

torch.manual_seed(0)
x = torch.randn(2, 5, 32)
hidden = torch.zeros(2, 4, 5, 5, dtype=torch.bool)
hidden[0] = True
said = []
for layer in (ScaledDotProductAttention(32, 8, 8, 4).eval(), SimplifiedScaledDotProductAttention(32, 4).eval()):
    out = layer(x, x, x, hidden)
    out.square().mean().backward()
    bad = sum(not torch.isfinite(p.grad).all() for p in layer.parameters())
    said.append(
        f"{type(layer).__name__}: NaN in item 0: {bool(out[0].isnan().all())}, in item 1: {bool(out[1].isnan().any())}"
    )
    assert out[0].isnan().all()
    assert bad
print("; ".join(said))
