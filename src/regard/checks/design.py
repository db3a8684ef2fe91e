"""What the author declares about a module. Everything is optional; what is said sharpens the checks and silences questions."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any

from regard.core.errors import DesignError

LAYOUTS = ("BLD", "LBD", "BCHW", "BHWC", "BCL", "BHLD", "LD", "BL")


@dataclass(frozen=True)
class Design:
    """A declaration. None means "not said".

    Args:
        layout: "BLD" (batch, length, channels), "LBD", "BCHW", "BHWC", "BCL", "BHLD" (heads split already), "LD", "BL" (ids).
        inputs: parameter -> shape, or the name of the parameter that it repeats.
        query, context: the parameters that hold queries and keys in cross-attention.
        mask: the mask parameter, or a mapping with keys arg, shape, on ("keys", "query", "context"), polarity ("keep" or "ignore"), dtype.
        causal: does a query see no later key?
        window: keys a query may see (itself included) if causal, the side of a square window for images, or a tuple (rows, columns).
        shift: the cyclic shift of the windows.
        grid: (H, W) when tokens are pixels in raster order.
        position: "none", "rope", "alibi", "relative", "relative-2d", "decay", "learned", "sinusoidal".
        cache: mapping with keys style ("internal", "tuple", "dict", "object", "static"), arg, ret, reset, chunk.
        embed_dim, heads, kv_heads, head_dim: sizes.
        returns: "out", "(out, weights)", "(out, cache)", ...
        row_sum: 1 (default), "<=1" or "any".
        scale: the factor on query . key that is meant; None = 1 / sqrt(head_dim).
        sparse: weights may be exactly zero (sparsemax, top-k).
        queries_compete: the softmax runs over the queries (slot attention).
        zero_init: the output is zero at initialisation on purpose.
        gate: "channel", "spatial", "coordinate" for gates that multiply the input.
        attention: "self", "cross", "causal", "linear", "pool", "window", "kv-cache", "spatial", "channel", ... what it is.
        qk_norm: queries and keys are normalised; the logits are then bounded by `logits_bound`.
        options: parameter -> values that must not change the main output.
        dropout: the rate that is meant.
        symmetric: two parameters that may be swapped.
        sharded: callable (module, group) that shards the module (see `regard check --nproc`).
    """

    layout: str | None = None
    inputs: Mapping[str, Any] | None = None
    query: str | None = None
    context: str | None = None
    mask: str | Mapping[str, Any] | None = None
    causal: bool | None = None
    window: Any = None
    shift: int | None = None
    grid: tuple[int, int] | None = None
    position: str | None = None
    cache: Mapping[str, Any] | None = None
    embed_dim: int | None = None
    heads: int | None = None
    kv_heads: int | None = None
    head_dim: int | None = None
    returns: str | None = None
    row_sum: float | str | None = None
    scale: float | None = None
    sparse: bool | None = None
    queries_compete: bool | None = None
    zero_init: bool | None = None
    gate: str | None = None
    attention: str | None = None
    qk_norm: bool | None = None
    logits_bound: float | None = None
    options: Mapping[str, Any] | None = None
    dropout: float | None = None
    symmetric: tuple[str, str] | None = None
    sharded: Callable[..., Any] | None = None

    def __post_init__(self) -> None:
        if self.layout is not None and self.layout not in LAYOUTS:
            raise DesignError(f"layout {self.layout!r} is not known; it is one of {', '.join(LAYOUTS)}")
        if self.gate is not None and self.gate not in ("channel", "spatial", "coordinate"):
            raise DesignError(f"gate {self.gate!r} is not known; it is channel, spatial or coordinate")
        if isinstance(self.mask, Mapping):
            polarity = self.mask.get("polarity")
            if polarity not in (None, "keep", "ignore", "drop"):
                raise DesignError(
                    f"mask polarity {polarity!r} is not known; it is 'keep' (True = attend) or 'ignore' (True = hidden)"
                )
        if self.heads and self.kv_heads and self.heads % self.kv_heads:
            raise DesignError(
                f"{self.heads} heads cannot share {self.kv_heads} key-value heads; kv_heads must divide heads"
            )

    @property
    def declared(self) -> bool:
        """Was anything said?"""
        return any(getattr(self, f.name) is not None for f in fields(self))

    @property
    def mask_argument(self) -> str | None:
        return self.mask if isinstance(self.mask, str) else (self.mask or {}).get("arg")

    @property
    def mask_polarity(self) -> str | None:
        said = self.mask.get("polarity") if isinstance(self.mask, Mapping) else None
        return {"ignore": "drop"}.get(said or "", said)

    @classmethod
    def from_mapping(cls, data: Mapping[str, Any]) -> Design:
        """From a table of a TOML file (`[design]`, or one table per class name).

        Raises:
            DesignError: a key is not known (the known ones are listed).
        """
        known = {f.name for f in fields(cls)}
        unknown = sorted(set(data) - known)
        if unknown:
            raise DesignError(f"{unknown[0]!r} is no declaration; known: {', '.join(sorted(known))}")
        values: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in data.items()}
        return cls(**values)

    @classmethod
    def from_comment(cls, source: str) -> Design | None:
        """From a comment in a class: `# regard: design causal=True window=4 layout="BLD"`; None where there is none."""
        found = re.search(r"#\s*regard:\s*design\s+(.*)", source)
        if not found:
            return None
        try:
            call = ast.parse(f"f({', '.join(_pairs(found.group(1)))})", mode="eval").body
            data = {k.arg: ast.literal_eval(k.value) for k in call.keywords}  # type: ignore[attr-defined]
        except (SyntaxError, ValueError) as error:
            raise DesignError(
                f"the comment {found.group(0)!r} cannot be read: write name=value pairs with Python literals"
            ) from error
        return cls.from_mapping(data)


def _pairs(text: str) -> list[str]:
    return re.findall(r"\w+\s*=\s*(?:\([^)]*\)|\[[^\]]*\]|\{[^}]*\}|\"[^\"]*\"|'[^']*'|[^\s,]+)", text)
