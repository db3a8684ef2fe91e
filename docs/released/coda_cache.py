"""coda-gqa-l: with a cache the newest token sees the oldest key only; a key mask turns causality off (ATT203, ATT104)."""

import torch
from coda_gqa_l.baseline import BaselineGQA, CoDAGQA

torch.manual_seed(0)
said = []
for kind in (BaselineGQA, CoDAGQA):
    layer = kind(embed_dim=32, num_heads=4, num_kv_heads=2).eval()
    x, later = torch.randn(1, 8, 32), torch.randn(1, 1, 32)
    every = torch.ones(1, 1, 1, 8, dtype=torch.bool)
    with torch.no_grad():
        full, _ = layer(x, is_causal=True)
        _, cache = layer(x[:, :7], is_causal=True)
        step, _ = layer(x[:, 7:], is_causal=True, past_key_value=cache)
        decoded = ((step[:, 0] - full[:, 7]).norm() / full[:, 7].norm()).item()
        changed = torch.cat([x[:, :7], later], 1)
        a, b = (layer(t, is_causal=True, attention_mask=every)[0][:, :7] for t in (x, changed))
        future = ((a - b).norm() / a.norm()).item()
    said.append(
        f"{kind.__name__}: token 8 decoded differs by {decoded:.2g}, with a mask tokens 1 to 7 see token 8 ({future:.2g})"
    )
    assert decoded > 0.05
    assert future > 0.01
print("; ".join(said))
