"""Two processes, each with half of the heads, compute what one layer computes: torch's own tensor parallelism."""

import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp

from regard.mask import causal
from regard.nn import MultiHeadAttention

EXACT = 1e-12  # float64, the same sums in another order
E = 24


def draws(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def layer_of_four_heads() -> MultiHeadAttention:
    layer = MultiHeadAttention(E, 4, num_kv_heads=2, mask=causal(), dtype=torch.float64)
    for seed, parameter in enumerate(layer.parameters()):
        parameter.data = draws(*parameter.shape, seed=seed)
    return layer.eval()


def one_of_two(rank: int, meeting: str, results) -> None:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=2)
    plan = {name: ColwiseParallel() for name in ("q_proj", "k_proj", "v_proj")} | {"out_proj": RowwiseParallel()}
    layer = parallelize_module(layer_of_four_heads(), init_device_mesh("cpu", (2,)), plan)
    x = draws(2, 5, E, seed=9)
    with torch.no_grad():
        cache = layer.new_cache(2, 5)
        decoded = torch.cat([layer(x[:, :3], cache=cache), layer(x[:, 3:], cache=cache)], dim=1)
        if rank == 0:
            results.put((layer(x).tolist(), decoded.tolist(), cache.key.shape[1]))
        else:
            layer(x)
    dist.destroy_process_group()


@pytest.mark.slow
@pytest.mark.skipif(not dist.is_available(), reason="this torch has no torch.distributed")
def test_two_processes_with_half_the_heads_each_compute_the_whole_layer(tmp_path):
    results = mp.get_context("spawn").SimpleQueue()
    mp.spawn(one_of_two, args=(str(tmp_path / "meeting"), results), nprocs=2)
    full, decoded, kv_heads = results.get()
    expected = layer_of_four_heads()(draws(2, 5, E, seed=9))
    assert kv_heads == 1
    torch.testing.assert_close(torch.tensor(full, dtype=torch.float64), expected, atol=EXACT, rtol=0)
    torch.testing.assert_close(torch.tensor(decoded, dtype=torch.float64), expected, atol=EXACT, rtol=0)
