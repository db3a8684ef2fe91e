"""Our layers behave as torch's do under other tools: LoRA, parametrisations, torch.func, meta device, threads."""

import importlib.util
import threading

import pytest
import torch
from our_modules import OUR_MODULES, E
from torch import nn
from torch.nn.utils import parametrize

from regard.mask import causal
from regard.nn import MultiHeadAttention

B, T = 3, 6
ATTENTION = [name for name in OUR_MODULES if name.startswith(("attention", "block"))]
EXACT = 1e-10  # float64, summed in batches of another shape


def draws(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def filled(module: nn.Module) -> nn.Module:
    for seed, parameter in enumerate(module.parameters()):
        parameter.data = draws(*parameter.shape, seed=seed) / max(1, parameter.shape[-1]) ** 0.5
    return module.eval()


@pytest.mark.parametrize("name", OUR_MODULES)
def test_it_is_made_without_memory_on_the_meta_device_and_runs_there(name):
    with torch.device("meta"):
        module = OUR_MODULES[name]().eval()
    assert all(tensor.is_meta for tensor in (*module.parameters(), *module.buffers()))
    if not name.startswith("hashed"):  # buckets are found by sorting values, which meta tensors do not have
        assert module(torch.zeros(B, T, E, device="meta")).shape == (B, T, E)


def test_weights_that_were_put_off_are_drawn_as_if_made_at_once():
    torch.manual_seed(3)  # reset_parameters draws from torch's own generator, as torch's layers do
    at_once = MultiHeadAttention(E, 4, num_kv_heads=2)
    late = MultiHeadAttention(E, 4, num_kv_heads=2, device="meta").to_empty(device="cpu")
    torch.manual_seed(3)
    for part in (late.q_proj, late.k_proj, late.v_proj, late.out_proj):
        part.reset_parameters()  # what the constructor of nn.Linear draws first
    late.reset_parameters()
    for one, other in zip(at_once.parameters(), late.parameters(), strict=True):
        assert torch.equal(one, other)


class Doubled(nn.Module):
    def forward(self, weight):
        return 2 * weight

    def right_inverse(self, weight):
        return weight / 2


@pytest.mark.parametrize("projection", ["q_proj", "k_proj", "v_proj", "out_proj"])
def test_a_parametrised_projection_is_the_one_that_is_used(projection):
    layer, x = filled(MultiHeadAttention(E, 4, num_kv_heads=2, mask=causal())), draws(B, T, E)
    before = layer(x)
    parametrize.register_parametrization(getattr(layer, projection), "weight", Doubled())
    torch.testing.assert_close(layer(x), before)
    getattr(layer, projection).parametrizations.weight.original.data.mul_(1.5)
    assert not torch.allclose(layer(x), before)
    assert layer.inspect(x).output.shape == x.shape


@pytest.mark.parametrize("name", ATTENTION)
def test_gradients_per_sample_through_vmap_are_those_of_each_sample(name):
    module, x = filled(OUR_MODULES[name]()).double(), draws(B, T, E).double()
    parameters = dict(module.named_parameters())

    def loss(weights, sample):
        return torch.func.functional_call(module, weights, (sample[None],)).square().sum()

    together = torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0))(parameters, x)
    for i in range(B):
        alone = torch.func.grad(loss)(parameters, x[i])
        for key, gradient in alone.items():
            torch.testing.assert_close(together[key][i], gradient, atol=EXACT, rtol=0)


@pytest.mark.parametrize("name", ATTENTION)
def test_deterministic_mode_takes_it_and_two_runs_agree_in_every_bit(name):
    module = filled(OUR_MODULES[name]())

    def run():
        x = draws(B, T, E).requires_grad_()
        output = module(x)
        return output, *torch.autograd.grad(output.square().sum(), (x, *module.parameters()), allow_unused=True)

    was = torch.are_deterministic_algorithms_enabled()
    torch.use_deterministic_algorithms(True)
    try:
        first, second = run(), run()
    finally:
        torch.use_deterministic_algorithms(was)
    assert all(torch.equal(x, y) for x, y in zip(first, second, strict=True) if x is not None)


def test_threads_that_share_a_layer_get_what_each_would_get_alone():
    layer = filled(MultiHeadAttention(E, 4, mask=causal()))
    inputs = [draws(B, length, E, seed=length) for length in range(2, 10)]
    with torch.no_grad():
        alone = [layer(x) for x in inputs]
    found: dict[int, torch.Tensor] = {}

    def work(i: int) -> None:
        with torch.no_grad():
            for _ in range(5):
                found[i] = layer(inputs[i])

    threads = [threading.Thread(target=work, args=(i,)) for i in range(len(inputs))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(torch.equal(found[i], x) for i, x in enumerate(alone))


@pytest.mark.skipif(importlib.util.find_spec("peft") is None, reason="needs peft")
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning", "ignore::FutureWarning")
def test_lora_of_peft_trains_our_projections_and_merges_into_them():
    import peft

    model = nn.ModuleDict({"attention": filled(MultiHeadAttention(E, 4, num_kv_heads=2, mask=causal()))})
    model.forward = model["attention"].forward
    x = draws(B, T, E)
    before = model(x).detach()
    config = peft.LoraConfig(r=2, target_modules=["q_proj", "k_proj", "v_proj", "out_proj"], init_lora_weights=True)
    tuned = peft.get_peft_model(model, config)
    assert torch.equal(tuned(x), before)  # LoRA starts at 0
    trained = {name for name, p in tuned.named_parameters() if p.requires_grad}
    assert len(trained) == 8
    assert all("lora_" in name for name in trained)
    for seed, (_, p) in enumerate(sorted(tuned.named_parameters())):
        if p.requires_grad:
            p.data = draws(*p.shape, seed=seed)
    tuned(x).square().sum().backward()
    assert all(p.grad.abs().max() > 0 for p in tuned.parameters() if p.requires_grad)
    after = tuned(x).detach()
    assert not torch.allclose(after, before)
    merged = tuned.merge_and_unload()
    assert type(merged["attention"].q_proj) is nn.Linear
    torch.testing.assert_close(merged["attention"](x), after, atol=1e-4, rtol=1e-4)


@pytest.mark.filterwarnings("ignore")  # torch says that torchao will take the place of this
@pytest.mark.parametrize(
    "name", ["attention grouped", "talking heads", "linear causal", "favor causal", "hashed causal"]
)
def test_projections_that_torch_made_int8_are_taken_as_they_are(name):
    layer = OUR_MODULES[name]().eval()
    small = torch.ao.quantization.quantize_dynamic(layer, {torch.nn.Linear}, dtype=torch.qint8)
    x = torch.randn(2, 5, E, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        exact, rough = layer(x), small(x)
    assert 0 < (rough - exact).abs().max() < 0.1 * exact.abs().max() + 0.05
