"""A sequence cut among processes, attended to as by one process: two to four on this machine, or as many as you have.

torchrun --nproc-per-node 2 examples/sequence_parallel.py
"""

import torch
import torch.distributed as dist

from regard.mask import causal, sliding_window
from regard.nn import MultiHeadAttention
from regard.parallel import sequence_parallel, shard
from regard.position import Rotary

B, T, E, HEADS = 1, 1024, 96, 12


def main() -> None:
    on_gpu = torch.cuda.is_available()
    dist.init_process_group("nccl" if on_gpu else "gloo")
    rank, size = dist.get_rank(), dist.get_world_size()
    device = torch.device("cuda", rank % torch.cuda.device_count()) if on_gpu else torch.device("cpu")
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(B, T, E, generator=generator).to(device)
    for name, mask in {"causal": causal(), "causal, window of 65": causal() & sliding_window(left=64)}.items():
        for how in ("ulysses", "allgather"):
            torch.manual_seed(0)  # the same weights in every process
            layer = MultiHeadAttention(E, HEADS, position=Rotary(E // HEADS, pairing="half"), mask=mask, device=device)
            whole = layer(x)
            part = sequence_parallel(layer, how=how, timeout=60)
            output = part(shard(x))  # each process gives its own tokens, and gets theirs back
            apart = (output - shard(whole)).abs().max()
            dist.all_reduce(apart, dist.ReduceOp.MAX)
            sent = torch.tensor(part.attention.link.sent, device=device)
            dist.all_reduce(sent)
            if rank == 0:
                print(
                    f"{size} processes, {how:9}, {name:21}: {apart:.1e} from one process, {sent / 1024:6.0f} KiB sent"
                )
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
