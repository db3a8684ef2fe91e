"""attention-smithy: in a padded batch, Longformer rows whose window holds only padding are NaN (ATT601)."""

import sys
import types

import torch

manager = types.ModuleType("attention_smithy.numeric_embeddings")  # so that what it needs need not be installed
manager.NumericEmbeddingManager = object
sys.modules["attention_smithy.numeric_embeddings"] = manager
from attention_smithy.attention.LongformerAttentionMethod import LongformerAttentionMethod  # noqa: E402

torch.manual_seed(0)
layer = LongformerAttentionMethod(attention_window=2).eval()
q, k, v = torch.randn(3, 2, 2, 16, 8)
real = torch.ones(2, 16)
real[1, 8:] = 0  # item 1 has 8 tokens, padded to 16
out, _ = layer(q, k, v, None, padding_and_loss_attention_mask=real)
rows = out[1].isnan().any(-1).any(0).nonzero().flatten().tolist()
print(f"8 real tokens padded to 16, window 2: rows {rows} of the output are NaN")
assert rows
assert not out[0].isnan().any()
