"""Where the documents and the real keys of a batch lie, read once when the mask is made, never in `attention()`.

Axes: B samples, S keys.
What was read is remembered beside the tensor and only for it: a tensor that was replaced, moved or written to since is not
known, and is then treated like any other. Tensors on an accelerator are not read, since that would wait for it.
"""

from __future__ import annotations

import itertools
from typing import NamedTuple

import torch
from torch import Tensor
from torch.utils.weak import WeakIdKeyDictionary

from regard.core.mask.values import readable

Span = tuple[int, int]  # begin, end


class _Read(NamedTuple):
    version: int
    spans: tuple[tuple[Span, ...], ...]
    whole: tuple[bool, ...]


_READ = WeakIdKeyDictionary()


def remember_documents(ids: Tensor) -> None:
    """Note the runs of equal ids of each sample, those of padding left out; not where an id comes back later."""
    if not _may_read(ids) or ids.shape[-1] == 0:
        return
    spans = []
    for row in ids.reshape(-1, ids.shape[-1]):
        edges = [0, *((row[1:] != row[:-1]).nonzero()[:, 0] + 1).tolist(), len(row)]
        runs = [(begin, end, int(row[begin])) for begin, end in itertools.pairwise(edges)]
        real = [(begin, end) for begin, end, name in runs if name >= 0]
        if len({name for _, _, name in runs if name >= 0}) < len(real):
            return
        spans.append(tuple(real))
    _note(ids, spans, [True] * len(spans))


def remember_padding(keep: Tensor) -> None:
    """Note how far the kept keys of each sample reach, keep (B, S), and whether all before are kept."""
    if not _may_read(keep) or keep.shape[1] == 0:
        return
    place = torch.arange(1, keep.shape[1] + 1, device=keep.device)
    ends = (keep * place).amax(dim=1).tolist()
    counts = keep.sum(dim=1).tolist()
    _note(keep, [((0, end),) for end in ends], [end == count for end, count in zip(ends, counts)])


def remember_lengths(lengths: Tensor) -> None:
    """Note that keys 0 .. lengths - 1 are kept."""
    if _may_read(lengths):
        _note(lengths, [((0, end),) for end in lengths.tolist()], [True] * len(lengths))


def remember_layout(layout: Tensor) -> None:
    """Note the runs of key blocks that each query block sees, layout (1, 1, M, N)."""
    if not _may_read(layout) or layout.shape[:2] != (1, 1) or 0 in layout.shape:
        return
    spans = []
    for row in layout[0, 0].tolist():
        edges = [n for n, (one, other) in enumerate(itertools.pairwise([False, *row, False])) if one != other]
        spans.append(tuple(zip(edges[::2], edges[1::2], strict=True)))
    _note(layout, spans, [True] * len(spans))


def spans_of(tensor: Tensor) -> tuple[tuple[Span, ...], ...] | None:
    """The spans of each sample, as they were when the mask was made; None where they are not known any more."""
    read = _known(tensor)
    return None if read is None else read.spans


def without_holes(tensor: Tensor) -> tuple[bool, ...]:
    """For each sample: whether everything in its spans is kept."""
    read = _known(tensor)
    assert read is not None  # asked only of tensors whose spans are known
    return read.whole


def _may_read(tensor: Tensor) -> bool:
    return tensor.device.type == "cpu" and readable(tensor) and not tensor.is_inference()


def _note(tensor: Tensor, spans: list[tuple[Span, ...]], whole: list[bool]) -> None:
    _READ[tensor] = _Read(tensor._version, tuple(spans), tuple(whole))


def _known(tensor: Tensor) -> _Read | None:
    if torch.compiler.is_compiling() or tensor.device.type != "cpu":
        return None
    read = _READ.get(tensor)
    return read if read is not None and read.version == tensor._version else None
