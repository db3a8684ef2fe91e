"""Running text: one file, or all .txt files of a folder or archive, one after the other."""

from __future__ import annotations

from pathlib import Path

from regard.recipes.data.archive import each, is_archive, wrong_layout
from regard.recipes.data.decoding import decode


def read_text(path: str | Path) -> str:
    """The text.

    Raises:
        DataError: No such file, no .txt in a folder, an empty file, or an encoding that is not known.
    """
    several = is_archive(path) or "*" in Path(path).name
    parts = [decode(content, name) for name, content in each(path, lambda name: not several or name.endswith(".txt"))]
    if not parts:
        raise wrong_layout(path, "text files (.txt)", "First line of text.\nSecond line of text.\nThird line of text.")
    return "\n".join(parts)
