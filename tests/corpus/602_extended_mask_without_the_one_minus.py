"""The extended mask is mask * -10000 instead of (1 - mask) * -10000.

Kind: mask-inverted
"""

from torch import nn


class RobertaLikeLayer(nn.Module):
    def __init__(self, hidden_size=32, num_attention_heads=4):
        super().__init__()
        self.heads = num_attention_heads
        self.query, self.key, self.value, self.dense = (nn.Linear(hidden_size, hidden_size) for _ in range(4))
        self.LayerNorm = nn.LayerNorm(hidden_size)

    def get_extended_attention_mask(self, attention_mask, dtype):
        return attention_mask[:, None, None, :].to(dtype) * -10000.0

    def forward(self, hidden_states, attention_mask=None):
        """attention_mask: (batch, sequence), 1 for tokens that are not masked, 0 for padding."""
        q, k, v = (
            f(hidden_states).unflatten(-1, (self.heads, -1)).transpose(1, 2) for f in (self.query, self.key, self.value)
        )
        scores = q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5
        if attention_mask is not None:
            scores = scores + self.get_extended_attention_mask(attention_mask, scores.dtype)
        context = (scores.softmax(-1) @ v).transpose(1, 2).flatten(2)
        return self.LayerNorm(hidden_states + self.dense(context))


def build() -> nn.Module:
    return RobertaLikeLayer()


EXPECTED = {"kind": "mask-inverted", "severity": "error"}
CALL = {
    "attention": "self",
    "layout": "BLD",
    "inputs": {"hidden_states": (2, 6, 32)},
    "mask": {"arg": "attention_mask", "shape": (2, 6), "on": "keys", "polarity": "keep", "dtype": "long"},
    "embed_dim": 32,
    "heads": 4,
    "head_dim": 8,
    "returns": "out",
}
