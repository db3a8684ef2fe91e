"""What another library means: what True hides, where a causal triangle stands, how wide a window is, which heads go together.

Nothing is looked up: each is read from outputs. Queries are 0, so that a row is the mean of the values it sees, and the
values are the identity, so that the row shows which keys those are.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass

import torch
from torch import Tensor

from regard.core.errors import ConversionError

Attend = Callable[..., Tensor]  # query, key, value (B, H, T, D), and what a probe needs by name, to (B, H, T, Dv)
HIDDEN = "-"


@dataclass(frozen=True)
class Conventions:
    """The meanings of one library; "-" where it has no such thing.

    Attributes:
        library: Its name, and what was called.
        true: What True in a boolean mask means: "attend" or "ignore".
        causal: Where the triangle of 2 queries and 3 keys stands: "top-left", "bottom-right" or "equal lengths only".
        window: How many keys a causal query sees for the number 2: "2 keys" or "3 keys".
        pairing: Which channels a rotary position turns together: "half" or "interleaved".
        groups: Which key heads query heads 0 to 3 read: "0 0 1 1" (grouped) or "0 1 0 1" (tiled).
        no_key: What a row that sees no key is: "0", "NaN" or "mean of all values".
    """

    library: str
    true: str = HIDDEN
    causal: str = HIDDEN
    window: str = HIDDEN
    pairing: str = HIDDEN
    groups: str = HIDDEN
    no_key: str = HIDDEN

    def row(self) -> list[str]:
        """The cells of a table."""
        return list(asdict(self).values())


COLUMNS = (
    "library",
    "True means",
    "causal, 2 x 3",
    "window 2",
    "rotary pairs",
    "4 query, 2 key heads",
    "row without keys",
)


@dataclass(frozen=True)
class Library:
    """How to call one library; None where it has no such thing.

    Attributes:
        name: What is called, for the table.
        package: What must be installed.
        masked: Called with query, key, value and attend (1, 1, T, S) in the library's own meaning of True.
        causal: Called with query, key, value.
        window: Called with query, key, value: causal, and the number 2.
        turned: Called with x (1, 1, 2, 4): position 1 turned by a rotary position.
        grouped: Called with query (1, 4, ..), key and value (1, 2, ..).
    """

    name: str
    package: str
    masked: Attend | None = None
    causal: Attend | None = None
    window: Attend | None = None
    turned: Callable[[Tensor], Tensor] | None = None
    grouped: Attend | None = None


def measure(library: Library) -> Conventions:
    """Read every convention of a library from its outputs."""
    true = HIDDEN if library.masked is None else _true(library.masked)
    return Conventions(
        library.name,
        true,
        HIDDEN if library.causal is None else _causal(library.causal),
        HIDDEN if library.window is None else _window(library.window),
        HIDDEN if library.turned is None else _pairing(library.turned),
        HIDDEN if library.grouped is None else _groups(library.grouped),
        HIDDEN if library.masked is None else _no_key(library.masked, true),
    )


def seen(output: Tensor) -> list[list[int]]:
    """Which keys each row sees: (T, S) of weights on identity values."""
    return [[i for i, weight in enumerate(row) if weight > 1e-6] for row in output[0, 0].tolist()]


def probe(queries: int, keys: int) -> tuple[Tensor, Tensor, Tensor]:
    """Queries of 0 (1, 1, T, S), keys (1, 1, S, S), values that show which key they are."""
    return torch.zeros(1, 1, queries, keys), torch.ones(1, 1, keys, keys), torch.eye(keys)[None, None]


def _true(masked: Attend) -> str:
    attend = torch.tensor([True, False, False]).expand(1, 1, 3, 3)
    rows = seen(masked(*probe(3, 3), attend))
    if rows == [[0]] * 3:
        return "attend"
    return "ignore" if rows == [[1, 2]] * 3 else f"sees {rows[0]}"


def _no_key(masked: Attend, true: str) -> str:
    attend = torch.ones(1, 1, 4, 4, dtype=torch.bool)
    attend[..., 1, :] = False
    output = masked(*probe(4, 4), attend if true == "attend" else ~attend)[0, 0, 1]
    if bool(output.isnan().all()):
        return "NaN"
    if not bool(output.any()):
        return "0"
    return "mean of all values" if torch.allclose(output, torch.full((4,), 0.25), atol=1e-4) else f"{output.tolist()}"


def _causal(causal: Attend) -> str:
    try:
        rows = seen(causal(*probe(2, 3)))
    except Exception:  # a library may refuse it with anything
        return "equal lengths only"
    known = {"top-left": [[0], [0, 1]], "bottom-right": [[0, 1], [0, 1, 2]]}
    return next((name for name, expected in known.items() if rows == expected), f"sees {rows}")


def _window(window: Attend) -> str:
    rows = seen(window(*probe(8, 8)))
    if any(not row or row[-1] != i for i, row in enumerate(rows)):
        return f"sees {rows[5]}"
    counts = sorted({len(row) for row in rows[4:]})  # far from the start
    return f"{counts[0]} keys" if len(counts) == 1 else f"{counts[0]} to {counts[-1]} keys"


def _pairing(turned: Callable[[Tensor], Tensor]) -> str:
    x = torch.zeros(1, 1, 2, 4)
    x[..., 0] = 1.0
    moved = turned(x)[0, 0, 1].abs() > 1e-6
    return {(True, False, True, False): "half", (True, True, False, False): "interleaved"}.get(
        tuple(moved.tolist()), f"channels {moved.nonzero().flatten().tolist()}"
    )


def _groups(grouped: Attend) -> str:
    value = torch.arange(2.0)[None, :, None, None].expand(1, 2, 3, 8)
    output = grouped(torch.zeros(1, 4, 3, 8), torch.ones(1, 2, 3, 8), value)
    return " ".join(str(round(x)) for x in output[0, :, 0, 0].tolist())


def conventions(name: str | None = None) -> list[Conventions]:
    """The conventions of the installed libraries whose name holds `name`; None: of all.

    Raises:
        ConversionError: There is no such library, or none of them is installed.
    """
    import importlib.util

    from regard.convert.conventions_libraries import LIBRARIES

    named = [one for one in LIBRARIES if name is None or name.lower() in one.name.lower()]
    if not named:
        raise ConversionError(f"no library is called {name!r}; there are {', '.join(one.name for one in LIBRARIES)}")
    there = [one for one in named if importlib.util.find_spec(one.package) is not None]
    if not there:
        raise ConversionError(f"{named[0].name} is not installed (package {named[0].package}); nothing can be measured")
    made, problems = [], []
    for one in there:
        try:
            made.append(measure(one))
        except ImportError as error:
            problems.append(f"{one.name} cannot be imported here: {error}")
    if not made:
        raise ConversionError("; ".join(problems))
    return made


def table(rows: list[Conventions]) -> str:
    """The rows as text, a block per library."""
    lines = []
    for row in rows:
        lines.append(row.library)
        lines += [f"  {column}: {cell}" for column, cell in zip(COLUMNS[1:], row.row()[1:]) if cell != HIDDEN]
    return "\n".join(lines)
