"""One table: families of models x {captured, output bit-identical, gradients bit-identical, weights against an open form}."""

import math

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import regard

EXACT = 1e-6
B, T, E, H = 2, 9, 32, 4
D = E // H
CAUSAL = torch.ones(T, T).tril().bool()
PAD = torch.arange(T)[None] >= torch.tensor([[6], [T]])
TABLE: dict[str, str] = {}


def mha_weights(module, x, **masks):
    return module(x, x, x, need_weights=True, average_attn_weights=False, **masks)[1]


class Mha(nn.Module):
    """nn.MultiheadAttention called in one way."""

    def __init__(self, need_weights=False, **masks):
        super().__init__()
        self.attention, self.need, self.masks = nn.MultiheadAttention(E, H, batch_first=True), need_weights, masks

    def forward(self, x):
        return self.attention(x, x, x, need_weights=self.need, **self.masks)[0]

    def weights(self, x):
        return [mha_weights(self.attention, x, **self.masks)]


class Encoder(nn.Module):
    def __init__(self, mask=None, norm_first=False):
        super().__init__()
        layer = nn.TransformerEncoderLayer(E, H, 48, batch_first=True, dropout=0.0, norm_first=norm_first)
        self.net, self.mask = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False), mask

    def forward(self, x):
        return self.net(x, src_key_padding_mask=self.mask)

    def weights(self, x):
        found = []
        for layer in self.net.layers:
            found.append(
                mha_weights(layer.self_attn, layer.norm1(x) if layer.norm_first else x, key_padding_mask=self.mask)
            )
            x = layer(x, src_key_padding_mask=self.mask)
        return found


class Decoder(nn.Module):
    """Self and cross attention."""

    def __init__(self):
        super().__init__()
        self.net = nn.TransformerDecoderLayer(E, H, 48, batch_first=True, dropout=0.0)
        self.memory = nn.Parameter(torch.randn(1, 5, E))

    def forward(self, x):
        return self.net(x, self.memory.expand(x.shape[0], -1, -1), tgt_mask=~CAUSAL, tgt_is_causal=False)

    def weights(self, x):
        first = mha_weights(self.net.self_attn, x, attn_mask=~CAUSAL)
        y = self.net.norm1(x + self.net.self_attn(x, x, x, attn_mask=~CAUSAL)[0])
        memory = self.memory.expand(x.shape[0], -1, -1)
        second = self.net.multihead_attn(y, memory, memory, need_weights=True, average_attn_weights=False)[1]
        return [first, second]


class HandWritten(nn.Module):
    def __init__(self, style):
        super().__init__()
        self.qkv, self.style = nn.Linear(E, 3 * E), style

    def split(self, x):
        return self.qkv(x).view(x.shape[0], -1, 3, H, D).permute(2, 0, 3, 1, 4)

    def forward(self, x):
        q, k, v = self.split(x)
        if self.style == "sdpa":
            out = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        elif self.style == "sdpa mask":
            out = F.scaled_dot_product_attention(q, k, v, attn_mask=~PAD[:, None, None])
        elif self.style == "grouped":
            out = F.scaled_dot_product_attention(q, k[:, ::2], v[:, ::2], enable_gqa=True)
        elif self.style == "matmul":
            out = ((q @ k.mT) / math.sqrt(D)).masked_fill(~CAUSAL, -torch.inf).softmax(-1) @ v
        elif self.style == "einsum":
            weights = torch.einsum("bhid,bhjd->bhij", q, k).mul(D**-0.5).softmax(-1)
            out = torch.einsum("bhij,bhjd->bhid", weights, v)
        else:
            scores = torch.bmm(q.reshape(-1, T, D), k.reshape(-1, T, D).mT) * D**-0.5
            out = torch.bmm(scores.softmax(-1), v.reshape(-1, T, D)).view(q.shape)
        return out.transpose(1, 2).flatten(2)

    def weights(self, x):
        q, k, _ = self.split(x)
        if self.style == "grouped":
            k = k[:, ::2].repeat_interleave(2, 1)
        scores = q @ k.mT * D**-0.5
        if self.style in ("sdpa", "matmul"):
            scores = scores.masked_fill(~CAUSAL, -torch.inf)
        if self.style == "sdpa mask":
            scores = scores.masked_fill(PAD[:, None, None], -torch.inf)
        return [scores.softmax(-1)]


