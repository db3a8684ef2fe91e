"""fightingcv-attention: GFNet has an embedding layer that nothing uses (ATT701)."""

import sys
import types

import torch

vision = types.ModuleType("torchvision.ops.misc")  # timm imports it; nothing here needs it
vision.FrozenBatchNorm2d = torch.nn.BatchNorm2d
for name in ("torchvision", "torchvision.ops"):
    sys.modules.setdefault(name, types.ModuleType(name))
sys.modules.setdefault("torchvision.ops.misc", vision)
from fightingcv_attention.attention.gfnet import GFNet  # noqa: E402

torch.manual_seed(0)
model = GFNet(embed_dim=384, img_size=224, patch_size=16, num_classes=10)
model(torch.randn(1, 3, 224, 224)).sum().backward()
unused = [name for name, parameter in model.named_parameters() if parameter.grad is None]
print(f"without a gradient: {', '.join(unused)}")
assert unused
