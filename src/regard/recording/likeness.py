"""Which heads do the same: distances between maps, distances between outputs, and the groups that follow from them.

Axes: H heads of a layer, N heads of several layers, T queries, Dv channels of a head's output, E channels of the model.
Equal maps can carry different values and different maps equal ones, so both distances are given, and neither is called "the" likeness.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from regard.core.errors import CaptureError
from regard.recording.record import Record
from regard.recording.scores import head_distance

ROWS = 512  # queries, evenly spread, on which outputs are compared


def output_cosine(output: Tensor, project: Tensor | None) -> Tensor | None:
    """(H, H): mean over queries of the cosine between what two heads add to the model, W_O^h o_h, in -1 to 1.

    Args:
        output: (H, T, Dv), the heads' outputs; at most 512 evenly spread queries are used.
        project: (E, H * Dv), W_O; None or of another width: heads cannot be compared in common channels, and None is returned.
    """
    H, T, width = output.shape
    if project is None or project.shape[1] != H * width:
        return None
    rows = torch.linspace(0, T - 1, min(T, ROWS)).round().long()
    added = torch.einsum("htd,ehd->the", output[:, rows].float(), project.float().unflatten(1, (H, width)))  # (T, H, E)
    unit = added / added.norm(dim=-1, keepdim=True).clamp(min=1e-30)
    return (unit @ unit.mT).mean(0)


def map_distances(records: Sequence[Record]) -> tuple[Tensor, list[str]]:
    """(N, N) distances between all heads of some layers of one sample, and their names "L0 H3".

    The distance is `scores.head_distance` on the pooled maps without the first column: mean over rows of the square root of the
    Jensen-Shannon divergence (Clark et al. 2019), in sqrt(nats), 0 to 0.83. Layers of other lengths cannot be compared.

    Raises:
        CaptureError: No record, or records of different lengths (which ones).
    """
    if not records:
        raise CaptureError("there is no record whose heads could be compared")
    shapes = {(r.query_edges[-1], r.key_edges[-1], len(r.query_edges), len(r.key_edges)) for r in records}
    if len(shapes) > 1:
        sizes = ", ".join(sorted({f"{r.queries} x {r.keys} (layer {r.layer})" for r in records}))
        raise CaptureError(f"heads of maps of different sizes cannot be compared: {sizes}; choose layers of one size")
    names = [f"L{r.layer} H{h}" for r in records for h in r.head_names]
    maps = [r.pooled for r in records if r.pooled is not None]
    return _symmetric(head_distance(torch.cat(maps))), names


def output_distances(record: Record) -> tuple[Tensor, list[str]]:
    """(H, H) 1 - |cosine| of the heads' outputs of one layer, 0 to 1: 0 where one head adds a multiple of what the other adds.

    Raises:
        CaptureError: The output projection was not known, so that outputs have no common channels.
    """
    if record.output_cosine is None:
        raise CaptureError(
            f"layer {record.name}: the outputs of its heads cannot be compared, since no output projection of matching width was "
            "found beside the attention; compare their maps"
        )
    return _symmetric(1 - record.output_cosine.abs()), [f"L{record.layer} H{h}" for h in record.head_names]


def head_clusters(distance: Tensor, *, within: float = 0.15) -> list[list[int]]:
    """Groups of heads, largest first: average linkage, cut where groups would be further apart than `within`.

    Args:
        distance: (N, N), symmetric, 0 on the diagonal.
        within: In units of `distance`. 0.15 for map distances: about a fifth of the largest possible, 0.83.

    Raises:
        CaptureError: Not a symmetric square; or scipy is not installed (extra `viz`).
    """
    N = len(distance)
    if distance.shape != (N, N) or not torch.allclose(distance, distance.T, atol=1e-4):
        raise CaptureError(f"distances between heads are a symmetric square; got {tuple(distance.shape)}")
    if N < 2:
        return [list(range(N))] if N else []
    try:
        from scipy.cluster.hierarchy import fcluster, linkage
        from scipy.spatial.distance import squareform
    except ImportError as error:
        raise CaptureError("clusters of heads need scipy: pip install 'regard[viz]'") from error
    tree = linkage(squareform(distance.double().numpy(), checks=False), "average")
    label = fcluster(tree, within, "distance").tolist()
    groups = [[i for i in range(N) if label[i] == group] for group in sorted(set(label))]
    return sorted(groups, key=lambda g: (-len(g), g))


def _symmetric(x: Tensor) -> Tensor:
    return ((x + x.T) / 2).clamp(min=0).fill_diagonal_(0)