class Ours(nn.Module):
    def __init__(self, **options):
        super().__init__()
        self.layer = regard.nn.MultiHeadAttention(E, H, **options)

    def forward(self, x):
        return self.layer(x)

    def weights(self, x):
        return [self.layer.inspect(x)[1]]


class Flex(nn.Module):
    def __init__(self):
        super().__init__()
        from torch.nn.attention.flex_attention import create_block_mask

        self.mask = create_block_mask(lambda b, h, q, k: q >= k, None, None, T, T, device="cpu")

    def forward(self, x):
        from torch.nn.attention.flex_attention import flex_attention

        q = x.detach().view(x.shape[0], T, H, D).transpose(1, 2)
        return flex_attention(q, q, q, score_mod=lambda s, b, h, i, j: s + (j - i) * 0.1, block_mask=self.mask)

    def weights(self, x):
        q = x.view(x.shape[0], T, H, D).transpose(1, 2)
        away = torch.arange(T)[None] - torch.arange(T)[:, None]
        return [(q @ q.mT * D**-0.5 + away * 0.1).masked_fill(~CAUSAL, -torch.inf).softmax(-1)]


def compiled():
    return torch.compile(HandWritten("matmul"), backend="eager")


FAMILIES = {
    "nn.MultiheadAttention, no weights": lambda: Mha(),
    "nn.MultiheadAttention, weights": lambda: Mha(True),
    "nn.MultiheadAttention, padding": lambda: Mha(key_padding_mask=PAD),
    "nn.MultiheadAttention, causal": lambda: Mha(attn_mask=~CAUSAL),
    "nn.TransformerEncoder": lambda: Encoder(),
    "nn.TransformerEncoder, padding": lambda: Encoder(PAD),
    "nn.TransformerEncoder, norm first": lambda: Encoder(norm_first=True),
    "nn.TransformerDecoderLayer": lambda: Decoder(),
    "hand-written sdpa causal": lambda: HandWritten("sdpa"),
    "hand-written sdpa padding": lambda: HandWritten("sdpa mask"),
    "hand-written sdpa grouped": lambda: HandWritten("grouped"),
    "hand-written matmul": lambda: HandWritten("matmul"),
    "hand-written einsum": lambda: HandWritten("einsum"),
    "hand-written bmm, folded heads": lambda: HandWritten("bmm"),
    "regard.nn": lambda: Ours(),
    "regard.nn causal grouped": lambda: Ours(num_kv_heads=2, mask=regard.mask.causal()),
    "regard.nn window": lambda: Ours(mask=regard.mask.causal() & regard.mask.sliding_window(3, None)),
    "regard.nn softcap": lambda: Ours(softcap=5.0),
    "flex_attention": lambda: Flex(),
    "torch.compile": compiled,
}


@pytest.mark.filterwarnings("ignore:flex_attention called without:UserWarning")
@pytest.mark.parametrize("fast", [True, False], ids=["eval and no_grad", "train and grad"])
@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_is_captured_and_its_output_is_bit_identical(family, fast):
    torch.manual_seed(0)
    model, x = FAMILIES[family](), torch.randn(B, T, E)
    model.train(not fast)
    with torch.set_grad_enabled(not fast):
        plain = model(x)
        with regard.capture(model, level="full") as cap:
            watched = model(x)
    assert torch.equal(plain, watched)
    assert model.training != fast
    gradients = ""
    if not fast and plain.requires_grad:
        gradients = "gradients equal, "
        for p, q in zip(_gradients(model, plain), _gradients(model, watched)):
            assert p is None or torch.equal(p, q)
    original = getattr(model, "_orig_mod", model)
    with torch.no_grad():
        expected = original.weights(x)
    error = 0.0
    assert len(cap.records) == B * len(expected)
    assert cap.missed == []
    for record in cap.records:
        error = max(error, float((record.weights - expected[record.layer][record.sample]).abs().max()))
    TABLE[f"{family}, {'eval' if fast else 'train'}"] = f"captured, output equal, {gradients}weights {error:.0e}"
    assert error <= EXACT


def _gradients(model, output):
    parameters = [p for p in model.parameters() if p.requires_grad]
    return torch.autograd.grad(output.square().sum(), parameters, allow_unused=True)


def test_the_table_of_families(capsys):
    if len(TABLE) < len(FAMILIES):
        pytest.skip("the table needs the tests above")
    with capsys.disabled():
        print("\n" + "\n".join(f"  {name:50s} {line}" for name, line in TABLE.items()))
    assert all("captured" in line for line in TABLE.values())
