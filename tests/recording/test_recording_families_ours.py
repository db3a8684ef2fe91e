"""Every way in which `regard.attention` computes a call is captured as the one call it is, and left bit-identical."""

import pytest
import torch
from torch import nn

import regard
from regard.mask import blocks, causal, documents, global_tokens, padding, sliding_window

H, D, T = 4, 8, 512
CLOSE = 1e-6  # float32


def sparse() -> torch.Tensor:
    layout = torch.eye(16, dtype=torch.bool)
    layout[:, 0] = True
    return layout


WINDOW = causal() & sliding_window(left=20)
CALLS = {
    "window": {"mask": WINDOW},
    "two-sided window": {"mask": sliding_window(left=16, right=16)},
    "longformer": {"mask": sliding_window(left=16, right=16) | global_tokens([0, 40])},
    "window and padding": {"mask": WINDOW & padding(lengths=torch.tensor([T, 300]))},
    "packed padding": {"mask": padding(lengths=torch.tensor([T, 60]))},
    "causal and padding": {"mask": causal() & padding(lengths=torch.tensor([T, 300]))},
    "documents": {"mask": causal() & documents(torch.arange(T) // 128)},
    "blocks": {"mask": blocks(sparse())},
    "tiled softcap": {"softcap": 4.0, "backend": "tiled"},
    "sink and window": {"sink": torch.linspace(-1, 1, H), "mask": WINDOW},
    "bias per sample": {
        "bias": torch.randn(2, H, T, T, generator=torch.Generator().manual_seed(3)),
        "backend": "tiled",
    },
    "open": {"mask": causal(), "backend": "open"},
}


class Model(nn.Module):
    """One call, grouped heads, values wider than keys: (2, T, D * 8) in."""

    def __init__(self, call):
        super().__init__()
        self.call = call
        self.names = ()

    def parts(self, x):
        q, k, v = x.split([H * D, 2 * D, 2 * D], -1)
        return (y.unflatten(-1, (-1, D)).transpose(1, 2) for y in (q, k, v))

    def forward(self, x):
        q, k, v = self.parts(x)
        return regard.attention(q, k, torch.cat([v, v], -1), **self.call)

    def weights(self, x):
        q, k, _ = self.parts(x)
        return regard.attention_weights(q, k, **{n: v for n, v in self.call.items() if n != "backend"})


def inputs() -> torch.Tensor:
    return torch.randn(2, T, 8 * D, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("train", [False, True])
@pytest.mark.parametrize("name", CALLS)
def test_the_call_is_captured_whole_and_the_output_is_the_same_bits(name, train):
    model, x, y = Model(CALLS[name]), inputs().requires_grad_(train), inputs().requires_grad_(train)
    plain = model(x)
    with regard.capture(model, level="full") as cap:
        seen = model(y)
    assert torch.equal(plain, seen)
    if train:
        plain.square().sum().backward()
        seen.square().sum().backward()
        assert torch.equal(x.grad, y.grad)
    assert cap.missed == []
    assert [(r.heads, r.kv_heads, r.queries, r.keys) for r in cap.records] == [(H, 2, T, T)] * 2
    expected = model.weights(inputs())
    for sample, record in enumerate(cap.records):
        assert (record.weights - expected[sample]).abs().max() < CLOSE
        assert record.scores["hidden"].abs().max() == 0


@pytest.mark.parametrize("name", CALLS)
def test_chosen_heads_and_rows_are_those(name):
    model, x = Model(CALLS[name]), inputs()
    with regard.capture(model, level="rows", queries=[3, 400], heads=[3, 1]) as cap:
        model(x)
    expected = model.weights(x)[:, [3, 1]][:, :, [3, 400]]
    for sample, record in enumerate(cap.records):
        assert (record.row_weights - expected[sample]).abs().max() < CLOSE


def test_a_long_window_is_summed_without_a_map(monkeypatch):
    model = Model({"mask": WINDOW})
    x = torch.randn(1, 8192, 8 * D, generator=torch.Generator().manual_seed(0))
    largest = []
    whole = regard.mask.sliding_window(left=20).__class__.allowed
    monkeypatch.setattr(
        regard.mask.sliding_window(left=20).__class__,
        "allowed",
        lambda self, places: largest.append(whole(self, places)) or largest[-1],
    )
    with torch.no_grad(), regard.capture(model) as cap:
        model(x)
    (record,) = cap.records
    assert (
        max((m.numel() for m in largest), default=0) <= 8192 * 64
    )  # a few rows of the mask at a time, never 8192 x 8192
    assert record.profile[:, 7:].abs().max() == 0  # nothing at distance 64 or more
    assert torch.allclose(record.series["row_sum"], torch.ones(H, 8192), atol=1e-5)


def test_a_call_that_fails_leaves_no_watcher_and_no_site():
    from regard.core.watchers import WATCHERS

    model = Model({"mask": WINDOW, "backend": "packed"})
    with pytest.raises(regard.core.errors.BackendError), regard.capture(model):
        model(inputs())
    assert WATCHERS == []


def test_calls_of_other_threads_are_not_taken_for_ours():
    import threading

    model, other = Model({"mask": WINDOW}), Model({"mask": sliding_window(left=2, right=2)})
    with regard.capture(model) as cap:
        thread = threading.Thread(target=other, args=(inputs(),))
        thread.start()
        thread.join()
        model(inputs())
    assert len(cap.records) == 2
