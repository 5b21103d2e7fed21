"""The data sets of the paper: handwritten digits, and titles of articles on arXiv."""

import gzip
import json
import warnings
from collections.abc import Callable, Iterable, Iterator
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tidegate import InvalidValueError
from tidegate.compare import Labelled, LabelledStream
from tidegate.features import AppendIntercept, HashedText, Scattering, clip_rows

Rows = Any
"""Features, one row for each record: an array or a CSR array."""

Pixels = NDArray[np.uint8]
Labels = NDArray[np.intp]

ARCHIVES = (
    "astro-ph",
    "cond-mat",
    "cs",
    "gr-qc",
    "hep-ex",
    "hep-lat",
    "hep-ph",
    "hep-th",
    "math",
    "math-ph",
    "nlin",
    "nucl-ex",
    "nucl-th",
    "physics",
    "q-bio",
    "quant-ph",
    "stat",
)
"""The archives of 2007, the paper's 17 classes: public knowledge, not computed from data."""


class Images(NamedTuple):
    """Images, shape (n, 28, 28), and the digit on each."""

    pixels: Pixels
    labels: Labels


class Titles(NamedTuple):
    """Articles in the order of their first submission: day, archive and title of each."""

    dates: NDArray[np.datetime64]
    archives: tuple[str, ...]
    texts: tuple[str, ...]


def mnist(folder: Path | None = None) -> tuple[Images, Images]:
    """MNIST: 60 000 images to learn from, 10 000 to test on.

    It is read from its four original gzip files in the folder. Without a folder it is downloaded
    from openml.org, once.
    """
    if folder is None:
        return _fetched()
    return _original(folder, "train"), _original(folder, "t10k")


def _original(folder: Path, part: str) -> Images:
    def content(kind: str, header: int) -> Pixels:
        packed = _there(folder / f"{part}-{kind}-ubyte.gz").read_bytes()
        return np.frombuffer(gzip.decompress(packed), np.uint8, offset=header)

    pixels = content("images-idx3", 16).reshape(-1, 28, 28)
    return Images(pixels, content("labels-idx1", 8).astype(np.intp))


def _there(path: Path) -> Path:
    """A path, refused if there is no file: not an OSError, which would mean a lost worker."""
    if not path.is_file():
        raise InvalidValueError(f"{path} is missing on the machine that needs it: copy it there")
    return path


def _fetched() -> tuple[Images, Images]:
    from sklearn.datasets import fetch_openml  # noqa: PLC0415 (slow, rarely needed)

    try:
        with warnings.catch_warnings(action="ignore"):  # one for each retry
            rows, labels = fetch_openml("mnist_784", version=1, as_frame=False, return_X_y=True)
    except OSError as error:
        raise InvalidValueError(
            f"MNIST cannot be downloaded ({error}): put its four original files into mnist/ in a "
            "folder, and name the folder with --data or in TIDEGATE_DATA"
        ) from None
    pixels, digits = rows.astype(np.uint8).reshape(-1, 28, 28), labels.astype(np.intp)
    return Images(pixels[:60_000], digits[:60_000]), Images(pixels[60_000:], digits[60_000:])


def titles(path: Path) -> Titles:
    """Articles from a .tsv.gz file: a heading, then id, date, archive and title of each."""
    with gzip.open(_there(path), "rt", encoding="utf-8") as lines:
        next(lines)
        rows = [line.rstrip("\n").split("\t") for line in lines]
    return _in_order((row[1], row[2], row[3]) for row in rows)


def snapshot(path: Path, year: int = 2007) -> Titles:
    """Articles first submitted in a year, from Kaggle's snapshot of arXiv: JSON, one per line.

    It is read line by line, because it may not fit into memory. Only articles of a single archive
    are used, as in the paper.
    """
    with _there(path).open(encoding="utf-8") as lines:
        return _in_order(_of_year(lines, year))


def _of_year(lines: Iterable[str], year: int) -> Iterator[tuple[str, str, str]]:
    """Day, archive and title of the articles to use."""
    for line in lines:
        article = json.loads(line)
        archives = {category.split(".")[0] for category in article["categories"].split()}
        created = parsedate_to_datetime(article["versions"][0]["created"])
        if created.year == year and len(archives) == 1:
            yield created.date().isoformat(), archives.pop(), " ".join(article["title"].split())


def _in_order(articles: Iterable[tuple[str, str, str]]) -> Titles:
    ordered = sorted((a for a in articles if a[1] in ARCHIVES), key=lambda article: article[0])
    if not ordered:
        raise InvalidValueError("the articles must be of the archives of 2007, at least one")
    dates, archives, texts = zip(*ordered, strict=True)
    return Titles(np.array(dates, "datetime64[D]"), archives, texts)


def pixels(images: Pixels) -> NDArray[np.float32]:
    """Features of images: their pixels, each image scaled onto the unit ball by itself."""
    return np.asarray(clip_rows(images.reshape(len(images), -1).astype(np.float32), 1.0))


def scattering(images: Pixels) -> NDArray[np.float32]:
    """Features of images: their wavelet scattering, in single precision to save memory."""
    rows = images.reshape(len(images), -1).astype(np.float32)
    return np.asarray(clip_rows(Scattering(width=images.shape[2]).transform(rows), 1.0))


def words(texts: Iterable[str]) -> Rows:
    """Features of titles: their words, hashed, and a constant, scaled onto the unit ball."""
    counts = HashedText(n_features=2**12, words=(1, 1), characters=None).transform(list(texts))
    return clip_rows(AppendIntercept().transform(counts), 1.0)


def digit_stream(
    train: Images, test: Images, features: Callable[[Pixels], Rows] = pixels
) -> LabelledStream:
    """Digits as a stream in the order of the file; `features` maps each image by itself."""
    tested = Labelled(X=features(test.pixels), y=test.labels)
    records = Labelled(X=features(train.pixels), y=train.labels)
    return LabelledStream(records=records, classes=10, norm=1.0, test=lambda _: tested)


def title_stream(rows: Rows, archives: Iterable[str], seed: int) -> LabelledStream:
    """Titles as a stream in the order of their dates; a random quarter is held out to test on."""
    y = np.array([ARCHIVES.index(archive) for archive in archives])
    tests = np.zeros(len(y), bool)
    tests[np.random.default_rng(seed).permutation(len(y))[: len(y) // 4]] = True
    every = Labelled(X=rows, y=y)
    tested, records = every[tests], every[~tests]
    return LabelledStream(records=records, classes=len(ARCHIVES), norm=1.0, test=lambda _: tested)
