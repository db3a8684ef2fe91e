"""Checking leaves everything as it was: the module, torch's seed, default dtype, grad mode, threads and flags."""

from __future__ import annotations

import copy

import pytest
import torch
from attention_to_check import Leaky, Plain
from torch import nn

import regard


def fingerprint(module: nn.Module) -> list:
    return [module.training, [(n, v.clone(), v.dtype) for n, v in module.state_dict().items()], sorted(vars(module))]


@pytest.mark.parametrize("training", [True, False])
def test_the_module_keeps_its_weights_its_mode_and_its_attributes(training):
    module = Leaky().train(training)
    module.q.weight.grad = torch.ones_like(module.q.weight)
    before = fingerprint(module)
    regard.check(module)
    after = fingerprint(module)
    assert (after[0], after[2]) == (before[0], before[2])
    assert all(torch.equal(a[1], b[1]) and a[2] == b[2] for a, b in zip(after[1], before[1], strict=True))
    assert torch.equal(module.q.weight.grad, torch.ones_like(module.q.weight))
    assert module.k.weight.grad is None
    assert not module._forward_hooks


def test_torch_keeps_its_seed_its_dtype_its_grad_mode_its_threads_and_its_flags():
    torch.manual_seed(123)
    state, threads = torch.random.get_rng_state(), torch.get_num_threads()
    regard.check(Plain(), select=["ATT1", "ATT5", "ATT603"])
    torch.manual_seed(123)
    assert torch.equal(torch.random.get_rng_state(), state)
    torch.manual_seed(5)
    module = Plain()
    state = torch.random.get_rng_state()
    regard.check(module, select=["ATT1", "ATT501", "ATT603"])
    assert torch.equal(torch.random.get_rng_state(), state)
    assert torch.get_default_dtype() == torch.float32
    assert torch.is_grad_enabled()
    assert torch.get_num_threads() == threads
    assert not torch.are_deterministic_algorithms_enabled()


def test_grad_mode_is_kept_where_it_was_off():
    with torch.no_grad():
        regard.check(Plain(), select=["ATT701", "ATT602"])
        assert not torch.is_grad_enabled()


class Meddler(Plain):
    """Changes what belongs to the process in every call."""

    def forward(self, x):
        torch.set_default_dtype(torch.float64)
        torch.manual_seed(0)
        torch.set_grad_enabled(True)
        torch.use_deterministic_algorithms(True)
        return super().forward(x)


def test_what_a_module_changes_in_torch_is_put_back():
    module = Meddler()
    state = torch.random.get_rng_state()
    try:
        regard.check(module, select=["ATT301", "ATT501"])
        assert torch.get_default_dtype() == torch.float32
        assert not torch.are_deterministic_algorithms_enabled()
        assert torch.equal(torch.random.get_rng_state(), state)
    finally:
        torch.set_default_dtype(torch.float32)
        torch.use_deterministic_algorithms(False)


class Talker(Plain):
    def forward(self, x):
        print("a line of the module's own")
        return super().forward(x)


def test_what_a_module_prints_is_not_shown(capsys):
    regard.check(Talker(), select=["ATT301"])
    assert capsys.readouterr().out == ""


def test_a_module_that_cannot_be_copied_says_so_instead_of_being_changed():
    class Uncopied(Plain):
        def __deepcopy__(self, memo):
            raise TypeError("this module holds a connection")

    with pytest.raises(TypeError, match="connection"):
        regard.check(Uncopied(), select=["ATT301"])


def test_two_checks_of_one_object_do_not_know_of_each_other():
    module = Leaky()
    first = regard.check(module, select=["ATT101"])
    second = regard.check(copy.deepcopy(module), select=["ATT101"])
    third = regard.check(module, select=["ATT101"])
    assert first.findings == third.findings
    assert [f.measured for f in second.findings] == [f.measured for f in first.findings]


class Always(nn.Module):
    """Dropout in every mode: wanted where the call says so, a fault where nothing is said."""

    def __init__(self, said: bool):
        super().__init__()
        self.said, self.qkv = said, nn.Linear(16, 48)

    def forward(self, x):
        q, k, v = self.qkv(x).chunk(3, -1)
        v = nn.functional.dropout(v, 0.5, training=True) if self.said else nn.functional.dropout(v, 0.5)
        return (q @ k.mT * 0.25).softmax(-1) @ v


@pytest.mark.parametrize(("said", "level"), [(True, "question"), (False, "error")])
def test_dropout_that_the_call_wants_in_every_mode_is_asked_about(said, level):
    report = regard.check(Always(said), select=["ATT501", "ATT503"])
    assert [(f.rule, f.level) for f in report.findings] == [("ATT501", level)]
