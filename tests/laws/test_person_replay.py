"""Streams that differ in the slots of one person break no law: see `person_replay`."""

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from tests.laws.person_replay import (
    Ids,
    Scene,
    laws_broken,
    persons_setup,
    run,
    same_calls,
    slots_of,
)
from tests.laws.replay import Data, Slot, always, honest, transcript
from tests.laws.scenes import LEARNINGS, SCHEDULES, SCORED, SURVEYED, R, names, setup_of
from tests.laws.test_replay import E1, NEIGHBOURS, a_third, streams, turn_of
from tidegate.schedule import Span

UNSAMPLED = [name for name in SCHEDULES if "sampled" not in name]
LENGTH = 40

PERIODIC = [name for name in UNSAMPLED if name.startswith(("fading", "sliding", "independent"))]
"""Schedules whose owners are kept for a while only."""


def owners(schedule: str, kind: str, length: int = LENGTH) -> Ids:
    """Whose slots are: five of seven are Ann's and Bob's, or all are Ann's, or runs of one each."""
    rng = np.random.default_rng(3)
    patterns: dict[str, list[Any]] = {
        "mixed": [("ann", "bob", 17, "ann", None, "bob", "ann")[i % 7] for i in range(length)],
        "one": ["ann"] * length,
        "runs": ["ann" if i % 8 < 3 else i for i in range(length)],
        "random": rng.choice(["ann", "ann", "bob", "eve"], length).tolist(),
    }
    return dict.fromkeys(names(schedule), patterns[kind])


KINDS = ("mixed", "one", "runs", "random")


def pairs(learnings: Any) -> list[tuple[str, str]]:
    return [(schedule, learning) for schedule in UNSAMPLED for learning in learnings]


def assert_no_law_broken(
    schedule: str, learning: str, *, after: str, kind: str, within: Span | None = None, **more: Any
) -> None:
    ids = owners(schedule, kind)
    scene = Scene(
        setup=persons_setup(schedule, learning, **more),
        data=streams(schedule, LENGTH),
        ids=ids,
        slots=slots_of(ids, "ann", within),
        before=(R * E1, 1),
        after=NEIGHBOURS[after],
        script=honest(len(learning)),
    )
    assert not laws_broken(scene), (kind, after)


@pytest.mark.parametrize(("schedule", "learning"), pairs(LEARNINGS))
def test_no_person_breaks_a_law(schedule: str, learning: str) -> None:
    """Every schedule with every learner; who owns the slots, and what changes, take turns."""
    turn = turn_of(schedule, learning)
    for number in range(2):
        after = list(NEIGHBOURS)[(turn + 7 * number) % len(NEIGHBOURS)]
        kind = KINDS[(turn + number) % len(KINDS)]
        assert_no_law_broken(
            schedule, learning, after=after, kind=kind, contributions=1 + (turn + number) % 3
        )


@pytest.mark.parametrize(("schedule", "learning"), a_third(pairs(SURVEYED)))
def test_no_person_breaks_a_law_with_surveys_and_scores(schedule: str, learning: str) -> None:
    turn = turn_of(schedule, learning)
    assert_no_law_broken(
        schedule,
        learning,
        after=list(NEIGHBOURS)[turn % len(NEIGHBOURS)],
        kind=KINDS[turn % len(KINDS)],
        survey=Fraction(1, 5),
        reserve=SCORED,
        typical=Fraction(5, 2),
    )


@pytest.mark.parametrize("learning", ["mean, pure", "logistic, gradient", "huber, pure"])
@pytest.mark.parametrize("schedule", PERIODIC)
def test_no_person_breaks_a_law_within_a_period(schedule: str, learning: str) -> None:
    """Whatever a person does within any P steps; what was there before and after stays."""
    size = 4
    for start in range(0, LENGTH - 2 * size, size):
        assert_no_law_broken(
            schedule,
            learning,
            after="other side and label",
            kind="one" if start % 8 else "mixed",
            within=Span(start, start + 2 * size),
            period=2,
            contributions=1,
        )


@pytest.mark.thorough
@pytest.mark.parametrize("learning", ["mean, gaussian", "histogram, pure", "logistic, gradient"])
def test_no_slot_of_a_person_breaks_a_law(learning: str) -> None:
    """Every single slot of one person, beside all of the others."""
    for slot in range(LENGTH):
        assert_no_law_broken(
            "fading",
            learning,
            after="other side and label",
            kind="one",
            within=Span(slot, slot + 1),
            contributions=3,
        )


@pytest.mark.parametrize("learning", LEARNINGS)
def test_the_plan_does_not_depend_on_owners(learning: str) -> None:
    """Scales, steps and shapes are the same whoever owns the slots."""
    surveyed: Any = {"survey": Fraction(1, 5)} if learning in SURVEYED else {}
    data = streams("fading", LENGTH)
    setup = persons_setup("fading", learning, typical=Fraction(2), **surveyed)
    runs = [run(setup, data, owners("fading", kind), always(np.zeros)) for kind in ("one", "mixed")]
    assert same_calls(*runs)
    assert runs[0].admitted != runs[1].admitted


@pytest.mark.parametrize("learning", [each for each in LEARNINGS if "softmax" not in each])
def test_persons_with_one_slot_each_are_records(learning: str) -> None:
    """If every person has one slot, and contributions are one, nothing changes."""
    data: Data = streams("fading", LENGTH)
    ids: Ids = {None: list(range(LENGTH))}
    plain = transcript(setup_of("fading", learning), data, Slot(None, 0), always(np.zeros))
    persons = run(persons_setup("fading", learning, contributions=1), data, ids, always(np.zeros))
    assert len(plain.calls) == len(persons.calls)
    for one, other in zip(plain.calls, persons.calls, strict=True):
        assert one.scale == other.scale
        np.testing.assert_allclose(one.center, other.center, rtol=1e-6, atol=1e-9)
