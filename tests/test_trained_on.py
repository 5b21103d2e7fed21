"""What a release was trained on is what its whole chain has read, for every schedule."""

from collections.abc import Iterable
from fractions import Fraction

import pytest

from tidegate import ApproxDP
from tidegate.privacy import Line
from tidegate.release.trained_on import Reach, extended, in_words
from tidegate.schedule import Continual, Fading, Independent, SlidingWindow, TwoStream
from tidegate.schedule.fit import Stream
from tidegate.schedule.plan import Plan, TwoStreamPlan

BUDGET = ApproxDP(1.0, 1e-6)


def told(lines: Iterable[Line]) -> list[str]:
    """The words about each release; that they cover exactly what its chain has read is checked."""
    reach: dict[int, Reach] = {}
    read: dict[int, set[tuple[Stream | None, int]]] = {}
    words = []
    for fit, _ in lines:
        before = Reach() if fit.prior is None else reach[fit.prior]
        reach[fit.number] = extended(before, fit)
        own = {(fit.stream, record) for record in range(*fit.span)}
        read[fit.number] = own if fit.prior is None else own | read[fit.prior]
        covered = [
            (stream, record)
            for stream, spans in reach[fit.number].items()
            for span in spans
            for record in range(*span)
        ]
        assert len(covered) == len(set(covered))
        assert set(covered) == read[fit.number]
        words += [in_words(reach[fit.number], fit)] if fit.released else []
    return words


@pytest.mark.parametrize("schedule", [Continual(block=80, step=10), Independent(step=10)])
def test_spans_are_what_the_chain_has_read(schedule: Continual | Independent) -> None:
    words = told(Plan(schedule=schedule, budget=BUDGET).lines(1300))
    assert "a model of records 1,280 to 1,289" in words or (
        "a model of records 0 to 1,289, last updated on records 1,280 to 1,289" in words
    )


def test_a_gap_is_not_hidden() -> None:
    words = told(Plan(schedule=Continual(block=80, step=10), budget=BUDGET).lines(1270))
    assert words[-1] == (
        "a model of records 0 to 959 and 1,260 to 1,269, last updated on records 1,260 to 1,269"
    )


def test_a_window_is_told_whole_wherever_its_last_fit_is() -> None:
    words = told(Plan(schedule=SlidingWindow(window=70, step=10), budget=BUDGET).lines(110))
    assert words[-2:] == [
        "a model of records 30 to 99, last updated on records 90 to 99",
        "a model of records 40 to 109, last updated on records 40 to 49",
    ]


@pytest.mark.parametrize(
    ("schedule", "weighted"),
    [
        (Fading(step=10, memory=7), ", the newest counting most"),
        (Fading(step=10, memory=7, linger=Fraction(0)), ", the newest counting most"),
        (SlidingWindow(window=70, step=10, refit=True), ""),
    ],
)
def test_a_model_that_starts_from_the_release_before_remembers_older_records(
    schedule: Fading | SlidingWindow, weighted: str
) -> None:
    words = told(Plan(schedule=schedule, budget=BUDGET).lines(110))
    older = getattr(schedule, "linger", None) != 0
    memory = ", remembering older ones through the release before" if older else ""
    assert words[-1] == f"a model of records 40 to 109{weighted}{memory}"
    assert f"a model of records 0 to 69{weighted}" in words  # nothing is older


def test_two_streams_are_told_apart() -> None:
    plan = TwoStreamPlan(
        schedule=TwoStream(source=SlidingWindow(window=70, step=10), step=5), budget=BUDGET
    )
    source: list[Stream] = ["source"]
    target: list[Stream] = ["target"]
    words = told(plan.lines(7 * source + 3 * target))
    assert words[-1] == (
        "a model of source records 0 to 69 and target records 0 to 14, "
        "last updated on target records 10 to 14"
    )
