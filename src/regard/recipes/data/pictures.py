"""Images with a class each: folders named for their class (ImageFolder), and the IDX files of the MNIST family."""

from __future__ import annotations

import gzip
import io
from pathlib import Path, PurePosixPath
from typing import NamedTuple

import numpy as np

from regard.core.errors import DataError, MissingExtraError
from regard.recipes.data.archive import each, wrong_layout
from regard.recipes.data.splits import divide, split_of, unknown_labels

_KINDS = (".jpg", ".jpeg", ".png", ".bmp", ".webp")
_EXPECTED = "images in folders train/CLASS and test/CLASS (.jpg, .png, .bmp, .webp)"
_EXAMPLE = """
train/cat/0001.jpg
train/dog/0001.jpg
test/cat/0001.jpg
"""


class Pictures(NamedTuple):
    """Images (N, C, H, W) as bytes, and the number of the class of each (N,)."""

    images: np.ndarray
    labels: np.ndarray


class PictureSplits(NamedTuple):
    """Images to learn from, to choose by and to report on, and the names of the classes."""

    train: Pictures
    val: Pictures
    test: Pictures
    classes: list[str]


def read_pictures(path: str | Path, *, side: int | None = None) -> PictureSplits:
    """Read an ImageFolder: a folder or an archive.

    Args:
        path: Where it lies.
        side: Images are scaled to side x side; None: all must have the size of the first.

    Raises:
        DataError: Another layout, a damaged image, images of several sizes, or a class that only the test part has.
        MissingExtraError: Pillow is not installed.
    """
    samples: dict[str | None, list[tuple[str, str, np.ndarray]]] = {}
    first: tuple[str, tuple[int, ...]] | None = None
    for name, content in each(path, lambda name: name.lower().endswith(_KINDS) and len(PurePosixPath(name).parts) > 1):
        image = _open(name, content, side)
        first = first or (name, image.shape)
        if image.shape != first[1]:
            raise DataError(
                f"{name} is {image.shape[2]} x {image.shape[1]} pixels and {first[0]} is {first[1][2]} x {first[1][1]}; "
                "scale them to one size with --set side=32"
            )
        folders = "/".join(PurePosixPath(name).parts[:-1]) + "/x"
        samples.setdefault(split_of(folders), []).append((name, PurePosixPath(name).parts[-2], image))
    if not samples:
        raise wrong_layout(path, _EXPECTED, _EXAMPLE)
    splits = divide(samples, lambda sample: sample[0], str(path))
    classes = sorted({label for _, label, _ in splits.train})
    unknown_labels(classes, (label for _, label, _ in [*splits.val, *splits.test]), str(path))
    place = {label: i for i, label in enumerate(classes)}
    train, val, test = (
        Pictures(np.stack([i for _, _, i in part]), np.asarray([place[label] for _, label, _ in part], np.int64))
        for part in splits
    )
    return PictureSplits(train, val, test, classes)


def read_idx(content: bytes, name: str) -> np.ndarray:
    """An array of bytes from the IDX format: two zeros, the type 8, the number of axes, their lengths, the values."""
    raw = gzip.decompress(content) if name.endswith(".gz") else content
    if len(raw) < 8 or raw[:3] != b"\x00\x00\x08":
        raise DataError(f"{name} is no IDX file of bytes: it begins with {raw[:4].hex()}, expected 000008 and the axes")
    axes = raw[3]
    shape = [int.from_bytes(raw[4 + 4 * i : 8 + 4 * i], "big") for i in range(axes)]
    if len(raw) != 4 + 4 * axes + int(np.prod(shape)):
        raise DataError(f"{name} has {len(raw)} bytes, and its head promises {' x '.join(map(str, shape))}")
    return np.frombuffer(raw, np.uint8, offset=4 + 4 * axes).reshape(shape).copy()  # torch wants it writable


def cut(train: Pictures, test: Pictures, classes: list[str], share: float = 0.1) -> PictureSplits:
    """Splits whose validation part is the last share of the training part."""
    at = len(train.labels) - int(share * len(train.labels))
    ends = Pictures(train.images[:at], train.labels[:at]), Pictures(train.images[at:], train.labels[at:])
    return PictureSplits(*ends, test, classes)


def _open(name: str, content: bytes, side: int | None) -> np.ndarray:
    try:
        from PIL import Image
    except ImportError as error:
        raise MissingExtraError('images are read with Pillow: pip install "regard[train]"') from error
    try:
        with Image.open(io.BytesIO(content)) as image:
            image = image.convert("L" if image.mode in ("1", "L", "I;16") else "RGB")
            if side is not None:
                image = image.resize((side, side))
            array = np.asarray(image)
    except (OSError, SyntaxError) as error:
        raise DataError(f"{name} is no image that can be read: {error}") from error
    return array[None] if array.ndim == 2 else np.ascontiguousarray(array.transpose(2, 0, 1))


def read_one(path: str | Path, shape: list[int]) -> np.ndarray:
    """One image file as (C, H, W) bytes, scaled to the size and brought to the channels that a model was trained with.

    Raises:
        DataError: No such file, or no image.
    """
    from PIL import Image

    found = next(each(path), None)
    if found is None:
        raise DataError(f"{path} holds no file")
    image = _open(*found, None)
    grey, height, width = shape[0] == 1, shape[1], shape[2]
    shown = Image.fromarray(image[0] if image.shape[0] == 1 else image.transpose(1, 2, 0))
    array = np.asarray(shown.convert("L" if grey else "RGB").resize((width, height)))
    return (array[None] if grey else array.transpose(2, 0, 1)).copy()
