"""capture refuses what cannot be, keeps to its budget, saves whole files, and leaves nothing behind."""

import json
import logging

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import regard
from regard.core.errors import CaptureError
from regard.recording.capture import bytes_of
from regard.recording.store import load

E, H, T = 16, 2, 12


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.num_heads = H
        self.qkv, self.o = nn.Linear(E, 3 * E), nn.Linear(E, E)

    def forward(self, x):
        q, k, v = self.qkv(x).view(*x.shape[:2], 3, H, E // H).permute(2, 0, 3, 1, 4)
        return x + self.o(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))


def model(layers=3):
    torch.manual_seed(0)
    return nn.Sequential(*(Block() for _ in range(layers)))


X = torch.randn(1, T, E, generator=torch.Generator().manual_seed(1))


def test_layers_and_heads_can_be_chosen_by_number_or_path():
    with regard.capture(model(), layers=[0, "2"], heads=1, level="full") as cap:
        cap.model(X)
    assert [(r.layer, r.path, r.head_names, tuple(r.weights.shape)) for r in cap.records] == [
        (0, "0", [1], (1, T, T)),
        (2, "2", [1], (1, T, T)),
    ]
    with regard.capture(cap.model, level="full") as whole:
        cap.model(X)
    assert torch.equal(cap.records[1].weights[0], whole.records[2].weights[1])


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"layers": 3}, "there is no layer 3; layers are 0 to 2"),
        ({"layers": "decoder"}, "no attention layer has 'decoder' in its path"),
        ({"heads": [0, 2]}, "there is no head 2; heads are 0 to 1"),
        ({"samples": 1}, "there is no sample 1; samples are 0 to 0"),
        ({"level": "rows", "queries": 12}, "there is no query 12; queries are 0 to 11"),
        (
            {"level": "full", "budget": "1kB"},
            r"level 'full' needs more than .* budget is 1 kB; level 'summary' needs about",
        ),
        ({"level": "all"}, "level 'all' is not one of summary, rows, full"),
        ({"budget": "much"}, "budget 'much' is not a size"),
    ],
)
def test_what_cannot_be_captured_is_refused_with_the_way_out(options, text):
    with pytest.raises(CaptureError, match=text), regard.capture(model(), **options) as cap:
        cap.model(X)


def test_no_attention_is_an_error_that_says_what_was_seen():
    net = nn.Sequential(nn.Linear(E, 4), nn.Softmax(-1))
    with (
        pytest.raises(
            CaptureError,
            match=r"no attention seen in Sequential while it ran\. Seen and not captured: a softmax over axis",
        ),
        regard.capture(net) as cap,
    ):
        cap.model(X)


def test_something_that_is_no_module_is_refused():
    with pytest.raises(CaptureError, match=r"capture needs an nn\.Module, got function"):
        regard.capture(lambda x: x)


def test_an_error_of_the_model_is_passed_on_as_it_is():
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"), regard.capture(model()) as cap:
        cap.model(torch.randn(1, T, 5))


def test_over_budget_the_model_still_runs_and_nothing_large_is_held():
    net, kept = model(), {}
    with pytest.raises(CaptureError, match="layer 0"), regard.capture(net, level="full", budget=100) as cap:
        kept["out"] = net(X)
    assert torch.equal(kept["out"], net(X))
    assert sum(r.nbytes for r in cap.records if r.weights is not None) == 0


def test_the_model_is_left_as_it_was():
    net = model().train()
    before = {name: id(p) for name, p in net.named_parameters()}
    with torch.enable_grad(), regard.capture(net) as cap:
        net(X)
        assert torch.is_grad_enabled()
    assert net.training
    assert before == {name: id(p) for name, p in net.named_parameters()}
    assert all(not m._forward_hooks and not m._forward_pre_hooks for m in net.modules())
    assert all(not x.requires_grad for r in cap.records for x in r.arrays().values())


def test_two_calls_are_two_runs_and_one_call_of_two_samples_two_samples():
    net = model(1)
    with regard.capture(net) as cap:
        net(X)
        net(X.repeat(2, 1, 1))
    assert [(r.run, r.sample) for r in cap.records] == [(0, 0), (0, 1), (1, 0)]
    with regard.capture(net, samples=0) as cap:
        net(X.repeat(2, 1, 1))
    assert [(r.run, r.sample) for r in cap.records] == [(0, 0)]


