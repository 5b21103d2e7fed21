"""Fading and a refitted window: what is refused, in one line, and what is left to defaults."""

import pickle
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest

from tidegate import FadingClassifier, PureDP, SlidingWindowClassifier
from tidegate.checks import InvalidValueError
from tidegate.kinds import values_of
from tidegate.privacy import Tapered
from tidegate.schedule import Cumulative, Fading, Independent, SlidingWindow, TwoStream, fits
from tidegate.schedule.plan import Plan
from tidegate.schedule.protocol import build


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"forget": 0}, "forget must be at least 1/32, and at most 1, got 0"),
        ({"forget": Fraction(1, 33)}, "forget must be at least 1/32, and at most 1, got 1/33"),
        ({"forget": 2}, 'forget must be a fraction from 0 to 1, such as 0.3 or "3/10", got 2'),
        ({"forget": -0.5}, "forget must be a fraction from 0 to 1"),
        ({"forget": "a third"}, "forget must be a fraction from 0 to 1"),
        ({"forget": float("nan")}, "forget must be a fraction from 0 to 1"),
        ({"forget": True}, "forget must be a fraction from 0 to 1"),
        ({"forget": "1e-99999999"}, "forget must be a fraction from 0 to 1"),
        ({"linger": "1E+9_9999_999"}, "linger must be a fraction from 0 to 1"),
        ({"forget": "333/1001"}, "forget must be a fraction with a denominator of at most 1000"),
        ({"memory": 0}, "memory must be a whole number from 1 to 128, got 0"),
        ({"memory": 129}, "memory must be a whole number from 1 to 128, got 129"),
        ({"memory": 2.5}, "memory must be a whole number from 1 to 128"),
        ({"forget": 1, "memory": 2}, "memory must be 1 where forget is 1"),
        ({"first": 0}, "first must be a whole number from 1 to 9007199254740992, got 0"),
        ({"linger": 1}, "linger must be below 1, or nothing would ever be forgotten, got 1"),
        (
            {"linger": "1/1000001"},
            "linger must be a fraction with a denominator of at most 1000000",
        ),
        ({"step": 0}, "step must be a whole number from 1 to 9007199254740992, got 0"),
    ],
)
def test_what_makes_no_sense_is_refused_in_one_line(given: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidValueError, match=message) as refused:
        Fading(**{"step": 10, **given})
    assert "\n" not in str(refused.value)


def test_fractions_may_be_written_in_three_ways() -> None:
    ways: list[Any] = [Fraction(3, 10), 0.3, "3/10"]
    assert len({Fading(step=1, forget=way) for way in ways}) == 1
    assert Fading(step=1).look_back == 7  # 0.7^7 is the first power below a tenth
    assert Fading(step=1).linger == Fraction(49, 100)
    assert Fading(step=1, linger=0).due(5)[0].start is None  # type: ignore[arg-type]


@pytest.mark.parametrize("forget", [Fraction(33, 100), Fraction(32, 997), Fraction(1)])
def test_its_parameters_make_it_again(forget: Fraction) -> None:
    """A state keeps the parameters with their defaults filled in, and is opened with these."""
    fading = Fading(step=1, forget=forget)
    assert replace(fading) == build("fading", values_of(fading)) == fading


def test_forgetting_all_is_independent() -> None:
    all_at_once = Fading(step=10, forget=Fraction(1))
    spans = [fit.span for fit in fits(all_at_once, 5)]
    assert spans == [fit.span for fit in fits(Independent(step=10), 5)]
    assert all(fit.start is None for fit in fits(all_at_once, 5))


def test_two_streams_refuse_what_forgets_as_their_source() -> None:
    for source in (Fading(step=10), SlidingWindow(window=20, step=10, refit=True)):
        with pytest.raises(InvalidValueError, match=r"^source must be a"):
            TwoStream(source=source, step=5)
    TwoStream(source=Cumulative(block=10), step=5)


def test_a_refitted_window_takes_no_sample_and_no_allocation() -> None:
    with pytest.raises(InvalidValueError, match="sample must be left out with refit"):
        SlidingWindow(window=20, step=10, sample=5, refit=True)
    with pytest.raises(InvalidValueError, match="refit must be true or false, got 'yes'"):
        SlidingWindow(window=20, step=10, refit="yes")  # type: ignore[arg-type]
    refitted = SlidingWindow(window=20, step=10, refit=True)
    with pytest.raises(InvalidValueError, match="allocation must be left out"):
        Plan(schedule=refitted, budget=PureDP(1.0), allocation=Tapered())
    assert SlidingWindow(window=20, step=10, refit=False) == SlidingWindow(window=20, step=10)


@pytest.mark.parametrize("memory", [1, 3])
def test_no_record_is_held_that_no_fit_reads_again(memory: int) -> None:
    X, y = [[0.01 * i, 1.0] for i in range(100)], [i % 2 for i in range(100)]
    fading = FadingClassifier(
        budget=PureDP(1.0), step=10, classes=[0, 1], norm=1.0, memory=memory, not_private_seed=1
    )
    fading.partial_fit(X[:95], y[:95])
    held = pickle.loads(pickle.dumps(fading))._begun.run.steps.held["records"]
    assert held.count - held.first == 10 * (memory - 1) + 5
    window = SlidingWindowClassifier(
        budget=PureDP(1.0), window=30, step=10, classes=[0, 1], norm=1.0, refit=True
    )
    assert len(window.partial_fit(X, y).releases_) == 8


@pytest.mark.parametrize("batch", [7, 60, 200])
def test_a_late_first_model_waits_for_its_records(batch: int) -> None:
    """No fit reads the first eight steps: they are dropped, but they are still counted."""
    X, y = [[0.01 * i, 1.0] for i in range(200)], [i % 2 for i in range(200)]
    fading = FadingClassifier(
        budget=PureDP(1.0), step=10, classes=[0, 1], norm=1.0, memory=2, first=10
    )
    for start in range(0, 200, batch):
        fading.partial_fit(X[start : start + batch], y[start : start + batch])
        taken = min(200, start + batch)
        expected = list(range(100, taken + 1, 10))
        assert [release.fit.at for release in fading._begun.run.releases] == expected
