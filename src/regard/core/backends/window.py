"""Windows, dilated windows and windows with global tokens in linear time: `core.local` behind the door of a backend."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from regard.core.backends import fused, kernel
from regard.core.call import Call
from regard.core.finite import replaced
from regard.core.local import attend_locally
from regard.core.local_blocks import block_rows
from regard.core.local_form import LocalForm, between, local_form, residues
from regard.core.mask.structure import Structure
from regard.core.mask.table import Dense

GAIN = 1.5  # times as many keys as a block needs: from there on blocks are faster than the whole (measured, CPU)


class Window:
    """Overlapping blocks of keys, each with the fused kernel."""

    name = "window"
    replaces = True

    def refuses(self, call: Call) -> str | None:
        form = local_form(call.structure)
        if form is None:
            return "the mask is no window: it has no bound on both sides, or parts that only a table can tell"
        if 0 in call.sizes or call.query.shape[3] == 0 or call.value.shape[3] == 0:
            return "there is nothing to compute in blocks"
        return _unfit(call) or fused.BACKEND.refuses(call) or kernel.refuses(call)

    def slower(self, call: Call) -> str | None:
        form, T, S = local_form(call.structure), call.query.shape[2], call.key.shape[2]
        assert form is not None
        keys = block_rows(form.left, form.right, T) + form.left + form.right
        if keys * GAIN > -(-S // form.step):
            return f"a block needs {keys} of {-(-S // form.step)} keys, so blocks are no faster than all keys at once"
        return None

    def repairs(self, call: Call) -> list[str]:
        form = local_form(call.structure)
        assert form is not None
        rows = block_rows(form.left, form.right, call.query.shape[2])
        made = [f"blocks of {rows} queries, each with the {rows + form.left + form.right} keys around it"]
        if form.step > 1:
            made.append(f"every {form.step}th token is a sequence of its own")
        if form.columns or form.rows:
            made.append(f"{len(form.columns)} global columns and {len(form.rows)} global rows in calls of their own")
        return made

    def run(self, call: Call) -> Tensor:
        form = local_form(call.structure)
        assert form is not None
        D, Dv = call.query.shape[3], call.value.shape[3]
        query, key, value = fused.dense_and_equally_wide(*kernel.as_autocast(call.query, call.key, call.value))
        keep = call.structure.key_mask(call.places())
        keep = None if keep is None else keep[:, 0, 0]
        bias = None if call.bias is None else call.bias.detach()
        if form.step > 1:
            return _dilated(form, query, key, value, keep, call)[..., :Dv]
        window = {"left": form.left, "right": form.right, "offset": form.offset, "scale": call.scale}
        more = {"columns": form.columns, "outer": form.outer}
        output = attend_locally(query, key, value, keep=keep, bias=bias, **window, **more)
        output = output[..., :Dv] if Dv < D else output
        return _with_rows(form, output, call) if form.rows else output


def _unfit(call: Call) -> str | None:
    if call.bias is not None and call.bias.requires_grad and torch.is_grad_enabled():
        return "bias needs a gradient, which the fused kernel does not return; bias.detach() goes in blocks"
    if torch.compiler.is_exporting():
        return "an exported program takes any length, and blocks are cut for one"
    return None


def _dilated(form: LocalForm, query: Tensor, key: Tensor, value: Tensor, keep: Tensor | None, call: Call) -> Tensor:
    """Each residue class is a window among its own tokens."""
    output = torch.zeros_like(query)
    for part in residues(form, query.shape[2]):
        kept = None if keep is None else keep[:, part.keys]
        bias = None if call.bias is None else _cut(_cut(call.bias.detach(), 2, part.queries), 3, part.keys)
        tensors = (query[:, :, part.queries], key[:, :, part.keys], value[:, :, part.keys])
        window = {"left": form.left, "right": form.right, "offset": part.offset, "scale": call.scale}
        output[:, :, part.queries] = attend_locally(*tensors, keep=kept, bias=bias, **window)
    return output


def _cut(table: Tensor, axis: int, part: slice) -> Tensor:
    if table.shape[axis] == 1:
        return table
    return table[:, :, part] if axis == 2 else table[..., part]


def _with_rows(form: LocalForm, output: Tensor, call: Call) -> Tensor:
    """`output` with the rows that see all keys computed anew, all keys at once."""
    rows = [position - form.offset for position in form.rows if 0 <= position - form.offset < call.query.shape[2]]
    if not rows:
        return output
    chosen = torch.tensor(rows, device=call.query.device)
    keys = torch.arange(call.key.shape[2], device=chosen.device)
    attend = between(keys - (chosen + form.offset)[:, None], *form.outer)[None, None]  # (1, 1, rows, S)
    keep = call.structure.key_mask(call.places())
    seen = Dense(attend if keep is None else attend & keep)
    bias = call.bias if call.bias is None or call.bias.shape[2] == 1 else call.bias[:, :, chosen]
    form_of_rows = Structure(rest=(seen,))
    key, value = replaced(call.key), replaced(call.value)
    tensors = {"query": call.query[:, :, chosen], "key": key, "value": value, "bias": bias}
    narrow = replace(call, **tensors, mask=seen, structure=form_of_rows, rows=None, _memo={})
    return output.index_copy(2, chosen, fused.BACKEND.run(narrow))


BACKEND = Window()
