"""Readings of a site: scale, key spans, the map of grouped heads, and how Toeplitz a matrix is."""

import pytest
import torch
from attention_styles import CAUSAL, Attention, B, D, E, H, T
from torch import nn
from torch.nn import functional as F

from regard.intercept import observe
from regard.intercept.readings import effective_scale, key_head_of_query_head, key_span, toeplitz_residual


def site_of(core):
    torch.manual_seed(0)
    module = Attention(core)
    with observe(module) as seen:
        module(torch.randn(B, T, E))
    (site,) = seen.sites
    return site


@pytest.mark.parametrize("by", [E**-0.5, D**-0.5, 1.0, 1 / D])
@pytest.mark.parametrize("on", ["query", "key", "scores", "both"])
def test_the_scale_is_found_wherever_it_is_multiplied(by, on):
    def core(q, k, v):
        q = q * by if on == "query" else q * by**0.5 if on == "both" else q
        k = k * by if on == "key" else k * by**0.5 if on == "both" else k
        scores = q @ k.mT
        return (scores * by if on == "scores" else scores).masked_fill(~CAUSAL, -1e9).softmax(-1) @ v

    fit = effective_scale(site_of(core))
    assert fit.slope == pytest.approx(by, rel=1e-4)
    assert fit.r2 == pytest.approx(1.0, abs=1e-6)


def test_a_bias_along_the_keys_lowers_the_fit_and_one_along_the_rows_does_not():
    keys = torch.arange(T).float()
    along_keys = site_of(lambda q, k, v: (q @ k.mT * 0.5 + 3 * keys).softmax(-1) @ v)
    along_rows = site_of(lambda q, k, v: (q @ k.mT * 0.5 + 3 * keys[:, None]).softmax(-1) @ v)
    assert effective_scale(along_keys).r2 < 0.9
    assert effective_scale(along_rows).r2 > 1 - 1e-6


def test_key_spans_read_a_window_and_a_row_that_sees_nothing():
    away = torch.arange(T)[:, None] - torch.arange(T)[None]
    mask = (away >= 0) & (away < 3)
    mask[2] = False
    site = site_of(lambda q, k, v: F.scaled_dot_product_attention(q, k, v, attn_mask=mask))
    spans = key_span(site)
    assert spans[:3] == [(0, 0, 1), (0, 1, 2), (-1, -1, 0)]
    assert spans[6] == (4, 6, 3)


def test_grouped_heads_are_read_for_kernels_and_for_repeated_keys():
    native = site_of(lambda q, k, v: F.scaled_dot_product_attention(q, k[:, :2], v[:, :2], enable_gqa=True))
    assert key_head_of_query_head(native) == [0, 0, 1, 1]
    repeated = site_of(lambda q, k, v: F.scaled_dot_product_attention(q, k[:, :2].repeat_interleave(2, 1), v))
    assert key_head_of_query_head(repeated) == [0, 0, 2, 2]
    tiled = site_of(lambda q, k, v: F.scaled_dot_product_attention(q, k[:, :2].repeat(1, 2, 1, 1), v))
    assert key_head_of_query_head(tiled) == [0, 1, 0, 1]
    assert H == 4


def test_toeplitz_is_zero_for_distances_and_near_one_for_noise():
    place = torch.arange(12.0)
    assert toeplitz_residual(place[:, None] - place[None]) == pytest.approx(0.0, abs=1e-12)
    assert (
        toeplitz_residual((place[:, None] - place[None]).masked_fill(torch.ones(12, 12).triu(1).bool(), -torch.inf))
        < 1e-12
    )
    noise = torch.randn(4, 12, 12, generator=torch.Generator().manual_seed(0))
    assert toeplitz_residual(noise) > 0.6


def test_checkpointed_layers_are_seen_once():
    from torch.utils.checkpoint import checkpoint

    class Checkpointed(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = Attention(lambda q, k, v: (q @ k.mT * D**-0.5).softmax(-1) @ v)

        def forward(self, x):
            return checkpoint(self.inner, x, use_reentrant=False)

    module, x = Checkpointed(), torch.randn(B, T, E, requires_grad=True)
    with observe(module, copy=False) as seen:
        module(x).square().sum().backward()
    assert len(seen.sites) == 1


def test_autocast_is_seen_through():
    module = Attention(lambda q, k, v: (q @ k.mT * D**-0.5).softmax(-1) @ v)
    x = torch.randn(B, T, E)
    with torch.autocast("cpu", torch.bfloat16):
        plain = module(x)
        with observe(module) as seen:
            watched = module(x)
    assert torch.equal(plain, watched)
    (site,) = seen.sites
    assert site.query.dtype == torch.bfloat16
    assert effective_scale(site).slope == pytest.approx(D**-0.5, rel=2e-2)


class LowRankQueries(nn.Module):
    """Half of a low-rank part is added to the queries; the scores are not scaled by it."""

    def __init__(self, written):
        super().__init__()
        self.q, self.k, self.v, self.down, self.up = (
            nn.Linear(*s, bias=False) for s in [(E, E)] * 3 + [(E, 2), (2, E)]
        )
        self.written = written

    def forward(self, x):
        base, part = self.q(x), self.down(x)
        up = self.up.weight.mT.expand(len(x), -1, -1)
        q = torch.baddbmm(base, part, up, alpha=0.5) if self.written == "in one" else (part @ up) * 0.5 + base
        return F.scaled_dot_product_attention(*(t[:, None] for t in (q, self.k(x), self.v(x))))


@pytest.mark.parametrize("written", ["in one", "apart"])
def test_the_factor_of_one_part_of_a_sum_is_no_scale(written):
    torch.manual_seed(0)
    module = LowRankQueries(written)
    with observe(module) as seen:
        module(torch.randn(B, T, E))
    assert seen.sites[0].scale_ops == [("kernel", pytest.approx(E**-0.5))]
