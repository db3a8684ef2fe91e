"""fightingcv-attention: GFNet has an embedding layer that nothing uses (ATT701)."""

import sys
import types

import torch

layers = types.ModuleType("timm.models.layers")  # three small functions of timm, so that timm need not be installed
layers.DropPath = torch.nn.Identity
layers.trunc_normal_ = torch.nn.init.trunc_normal_
layers.to_2tuple = lambda n: n if isinstance(n, tuple) else (n, n)
sys.modules["timm"], sys.modules["timm.models"] = types.ModuleType("timm"), types.ModuleType("timm.models")
sys.modules["timm.models.layers"] = layers
from fightingcv_attention.attention.gfnet import GFNet  # noqa: E402

torch.manual_seed(0)
model = GFNet(embed_dim=384, img_size=224, patch_size=16, num_classes=10)
model(torch.randn(1, 3, 224, 224)).sum().backward()
unused = [name for name, parameter in model.named_parameters() if parameter.grad is None]
print(f"without a gradient: {', '.join(unused)}")
assert unused
