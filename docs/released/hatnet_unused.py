"""fightingcv-attention: the attention of HATNet makes a norm layer that nothing uses (ATT701)."""

import sys
import types

import torch

names = ("timm", "timm.models", "timm.models.layers", "timm.models.registry", "timm.models.vision_transformer")
sys.modules.update({name: types.ModuleType(name) for name in names})  # so that timm need not be installed
layers = sys.modules["timm.models.layers"]
layers.DropPath, layers.trunc_normal_ = torch.nn.Identity, torch.nn.init.trunc_normal_
sys.modules["timm.models.registry"].register_model = lambda function: function
sys.modules["timm.models.vision_transformer"]._cfg = dict
from fightingcv_attention.backbone.HATNet import Attention  # noqa: E402

torch.manual_seed(0)
layer = Attention(dim=32, head_dim=8, grid_size=2, ds_ratio=2)
layer(torch.randn(2, 32, 8, 8)).sum().backward()
unused = [name for name, parameter in layer.named_parameters() if parameter.grad is None]
print(f"without a gradient: {', '.join(unused)}")
assert unused
