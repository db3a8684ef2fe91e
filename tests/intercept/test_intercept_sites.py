"""The interceptor finds the site of attention in every style, leaves the output as it was, and names what it saw."""

import pytest
import torch
from attention_styles import (
    CAUSAL,
    MASKED,
    RIGHT,
    Attention,
    B,
    D,
    E,
    H,
    T,
    over_heads,
    over_queries,
    sdpa,
    sink_column,
)
from torch import nn
from torch.nn import functional as F

from regard.intercept import observe

EXACT = 2e-6  # float32 sums of 8 to 32 terms, recomputed in another order


def watch(module, *args, seed=0, **options):
    torch.manual_seed(seed)
    plain = module(*args)
    torch.manual_seed(seed)
    with observe(module, **options) as seen:
        watched = module(*args)
    plain, watched = (t[0] if isinstance(t, tuple) else t for t in (plain, watched))
    assert torch.equal(plain, watched), "looking changed the output"
    assert not [u for u in seen.unknown if "could not be followed" in u], seen.unknown
    return seen


def build(core):
    torch.manual_seed(3)
    return Attention(core), torch.randn(B, T, E)


@pytest.mark.parametrize("grad", ["grad", "no_grad", "inference"])
@pytest.mark.parametrize("core", RIGHT, ids=lambda f: f.__name__)
def test_one_site_is_found_in_every_style_and_the_output_is_bit_identical(core, grad):
    module, x = build(core)
    with {"grad": torch.enable_grad, "no_grad": torch.no_grad, "inference": torch.inference_mode}[grad]():
        seen = watch(module, x)
    (site,) = seen.sites
    assert site.softmax_axis == -1 if site.kind != "fused" else True
    assert (
        (site.expected_output() - site.output).abs().max() < EXACT
        if core.__name__ != "exp_divided_afterwards"
        else True
    )


@pytest.mark.parametrize("core", RIGHT, ids=lambda f: f.__name__)
def test_queries_keys_and_the_scale_explain_the_logits(core):
    from regard.intercept.readings import effective_scale

    module, x = build(core)
    (site,) = watch(module, x).sites
    fit = effective_scale(site)
    expected = 0.5 if core.__name__ == "sdpa_scale" else D**-0.5
    if core.__name__ == "softcap":
        assert fit.slope == pytest.approx(expected, rel=0.05)
        assert fit.r2 < 1 - 1e-6
    else:
        tolerance = 1e-2 if core.__name__ == "softmax_with_dtype" else 1e-4
        assert fit.slope == pytest.approx(expected, rel=tolerance)
        assert fit.r2 > 1 - tolerance


@pytest.mark.parametrize("core", RIGHT, ids=lambda f: f.__name__)
def test_the_keys_that_each_query_sees_are_read_from_the_site(core):
    from regard.intercept.readings import visible_keys

    module, x = build(core)
    (site,) = watch(module, x).sites
    visible = visible_keys(site)
    expected = CAUSAL if core in MASKED else torch.ones(T, T + (core is sink_column), dtype=torch.bool)
    assert torch.equal(visible.expand(*visible.shape[:-2], *expected.shape), expected.expand_as(visible))


@pytest.mark.parametrize(("core", "axis"), [(over_queries, -2), (over_heads, -3)])
def test_a_softmax_over_the_wrong_axis_is_named(core, axis):
    module, x = build(core)
    (site,) = watch(module, x).sites
    assert site.softmax_axis == axis


def test_the_place_is_the_users_line_and_the_module_path():
    module = nn.Sequential(nn.Identity(), Attention(sdpa))
    seen = watch(module, torch.randn(B, T, E))
    (site,) = seen.sites
    assert site.path == "1"
    assert "attention_styles.py:" in site.where


def test_dropout_is_seen_after_the_softmax_with_its_share_and_weights_are_those_before_it():
    from attention_styles import dropout_after

    module, x = build(dropout_after)
    (site,) = watch(module, x).sites
    assert site.dropout == pytest.approx(0.25)
    assert torch.allclose(site.weights().sum(-1), torch.ones(()), atol=1e-6)
    assert (site.weights_used == 0).any()


class HeadsInAList(nn.Module):
    class Head(nn.Module):
        def __init__(self):
            super().__init__()
            self.q, self.k, self.v = (nn.Linear(E, D) for _ in range(3))

        def forward(self, x):
            return F.softmax(self.q(x) @ self.k(x).transpose(1, 2) / D**0.5, dim=-1) @ self.v(x)

    def __init__(self):
        super().__init__()
        self.heads = nn.ModuleList(self.Head() for _ in range(H))

    def forward(self, x):
        return torch.cat([head(x) for head in self.heads], -1)


