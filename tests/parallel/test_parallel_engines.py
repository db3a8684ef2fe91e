"""What goes over the wire, layers and whole models cut by sequence, and torch's own engines on our layer."""

import copy

import pytest
import torch
import torch.distributed as dist
from many import draws, processes
from torch import nn

from regard.core.attention import attention
from regard.mask import causal, padding, sliding_window
from regard.nn import MultiHeadAttention
from regard.nn.alibi_bias import AlibiBias
from regard.parallel import sequence_parallel, shard
from regard.position import Rotary

EXACT = 1e-12  # float64, the same sums in another order
LOOSE = 1e-6  # float32 through two layers of a transformers model
B, T, E, H, G, D = 2, 12, 24, 4, 2, 6
NUMBER = 8  # bytes of a float64
pytestmark = pytest.mark.skipif(not dist.is_available(), reason="this torch has no torch.distributed")


def layer(**options) -> MultiHeadAttention:
    made = MultiHeadAttention(E, H, num_kv_heads=G, dtype=torch.float64, **options)
    for seed, parameter in enumerate(made.parameters()):
        parameter.data = draws(*parameter.shape, seed=seed) / 4
    return made


def gradients(module: nn.Module) -> torch.Tensor:
    return torch.cat([p.grad.flatten() for p in module.parameters()])


def wire(mask) -> list[int]:
    """Bytes that this process sends to the other: in forward, and in backward."""
    run, x = sequence_parallel(), draws(1, 2, 8, 5).requires_grad_()
    output = run(x, x, x, mask=mask)
    forward = run.link.sent
    output.sum().backward()
    return [forward, run.link.sent - forward]


def cut_layer(how: str, **options) -> float:
    """Largest difference of outputs and summed gradients of a layer that is cut."""
    whole = layer(**options)
    keep = torch.arange(T) < torch.tensor([[T], [T - 4]])
    x, weight = draws(B, T, E, seed=7), draws(B, T, E, seed=8)
    expected = whole(x, mask=padding(keep))
    (expected * weight).sum().backward()
    part = sequence_parallel(layer(**options), how=how)
    output = part(shard(x), mask=padding(keep))
    (output * shard(weight)).sum().backward()
    found = gradients(part.layer)
    dist.all_reduce(found)
    apart = (output - shard(expected)).abs().max(), (found - gradients(whole)).abs().max()
    return max(x.item() for x in apart)


def data_parallel() -> float:
    """Each process has half of the batch; DDP's mean of gradients against that of the whole batch."""
    x, whole = draws(B, T, E, seed=7), layer(mask=causal())
    (whole(x).square().sum() / 2).backward()
    part = nn.parallel.DistributedDataParallel(layer(mask=causal()))
    part(x[dist.get_rank()][None]).square().sum().backward()
    return (gradients(part.module) - gradients(whole)).abs().max().item()


