"""Attributions from captures equal those of the open form by autograd and by loops; trust figures mean what they say."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import regard
from regard.core.errors import CaptureError
from regard.recording import attributions as attr
from regard.recording.trust import agreement, deletion, rank_correlation

H, D, T = 3, 4, 6
E = H * D


class Layer(nn.Module):
    def __init__(self, fused):
        super().__init__()
        self.q, self.k, self.v, self.o = (nn.Linear(E, E) for _ in range(4))
        self.fused, self.kept = fused, None

    def split(self, x, layer):
        return layer(x).view(x.shape[0], -1, H, D).transpose(1, 2)

    def forward(self, x, keep=None):
        q, k, v = (self.split(x, layer) for layer in (self.q, self.k, self.v))
        mask = None if keep is None else keep[None, None, None]
        if self.fused:
            out = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        else:
            self.kept = (q @ k.mT * D**-0.5).softmax(-1)
            self.kept.retain_grad()
            out = self.kept @ v
        return x + self.o(out.transpose(1, 2).flatten(2))


class Net(nn.Module):
    def __init__(self, fused):
        super().__init__()
        torch.manual_seed(0)
        self.layers = nn.ModuleList(Layer(fused) for _ in range(2))

    def forward(self, x, keep=None):
        for layer in self.layers:
            x = layer(x, keep)
        return x


X = torch.randn(2, T, E, generator=torch.Generator().manual_seed(1))


def target(out):
    return out[1, -1].square().sum()


@pytest.mark.parametrize("fused", [True, False])
def test_gradients_of_weights_equal_those_of_the_open_form(fused):
    open_form = Net(False)
    target(open_form(X)).backward()
    net = Net(fused)
    found = attr.attention_gradients(net, lambda: net(X), target, sample=1)
    assert [path for path, _, _ in found] == ["layers.0", "layers.1"]
    for (_, weights, gradient), layer in zip(found, open_form.layers):
        assert torch.allclose(weights, layer.kept[1].detach(), atol=1e-6)
        assert torch.allclose(gradient, layer.kept.grad[1], atol=1e-5)
    assert all(p.grad is None for p in net.parameters())


def test_relevance_equals_the_formula_written_out():
    open_form = Net(False)
    target(open_form(X)).backward()
    expected = torch.eye(T)
    for layer in open_form.layers:
        step = torch.zeros(T, T)
        for h in range(H):
            step += (layer.kept[1, h] * layer.kept.grad[1, h]).clamp(min=0).detach() / H
        expected = expected + step @ expected
    net = Net(True)
    found = attr.attention_gradients(net, lambda: net(X), target, sample=1)
    assert torch.allclose(attr.relevance([w for _, w, _ in found], [g for _, _, g in found]), expected, atol=1e-5)


def test_rollout_of_one_query_is_the_row_of_the_whole_and_rows_sum_to_one():
    with regard.capture(Net(True), level="full", samples=0) as cap:
        cap.model(X)
    weights = [r.weights for r in cap.records]
    whole = attr.rollout(weights)
    by_hand = torch.eye(T)
    for w in weights:
        by_hand = (0.5 * w.mean(0) + 0.5 * torch.eye(T)) @ by_hand
    assert torch.allclose(whole, by_hand, atol=1e-6)
    assert torch.allclose(attr.rollout(weights, query=4), whole[4], atol=1e-6)
    assert torch.allclose(whole.sum(-1), torch.ones(T), atol=1e-6)


def test_norm_weighted_equals_the_norm_of_the_vectors_that_are_sent():
    net = Layer(False)
    net(X)
    weights, values = net.kept[0].detach(), net.split(X, net.v)[0].detach()
    sent = torch.einsum("hts,hsd->tshd", weights, values).flatten(2) @ net.o.weight.detach().T
    assert torch.allclose(attr.norm_weighted(weights, values, net.o.weight.detach()), sent.norm(dim=-1), atol=1e-5)
    with pytest.raises(CaptureError, match="the projection has 5 columns; 3 heads of 4 channels need 12"):
        attr.norm_weighted(weights, values, torch.ones(2, 5))


def test_value_zeroing_is_zero_for_a_token_that_nobody_sees():
    net = Layer(True)
    keep = torch.tensor([True] * (T - 1) + [False])

    def run(token):
        with torch.no_grad(), attr.zeroed_value(net.v, token):
            return net(X[:1], keep)[0]

    found = attr.value_zeroing(run, T)
    assert found[:, -1].abs().max() < 1e-6
    assert (found[:, :-1] > 0).all()
    assert not net.v._forward_hooks


def test_what_cannot_be_combined_is_refused():
    with pytest.raises(CaptureError, match="there are no layers"):
        attr.rollout([])
    with pytest.raises(CaptureError, match=r"self-attention maps of one size"):
        attr.rollout([torch.ones(1, 2, 3)])
    net = Net(True)
    with torch.no_grad(), pytest.raises(CaptureError, match="need parameters that require them"):
        attr.attention_gradients(net, lambda: net(X), target)
    dense = nn.Linear(E, E)
    with pytest.raises(CaptureError, match="no attention seen in Linear"):
        attr.attention_gradients(dense, lambda: dense(X), target)


def test_rank_correlation_is_that_of_scipy():
    stats = pytest.importorskip("scipy.stats")
    g = torch.Generator().manual_seed(0)
    x, y = torch.randint(0, 5, (3, 12), generator=g).float(), torch.randint(0, 5, (3, 12), generator=g).float()
    expected = [stats.spearmanr(a, b).statistic for a, b in zip(x, y)]
    assert torch.allclose(rank_correlation(x, y), torch.tensor(expected).float(), atol=1e-6)
    assert rank_correlation(torch.ones(4), torch.arange(4.0)).isnan()


def test_agreement_is_one_when_the_output_is_what_attention_weighs():
    """One layer, values that are equal in size and apart in direction: masking a key changes the output as its weight says."""
    net = Layer(True)
    record = None
    with torch.no_grad(), regard.capture(net, level="rows", queries=[T - 1], samples=0) as cap:
        net(X[:1])
    record = cap.records[0]
    change = deletion(lambda keep: net(X[:1], keep)[0, -1], T)
    assert change.isfinite().all()
    found = agreement(record, change, query=T - 1)
    assert tuple(found.shape) == (H,)
    assert torch.equal(record.scores["agreement"], found)
    own = agreement(record, record.row(T - 1)[1], query=T - 1)
    assert float(own[1]) == pytest.approx(1.0)


def test_agreement_refuses_what_it_cannot_compare():
    with torch.no_grad(), regard.capture(Layer(True), samples=0) as cap:
        cap.model(X)
    with pytest.raises(CaptureError, match=r"the record has 6 keys and the changes are \(5,\)"):
        agreement(cap.records[0], torch.ones(5))
    with pytest.raises(CaptureError, match="query 2 was not kept"):
        agreement(cap.records[0], torch.ones(6), query=2)
    with pytest.raises(CaptureError, match="2 keys were tried; a rank correlation needs 3"):
        agreement(cap.records[0], torch.tensor([1.0, 2.0] + [torch.nan] * 4))
