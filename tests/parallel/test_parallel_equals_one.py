"""The distributed table: a sequence cut among processes is attended to as by one process, output and gradients."""

import pytest
import torch
import torch.distributed as dist
from many import draws, processes

from regard.core.attention import attention
from regard.mask import blocks, causal, dense, documents, global_tokens, padding, sliding_window
from regard.parallel import sequence_parallel

EXACT = 1e-12  # float64, the same sums in another order
B, H, G, D, T = 2, 12, 4, 5, 22  # 2, 3 and 4 processes can share 12 heads; 4 key heads: 3 cannot share them
pytestmark = pytest.mark.skipif(not dist.is_available(), reason="this torch has no torch.distributed")


def masks() -> dict:
    keep = torch.arange(T) < torch.tensor([[T], [T - 7]])
    chosen = torch.rand(B, H, T, T, generator=torch.Generator().manual_seed(5)) < 0.4
    return {
        "none": None,
        "padding": padding(keep),
        "lengths": padding(lengths=torch.tensor([T, 3])),  # whole processes hold padding only
        "causal": causal(),
        "causal & padding": causal() & padding(keep),
        "window": sliding_window(left=2, right=1),
        "causal window & padding": causal() & sliding_window(left=3) & padding(keep),
        "documents & causal": documents(torch.arange(T) // 6) & causal(),
        "window | global": sliding_window(2, 2) | global_tokens([0, 9]),
        "blocks": blocks(torch.ones(11, 11).tril().bool(), size=2),
        "dense, per head": dense(chosen),
    }


def case(kv_heads: int, extras: bool) -> dict[str, torch.Tensor]:
    """Tensors of the whole sequence."""
    sizes = {"query": (B, H, T, D), "key": (B, kv_heads, T, D), "value": (B, kv_heads, T, D + 1)}
    sizes |= {"bias": (1, H, T, T), "sink": (H,)} if extras else {}
    return {name: draws(*size, seed=seed) for seed, (name, size) in enumerate(sizes.items())}


def differences(
    rank: int, lengths: list[int], how: str, mask, given: dict, *, shown=None, **scores
) -> tuple[float, float]:
    """How far this process's part of the output, and of all gradients, is from one process's; `shown`: its mask instead."""
    whole = {name: x.clone().requires_grad_() for name, x in given.items()}
    weight = draws(B, H, T, D + 1, seed=9).transpose(1, 2).contiguous().transpose(1, 2)  # gradients in permuted strides
    expected = attention(whole["query"], whole["key"], whole["value"], mask=mask, **extra(whole), **scores)
    (expected * weight).sum().backward()
    first = sum(lengths[:rank])
    rows = slice(first, first + lengths[rank])
    part = {name: (x if name == "sink" else x[:, :, rows]).detach().clone() for name, x in given.items()}
    for x in part.values():
        x.requires_grad_()
    run = sequence_parallel(attention, how=how)
    output = run(
        part["query"], part["key"], part["value"], mask=mask if shown is None else shown, **extra(part), **scores
    )
    (output * weight[:, :, rows]).sum().backward()
    apart = [(output - expected[:, :, rows]).abs().max().item()]
    for name, x in part.items():
        mine, right = x.grad, whole[name].grad
        if name == "sink":
            dist.all_reduce(mine)  # a parameter of all: the sum over the processes
        apart.append((mine - (right if name == "sink" else right[:, :, rows])).abs().max().item())
    return apart[0], max(apart[1:])


def extra(given: dict) -> dict:
    return {name: given[name] for name in ("bias", "sink") if name in given}


def cut(size: int, even: bool) -> list[int]:
    lengths = [len(part) for part in torch.arange(T).tensor_split(size)]
    return lengths if even else [lengths[0] - 3, *lengths[1:-1], lengths[-1] + 3]


def table(rank: int, size: int) -> list:
    hows = ("ulysses", "allgather")
    plain, small = case(H, extras=False), case(G if size != 3 else 1, extras=False)
    rows = []
    for how in hows:
        for name, mask in masks().items():
            rows.append((how, name, *differences(rank, cut(size, True), how, mask, plain)))
        uneven, with_bias = cut(size, False), case(H, extras=True)
        rows.append((how, "causal, uneven parts", *differences(rank, uneven, how, causal(), plain)))
        rows.append((how, "causal, fewer key heads", *differences(rank, uneven, how, causal(), small)))
        rows.append(
            (how, "(another mask)", *differences(rank, uneven, how, None, plain, shown=sliding_window(right=T - 2)))
        )
        rows.append((how, "bias, sink, softcap", *differences(rank, uneven, how, causal(), with_bias, softcap=3.0)))
    return rows


def check_table(size: int, folder, capsys) -> None:
    said = processes(size, table, folder, size)
    rows = [(*row[0][:2], *(max(r[i] for r in row) for i in (2, 3))) for row in zip(*said, strict=True)]
    with capsys.disabled():
        print(f"\n{size} gloo processes against one, float64, largest difference over all processes")
        print(f"{'how':10} {'mask':26} {'output':>8} {'gradient':>8}")
        for how, name, output, gradient in rows:
            print(f"{how:10} {name:26} {output:8.1e} {gradient:8.1e}")
    assert len(rows) == 2 * (len(masks()) + 4)
    for how, name, output, gradient in rows:
        if name == "(another mask)":  # one pair of 484 is hidden: the table must see it
            assert min(output, gradient) > 1e-3, how
        else:
            assert max(output, gradient) <= EXACT, (how, name)


def test_two_processes_compute_what_one_computes(tmp_path, capsys):
    check_table(2, tmp_path, capsys)


@pytest.mark.slow
@pytest.mark.parametrize("size", [3, 4])
def test_three_and_four_processes_compute_what_one_computes(size, tmp_path, capsys):
    check_table(size, tmp_path, capsys)
