"""Text that every plot can draw: a font of our own behind DejaVu Sans, glyph by glyph, and no global setting touched.

DejaVu Sans (it comes with matplotlib) draws Latin letters, digits, minus signs and many symbols; "Regard CJK" (Droid Sans Fallback,
Apache-2.0, see NOTICE) draws Chinese, Japanese and Korean. A character that neither has is looked for in the fonts of the machine,
and is written as its code point when no font has it: a box never appears.
"""

from __future__ import annotations

import functools
import unicodedata
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from regard.core.errors import MissingExtraError

FONT_FILE = Path(__file__).with_name("font") / "RegardCJK.ttf"
LATIN, CJK = "DejaVu Sans", "Regard CJK"
VISIBLE = {" ": "␣", "\n": "⏎", "\r": "␍", "\t": "⇥", "\u00a0": "⍽", "\u3000": "␣"}
_extra_families: list[str] = []  # fonts of this machine that were needed for a character


@contextmanager
def readable() -> Iterator[None]:
    """Make artists inside this context with families that cover Latin, Chinese, Japanese and Korean.

    The caller's rcParams are the same before and after; artists keep their families when they are drawn later.

    Raises:
        MissingExtraError: matplotlib is not installed.
    """
    plt = pyplot()
    with plt.rc_context({"font.family": families(), "axes.unicode_minus": True, "axes.grid": False}):
        yield


def pyplot():
    """matplotlib.pyplot, imported on first use.

    Raises:
        MissingExtraError: matplotlib is not installed; the text names the extra.
    """
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise MissingExtraError("plots need matplotlib; install it with: pip install 'regard[viz]'") from error
    return plt


def families() -> list[str]:
    """Font families in the order in which a glyph is looked for; the font file is registered on first use."""
    from matplotlib import font_manager

    if not any(entry.name == CJK for entry in font_manager.fontManager.ttflist):
        font_manager.fontManager.addfont(str(FONT_FILE))
    return [LATIN, CJK, *_extra_families]


def drawable(text: str, longest: int | None = None) -> str:
    """The text as a label: nothing invisible, no mathematics from `$`, no missing glyph, at most `longest` characters.

    A label of white space only shows it (␣ ⏎ ⇥); other control characters and what no font has become code points.

    >>> drawable("a\\nb"), drawable(" "), drawable("$x$")
    ('a⏎b', '␣', '\\\\$x\\\\$')
    """
    blank = not text.strip(" ")
    kept = [VISIBLE.get(c, c) if blank or c != " " else c for c in text]
    shown = [c if _has_glyph(c) else f"⟨U+{ord(c):04X}⟩" for c in kept]
    if longest is not None and len(shown) > longest:
        shown = [*shown[: longest - 1], "…"]
    return "".join(shown).replace("$", r"\$")


def width_in_em(text: str) -> float:
    """A generous estimate of how wide a label is, in units of the font size: 1 for a full-width character, 0.65 else."""
    return sum(1.0 if unicodedata.east_asian_width(c) in "WF" else 0.65 for c in text)


def missing(texts: Sequence[str]) -> list[str]:
    """The characters, in order, that neither bundled font has. Empty for text that is sure to be right on any machine."""
    covered = _bundled()
    return sorted({c for text in texts for c in text if ord(c) not in covered})


def _has_glyph(character: str) -> bool:
    if unicodedata.category(character) in ("Cc", "Cs", "Co", "Cn") or (
        not character.isprintable() and character != "\u200d"
    ):
        return False
    if ord(character) in _bundled():
        return True
    found = _family_with(character)
    if found and found not in _extra_families:
        _extra_families.append(found)
    return found is not None


@functools.lru_cache(maxsize=4096)
def _family_with(character: str) -> str | None:
    """A family of this machine that can draw the character, or None. Colour bitmap fonts are passed over."""
    from matplotlib import font_manager

    for entry in font_manager.fontManager.ttflist:
        if entry.style == "normal" and "LastResort" not in entry.fname and "Color" not in entry.fname:
            try:
                if ord(character) in _coverage(entry.fname):
                    return entry.name
            except (OSError, RuntimeError):  # a font file that went away or cannot be read
                continue
    return None


@functools.lru_cache(maxsize=256)
def _coverage(file: str) -> frozenset[int]:
    from matplotlib.ft2font import FT2Font

    return frozenset(FT2Font(file).get_charmap())


@functools.lru_cache(maxsize=1)
def _bundled() -> frozenset[int]:
    return _coverage(_latin_file()) | _coverage(str(FONT_FILE))


@functools.lru_cache(maxsize=1)
def _latin_file() -> str:
    import matplotlib

    return str(Path(matplotlib.get_data_path()) / "fonts" / "ttf" / "DejaVuSans.ttf")