def test_a_layer_that_is_used_twice_in_one_pass_is_two_runs_of_it():
    block = Block()
    with regard.capture(nn.Sequential(block, block)) as cap:
        cap.model(X)
    assert [(r.layer, r.run) for r in cap.records] == [(0, 0), (0, 1)]


def test_captures_can_stand_inside_each_other():
    net = model(1)
    with regard.capture(net) as outer, regard.capture(net, level="full") as inner:
        net(X)
    assert len(outer.records) == len(inner.records) == 1


def test_a_saved_capture_is_read_back_whole(tmp_path):
    with regard.capture(model(), level="rows", tokens=[f"w{i}" for i in range(T)], segments=[("a", 0, 6)]) as cap:
        cap.model(X)
    path = cap.save(tmp_path / "cap.safetensors")
    again = load(path)
    assert again.tokens.labels == cap.tokens.labels
    assert again.missed == cap.missed
    for one, other in zip(cap.records, again.records, strict=True):
        assert one.meta() == other.meta()
        assert one.arrays().keys() == other.arrays().keys()
        assert all(torch.equal(x.nan_to_num(-1), other.arrays()[n].nan_to_num(-1)) for n, x in one.arrays().items())
    assert json.loads(json.dumps(again.records[0].meta())) is not None
    assert [p.name for p in tmp_path.iterdir()] == ["cap.safetensors"]


def test_a_file_that_is_cut_off_newer_or_something_else_is_refused(tmp_path):
    with regard.capture(model(1)) as cap:
        cap.model(X)
    path = cap.save(tmp_path / "cap.safetensors")
    whole = path.read_bytes()
    (tmp_path / "cut").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(CaptureError, match="cannot be read, it may be cut off"):
        load(tmp_path / "cut")
    (tmp_path / "newer").write_bytes(whole.replace(b'{\\"format\\": 1', b'{\\"format\\": 9'))
    with pytest.raises(CaptureError, match="is of format 9 and this version of regard reads up to 1"):
        load(tmp_path / "newer")
    from safetensors.torch import save_file

    save_file({"x": torch.ones(1)}, tmp_path / "other")
    with pytest.raises(CaptureError, match="is a safetensors file, but not a capture"):
        load(tmp_path / "other")
    with pytest.raises(CaptureError, match="there is no file"):
        load(tmp_path / "none")


def test_nothing_is_written_where_there_is_no_folder_or_no_record(tmp_path):
    cap = regard.capture(model(1))
    with pytest.raises(CaptureError, match="there is no record to save"):
        cap.save(tmp_path / "cap")
    with cap:
        cap.model(X)
    with pytest.raises(CaptureError, match="there is no folder"):
        cap.save(tmp_path / "no" / "cap")
    assert list(tmp_path.iterdir()) == []


def test_weights_that_do_not_explain_the_output_are_refused(monkeypatch):
    from regard.intercept import kernels

    right = kernels.fused_site

    def wrong(*args, **seen):
        site = right(*args, **seen)
        site.scale *= 3
        return site

    monkeypatch.setattr(kernels, "fused_site", wrong)
    with (
        pytest.raises(CaptureError, match="the weights times the values miss the output by"),
        regard.capture(model(1)) as cap,
    ):
        cap.model(X)


def test_the_size_is_logged_before_it_is_kept(caplog):
    with caplog.at_level(logging.INFO, logger="regard.capture"), regard.capture(model(1), level="full") as cap:
        cap.model(X)
    assert "bytes" in caplog.text


@pytest.mark.parametrize(
    ("text", "size"), [("256MB", 256_000_000), ("1GiB", 1 << 30), ("10B", 10), ("1.5 kB", 1500), (7, 7)]
)
def test_budgets_are_read(text, size):
    assert bytes_of(text) == size


def test_the_page_is_written_from_a_capture_and_from_a_file(tmp_path):
    with regard.capture(model(1), level="full", tokens=[f"w{i}" for i in range(T)]) as cap:
        cap.model(X)
    assert cap.to_html(tmp_path / "a.html").stat().st_size > 1000
    assert load(cap.save(tmp_path / "cap")).to_html(tmp_path / "b.html").stat().st_size > 1000
    assert "<iframe" in cap._repr_html_()
