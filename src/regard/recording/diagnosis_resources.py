"""Rules on memory: suddenly doubled, or growing without end."""

from __future__ import annotations

from itertools import pairwise
from statistics import median

from regard.recording.diagnosis import Cause, Symptom
from regard.recording.diagnosis_run import Run

BEFORE = 3  # records that set the usual level; the first one (caches, optimizer state) does not count
DOUBLED = 1.8  # allocators round, so that twice as much reads as 1.8 times
ENOUGH = 256 << 20  # bytes more: a small process doubles for any reason
GROWTH = 6  # records, each above the one before
GREW = 1.5


def memory(run: Run) -> list[Symptom]:
    """Memory was at one level and is at twice that, or grows at every record."""
    values = run.memory[1:]
    for at in range(BEFORE, len(values)):
        usual = median(v for _, v in values[at - BEFORE : at])
        later = values[at : at + 2]
        if (
            min(v for _, v in later) >= DOUBLED * usual
            and later[0][1] - usual >= ENOUGH
            and (len(later) > 1 or at > BEFORE)
        ):
            return [_doubled(run, later[0][0], values[at - 1][0], usual, later[0][1])]
    last = values[-GROWTH:]
    rising = all(b[1] > a[1] for a, b in pairwise(last))
    if len(last) == GROWTH and rising and last[-1][1] >= GREW * last[0][1] and last[-1][1] - last[0][1] >= ENOUGH:
        return [_growing(last)]
    return []


def _doubled(run: Run, step: int, before: int, usual: float, now: float) -> Symptom:
    causes, measured = [], {"before": _size(usual), "now": _size(now)}
    for layer in run.layers:
        old, new = (next((r for r in layer.rows if r["step"] == s), None) for s in (before, step))
        if old is None or new is None:
            continue
        if old.get("kernel") != new.get("kernel"):
            causes.append(Cause(
                f"{layer.name} changed from {old.get('kernel')} to {new.get('kernel')}: weights of T x S are kept now",
                "look for need_weights, output_attentions, a float mask or a dtype that the fused kernel refuses"))  # fmt: skip
            break
        sizes = [(r["samples"], r["queries"], r["keys"]) for r in (old, new)]
        if sizes[0] != sizes[1]:
            text = " to ".join(f"{b} x {t} x {s}" for b, t, s in sizes)
            causes.append(
                Cause(f"the batch grew: samples x queries x keys went from {text}", "sort or cap the lengths")
            )
            break
    causes += [
        Cause("losses or outputs are kept with their graph", "use loss.item() or loss.detach() where they are summed"),
        Cause(
            "attention weights are kept: output_attentions, need_weights, or hooks that store them",
            "gc.get_objects() by type and size",
        ),
        Cause("an evaluation ran with gradients", "torch.no_grad() around it"),
    ]
    title = f"Memory has doubled between steps {before} and {step}"
    return Symptom("memory_doubled", title, step, causes, measured=measured)


def _growing(last: list[tuple[int, float]]) -> Symptom:
    causes = [
        Cause("losses or outputs are kept with their graph", "use loss.item() or loss.detach() where they are summed"),
        Cause("a cache of keys and values is never emptied", "regard check MODEL --select ATT204", "cache-stale"),
        Cause("attention weights are stored on the modules at each step", "gc.get_objects() by type and size"),
    ]
    measured = {"before": _size(last[0][1]), "now": _size(last[-1][1])}
    return Symptom(
        "memory_grows", f"Memory grows at every record since step {last[0][0]}", last[0][0], causes, measured=measured
    )


def _size(n: float) -> str:
    return f"{n / (1 << 30):.2f} GiB"
