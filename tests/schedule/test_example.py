"""The paper's Example 1 and the fits of each schedule, chain by chain."""

import pytest

from tidegate.checks import InvalidValueError
from tidegate.schedule import (
    Basic,
    Continual,
    Cumulative,
    Fit,
    Independent,
    MultiResolution,
    Schedule,
    SlidingWindow,
    Steps,
    Stream,
    TwoStream,
    fits,
)


def chain(by_number: dict[int, Fit], release: Fit) -> list[tuple[int, int]]:
    links = [release]
    while links[-1].prior is not None:
        links.append(by_number[links[-1].prior])
    return [(fit.span.start, fit.span.stop) for fit in reversed(links)]


def chains(schedule: Schedule, until: int) -> dict[int, list[tuple[int, int]]]:
    by_number = {fit.number: fit for fit in fits(schedule, until)}
    return {fit.at: chain(by_number, fit) for fit in by_number.values() if fit.released}


def test_example_1_of_the_paper() -> None:
    assert chains(SlidingWindow(window=7, step=1), 11) == {
        7: [(3, 7), (1, 3), (0, 1)],
        8: [(3, 7), (1, 3), (7, 8)],
        9: [(3, 7), (7, 9), (2, 3)],
        10: [(3, 7), (7, 9), (9, 10)],
        11: [(7, 11), (5, 7), (4, 5)],
    }


def test_example_1_in_records() -> None:
    schedule = SlidingWindow(window=7168, step=1024)
    assert schedule.steps == Steps(1024)
    spans = [tuple(Steps(1024).fit(fit).span) for fit in fits(schedule, 9)]
    assert spans == [
        (3072, 7168),
        (1024, 3072),
        (0, 1024),
        (7168, 8192),
        (7168, 9216),
        (2048, 3072),
    ]


def test_a_window_that_the_paper_leaves_out() -> None:
    """w = 5 has m = 2, because 2^5 <= 6^2 < 2^7: three steps outside a base of two."""
    schedule = SlidingWindow(window=5, step=1)
    assert (schedule.levels, schedule.left, schedule.base) == (2, 3, 2)
    assert chains(schedule, 9) == {
        5: [(3, 5), (1, 3), (0, 1)],
        6: [(3, 5), (1, 3), (5, 6)],
        7: [(3, 5), (5, 7), (2, 3)],
        8: [(3, 5), (5, 7), (7, 8)],
        9: [(7, 9), (5, 7), (4, 5)],
    }


@pytest.mark.parametrize("window", range(2, 400))
def test_left_is_the_power_of_two_nearest_to_half_the_window(window: int) -> None:
    schedule = SlidingWindow(window=window, step=1)
    largest = max(m for m in range(20) if 2 ** (2 * m + 1) <= (window + 1) ** 2)
    assert schedule.levels == largest
    assert schedule.left == 2**largest - 1
    assert schedule.base + schedule.left == window


def test_continual_is_algorithm_4() -> None:
    """A second phase: i = 1, 2, 4 are kept as f_c, the others refine the last one kept."""
    by_time = {fit.at: fit for fit in fits(Continual(block=4, step=1), 16)}
    at = {fit.number: fit.at for fit in by_time.values()}
    spans = {
        time: (tuple(fit.span), at.get(-1 if fit.prior is None else fit.prior))
        for time, fit in by_time.items()
    }
    assert spans == {
        4: ((0, 4), None),
        5: ((4, 5), 4),
        6: ((4, 6), 4),
        7: ((6, 7), 6),
        8: ((0, 8), None),
        9: ((8, 9), 8),
        10: ((8, 10), 8),
        11: ((10, 11), 10),
        12: ((8, 12), 8),
        13: ((12, 13), 12),
        14: ((13, 14), 12),
        15: ((14, 15), 12),
        16: ((0, 16), None),
    }


