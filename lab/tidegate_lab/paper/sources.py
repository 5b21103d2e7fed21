"""Sources of labelled streams: descriptions small enough to print and to send to a worker."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cache, lru_cache
from pathlib import Path
from typing import Literal, Protocol

import numpy as np

from tidegate import InvalidValueError
from tidegate.compare import Labelled, LabelledStream, interleaved
from tidegate_lab.paper import datasets
from tidegate_lab.paper.datasets import Rows
from tidegate_lab.paper.drift import label_shift, rotating
from tidegate_lab.paper.paper_method import pixel_values, word_components

NO_TITLES = (
    "no arXiv titles: give Kaggle's snapshot of arXiv with --kaggle, or a folder that holds "
    "arxiv/titles-1993-1996.tsv.gz with --data"
)

ARTICLES = 10_000
"""Number of articles in the paper."""

RECORDS_PER_TURN = 32_768
"""Records until digits are upside down, or until each was the most frequent once."""


class Source(Protocol):
    """A stream for every seed; its `repr` holds everything that its records depend on."""

    @property
    def records(self) -> int:
        """How many records arrive."""

    @property
    def shape(self) -> tuple[int, int]:
        """The shape of a model's weights: features and classes."""

    def stream(self, seed: int) -> LabelledStream:
        """The stream of a run."""


@dataclass(frozen=True, kw_only=True)
class Digits:
    """MNIST in random order.

    Args:
        features: `pixels` and their `scattering` are in the unit ball; `published` are the paper's.
        records: Length of the stream.
        folder: The folder that holds mnist/; None downloads it.
    """

    features: Literal["pixels", "scattering", "published"] = "pixels"
    records: int = 20_000
    folder: Path | None = field(default=None, repr=False)

    @property
    def shape(self) -> tuple[int, int]:
        """Features and classes."""
        return {"pixels": 784, "scattering": 3969, "published": 785}[self.features], 10

    def stream(self, seed: int) -> LabelledStream:
        """The stream of a run, in an order determined by the seed."""
        whole = _digits(self.folder, self.features)
        drawn = np.random.default_rng(seed).permutation(whole.n)[: self.records]
        return replace(whole, records=whole.records[drawn])


@dataclass(frozen=True, kw_only=True)
class Articles:
    """Titles of arXiv in the order of their dates, labelled with their archives.

    Args:
        features: `words` are hashed and scaled onto the unit ball; `published` are the paper's.
        records: Length of the stream.
        folder: The folder that holds arxiv/titles-1993-1996.tsv.gz.
        kaggle: Kaggle's snapshot, which is read instead if given.
    """

    features: Literal["words", "published"] = "words"
    records: int = 7_500
    folder: Path | None = field(default=None, repr=False)
    kaggle: Path | None = None

    @property
    def shape(self) -> tuple[int, int]:
        """Features and classes."""
        return {"words": 4097, "published": 513}[self.features], len(datasets.ARCHIVES)

    def stream(self, seed: int) -> LabelledStream:
        """The stream of a run; the seed determines which titles are held out to test on."""
        rows, archives = _articles(self.folder, self.kaggle, self.features)
        return datasets.title_stream(rows, archives, seed).first(self.records)


@dataclass(frozen=True, kw_only=True)
class _DriftingDigits:
    records: int = RECORDS_PER_TURN
    folder: Path | None = field(default=None, repr=False)

    shape = (784, 10)


class TurningDigits(_DriftingDigits):
    """MNIST in random order, rotated further and further after a quarter of the stream.

    Args:
        records: Length of the stream.
        folder: The folder that holds mnist/; None downloads it.
    """

    def stream(self, seed: int) -> LabelledStream:
        """The stream of a run, in an order determined by the seed."""
        return _turning(self.folder, self.records, seed)


class MovingLabels(_DriftingDigits):
    """MNIST with a changing mix of digits; for the arguments see `TurningDigits`."""

    def stream(self, seed: int) -> LabelledStream:
        """The stream of a run, drawn by the seed."""
        whole = _digits(self.folder, "pixels")
        turns = self.records / RECORDS_PER_TURN
        return label_shift(whole.records, whole.test(0), n=self.records, seed=seed, turns=turns)


@dataclass(frozen=True, kw_only=True)
class MovingArchives:
    """All titles of arXiv in the order of their dates: its archives grow, split and shrink.

    Args:
        records: Length of the stream.
        folder: The folder that holds arxiv/titles-1993-1996.tsv.gz.
        kaggle: Kaggle's snapshot, which is read instead if given.
    """

    records: int = 28_672
    folder: Path | None = field(default=None, repr=False)
    kaggle: Path | None = None

    shape = (4097, len(datasets.ARCHIVES))

    def stream(self, seed: int) -> LabelledStream:
        """The same stream for every seed, in the order of dates."""
        del seed
        return _archives(self.folder, self.kaggle).first(self.records)


# A worker caches what it reads, because many runs need the same records.


@cache
def _digits(folder: Path | None, features: str) -> LabelledStream:
    maps: dict[str, Callable[[datasets.Pixels], Rows]] = {
        "pixels": datasets.pixels,
        "scattering": datasets.scattering,
        "published": pixel_values,
    }
    return datasets.digit_stream(*datasets.mnist(folder and folder / "mnist"), maps[features])


@cache
def _articles(
    folder: Path | None, kaggle: Path | None, features: str
) -> tuple[Rows, tuple[str, ...]]:
    _, archives, texts = _titles(folder, kaggle)
    features_of = datasets.words if features == "words" else word_components
    return features_of(texts[:ARTICLES]), archives[:ARTICLES]


@lru_cache(maxsize=1)
def _turning(folder: Path | None, records: int, seed: int) -> LabelledStream:
    train, test = datasets.mnist(folder and folder / "mnist")
    drawn = np.random.default_rng(seed).permutation(len(train.labels))[:records]
    tests = slice(None, None, 5)  # the first half of the file is harder than the second
    return rotating(
        datasets.Images(train.pixels[drawn], train.labels[drawn]),
        datasets.Images(test.pixels[tests], test.labels[tests]),
        datasets.pixels,
        degrees=180 * records / RECORDS_PER_TURN,
    )


@cache
def _archives(folder: Path | None, kaggle: Path | None) -> LabelledStream:
    titles = _titles(folder, kaggle)
    y = np.array([datasets.ARCHIVES.index(archive) for archive in titles.archives])
    records, test = interleaved(Labelled(X=datasets.words(titles.texts), y=y), every=5, near=1000)
    return LabelledStream(records=records, classes=len(datasets.ARCHIVES), norm=1.0, test=test)


def _titles(folder: Path | None, kaggle: Path | None) -> datasets.Titles:
    if kaggle is not None:
        return datasets.snapshot(kaggle)
    if folder is None:
        raise InvalidValueError(NO_TITLES)
    return datasets.titles(folder / "arxiv" / "titles-1993-1996.tsv.gz")
