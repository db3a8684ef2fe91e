"""Slot attention as it was published: keys times queries, a softmax over the slots, a mean over the inputs.

Kind: correct
"""

from torch import nn


class Slots(nn.Module):
    """Slots (batch, slots, width) are updated from inputs (batch, places, width), two rounds."""

    def __init__(self, width=22, rounds=2, eps=1e-8):
        super().__init__()
        self.rounds, self.eps, self.scale = rounds, eps, width**-0.5
        self.to_q, self.to_k, self.to_v = (nn.Linear(width, width, bias=False) for _ in range(3))
        self.update = nn.GRUCell(width, width)
        self.norm_inputs, self.norm_slots = nn.LayerNorm(width), nn.LayerNorm(width)

    def forward(self, slots, inputs):
        inputs = self.norm_inputs(inputs)
        k, v = self.to_k(inputs), self.to_v(inputs)
        for _ in range(self.rounds):
            q = self.to_q(self.norm_slots(slots)) * self.scale
            share = (k @ q.mT).softmax(-1) + self.eps
            mean = share / share.sum(-2, keepdim=True)
            new = mean.mT @ v
            slots = self.update(new.flatten(0, 1), slots.flatten(0, 1)).view(slots.shape)
        return slots


def build() -> nn.Module:
    return Slots()


EXPECTED = {"kind": "correct", "severity": None, "looks_like": "weights-transposed"}
CALL = {
    "attention": "cross",
    "layout": "BLD",
    "inputs": {"slots": (2, 4, 22), "inputs": (2, 9, 22)},
    "query_arg": "slots",
    "context_arg": "inputs",
    "mask": None,
    "embed_dim": 22,
    "heads": 1,
    "returns": "out",
}
