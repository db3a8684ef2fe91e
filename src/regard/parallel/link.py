"""What processes send each other, with gradients: rows go out, rows come in, and in backward they go the way back.

torch's functional collectives carry the data; `torch.distributed.nn.functional` is not used: over gloo it returns wrong
gradients where they arrive with permuted strides. So every tensor is made contiguous before it is sent, in both directions.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from regard.core.errors import ParallelError


class Link:
    """The processes of one group, as one of them sees them.

    Args:
        group: A process group, a one-dimensional device mesh, or None for all processes.
        timeout: Seconds after which a process that waits gives up; a group of its own is made for it. None: the
            timeout that the group has. Every process of the group must ask for the same.

    Attributes:
        rank, size: This process's number in the group, and how many there are.
        sent: Bytes that this process has sent to others so far.

    Raises:
        ParallelError: torch.distributed was not started, or this process is not in the group.
    """

    def __init__(self, group: Any = None, timeout: float | None = None):
        if not dist.is_available() or not dist.is_initialized():
            raise ParallelError(
                "torch.distributed has not been started in this process; call torch.distributed.init_process_group first "
                "(torchrun sets what it reads)"
            )
        if hasattr(group, "mesh_dim_names"):  # a device mesh
            if group.ndim != 1:
                raise ParallelError(
                    f"the device mesh has {group.ndim} dimensions {group.mesh_dim_names or ''}; give the one along which "
                    "sequences are cut, mesh['NAME']"
                )
            group = group.get_group()
        self.group: Any = dist.group.WORLD if group is None else group
        self.rank, self.size = dist.get_rank(self.group), dist.get_world_size(self.group)
        if self.rank < 0:
            raise ParallelError(
                f"process {dist.get_rank()} of {dist.get_world_size()} is not in this group; only its members may call"
            )
        self.timeout = timeout
        if timeout is not None:
            limit = datetime.timedelta(seconds=timeout)
            ranks = dist.get_process_group_ranks(self.group)
            self.group = dist.new_group(ranks, timeout=limit, use_local_synchronization=True)
        self.sent = 0

    def exchange(self, rows: Tensor, out: Sequence[int], back: Sequence[int], what: str) -> Tensor:
        """Send `out[j]` rows to process j, and get `back[j]` from it.

        Args:
            rows: (sum(out), ...), in the order of the processes.
            what: What is being sent, for the text of an error.

        Returns:
            (sum(back), ...), in the order of the processes.
        """
        return _Exchange.apply(rows, list(out), list(back), self, what)  # pyright: ignore[reportReturnType]

    def numbers(self, own: Sequence[int], device: torch.device, what: str) -> list[list[int]]:
        """These integers from every process, in their order."""
        from torch.distributed import _functional_collectives as collectives

        gather = (
            getattr(collectives, "all_gather_single", None) or collectives.all_gather_tensor
        )  # renamed in torch 2.13
        given = torch.tensor(list(own), dtype=torch.int64, device=device)
        try:
            found = _arrived(gather(given, 0, self.group))
        except RuntimeError as error:
            raise self._no_answer(what, error) from error
        return found.reshape(self.size, -1).tolist()

    def send(self, rows: Tensor, out: list[int], back: list[int], what: str) -> Tensor:
        """`exchange` without a gradient."""
        from torch.distributed import _functional_collectives as collectives

        rows = rows.contiguous()
        width = math.prod(rows.shape[1:]) * rows.element_size()
        self.sent += width * (sum(out) - out[self.rank])
        try:
            return _arrived(collectives.all_to_all_single(rows, back, out, self.group))
        except RuntimeError as error:
            raise self._no_answer(what, error) from error

    def _no_answer(self, what: str, error: Exception) -> ParallelError:
        limit = "the timeout of the group" if self.timeout is None else f"{self.timeout:g} s"
        said = (str(error).strip().splitlines() or [type(error).__name__])[0]
        return ParallelError(
            f"process {self.rank} of {self.size} got no answer while exchanging {what} (limit: {limit}): another process of "
            f"the group has ended or hangs, and its own output says why. torch said: {said[:200]}"
        )


class _Exchange(torch.autograd.Function):
    """Rows out, rows in; the gradient of what came in goes back to where it came from."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, out: list[int], back: list[int], link: Link, what: str) -> Tensor:
        ctx.sizes, ctx.link, ctx.what = (out, back), link, what
        return link.send(rows, out, back, what)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        out, back = ctx.sizes
        return ctx.link.send(gradients[0], back, out, f"gradients of {ctx.what}"), None, None, None, None


def _arrived(tensor: Any) -> Tensor:
    """The tensor itself, once its data is there."""
    from torch.distributed import _functional_collectives as collectives

    wait = getattr(tensor, "wait", None)
    return wait() if wait is not None else collectives.wait_tensor(tensor)
