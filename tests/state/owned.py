"""Records with owners, and a ledger of persons as a dictionary, for the tests of stores."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from tests.state.made import made, records
from tidegate.data.records import Owners, Records
from tidegate.privacy import ApproxDP
from tidegate.privacy.admission import Admission
from tidegate.privacy.person import Person
from tidegate.schedule import Span, TwoStream
from tidegate.schedule.plan import Plan, TwoStreamPlan
from tidegate.state.folder_store import FolderStore
from tidegate.state.store import Batch

Ranges = list[tuple[int, int]]
NOBODY = -1
CHECK = "0" * 64


def owner(person: int) -> tuple[int, int]:
    """The keyed id of a person: some share the first bytes or words; (0, 0) for nobody."""
    if person == NOBODY:
        return 0, 0
    first = person - person % 7 if person % 7 == 1 else person
    word = (first + 1) * 0x9E3779B97F4A7C15 % 2**64
    return word ^ (person % 2), person + 5


def name(person: int) -> int:
    """What the index calls a person: owners that share it share a budget."""
    return owner(person)[0] >> 16


def owners(persons: list[int]) -> Owners:
    """The keyed ids of persons."""
    return np.array([owner(each) for each in persons], np.uint64).reshape(-1, 2)


def owned(start: int, persons: list[int]) -> Records:
    """Records that say which slot and which person they belong to."""
    found, whose = records(start, len(persons)), owners(persons)
    return replace(found, usable=found.usable & whose.any(axis=1), owners=whose)


def admission(schedule: Any, k: int, period: int | None = None) -> Admission:
    """The admission of a plan."""
    shared = {
        "budget": ApproxDP(1.0, 1e-6, contributions=k),
        "person": Person(contributions=k, period=period),
    }
    plan: Plan | TwoStreamPlan
    if isinstance(schedule, TwoStream):
        plan = TwoStreamPlan(schedule=schedule, **shared)  # type: ignore[arg-type]
    else:
        plan = Plan(schedule=schedule, **shared)  # type: ignore[arg-type]
    assert plan.admission is not None
    return plan.admission


@dataclass
class Naive:
    """The ledger of persons, as a dictionary from names to steps."""

    admission: Admission
    steps: int = 0
    admitted: dict[int, list[int]] = field(default_factory=dict)  # by names
    by_person: dict[int, list[int]] = field(default_factory=dict)

    def step(self, persons: list[int]) -> list[bool]:
        """Decide the next step and keep it."""
        names = {name(each) for each in persons if each != NOBODY}
        yes = {each for each in names if self._admits(each)}
        for each in yes:
            self.admitted.setdefault(each, []).append(self.steps)
        for person in set(persons) - {NOBODY}:
            if name(person) in yes:
                self.by_person.setdefault(person, []).append(self.steps)
        self.steps += 1
        return [each != NOBODY and name(each) in yes for each in persons]

    def _admits(self, known: int) -> bool:
        return self.admission.admits(ranges(self.admitted.get(known, [])), self.steps)

    def kept(self, person: int) -> Ranges:
        """The steps of a person that are still needed, as ranges."""
        first = self.admission.needed(self.steps)
        return ranges([step for step in self.by_person.get(person, []) if step >= first])


def ranges(steps: list[int]) -> Ranges:
    """Ascending steps as ranges."""
    found: Ranges = []
    for step in steps:
        if found and found[-1][1] == step:
            found[-1] = (found[-1][0], step + 1)
        else:
            found.append((step, step + 1))
    return found


def new_store(folder: Any, **options: Any) -> FolderStore:
    """A new store that protects persons."""
    return FolderStore(folder, "config", make_key=lambda _: CHECK, segment_records=32, **options)


def take_step(
    store: FolderStore, persons: list[int], known: Admission, stream: str = "records"
) -> list[bool]:
    """Append a step, admit it and publish it with a release; which slots count."""
    start = store.count(stream)
    batch = Batch(stream=stream, records=owned(start, persons), cut=len(persons))
    at = store.append(batch)
    span = Span(start, at)
    counted = store.admit(stream, span, known)
    again = store.admit(stream, span, known)
    assert np.array_equal(again.admitted, counted.admitted)
    number = sum(1 for _ in store.lines())
    store.publish(stream, at, [made(number, at)], counted=counted)
    return [bool(each) for each in counted.admitted]


def ledger(store: FolderStore, persons: Mapping[int, Any] | range) -> dict[int, Ranges]:
    """What the store knows about persons who are known."""
    found = {each: store.person(owners([each])) for each in persons}
    return {each: steps for each, steps in found.items() if steps}
