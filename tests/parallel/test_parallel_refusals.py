"""What processes that do not go together are told, and that nobody waits for ever for one that is gone."""

import multiprocessing
import os
import pathlib
import time

import pytest
import torch
import torch.distributed as dist
from many import draws, processes

from regard.core.errors import ParallelError, RegardError, ShapeError
from regard.mask import causal, dense, padding
from regard.parallel import sequence_parallel
from regard.parallel.heads_exchange import check_heads
from regard.parallel.shards import check_lengths

LIMIT = 3.0  # seconds that a process waits for another
BOUND = 40.0  # seconds within which it must have ended: the limit, and the start of python and torch on a busy machine
pytestmark = pytest.mark.skipif(not dist.is_available(), reason="this torch has no torch.distributed")


def test_heads_that_the_processes_cannot_share_are_refused_with_the_sizes_that_work():
    with pytest.raises(
        ParallelError, match=r"3 processes cannot share 8 query heads; groups of 1, 2, 4, 8 can, and how='allg"
    ):
        check_heads(8, 8, 3)
    with pytest.raises(
        ParallelError, match=r"3 processes cannot share 12 query heads and 2 key heads; groups of 1, 2, 4, 6, 12"
    ):
        check_heads(12, 2, 3)
    check_heads(12, 3, 6)


def test_lengths_that_do_not_fit_are_refused():
    with pytest.raises(ParallelError, match=r"lengths has 3 entries, \[4, 4, 4\], and the group has 2 processes"):
        check_lengths((4, 4, 4), 4, 0, 2, "queries")
    with pytest.raises(ParallelError, match="lengths says 5 tokens for process 1, and its queries have 4"):
        check_lengths((5, 5), 4, 1, 2, "queries")
    with pytest.raises(ParallelError, match="1 tokens cannot be cut for 2 processes, each of which needs one"):
        check_lengths((1, 0), 1, 0, 2, "queries")


def test_without_a_process_group_it_says_how_to_start_one():
    with pytest.raises(
        ParallelError, match=r"has not been started in this process; call torch.distributed.init_process_group"
    ):
        sequence_parallel()
    with pytest.raises(ParallelError, match="how must be 'ulysses' or 'allgather', got 'ring'"):
        sequence_parallel(how="ring")  # pyright: ignore[reportArgumentType]


def said(call) -> str:
    try:
        call()
    except RegardError as error:
        return f"{type(error).__name__}: {error}"
    return "nothing"


def wrong_calls(rank: int) -> dict[str, str]:
    from torch.distributed.device_mesh import init_device_mesh

    run, x = sequence_parallel(), draws(2, 3, 4, 5)
    ulysses, other = sequence_parallel(how="ulysses"), dist.new_group([0])
    mesh = init_device_mesh("cpu", (2, 1), mesh_dim_names=("a", "b"))
    wide = draws(2, 3, 4, 5 + rank)
    return {
        "heads": said(lambda: ulysses(x, x, x)),
        "keep": said(lambda: run(x, x, x, mask=padding(torch.ones(2, 4, dtype=torch.bool)))),
        "dense": said(lambda: run(x, x, x, mask=dense(torch.ones(4, 4).tril().bool()))),
        "bias": said(lambda: run(x, x, x, bias=draws(1, 3, 4, 4))),
        "widths": said(lambda: run(wide, wide, x)),
        "masks": said(lambda: run(x, x, x, mask=causal() if rank else None)),
        "member": said(lambda: sequence_parallel(group=other)),
        "mesh": said(lambda: sequence_parallel(group=mesh)),
        "axis": said(lambda: sequence_parallel(group=mesh["a"])(x, x, x)),
        "rank": said(lambda: run(x[0], x, x)),
        "layer": said(lambda: sequence_parallel(torch.nn.Linear(2, 2))),
        "lengths": said(lambda: sequence_parallel(lengths=(4, 3))(x, x, x) if rank == 1 else None),
    }


def test_what_does_not_fit_is_refused_in_every_process_with_the_numbers_of_the_whole(tmp_path):
    first, second = processes(2, wrong_calls, tmp_path)
    shared = {name: text for name, text in first.items() if name not in ("member", "lengths")}
    assert shared == {name: second[name] for name in shared}
    expected = {
        "heads": "2 processes cannot share 3 query heads; groups of 1, 3 can, and how='allgather' takes any",
        "keep": "keep of padding() covers 4 keys, but the call has 8",
        "dense": "the mask is (4, 4), but the call has 8 queries and 8 keys",
        "bias": "bias must have this process's 4 rows and all 8 keys, (B or 1, H or 1, 4, 8), got (1, 3, 4, 4)",
        "widths": "ParallelError: the 2 processes were called with different D: [5, 6]",
        "masks": "ParallelError: the 2 processes were called with different mask, scale, softcap or dropout",
        "mesh": "the device mesh has 2 dimensions ('a', 'b'); give the one along which sequences are cut",
        "rank": "query must be (B, H, t, D), this process's part, got (3, 4, 5)",
        "layer": "Linear has no q_proj, k_proj",
    }
    for name, text in expected.items():
        assert text in shared[name], (name, shared[name])
        assert shared[name] != "nothing"
    assert shared["axis"] == "nothing"
    assert first["member"] == "nothing"
    assert "process 1 of 2 is not in this group; only its members may call" in second["member"]
    assert "lengths says 3 tokens for process 1, and its queries have 4" in second["lengths"]


def forsaken(rank: int, folder: str, when: str, how: str) -> None:
    """Process 1 goes away before, or between forward and backward; process 0 writes down what it was told and when."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=2)
    x = draws(2, 2, 4, 5, seed=rank).requires_grad_()
    run = sequence_parallel(how="ulysses", timeout=LIMIT)
    run(x, x, x)  # both are there
    if rank == 1:
        if when == "backward":
            run(x, x, x)
        if how == "killed":
            os._exit(9)
        time.sleep(3 * BOUND)
    start = time.monotonic()
    try:
        output = run(x, x, x)
        assert when == "backward"
        output.sum().backward()
        text = "nothing"
    except ParallelError as error:
        text = str(error)
    pathlib.Path(folder, "told.txt").write_text(f"{time.monotonic() - start}\n{text}")
    os._exit(0)


@pytest.mark.parametrize(
    ("when", "how"),
    [
        ("forward", "killed"),
        pytest.param("forward", "hanging", marks=pytest.mark.slow),
        pytest.param("backward", "killed", marks=pytest.mark.slow),
        pytest.param("backward", "hanging", marks=pytest.mark.slow),
    ],
)
def test_a_process_that_is_killed_or_hangs_ends_the_others_with_an_error_in_bounded_time(when, how, tmp_path):
    context = multiprocessing.get_context("spawn")
    both = [context.Process(target=forsaken, args=(rank, str(tmp_path), when, how)) for rank in range(2)]
    for process in both:
        process.start()
    both[0].join(3 * BOUND)
    alive = both[0].is_alive()
    for process in both:
        process.kill()
        process.join()
    assert not alive
    seconds, text = (tmp_path / "told.txt").read_text().split("\n", 1)
    what = "gradients of" if when == "backward" else ""
    assert f"process 0 of 2 got no answer while exchanging {what}" in text
    assert "(limit: 3 s): another process of the group has ended or hangs" in text
    assert float(seconds) < BOUND


def test_the_errors_are_ours():
    assert issubclass(ParallelError, RegardError)
    assert issubclass(ShapeError, RegardError)
