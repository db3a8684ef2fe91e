"""performer-pytorch: padded tokens still count in the normaliser, since the mask sets values to zero and leaves keys (ATT101)."""

import torch
from performer_pytorch import SelfAttention

torch.manual_seed(0)
layer = SelfAttention(dim=32, heads=4, dim_head=8).eval()
x = torch.randn(1, 6, 32)
keep = torch.tensor([[True, True, True, True, False, False]])
other = x.clone()
other[:, 4:] += 3.0  # only what the mask hides

difference = (layer(x, mask=keep) - layer(other, mask=keep))[:, :4].abs().max().item()
trimmed = (layer(x, mask=keep)[:, :4] - layer(x[:, :4])).abs().max().item()
print(
    f"other content behind the mask changes real outputs by {difference:.3g}; padded and trimmed differ by {trimmed:.3g}"
)
assert difference > 1e-3
assert trimmed > 1e-3
