"""Drifting streams: what they promise about records, tests and time."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.checks import InvalidValueError
from tidegate.compare.labelled import Labelled, interleaved, prequential
from tidegate.data.rows import Rows
from tidegate.features import clip_rows
from tidegate_lab.paper.datasets import Images
from tidegate_lab.paper.drift import label_shift, mix, moved, rotated, rotating


def pixels(images: np.ndarray) -> Rows:
    return clip_rows(images.reshape(len(images), -1).astype(np.float32), 1.0)


def numbers(n: int) -> Labelled:
    return Labelled(X=np.arange(float(n))[:, None], y=np.arange(n))


@given(n=st.integers(3, 300), every=st.integers(2, 20), near=st.integers(1, 50), data=st.data())
def test_interleaved_tests_are_near_in_time_and_never_learnt(
    n: int, every: int, near: int, data: st.DataObject
) -> None:
    learnt, test = interleaved(numbers(n), every=every, near=near)
    at = data.draw(st.integers(0, len(learnt.y)))
    tested = test(at).y
    assert not np.isin(tested, learnt.y).any()
    assert np.array_equal(learnt.y, [i for i in range(n) if i % every])
    left_out = np.arange(0, n, every)
    assert len(tested) == min(near, len(left_out))
    # No record that is left out and not tested on is much nearer to the time than one that is.
    now = learnt.y[at - 1] if at else 0
    farthest = np.abs(tested - now).max()
    others = np.setdiff1d(left_out, tested)
    assert all(abs(other - now) >= farthest - 2 * every for other in others)


@given(n=st.integers(2, 200), ahead=st.integers(1, 100), data=st.data())
def test_prequential_tests_are_the_records_that_come_next(
    n: int, ahead: int, data: st.DataObject
) -> None:
    if ahead >= n:
        with pytest.raises(InvalidValueError, match="number of records"):
            prequential(numbers(n), ahead=ahead)
        return
    learnt, test = prequential(numbers(n), ahead=ahead)
    at = data.draw(st.integers(0, len(learnt.y)))
    assert np.array_equal(test(at).y, np.arange(at, at + ahead))


def test_a_full_turn_of_four_quarters_is_none() -> None:
    images = np.random.default_rng(0).integers(0, 256, (3, 8, 8)).astype(np.uint8)
    turned = images
    for _ in range(4):
        turned = rotated(turned, 90.0)
    assert np.array_equal(turned, images)
    assert np.array_equal(rotated(images, 90.0), np.rot90(images, axes=(1, 2)))


def test_digits_stand_still_and_then_turn_with_their_tests() -> None:
    image = np.zeros((1, 9, 9), np.uint8)
    image[0, 4, 5:9] = 255
    images, labels = np.repeat(image, 64, axis=0), np.zeros(64, np.intp)
    arriving, tests = Images(images, labels), Images(image, labels[:1])
    stream = rotating(arriving, tests, pixels, degrees=90.0, still=0.5, every=8)
    first, last = stream.records.X[0], stream.records.X[-1]
    assert np.array_equal(first, pixels(image)[0])
    assert np.array_equal(last, pixels(np.rot90(image, axes=(1, 2)))[0])
    for at in (8, 32, 48, 64):  # the newest record and the tests are turned alike
        assert np.array_equal(stream.test(at).X[0], stream.records.X[at - 1])
    similar = [float(first @ stream.test(at).X[0]) for at in (32, 40, 48, 56)]
    assert all(later < earlier for earlier, later in pairwise(similar))
    assert stream.test(33) is stream.test(40)  # kept


def many(n: int, seed: int) -> Labelled:
    y = np.random.default_rng(seed).integers(4, size=n)
    return Labelled(X=np.arange(float(n))[:, None], y=y)


def test_the_mix_of_labels_moves_and_that_of_the_tests_with_it() -> None:
    n = 4000
    stream = label_shift(
        many(12_000, 0), many(2000, 1), n=n, seed=3, classes=4, norm=12_000.0, test_size=1000
    )
    assert len(np.unique(stream.records.X)) == n  # each record once
    for start in range(0, n, 1000):
        shares = np.mean(
            [mix(4, moved(at, n, 0.25), 2.0) for at in range(start + 1, start + 1001)], axis=0
        )
        seen = np.bincount(stream.records.y[start : start + 1000], minlength=4) / 1000
        # Hoeffding: a share of 1000 draws errs by 0.1 with probability 2 exp(-20) < 5e-9.
        assert np.abs(seen - shares).max() < 0.1
        tested = stream.test(start + 1000).y
        now = mix(4, moved(start + 1000, n, 0.25), 2.0)
        assert np.abs(np.bincount(tested, minlength=4) / 1000 - now).max() < 0.1


def test_a_class_that_runs_out_is_refused() -> None:
    with pytest.raises(InvalidValueError, match=r"class \d has only \d+ records"):
        label_shift(many(500, 0), many(100, 1), n=490, seed=0, classes=4, peak=5.0)


def test_the_streams_follow_from_their_seed() -> None:
    made = [
        label_shift(many(3000, 0), many(500, 1), n=600, seed=seed, classes=4).records.X
        for seed in (1, 1, 2)
    ]
    assert np.array_equal(made[0], made[1])
    assert not np.array_equal(made[0], made[2])
