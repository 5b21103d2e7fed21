"""Streams with drift, made of records without drift; a seed determines them."""

import math
from collections.abc import Callable
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

from tidegate.compare import Labelled, LabelledStream
from tidegate_lab.checks import from_zero_below_one, refuse, whole
from tidegate_lab.paper.datasets import Images, Pixels, Rows

Floats = NDArray[np.float64]

CACHED_TEST_SETS = 64
"""Number of test sets that are cached: methods and runs need the same ones again."""


def moved(at: int, n: int, still: float) -> float:
    """How far the concept has drifted after `at` of n records, from 0 to 1.

    It does not move during the first fraction `still` of the stream.

    >>> moved(25, 100, 0.5), moved(75, 100, 0.5), moved(100, 100, 0.5)
    (0.0, 0.5, 1.0)
    """
    return max(0.0, at / n - still) / (1 - still)


def rotated(images: Pixels, degrees: float) -> Pixels:
    """Images rotated about their centers; pixels from outside are 0.

    >>> image = np.zeros((1, 5, 5), np.uint8)
    >>> image[0, 2, 4] = 255
    >>> np.argwhere(rotated(image, 90.0)[0]).tolist()
    [[0, 2]]
    """
    if degrees == 0:
        return images
    turned: Pixels = ndimage.rotate(images, degrees, axes=(2, 1), reshape=False, order=1)
    return turned


def rotating(  # noqa: PLR0913 (records, test records, and how they rotate)
    images: Images,
    tests: Images,
    features: Callable[[Pixels], Rows],
    *,
    degrees: float = 180.0,
    still: float = 0.25,
    every: int = 256,
) -> LabelledStream:
    """Digits that rotate over time; a model is tested on images rotated as far as the newest.

    Args:
        images: Of shape (n, height, width), in the order of their arrival, and their labels.
        tests: Images to test on, and their labels.
        features: Maps images to rows of the unit ball.
        degrees: How far the last image is rotated.
        still: The fraction of the stream that is not rotated.
        every: Number of consecutive images with the same angle, that of the last of them.
    """
    n, still = len(images.labels), from_zero_below_one("still", still)

    def angle(at: int) -> float:
        return degrees * moved(min(n, -(-at // every) * every), n, still)

    @lru_cache(maxsize=CACHED_TEST_SETS)
    def turned(by: float) -> Labelled:
        return Labelled(X=features(rotated(tests.pixels, by)), y=tests.labels)

    starts = range(0, n, whole("every", every))
    parts = [rotated(images.pixels[start : start + every], angle(start + 1)) for start in starts]
    records = Labelled(X=features(np.concatenate(parts)), y=images.labels)
    return LabelledStream(records=records, classes=10, norm=1.0, test=lambda at: turned(angle(at)))


def mix(classes: int, turn: float, peak: float) -> Floats:
    """The fraction of each class after the peak has gone `turn` times around the ring of classes.

    >>> mix(4, 0.25, 2.0).round(3)
    array([0.105, 0.776, 0.105, 0.014])
    """
    ring = np.arange(classes) / classes
    bump = np.exp(peak * np.cos(2 * math.pi * (ring - turn)))
    return np.asarray(bump / bump.sum())


def label_shift(  # noqa: PLR0913 (records, test records, and how the mix moves)
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
) -> LabelledStream:
    """A stream whose mix of classes changes, but no class itself; tests have the current mix.

    Args:
        records: The records to draw from, each at most once.
        tests: The records to draw tests from.
        n: Length of the stream.
        seed: Determines all draws.
        classes: Number of classes.
        norm: The bound on the norm of a record.
        turns: How often the mix goes around.
        still: The fraction of the stream in which it does not move.
        peak: How much the most frequent class dominates; at 0 all are equally frequent.
        test_size: Number of records that a model is tested on.
    """
    rng = np.random.default_rng(seed)
    wanted = [mix(classes, turns * moved(at, n, still), peak) for at in range(1, n + 1)]
    below = np.cumsum(wanted, axis=1)[:, :-1]
    drawn = (rng.random(n)[:, None] > below).sum(axis=1)  # a class for each record, by inversion
    order = np.empty(n, np.intp)
    for label in range(classes):
        places, pool = np.flatnonzero(drawn == label), np.flatnonzero(records.y == label)
        if len(places) > len(pool):
            raise refuse("n", f"smaller: class {label} has only {len(pool)} records", n)
        order[places] = rng.permutation(pool)[: len(places)]

    @lru_cache(maxsize=CACHED_TEST_SETS)
    def test(at: int) -> Labelled:
        share = mix(classes, turns * moved(at, n, still), peak)
        each = share[tests.y] / np.bincount(tests.y, minlength=classes)[tests.y]
        picked = np.random.default_rng([seed, at]).choice(len(each), test_size, p=each / each.sum())
        return tests[picked]

    return LabelledStream(records=records[order], classes=classes, norm=norm, test=test)
