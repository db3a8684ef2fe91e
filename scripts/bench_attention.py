"""attention() against the fused kernel it stands on: how much the door costs, as ratios of one thread's CPU time.

The two are timed in turn in one process, many times; the ratio is of the 25th percentiles. No wall time, no cherry-picking.
"""

import time

import torch
import torch.nn.functional as F

from regard import attention
from regard.mask import causal, padding

SIZES = [(2, 4, 64, 32), (2, 8, 256, 64), (1, 8, 1024, 64)]  # (B, H, T, D)


def cpu_seconds(call) -> float:
    start = time.process_time()
    call()
    return time.process_time() - start


def ratio(ours, raw, *, rounds: int) -> tuple[float, float]:
    """25th percentile of ours over raw, and of raw in milliseconds."""
    pairs = [(cpu_seconds(ours), cpu_seconds(raw)) for _ in range(rounds)]
    first, second = (sorted(column)[rounds // 4] for column in zip(*pairs, strict=True))
    return first / second, second * 1e3


def measure(B: int, H: int, T: int, D: int, rounds: int) -> None:
    generator = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(B, H, T, D, generator=generator) for _ in range(3))
    keep = torch.arange(T)[None] < torch.tensor([T] + [3 * T // 4] * (B - 1))[:, None]  # (B, T), True = real
    key_mask = keep[:, None, None]
    cases = {
        "no mask": (lambda: attention(q, k, v), lambda: F.scaled_dot_product_attention(q, k, v)),
        "causal": (
            lambda: attention(q, k, v, mask=causal()),
            lambda: F.scaled_dot_product_attention(q, k, v, is_causal=True),
        ),
        "padding": (
            lambda: attention(q, k, v, mask=padding(keep)),
            lambda: F.scaled_dot_product_attention(q, k, v, attn_mask=key_mask),
        ),
    }
    for name, (ours, raw) in cases.items():
        ours(), raw()
        times, kernel = ratio(ours, raw, rounds=rounds)
        print(f"B{B} H{H} T{T:<5} D{D}  {name:8}  kernel {kernel:8.2f} ms   attention() takes {times:5.2f}x of it")


if __name__ == "__main__":
    torch.set_num_threads(1)
    for B, H, T, D in SIZES:
        measure(B, H, T, D, rounds=100 if T < 1000 else 40)