def test_basic_refines_the_previous_release() -> None:
    made = fits(Basic(block=2, step=1), 8)
    assert [(tuple(fit.span), fit.prior) for fit in made] == [
        ((0, 2), None),
        ((2, 3), 0),
        ((0, 4), None),
        ((4, 5), 2),
        ((5, 6), 3),
        ((6, 7), 4),
        ((0, 8), None),
    ]


def test_multiresolution_is_algorithm_2() -> None:
    for fit in fits(MultiResolution(block=3), 64):
        assert fit.at % fit.span.size == 0
        assert fit.span.stop == fit.at
    sizes = [fit.span.size for fit in MultiResolution(block=3).due(8)]
    assert sizes == [1, 2, 4, 8]


def test_independent_and_cumulative() -> None:
    assert [tuple(fit.span) for fit in fits(Independent(step=4), 3)] == [(0, 1), (1, 2), (2, 3)]
    assert [tuple(fit.span) for fit in fits(Cumulative(block=3), 4)] == [(0, 1), (0, 2), (0, 4)]


def test_a_window_as_source_keeps_its_own_chain() -> None:
    """The newest window model is the prior of target updates; its own chain is unchanged."""
    source = SlidingWindow(window=3, step=1)
    first: list[Stream] = ["target", "source", "source", "source", "source"]
    arrivals = [*first, "target", "target", "source", "target"]
    made = list(TwoStream(source=source, step=2).fits(arrivals))
    assert [fit.number for fit in made] == list(range(len(made)))
    alone = list(fits(source, 5))
    mine = [fit for fit in made if fit.stream == "source"]
    assert [fit.span for fit in mine] == [fit.span for fit in alone]
    assert [made[fit.prior].span for fit in mine if fit.prior is not None] == [
        alone[fit.prior].span for fit in alone if fit.prior is not None
    ]
    updates = [fit for fit in made if fit.stream == "target"]
    assert [tuple(fit.span) for fit in updates] == [(1, 2), (1, 3), (3, 4)]
    models = [made[fit.prior] for fit in updates if fit.prior is not None]
    assert [(model.stream, model.at) for model in models] == [("source", 4)] * 2 + [("source", 5)]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: SlidingWindow(window=7, step=2),
            "window must be two or more whole steps of 2, got 7",
        ),
        (
            lambda: SlidingWindow(window=4, step=4),
            "window must be two or more whole steps of 4, got 4",
        ),
        (
            lambda: Continual(block=6, step=2),
            "block must be a power-of-two multiple of the step (2)",
        ),
        (
            lambda: Continual(block=2, step=4),
            "block must be a power-of-two multiple of the step (4)",
        ),
        (lambda: Basic(block=5, step=2), "block must be a power-of-two multiple of the step (2)"),
        (lambda: Independent(step=0), "step must be a whole number from 1 to"),
        (lambda: Independent(step=-3), "got -3"),
        (lambda: Independent(step=2**60), "step must be a whole number from 1 to"),
        (lambda: Independent(step=True), "got True"),
        (lambda: MultiResolution(block=1.5), "block must be a whole number"),  # type: ignore[arg-type]
        (lambda: MultiResolution(block=4, sample=0), "sample must be a whole number"),
        (lambda: Cumulative(block=4, sample=0), "sample must be a whole number"),
        (lambda: Continual(block=4, step=4, sample=-1), "sample must be a whole number"),
        (lambda: SlidingWindow(window=8, step=4, sample=0), "sample must be a whole number"),
        (
            lambda: TwoStream(source=Independent(step=1), step=1),
            "source must be a Cumulative or SlidingWindow schedule",
        ),
        (lambda: TwoStream(source=Cumulative(block=1), step=0), "step must be a whole number"),
        (
            lambda: list(TwoStream(source=Cumulative(block=1), step=1).fits(["tide"])),  # type: ignore[list-item]
            "stream must be source or target, got 'tide'",
        ),
    ],
)
def test_bad_sizes_are_refused_in_one_line(make: object, message: str) -> None:
    assert callable(make)
    with pytest.raises(InvalidValueError) as caught:
        make()
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
