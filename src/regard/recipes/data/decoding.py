"""Bytes to text: UTF-8, else GB18030; each file by itself, and a file that mixes the two is refused with the lines."""

from __future__ import annotations

import codecs

from regard.core.errors import DataError

_MARKS = ((codecs.BOM_UTF8, "utf-8-sig"), (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))


def decode(content: bytes, name: str) -> str:
    """The text of a file, with line ends as \\n.

    Raises:
        DataError: An empty file, lines in two encodings, or neither UTF-8 nor GB18030.
    """
    if not content.strip():
        raise DataError(f"{name} is empty ({len(content)} bytes)")
    encoding = next((found for mark, found in _MARKS if content.startswith(mark)), None)
    text = content.decode(encoding) if encoding else _without_mark(content, name)
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _without_mark(content: bytes, name: str) -> str:
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        bad = content.count(b"\n", 0, error.start) + 1
    lines = content.split(b"\n")
    wide = next((n for n, line in enumerate(lines, 1) if not line.isascii() and _reads(line, "utf-8")), None)
    if _reads(content, "gb18030") and wide is None:
        return content.decode("gb18030")
    # A short GB18030 line may read as UTF-8 by chance; one of three characters or more hardly does.
    surely = next((n for n, line in enumerate(lines, 1) if _reads(line, "utf-8") and _wide_bytes(line) >= 9), None)
    if _reads(content, "gb18030") and surely is None:
        return content.decode("gb18030")
    if surely is not None:
        raise DataError(
            f"{name} mixes encodings: line {surely} is UTF-8 and line {bad} is not (GB18030?); convert it to one, "
            f"such as with iconv -f GB18030 -t UTF-8"
        )
    raise DataError(
        f"{name}, line {bad}, is neither UTF-8 nor GB18030; save the file as UTF-8, such as with iconv -f LATIN1 -t UTF-8"
    )


def _reads(content: bytes, encoding: str) -> bool:
    try:
        content.decode(encoding)
    except UnicodeDecodeError:
        return False
    return True


def _wide_bytes(line: bytes) -> int:
    return sum(byte >= 0x80 for byte in line)
