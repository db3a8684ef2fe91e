"""The padding mask is used for the prompt and forgotten when decoding."""

import torch
from torch import nn

RULES = {"ATT205"}


class Right(nn.Module):
    def __init__(self, hidden_size=12):
        super().__init__()
        self.c_attn = nn.Linear(hidden_size, 3 * hidden_size)

    def applies(self, attention_mask, layer_past):
        return attention_mask is not None

    def forward(self, hidden_states, layer_past=None, attention_mask=None):
        """attention_mask: (batch, keys so far), 1 = attend."""
        q, k, v = self.c_attn(hidden_states).chunk(3, -1)
        if layer_past is not None:
            k, v = (torch.cat([old, new], 1) for old, new in zip(layer_past, (k, v)))
        t, s = q.shape[1], k.shape[1]
        scores = q @ k.mT / q.shape[-1] ** 0.5
        hidden = torch.ones(t, s, dtype=torch.bool).triu(s - t + 1)
        if self.applies(attention_mask, layer_past):
            hidden = hidden | (attention_mask == 0)[:, None]
        return scores.masked_fill(hidden, torch.finfo(scores.dtype).min).softmax(-1) @ v, (k, v)


class Wrong(Right):
    def applies(self, attention_mask, layer_past):
        return attention_mask is not None and layer_past is None


def right():
    return Right()


def wrong():
    return Wrong()
