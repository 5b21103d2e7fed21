"""Streams whose concept turns, from records whose concept does not; all follow from a seed."""

import math
from collections.abc import Callable
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

from tidegate.checks import between, refuse, whole
from tidegate.features.rows import Rows
from tidegate.study.datasets import Images, Pixels
from tidegate.study.study_stream import Labelled, StudyStream

Floats = NDArray[np.float64]

KEPT = 64
"""Test sets of different times that are kept: methods and runs ask for the same ones again."""


def moved(at: int, n: int, still: float) -> float:
    """How far the concept has gone after `at` of n records: from 0, where it stands still, to 1.

    >>> moved(25, 100, 0.5), moved(75, 100, 0.5), moved(100, 100, 0.5)
    (0.0, 0.5, 1.0)
    """
    return max(0.0, at / n - still) / (1 - still)


def rotated(images: Pixels, degrees: float) -> Pixels:
    """Images turned about their centers, what comes from outside being 0.

    >>> image = np.zeros((1, 5, 5), np.uint8)
    >>> image[0, 2, 4] = 255
    >>> np.argwhere(rotated(image, 90.0)[0]).tolist()
    [[0, 2]]
    """
    if degrees == 0:
        return images
    turned: Pixels = ndimage.rotate(images, degrees, axes=(2, 1), reshape=False, order=1)
    return turned


def rotating(  # noqa: PLR0913 (records, records to test on, and how they turn)
    images: Images,
    tests: Images,
    features: Callable[[Pixels], Rows],
    *,
    degrees: float = 180.0,
    still: float = 0.25,
    every: int = 256,
) -> StudyStream:
    """Digits that turn more and more; a model is tested on images turned as far as the newest.

    Args:
        images: Of shape (n, height, width), in the order of their arrival, and their labels.
        tests: Images to test on, and their labels.
        features: Maps images to rows of the unit ball.
        degrees: How far the last image is turned.
        still: The fraction of the stream that is not turned.
        every: So many images in turn get the same angle, that of the last of them.
    """
    n, still = len(images.labels), between("still", still, -1e-9, 1)

    def angle(at: int) -> float:
        return degrees * moved(min(n, -(-at // every) * every), n, still)

    @lru_cache(maxsize=KEPT)
    def turned(by: float) -> Labelled:
        return Labelled(X=features(rotated(tests.pixels, by)), y=tests.labels)

    starts = range(0, n, whole("every", every))
    parts = [rotated(images.pixels[start : start + every], angle(start + 1)) for start in starts]
    records = Labelled(X=features(np.concatenate(parts)), y=images.labels)
    return StudyStream(records=records, classes=10, norm=1.0, test=lambda at: turned(angle(at)))


def mix(classes: int, turn: float, peak: float) -> Floats:
    """The share of each class when the mix has gone round `turn` times: a bump on a ring.

    >>> mix(4, 0.25, 2.0).round(3)
    array([0.105, 0.776, 0.105, 0.014])
    """
    ring = np.arange(classes) / classes
    bump = np.exp(peak * np.cos(2 * math.pi * (ring - turn)))
    return np.asarray(bump / bump.sum())


def label_shift(  # noqa: PLR0913 (records, records to test on, and how the mix moves)
    records: Labelled,
    tests: Labelled,
    *,
    n: int,
    seed: int,
    classes: int = 10,
    norm: float = 1.0,
    turns: float = 1.0,
    still: float = 0.25,
    peak: float = 2.0,
    test_size: int = 2000,
) -> StudyStream:
    """A stream in which classes come and go, each looking as ever; tests have the mix of the time.

    Args:
        records: Those that are drawn from, each once at most.
        tests: Those that tests are drawn from.
        n: Length of the stream.
        seed: What all draws follow from.
        classes: How many there are.
        norm: The bound on the length of a record.
        turns: How often the mix goes round.
        still: The fraction of the stream in which it does not move.
        peak: How much the most frequent class stands out; with 0 all are alike.
        test_size: How many records a model is tested on.
    """
    rng = np.random.default_rng(seed)
    wanted = [mix(classes, turns * moved(at, n, still), peak) for at in range(1, n + 1)]
    below = np.cumsum(wanted, axis=1)[:, :-1]
    drawn = (rng.random(n)[:, None] > below).sum(axis=1)  # a class for each record, by inversion
    order = np.empty(n, np.intp)
    for label in range(classes):
        places, pool = np.flatnonzero(drawn == label), np.flatnonzero(records.y == label)
        if len(places) > len(pool):
            raise refuse("n", f"smaller: there are {len(pool)} records of class {label}", n)
        order[places] = rng.permutation(pool)[: len(places)]

    @lru_cache(maxsize=KEPT)
    def test(at: int) -> Labelled:
        share = mix(classes, turns * moved(at, n, still), peak)
        each = share[tests.y] / np.bincount(tests.y, minlength=classes)[tests.y]
        picked = np.random.default_rng([seed, at]).choice(len(each), test_size, p=each / each.sum())
        return tests[picked]

    return StudyStream(records=records[order], classes=classes, norm=norm, test=test)