def test_heads_in_a_list_are_one_site_each():
    seen = watch(HeadsInAList(), torch.randn(B, T, E))
    assert [s.path for s in seen.sites] == [f"heads.{i}" for i in range(H)]


class ConvolutionalNonLocal(nn.Module):
    def __init__(self):
        super().__init__()
        self.q, self.k, self.v = nn.Conv2d(E, D, 1), nn.Conv2d(E, D, 1), nn.Conv2d(E, E, 1)

    def forward(self, x):
        b, c, h, w = x.shape
        q, k, v = self.q(x).flatten(2).permute(0, 2, 1), self.k(x).flatten(2), self.v(x).flatten(2)
        attention = torch.softmax(torch.bmm(q, k), dim=-1)
        return torch.bmm(v, attention.permute(0, 2, 1)).view(b, c, h, w) + x


def test_queries_made_by_convolutions_are_found():
    (site,) = watch(ConvolutionalNonLocal(), torch.randn(B, E, 3, 4)).sites
    assert tuple(site.weights().shape) == (B, 12, 12)
    assert tuple(site.value.shape) == (B, 12, E)
    assert (site.expected_output() - site.output).abs().max() < EXACT


@pytest.mark.parametrize("mask", [None, "padding", "causal"])
@pytest.mark.parametrize("need_weights", [False, True])
@pytest.mark.parametrize("training", [False, True])
def test_torch_multihead_attention_on_both_paths(mask, need_weights, training):
    torch.manual_seed(0)
    module = nn.MultiheadAttention(E, H, batch_first=True).train(training)
    x = torch.randn(B, T, E)
    masks = {}
    if mask == "padding":
        masks["key_padding_mask"] = torch.arange(T)[None] >= torch.tensor([[5], [T]])
    if mask == "causal":
        masks["attn_mask"] = ~CAUSAL
    with torch.set_grad_enabled(training):
        with observe(module) as seen:
            module(x, x, x, need_weights=need_weights, **masks)
        weights = module(x, x, x, need_weights=True, average_attn_weights=False, **masks)[1]
    (site,) = seen.sites
    assert site.weights().reshape(weights.shape).sub(weights).abs().max() < EXACT


@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize("padded", [False, True])
def test_the_encoder_fast_path_is_read_layer_by_layer(norm_first, padded):
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(E, H, 64, batch_first=True, norm_first=norm_first, dropout=0.0)
    module = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).eval()
    x = torch.randn(B, T, E)
    mask = (torch.arange(T)[None] >= torch.tensor([[4], [T]])) if padded else None
    with torch.no_grad():
        with observe(module) as seen:
            fast = module(x, src_key_padding_mask=mask)
        assert torch.equal(fast, module(x, src_key_padding_mask=mask))
    assert [s.kind for s in seen.sites] == ["native_mha", "native_mha"]
    assert [s.path for s in seen.sites] == ["layers.0", "layers.1"]
    attention = module.layers[0].self_attn
    normed = module.layers[0].norm1(x) if norm_first else x
    options = {"need_weights": True, "average_attn_weights": False, "key_padding_mask": mask}
    weights = attention(normed, normed, normed, **options)[1].detach()
    assert (seen.sites[0].weights() - weights).abs().max() < EXACT


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
def test_nested_inputs_of_the_encoder_hide_the_keys_past_each_length():
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(E, H, 64, batch_first=True, dropout=0.0)
    module = nn.TransformerEncoder(layer, 1, enable_nested_tensor=True).eval()
    x, mask = torch.randn(B, T, E), torch.arange(T)[None] >= torch.tensor([[4], [6]])
    with torch.no_grad(), observe(module) as seen:
        module(x, src_key_padding_mask=mask)
    (site,) = seen.sites
    assert "nested" in site.kernel
    weights = site.weights()
    assert tuple(weights.shape) == (B, H, 6, 6)
    assert weights[0, :, :, 4:].abs().max() == 0
    assert torch.allclose(weights.sum(-1), torch.ones(()), atol=1e-6)


class SlotStep(nn.Module):
    def forward(self, x):
        slots = torch.ones(1, 3, E).expand(x.shape[0], 3, E) * torch.arange(1.0, 4.0)[:, None]
        logits = torch.einsum("bid,bjd->bij", x, slots) * 0.1
        weights = logits.softmax(-1)
        weights = weights / weights.sum(1, keepdim=True)
        return torch.einsum("bij,bid->bjd", weights, x)


def test_competing_queries_are_seen_as_a_softmax_over_queries():
    (site,) = watch(SlotStep(), torch.randn(B, T, E)).sites
    assert site.softmax_axis == -2
    assert tuple(site.weights().shape) == (B, 3, T)
    assert [s.op for s in site.after] == ["renormalise"]


