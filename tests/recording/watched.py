"""Small models and a training loop for the tests of `watch`: right ones, and the same with one fault.

Axes: B samples, T tokens, H heads, D channels of a head. Every model has 2 layers and width 32, and takes about a second.
"""

import math

import torch
from torch import nn
from torch.nn import functional as F

WIDTH, HEADS, VOCABULARY, LENGTH, BATCH = 32, 4, 24, 16, 16
PAD = 0


class Attention(nn.Module):
    """Self-attention in the open form. `fault` names what is wrong with it."""

    def __init__(self, fault="", causal=False):
        super().__init__()
        self.fault, self.causal, self.dropout = fault, causal, 0.0 if fault == "equal heads" else 0.2
        self.q_proj, self.k_proj, self.v_proj, self.out_proj = (nn.Linear(WIDTH, WIDTH) for _ in range(4))
        self.keys = self.values = None
        with torch.no_grad():
            if fault in ("no scale", "large weights"):
                for layer in (self.q_proj, self.k_proj):
                    layer.weight.normal_(0, 1.0)
            if fault == "equal heads":
                for layer in (self.q_proj, self.k_proj):
                    layer.weight.copy_(layer.weight[: WIDTH // HEADS].repeat(HEADS, 1))
                    layer.bias.copy_(layer.bias[: WIDTH // HEADS].repeat(HEADS))
                self.v_proj.weight.copy_(self.v_proj.weight[: WIDTH // HEADS].repeat(HEADS, 1))
                self.v_proj.bias.copy_(self.v_proj.bias[: WIDTH // HEADS].repeat(HEADS))
                self.out_proj.weight.copy_(self.out_proj.weight[:, : WIDTH // HEADS].repeat(1, HEADS))
            if fault == "gate closed":
                self.gate = nn.Parameter(torch.zeros(()), requires_grad=False)
        if fault == "frozen":
            for layer in (self.q_proj, self.k_proj):
                layer.requires_grad_(False)

    def forward(self, x, keep=None):
        source = x.detach() if self.fault == "cut" else x
        q, k, v = self.q_proj(source), self.k_proj(source), self.v_proj(x)
        if self.fault == "cut":
            q, k = q.detach(), k.detach()
        q, k, v = (y.unflatten(-1, (HEADS, -1)).transpose(1, 2) for y in (q, k, v))
        if self.fault == "stale cache" and not self.training:
            if self.keys is not None and len(self.keys) == len(k):
                k, v = torch.cat([self.keys, k], 2), torch.cat([self.values, v], 2)
            self.keys, self.values = k.detach(), v.detach()
        D = q.shape[-1]
        scores = q @ k.transpose(-1, -2) * {"no scale": 1.0, "cold": 1 / D}.get(self.fault, D**-0.5)
        if keep is not None and self.fault != "padding ignored":
            seen = ~keep if self.fault == "mask inverted" else keep
            scores = scores.masked_fill(~seen[:, None, None], -math.inf)
        if self.causal and not (self.fault == "not causal in eval" and not self.training):
            scores = scores.masked_fill(torch.ones_like(scores[0, 0]).triu(1).bool(), -math.inf)
        weights = scores.softmax(-1)
        if self.fault == "dropout in eval":
            weights = F.dropout(weights, self.dropout)
        else:
            weights = F.dropout(weights, self.dropout if self.training else 0.0)
        out = self.out_proj((weights @ v).transpose(1, 2).flatten(-2))
        return out * self.gate if self.fault == "gate closed" else out


class Fused(nn.Module):
    """The same through torch's fused kernel, with one packed projection."""

    def __init__(self, causal=False):
        super().__init__()
        self.qkv, self.proj, self.causal = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH), causal

    def forward(self, x, keep=None):
        q, k, v = (y.unflatten(-1, (HEADS, -1)).transpose(1, 2) for y in self.qkv(x).chunk(3, -1))
        mask = None if keep is None else keep[:, None, None]
        out = F.scaled_dot_product_attention(q, k, v, mask, is_causal=self.causal and mask is None)
        return self.proj(out.transpose(1, 2).flatten(-2))


class Block(nn.Module):
    """Pre-norm attention and feed-forward."""

    def __init__(self, attention):
        super().__init__()
        self.attention, self.first, self.second = attention, nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.feed = nn.Sequential(nn.Linear(WIDTH, 64), nn.GELU(), nn.Linear(64, WIDTH))

    def forward(self, x, keep=None):
        x = x + self.attention(self.first(x), keep)
        return x + self.feed(self.second(x))


class Tagger(nn.Module):
    """(B, T) ids to (B, T, vocabulary). Padding is id 0."""

    def __init__(self, make, mask=True):
        super().__init__()
        self.mask = mask
        self.embed = nn.Embedding(VOCABULARY, WIDTH, padding_idx=PAD)
        self.place = nn.Parameter(torch.randn(LENGTH, WIDTH) * 0.1)
        self.blocks = nn.ModuleList(Block(make()) for _ in range(2))
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, VOCABULARY)

    def forward(self, ids):
        keep = ids != PAD if self.mask and bool((ids == PAD).any()) else None
        x = self.embed(ids) + self.place[: ids.shape[1]]
        for block in self.blocks:
            x = block(x, keep)
        return self.head(self.norm(x))


class TorchEncoder(nn.Module):
    """nn.TransformerEncoder as it is."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, WIDTH, padding_idx=PAD)
        self.place = nn.Parameter(torch.randn(LENGTH, WIDTH) * 0.1)
        layer = nn.TransformerEncoderLayer(WIDTH, HEADS, 64, 0.1, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(WIDTH, VOCABULARY)

    def forward(self, ids):
        x = self.embed(ids) + self.place[: ids.shape[1]]
        return self.head(self.encoder(x, src_key_padding_mask=ids == PAD))


class Translator(nn.Module):
    """Cross-attention: a decoder layer of torch over an encoded source."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, WIDTH)
        self.place = nn.Parameter(torch.randn(LENGTH, WIDTH) * 0.1)
        self.decoder = nn.TransformerDecoder(
            nn.TransformerDecoderLayer(WIDTH, HEADS, 64, 0.1, batch_first=True, norm_first=True), 2
        )
        self.head = nn.Linear(WIDTH, VOCABULARY)

    def forward(self, ids):
        memory = self.embed(ids.flip(1)[:, :10]) + self.place[:10]
        x = self.embed(ids) + self.place[: ids.shape[1]]
        causal = nn.Transformer.generate_square_subsequent_mask(ids.shape[1])
        return self.head(self.decoder(x, memory, tgt_mask=causal, tgt_is_causal=True))


def batches(steps, seed=0, padded=False, length=LENGTH):
    """(ids, wanted): sorted ids, a task that every token's place needs all tokens for. Padding is at the end."""
    draw = torch.Generator().manual_seed(seed)
    for _ in range(steps):
        ids = torch.randint(1, VOCABULARY, (BATCH, length), generator=draw)
        if padded:
            lengths = torch.randint(length // 2, length, (BATCH, 1), generator=draw)
            ids = ids.masked_fill(torch.arange(length) >= lengths, PAD)
        wanted = torch.where(ids == PAD, VOCABULARY, ids).sort(1).values
        yield ids, torch.where(wanted == VOCABULARY, PAD, wanted)


def shifted(steps, seed=0):
    """(ids, wanted) for a causal model: each id is the one before plus a step that the sequence keeps."""
    draw = torch.Generator().manual_seed(seed)
    for _ in range(steps):
        start, by = (torch.randint(0, VOCABULARY - 1, (BATCH, 1), generator=draw) for _ in range(2))
        ids = (start + by * torch.arange(LENGTH + 1)) % (VOCABULARY - 1) + 1
        yield ids[:, :-1], ids[:, 1:]


def loss_of(model, ids, wanted):
    return F.cross_entropy(model(ids).flatten(0, 1), wanted.flatten(), ignore_index=PAD)


def train(model, data, run=None, *, lr=3e-3, parameters=None, validate_every=0, validation=None):
    """A plain loop; returns the losses."""
    optimizer = torch.optim.AdamW([p for p in parameters or model.parameters() if p.requires_grad], lr)
    losses = []
    for at, (ids, wanted) in enumerate(data):
        model.train()
        loss = loss_of(model, ids, wanted)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
        if run is not None:
            run.step(loss)
            if validate_every and (at + 1) % validate_every == 0:
                model.eval()
                with run.validating(), torch.no_grad():
                    values = [float(loss_of(model, *batch)) for batch in validation()]
                run.log(validation_loss=sum(values) / len(values))
    return losses


def built(make, seed=0):
    """A model of its own seed, the global one left as it was."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return make()
