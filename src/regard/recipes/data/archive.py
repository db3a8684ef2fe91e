"""Files out of folders and archives, read one after the other and never unpacked to disk.

Reads folders, single files, .zip and .whl, .tar with gzip, bzip2 or xz, Debian's .deb, and single .gz files. Names that would lead
out of the archive are refused, links and devices are passed over, and no member may be larger than `MAX_MEMBER`.
"""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath
from typing import IO

from regard.core.errors import DataError

MAX_MEMBER = 2 << 30  # bytes of one unpacked file; more is a mistake, or an attack
_COMPRESSED = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}
_TARS = (".tar", ".tgz", ".tar.gz", ".tar.bz2", ".tar.xz")
_ZIPS = (".zip", ".whl")


def everything(name: str) -> bool:
    """The wish of a caller who wants all files."""
    return True


def each(
    source: str | Path | tuple[str, bytes], wanted: Callable[[str], bool] = everything
) -> Iterator[tuple[str, bytes]]:
    """The (name, content) of each wanted file, in the order in which they lie in the archive; of a folder, sorted.

    Args:
        source: A path, a pattern of files such as "qamr.*.json", or a file that is in memory already as (name, content), such as
            an archive inside an archive.
        wanted: Called with the name inside the archive or folder, with forward slashes.

    Raises:
        DataError: No such path, a damaged archive, a name that leads out of it, or a member above `MAX_MEMBER`.
    """
    if not isinstance(source, tuple):
        path = Path(source)
        if path.is_dir():
            yield from _folder(path, wanted)
            return
        if "*" in path.name:
            for file in sorted(path.parent.glob(path.name)):
                if file.is_file() and wanted(file.name):
                    yield file.name, _limited(file.read_bytes(), file.name)
            return
        if not path.is_file():
            raise DataError(f"there is no file or folder {path}")
    name = source[0] if isinstance(source, tuple) else str(source)
    try:
        with io.BytesIO(source[1]) if isinstance(source, tuple) else Path(source).open("rb") as file:
            yield from _archive(name, file, wanted)
    except (tarfile.TarError, zipfile.BadZipFile, EOFError, lzma.LZMAError, gzip.BadGzipFile) as error:
        raise DataError(
            f"{name} is damaged or not what its name says ({type(error).__name__}: {error}); fetch it anew"
        ) from error


def is_archive(path: str | Path) -> bool:
    """Whether a path is a folder or an archive of several files, judging by its name."""
    return Path(path).is_dir() or str(path).endswith((*_TARS, *_ZIPS, ".deb"))


def listing(path: str | Path, most: int = 6) -> str:
    """The first names of a folder or an archive, for messages that say what was found."""
    names: list[str] = []
    for name, _ in each(path):
        if len(names) == most:
            return ", ".join(names) + ", ..."
        names.append(name)
    return ", ".join(names) or "nothing"


def wrong_layout(path: str | Path, expected: str, example: str) -> DataError:
    """The error for data laid out otherwise: what was found, what is read, and a three-line example."""
    shown = "\n".join(f"    {line}" for line in example.strip("\n").splitlines())
    return DataError(f"{path} holds {listing(path)}; expected {expected}, such as\n{shown}")


def _folder(folder: Path, wanted: Callable[[str], bool]) -> Iterator[tuple[str, bytes]]:
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if path.is_file() and wanted(name):
            yield name, path.read_bytes()


def _archive(name: str, file: IO[bytes], wanted: Callable[[str], bool]) -> Iterator[tuple[str, bytes]]:
    if name.endswith(_ZIPS):
        yield from _zip(name, file, wanted)
    elif name.endswith(_TARS):
        with tarfile.open(fileobj=file, mode="r:*") as tar:
            yield from _tar(name, tar, wanted)
    elif name.endswith(".deb"):
        inner, content = _data_of_deb(name, file)
        yield from each((inner, content), wanted)
    else:
        suffix = Path(name).suffix
        plain = Path(name).name.removesuffix(suffix) if suffix in _COMPRESSED else Path(name).name
        if wanted(plain):
            opened = _COMPRESSED[suffix](file) if suffix in _COMPRESSED else file
            yield plain, _limited(opened.read(MAX_MEMBER + 1), name)


def _zip(name: str, file: IO[bytes], wanted: Callable[[str], bool]) -> Iterator[tuple[str, bytes]]:
    with zipfile.ZipFile(file) as archive:
        for member in archive.infolist():
            inside = _safe(member.filename, name)
            if not member.is_dir() and wanted(inside):
                _check_size(member.file_size, inside)
                with archive.open(member) as opened:
                    yield inside, _limited(opened.read(MAX_MEMBER + 1), inside)


def _tar(name: str, tar: tarfile.TarFile, wanted: Callable[[str], bool]) -> Iterator[tuple[str, bytes]]:
    for member in tar:
        inside = _safe(member.name, name)
        if member.isfile() and wanted(inside):
            _check_size(member.size, inside)
            opened = tar.extractfile(member)
            if opened is not None:
                yield inside, opened.read()


def _data_of_deb(name: str, file: IO[bytes]) -> tuple[str, bytes]:
    """The data archive of a Debian package: an `ar` of members with heads of 60 bytes, at even places."""
    if file.read(8) != b"!<arch>\n":
        raise DataError(f"{name} is no Debian package: it does not begin with the signature of ar")
    while len(head := file.read(60)) == 60:
        member, size = head[:16].decode("latin1").strip().rstrip("/"), int(head[48:58])
        _check_size(size, member)
        content = file.read(size + size % 2)[:size]
        if member.startswith("data.tar"):
            if member.endswith(".zst"):
                raise DataError(f"{name} is packed with zstd, which is not read here; `dpkg-deb -x` it into a folder")
            return member, content
    raise DataError(f"{name} has no data archive")


def _safe(inside: str, archive: str) -> str:
    """The name as it is, if it stays inside."""
    name = inside.replace("\\", "/")
    if name.startswith("/") or ".." in PurePosixPath(name).parts or name[1:2] == ":":
        raise DataError(f"{archive} has a member named {inside!r}, which leads out of the archive; it is not read")
    return name.removeprefix("./")


def _check_size(size: int, inside: str) -> None:
    if size > MAX_MEMBER:
        raise DataError(f"{inside} would unpack to {size:,} bytes; the limit for one file is {MAX_MEMBER:,}")


def _limited(content: bytes, inside: str) -> bytes:
    _check_size(len(content), inside)
    return content