class Pooling(nn.Module):
    def __init__(self, by_product):
        super().__init__()
        self.score, self.by_product = nn.Linear(E, 1), by_product

    def forward(self, x):
        weights = torch.softmax(self.score(torch.tanh(x)), dim=1)
        return torch.bmm(weights.transpose(1, 2), x)[:, 0] if self.by_product else (weights * x).sum(1)


@pytest.mark.parametrize("by_product", [True, False])
def test_attention_pooling_is_a_site_with_one_learned_query(by_product):
    (site,) = watch(Pooling(by_product), torch.randn(B, T, E)).sites
    assert tuple(site.weights().shape) == (B, 1, T)
    assert site.softmax_axis == -1
    assert site.learned_queries
    assert not site.learned_keys


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(E, 16), nn.GELU(), nn.Linear(16, 5))

    def forward(self, x):
        return self.net(x).softmax(-1)


class GumbelCodes(nn.Module):
    def __init__(self):
        super().__init__()
        self.logits, self.codes = nn.Linear(E, 10), nn.Parameter(torch.randn(10, E))

    def forward(self, x):
        return F.gumbel_softmax(self.logits(x), tau=1.0) @ self.codes


class Router(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate, self.experts = nn.Linear(E, 3), nn.ModuleList(nn.Linear(E, E) for _ in range(3))

    def forward(self, x):
        weights = self.gate(x).softmax(-1)
        return sum(weights[..., i : i + 1] * expert(x) for i, expert in enumerate(self.experts))


class LinearAttention(nn.Module):
    def forward(self, x):
        q = k = F.elu(x) + 1
        return q @ (k.mT @ x) / (q @ k.sum(1, keepdim=True).mT)


@pytest.mark.parametrize(
    "module",
    [
        Classifier(),
        GumbelCodes(),
        Router(),
        nn.Sequential(nn.Linear(E, 64), nn.ReLU(), nn.Linear(64, E)),
        nn.LSTM(E, E),
    ],
    ids=lambda m: type(m).__name__,
)
@pytest.mark.parametrize("autocast", [False, True])
def test_what_is_not_attention_has_no_site(module, autocast):
    with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
        seen = watch(module, torch.randn(B, T, E))
    assert seen.sites == []


def test_linear_attention_has_no_site_and_is_said_to_have_been_seen():
    seen = watch(LinearAttention(), torch.randn(B, T, E))
    assert seen.sites == []
    assert any("no softmax" in text for text in seen.unknown)


def test_a_softmax_that_multiplies_nothing_is_listed():
    seen = watch(Classifier(), torch.randn(B, T, E))
    assert any("multiplied no values" in text for text in seen.unknown)


def test_gradients_are_bit_identical_and_reach_the_weights():
    module, x = build(sdpa)
    module(x).square().sum().backward()
    plain = [p.grad.clone() for p in module.parameters()]
    module.zero_grad()
    with observe(module, copy=False) as seen:
        module(x).square().sum().backward()
    assert all(torch.equal(a, p.grad) for a, p in zip(plain, module.parameters()))
    (site,) = seen.sites
    with observe(module, keep_graph=True) as again:
        loss = module(x).square().sum()
    assert torch.allclose(site.grad_weights, again.sites[0].gradient(loss), atol=1e-5)


def test_gradients_of_open_code_reach_the_weights_that_were_used():
    from attention_styles import matmul_masked_fill

    module, x = build(matmul_masked_fill)
    with observe(module, keep_graph=True) as seen:
        loss = module(x).square().sum()
    grad = seen.sites[0].gradient(loss)
    with observe(module, copy=False) as again:
        module(x).square().sum().backward()
    assert tuple(grad.shape) == (B, H, T, T)
    assert len(again.sites) == 1, "products of the backward pass were taken for attention"
    assert torch.allclose(again.sites[0].grad_weights, grad, atol=1e-5)


def test_the_memory_held_is_bounded():
    module, x = build(sdpa)
    with observe(module, max_bytes=100) as seen:
        module(x)
    (site,) = seen.sites
    assert site.query is None
    assert any("100 bytes" in text for text in seen.unknown)


def test_an_error_in_the_model_leaves_no_hook_behind():
    class Broken(nn.Module):
        def forward(self, x):
            raise ValueError("broken")

    from torch.nn.modules import module as torch_module

    before = len(torch_module._global_forward_hooks)
    with pytest.raises(ValueError, match="broken"), observe(Broken()):
        Broken()(torch.ones(1))
    assert len(torch_module._global_forward_hooks) == before
