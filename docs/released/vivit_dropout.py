"""vit-pytorch: the attention of ViViT drops weights in eval (ATT501)."""

import sys
import types

import torch

vision = types.ModuleType("torchvision")  # another file of the package imports it; this one does not need it
vision.transforms = types.ModuleType("torchvision.transforms")
sys.modules.setdefault("torchvision", vision)
from vit_pytorch import vivit, vivit_with_moss  # noqa: E402

x = torch.randn(2, 6, 32, generator=torch.Generator().manual_seed(0))
for module in (vivit, vivit_with_moss):
    layer = module.Attention(32, heads=4, dim_head=8, dropout=0.1).eval()
    difference = (layer(x) - layer(x)).abs().max().item()
    print(f"{module.__name__}: two eval calls differ by {difference:.3g}")
    assert difference > 1e-3
