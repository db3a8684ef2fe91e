"""A 0/1 mask is added to the energies of a Luong scorer.

Kind: mask-added-as-01
"""

import torch
import torch.nn as nn


class LuongAttention(nn.Module):
    """decoder [B, T, H], encoder [B, S, H]; src_mask [B, S] with 1 for words and 0 for <pad>."""

    def __init__(self, hid=20):
        super().__init__()
        self.W = nn.Linear(hid, hid, bias=False)
        self.combine = nn.Linear(2 * hid, hid)

    def forward(self, decoder_states, encoder_states, src_mask=None):
        energy = torch.bmm(decoder_states, self.W(encoder_states).transpose(1, 2))
        if src_mask is not None:
            energy = energy + src_mask.unsqueeze(1).float()
        align = energy.softmax(dim=2)
        context = align.bmm(encoder_states)
        return torch.tanh(self.combine(torch.cat((context, decoder_states), dim=2))), align


def build() -> nn.Module:
    return LuongAttention()


EXPECTED = {"kind": "mask-added-as-01", "severity": "error"}
CALL = {
    "attention": "cross",
    "layout": "BLD",
    "inputs": {"decoder_states": (2, 4, 20), "encoder_states": (2, 6, 20)},
    "query_arg": "decoder_states",
    "context_arg": "encoder_states",
    "mask": {"arg": "src_mask", "shape": (2, 6), "on": "context", "polarity": "keep", "dtype": "long"},
    "embed_dim": 20,
    "heads": 1,
    "head_dim": 20,
    "returns": "(out, weights)",
    "declared_scale": 1.0,
}
