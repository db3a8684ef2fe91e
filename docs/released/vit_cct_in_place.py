"""vit-pytorch: the classifier of CCT adds positions to the caller's tensor (ATT704)."""

import sys
import types

import torch

vision = types.ModuleType("torchvision")  # another file of the package imports it; this one does not need it
vision.transforms = types.ModuleType("torchvision.transforms")
sys.modules.setdefault("torchvision", vision)
from vit_pytorch.cct import TransformerClassifier  # noqa: E402

torch.manual_seed(0)
layer = TransformerClassifier(seq_pool=True, embedding_dim=32, num_layers=1, num_heads=4, sequence_length=16).eval()
x = torch.randn(2, 16, 32)
before = x.clone()
with torch.no_grad():
    difference = (layer(x) - layer(x)).abs().max().item()
changed = (x != before).sum().item()
print(
    f"{changed} of {x.numel()} entries of the argument changed; the same tensor twice gives outputs that differ by {difference:.3g}"
)
assert changed
