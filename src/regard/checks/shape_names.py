"""What the author calls the axes: `b, c, h, w = x.shape` in the source of a forward tells the layout. Evidence, not proof."""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from collections.abc import Callable
from typing import Any

from torch import nn

BATCH = {"b", "bs", "bsz", "batch", "batch_size", "n_batch", "nb", "bn", "bsize", "num_batch", "_b"}
CHANNELS = {
    "c",
    "ch",
    "channels",
    "channel",
    "d",
    "dim",
    "e",
    "embed_dim",
    "d_model",
    "hidden",
    "hidden_size",
    "n_embd",
    "chans",
    "nc",
    "f",
    "features",
    "_",
}
TOKENS = {
    "l",
    "t",
    "n",
    "s",
    "seq",
    "seq_len",
    "seqlen",
    "length",
    "tgt_len",
    "src_len",
    "q_len",
    "time",
    "tokens",
    "num_tokens",
    "len",
    "lq",
}
ROWS = {"h", "height", "hh", "rows", "hi"}


def axis_names(forward: Callable[..., Any], argument: str) -> list[list[str]]:
    """Every unpacking of `argument.shape` or `argument.size()` in the source, as lower-case names."""
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(forward)))
    except (OSError, TypeError, SyntaxError, IndentationError):
        return []
    found = []
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Assign)
            and isinstance(node.targets[0], ast.Tuple)
            and _reads_shape(node.value, argument)
        ):
            names = [e.value if isinstance(e, ast.Starred) else e for e in node.targets[0].elts]
            found.append([n.id.lower() if isinstance(n, ast.Name) else "?" for n in names])
    return found


def _reads_shape(value: ast.expr, argument: str) -> bool:
    if isinstance(value, ast.Call):
        value = value.func
    return (
        isinstance(value, ast.Attribute)
        and value.attr in ("shape", "size")
        and isinstance(value.value, ast.Name)
        and value.value.id == argument
    )


PERMUTED: dict[tuple[object, ...], str] = {
    (0, 2, 3, 1): "BDHW",
    (0, 3, 1, 2): "BHWD",
}  # to channels last, and to channels first


def _permuted(forward: Callable[..., Any], argument: str) -> str | None:
    """The layout that an argument must have for `argument.permute(0, 2, 3, 1)` to put channels where they are wanted."""
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(forward)))
    except (OSError, TypeError, SyntaxError, IndentationError):
        return None
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr == "permute"
            and isinstance(node.func.value, ast.Name)
            and node.func.value.id == argument
        ):
            order = tuple(a.value for a in node.args if isinstance(a, ast.Constant))
            return PERMUTED.get(order)
    return None


FRAMES = {"frames", "n_frames", "steps", "samples", "words", "points"}
WORDS = r"\b(?:is|are|an?|of|has|have|with|as|shaped?|tensors?|torch\.Tensor|float)\b"  # between a name and its axes


def _documented(forward: Callable[..., Any], argument: str) -> str | None:
    """ "BDL" or "BLD" where the docstrings list the three axes of this argument right behind its name: "frames [B, C, T]"."""
    owner = type(getattr(forward, "__self__", None))
    own = owner.__mro__[: owner.__mro__.index(nn.Module)] if issubclass(owner, nn.Module) else ()
    for text in (doc for f in (forward, *own, owner.__init__) if (doc := getattr(f, "__doc__", None))):
        listed = rf"\b{re.escape(argument)}\b[`'\"]*(?:{WORDS}|[\s:=,-])*[\[(]\s*(\w+)\s*,\s*(\w+)\s*,\s*(\w+)\s*[\])]"
        found = re.search(listed, text)
        if found is None:
            continue
        first, second, third = (name.lower() for name in found.groups())
        tokens, channels = TOKENS | FRAMES, CHANNELS - {"_"}
        if first in BATCH | {"n"} and second != third:
            if second in channels and third in tokens:
                return "BDL"
            if second in tokens and third in channels:
                return "BLD"
    return None


def layout_hint(forward: Callable[..., Any], argument: str) -> str | None:
    """The layout that the author's own names spell, or None."""
    for names in axis_names(forward, argument):
        if len(names) == 4:
            if names[1] in CHANNELS and names[1] != "_":
                return "BDHW"
            if names[3] in CHANNELS and names[1] in ROWS:
                return "BHWD"
            if names[1] in ("h", "heads", "num_heads", "nh", "n_heads") and names[3] in CHANNELS:
                return "BKLD"
        if len(names) == 3:
            if names[0] in TOKENS and names[1] in BATCH:
                return "LBD"
            if names[0] in BATCH and names[1] in CHANNELS - {"_", "e", "d"} and names[2] in TOKENS:
                return "BDL"
            if names[0] in BATCH and names[2] in CHANNELS:
                return "BLD"
        if len(names) == 6 and names[0] in BATCH:  # rows and columns of windows, rows and columns in each
            return "BTHWLD"
        if len(names) == 2 and names[0] in TOKENS and names[1] in CHANNELS:
            return "LD"
    return _permuted(forward, argument) or _documented(forward, argument)