def tensor_parallel() -> float:
    """Half of the heads in each process, torch's DTensor; gradients of the parts against those of the whole."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    x, whole = draws(B, T, E, seed=7), layer(mask=causal())
    expected = whole(x)
    expected.square().sum().backward()
    plan = {name: ColwiseParallel() for name in ("q_proj", "k_proj", "v_proj")} | {"out_proj": RowwiseParallel()}
    part = parallelize_module(layer(mask=causal()), init_device_mesh("cpu", (2,)), plan)
    output = part(x)
    output.square().sum().backward()
    found = torch.cat([p.grad.full_tensor().flatten() for p in part.parameters()])
    return max((output - expected).abs().max().item(), (found - gradients(whole)).abs().max().item())


def everything(rank: int) -> dict:
    return {
        "wire": {
            "none": wire(None),
            "causal": wire(causal()),
            "window": wire(causal() & sliding_window(left=3)),
            "both sides": wire(sliding_window(left=1, right=2) & padding(torch.ones(1, 16, dtype=torch.bool))),
        },
        "positions": sequence_parallel().shards(3 + rank).positions().tolist(),
        "rotary": cut_layer("ulysses", mask=causal(), position=Rotary(D, pairing="half"), qk_norm=nn.RMSNorm),
        "alibi": cut_layer("allgather", mask=causal(), attention_bias=AlibiBias(H)),
        "alibi by heads": cut_layer("ulysses", attention_bias=AlibiBias(H)),
        "ddp": data_parallel(),
        "tensor parallel": tensor_parallel(),
    }


def test_wires_layers_and_engines_in_two_processes(tmp_path, capsys):
    first, second = processes(2, everything, tmp_path)
    token = 2 * (5 + 5) * NUMBER  # two heads, a key and a value of five numbers
    with capsys.disabled():
        print("\nbytes sent to the other process, [forward, backward], process 0 and process 1; 8 tokens each")
        for name in first["wire"]:
            print(f"{name:12} {first['wire'][name]} {second['wire'][name]}")
    assert first["wire"]["none"] == second["wire"]["none"] == [8 * token, 8 * token]
    assert (first["wire"]["causal"], second["wire"]["causal"]) == ([8 * token, 0], [0, 8 * token])
    assert (first["wire"]["window"], second["wire"]["window"]) == ([3 * token, 0], [0, 3 * token])
    assert (first["wire"]["both sides"], second["wire"]["both sides"]) == ([token, 2 * token], [2 * token, token])
    assert (first["positions"], second["positions"]) == ([0, 1, 2], [3, 4, 5, 6])
    for name in ("rotary", "alibi", "alibi by heads", "ddp", "tensor parallel"):
        print(f"{name:18} {max(first[name], second[name]):.1e}")
        assert max(first[name], second[name]) <= EXACT, name


def fully_sharded() -> float:
    """FSDP2: parameters cut among the processes, each with half of the batch."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    x, whole = draws(B, T, E, seed=7), layer(mask=causal())
    (whole(x).square().sum() / 2).backward()
    part = fully_shard(layer(mask=causal()), mesh=init_device_mesh("cpu", (2,)))
    part(x[dist.get_rank()][None]).square().sum().backward()
    found = torch.cat([p.grad.full_tensor().flatten() for p in part.parameters()])
    return (found - gradients(whole)).abs().max().item()


def inside_transformers(how: str, causal_model: bool) -> float:
    """A transformers model whose sequence is cut, ours inside: hidden states, and gradients summed over the processes."""
    import transformers

    from regard.adapt import hf

    sizes = {
        "hidden_size": 64,
        "num_attention_heads": 4,
        "num_hidden_layers": 2,
        "intermediate_size": 48,
        "vocab_size": 60,
    }
    kind = "Llama" if causal_model else "Bert"
    more = {"num_key_value_heads": 2} if causal_model else {}
    model = getattr(transformers, f"{kind}Model")(getattr(transformers, f"{kind}Config")(**sizes, **more)).eval()
    for seed, parameter in enumerate(model.parameters()):
        if parameter.ndim > 1:
            parameter.data = draws(*parameter.shape, seed=seed).float() / parameter.shape[-1] ** 0.5
    part = copy.deepcopy(model)
    ids = torch.randint(3, 60, (B, T), generator=torch.Generator().manual_seed(3))
    keep = torch.arange(T) < torch.tensor([[T], [T - 4]])
    expected = model(ids, attention_mask=keep.long()).last_hidden_state
    (expected * keep[..., None]).square().sum().backward()
    place = torch.arange(T).expand(B, T)
    with hf.use(part, attention=sequence_parallel(attention, how=how), mask=padding(keep)):
        output = part(shard(ids), position_ids=shard(place).contiguous()).last_hidden_state
        (output * shard(keep)[..., None]).square().sum().backward()
    apart = ((output - shard(expected)) * shard(keep)[..., None]).abs().max().item()
    largest = max(p.grad.abs().max().item() for p in model.parameters() if p.grad is not None)
    for mine, right in zip(part.parameters(), model.parameters(), strict=True):
        if right.grad is not None:
            dist.all_reduce(mine.grad)
            apart = max(apart, (mine.grad - right.grad).abs().max().item() / largest)
    return apart


def larger(rank: int) -> dict:
    found = {"fsdp": fully_sharded()}
    for how in ("ulysses", "allgather"):
        for causal_model in (True, False):
            found[f"{how}, {'llama' if causal_model else 'bert'}"] = inside_transformers(how, causal_model)
    return found


@pytest.mark.slow
def test_fsdp_and_transformers_models_in_two_processes(tmp_path):
    pytest.importorskip("transformers", reason="needs transformers")
    first, second = processes(2, larger, tmp_path)
    for name in first:
        print(f"{name:20} {max(first[name], second[name]):.1e}")
        assert max(first[name], second[name]) <= (EXACT if name == "fsdp" else 10 * LOOSE), name
