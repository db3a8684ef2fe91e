"""`regard.capture`: what any model attended to, while it runs as it would have run.

The model's output stays bit-identical: a dispatch mode watches (see `intercept`), and everything kept is computed from the tensors
that the model itself made. Each attention layer is consumed as soon as it is complete; nothing of size T x S is held for a
kernel at the levels "summary" and "rows".
"""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor, nn

from regard.core.errors import CaptureError
from regard.intercept.observe import observe
from regard.intercept.site import Site
from regard.recording.compiled import compiled_difference, is_compiled as _compiled
from regard.recording.heads import four_axes
from regard.recording.layers import Layers, Wanted
from regard.recording.record import Record
from regard.recording.tokens import Tokens

LEVELS = ("summary", "rows", "full")
log = logging.getLogger("regard.capture")


class capture:
    """Context manager: `with regard.capture(model) as cap: model(**inputs)`, then `cap.records`.

    Args:
        model: Any nn.Module. Eval, train, grad and no_grad are left as they are.
        level: "summary": scores, series and pooled maps, O(T) memory. "rows": also chosen rows of weights. "full": every weight.
        layers: Numbers of attention layers in order of first use, or parts of module paths; None = all.
        heads: Numbers of query heads; None = all.
        queries: Query positions to keep exactly at level "rows"; None = 16 spread evenly and the last.
        segments: (name, first, end) of key positions; their masses onto each other are added up.
        budget: Most memory for what is kept, as "256MB", or bytes. Level "full" over budget is refused when the model has run.
        samples: Which samples of the batch; None = all.
        tokens: `Tokens`, a list of labels, or token ids (S,); gives labels to views, and the duplicate and induction scores.

    Attributes:
        records: One Record per layer, sample and sequence, in order of first use.
        missed: What was seen and not captured, and why.

    Raises (on leaving the context, the model has run unharmed):
        CaptureError: No attention was seen; a layer, head or sample number that does not exist; over budget.
    """

    def __init__(
        self,
        model: nn.Module,
        *,
        level: str = "summary",
        layers: Sequence[int | str] | int | str | None = None,
        heads: Sequence[int] | int | None = None,
        queries: Sequence[int] | int | None = None,
        segments: Sequence[tuple[str, int, int]] | None = None,
        budget: str | int = "256MB",
        samples: Sequence[int] | int | None = None,
        tokens: Tokens | Sequence[str] | torch.Tensor | None = None,
    ):
        if not isinstance(model, nn.Module):
            raise CaptureError(f"capture needs an nn.Module, got {type(model).__name__}")
        if level not in LEVELS:
            raise CaptureError(f"level {level!r} is not one of {', '.join(LEVELS)}")
        self.model, self.level = model, level
        self.budget = bytes_of(budget)
        self.tokens = Tokens.of(tokens)
        wanted = Wanted(
            level, _listed(layers), _listed(heads), _listed(queries), list(segments or ()), _listed(samples)
        )
        self.layers = Layers(wanted, self.budget, self.tokens.ids if self.tokens is not None else None)
        self.records: list[Record] = []
        self.missed: list[str] = []

    def __enter__(self) -> capture:
        self._observer = observe(self.model, on_site=self._take, hold="used")
        self._seen = self._observer.__enter__()
        return self

    def __exit__(self, kind, error, trace) -> None:
        self._observer.__exit__(kind, error, trace)
        self.missed = [*self.layers.missed, *self._seen.unknown]
        self.records = self.layers.records()
        if _compiled(self.model):
            for record in self.records:
                record.notes.append(
                    "torch.compile does not run under capture: this is what the uncompiled model computes"
                )
        if kind is None:
            self._refuse()

    def _take(self, site: Site) -> None:
        attention = four_axes(site)
        step = self._observer.stack.calls.get("", 0)
        if attention is None:
            self.layers.missed.append(f"{site.path or 'root'}: weights of unknown shape at {site.where}")
        else:
            self.layers.take(attention, step)

    def _refuse(self) -> None:
        """Raise what a user must know at once: nothing seen, wrong numbers, over budget."""
        self.layers.check()
        if self.layers.over:
            raise CaptureError(self.layers.over)
        if not self.records:
            why = f" Seen and not captured: {'; '.join(self.missed[:3])}." if self.missed else ""
            raise CaptureError(f"no attention seen in {type(self.model).__name__} while it ran.{why}")
        log.info("%d records, %d bytes", len(self.records), sum(r.nbytes for r in self.records))

    def compiled_difference(self, *args, **kwargs) -> float:
        """Run the compiled model and the same model uncompiled, and return how far their outputs are apart at most.

        Under capture a compiled model runs uncompiled; this says how much that matters. Both runs draw from the same random state,
        without gradients. The number is added to the notes of the records. Arguments are those of the model's forward.

        Raises:
            CaptureError: The model is not compiled; or its outputs hold no floating-point tensors.
        """
        if not _compiled(self.model):
            raise CaptureError(f"{type(self.model).__name__} is not compiled; what was captured is what it computes")
        apart = compiled_difference(self.model, args, kwargs)
        for record in self.records:
            record.notes.append(f"output of the compiled model: at most {apart:.2g} away from this")
        return apart

    def save(self, path: str | Path) -> Path:
        """Write the records to one safetensors file, whole or not at all."""
        from regard.recording.store import save

        return save(self, path)

    def to_html(self, path: str | Path, tokens=None, **options) -> Path:
        """Write the explorer, one offline HTML file. Tokens and options as for `recording.page.to_html`."""
        from regard.recording.page import to_html

        options = {"title": f"{type(self.model).__name__}: attention", "missed": self.missed} | options
        return to_html(self.records, self.tokens if tokens is None else tokens, path, **options)

    def _repr_html_(self) -> str:
        from regard.html.build import build_page, iframe
        from regard.recording.page import page_of

        return iframe(
            build_page(page_of(self.records, self.tokens, title=type(self.model).__name__, missed=self.missed))
        )

    def head_distances(
        self, *, layers=None, by: str = "maps", sample: int = 0, run: int = 0
    ) -> tuple[Tensor, list[str]]:
        """(N, N) distances between heads, and their names: see `recording.likeness`.

        Args:
            layers: Which layers, an int or several; None is all of them.
            by: "maps": how differently heads attend, sqrt of the Jensen-Shannon divergence. "outputs": 1 - |cosine| of what heads
                add to the model, within one layer.
        """
        from regard.recording.likeness import map_distances, output_distances

        if by not in ("maps", "outputs"):
            raise CaptureError(f"by={by!r}; heads are compared by 'maps' or by 'outputs'")
        numbers = _listed(layers) or sorted({r.layer for r in self.records if (r.sample, r.run) == (sample, run)})
        chosen = [self.layer(n, sample=sample, run=run) for n in numbers]
        if by == "maps":
            return map_distances(chosen)
        if len(chosen) != 1:
            raise CaptureError(f"outputs are compared within one layer; give layers=0 to {max(numbers)}, one of them")
        return output_distances(chosen[0])

    def head_clusters(self, *, within: float = 0.15, **which) -> list[list[str]]:
        """Groups of heads that are alike, by name, largest first; `which` as in `head_distances`, `within` in its units."""
        from regard.recording.likeness import head_clusters

        distance, names = self.head_distances(**which)
        return [[names[i] for i in group] for group in head_clusters(distance, within=within)]

    def layer(self, number: int, *, sample: int = 0, run: int = 0) -> Record:
        """The record of one layer of one sample."""
        for record in self.records:
            if (record.layer, record.sample, record.run) == (number, sample, run):
                return record
        known = sorted({r.layer for r in self.records})
        raise CaptureError(f"there is no layer {number} of sample {sample}, run {run}; layers are {known}")


def bytes_of(budget: str | int) -> int:
    """ "256MB" -> 256,000,000; "1GiB" -> 2**30; a number is bytes."""
    if isinstance(budget, int):
        return budget
    match = re.fullmatch(r"\s*([\d.]+)\s*([kMGT]?)(i?)B\s*", budget)
    if not match:
        raise CaptureError(f"budget {budget!r} is not a size; write it as '256MB' or a number of bytes")
    power = " kMGT".index(match[2] or " ")
    return int(float(match[1]) * (1024 if match[3] else 1000) ** power)


def _listed(value) -> list | None:
    if value is None or isinstance(value, list):
        return value
    return [value] if isinstance(value, (int, str)) else list(value)
