"""Record and replay for persons: streams that differ in any slots of one person.

See `replay`: both streams release the same outputs, and the difference of the centers that remains
must be paid for. Owners and places decide what a person pays, so it is computed here from them.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from itertools import zip_longest
from typing import Any

import numpy as np

from tests.laws.replay import (
    Call,
    Data,
    Recorder,
    Script,
    Setup,
    again,
    cost,
    measured,
    whole_budget,
)
from tests.laws.scenes import setup_of
from tidegate.compute import Engine, Memory
from tidegate.data.owners import owned_by, owners_of
from tidegate.data.records import Records, join
from tidegate.learn.learner import Fitted
from tidegate.learn.preparation import Surveyed
from tidegate.learn.slot_weights import AdmittedStep, once
from tidegate.privacy import Line
from tidegate.privacy.person import Person
from tidegate.release import Release
from tidegate.run.executor import FitJob
from tidegate.run.memory_run import MemoryRun
from tidegate.schedule import Span, Stream
from tidegate.schedule.progress import ONLY

KEY = bytes(32)
Ids = dict[Stream | None, list[Any]]
"""The id of each slot's person, by stream."""

Slots = set[tuple[Stream | None, int]]


def persons_setup(
    schedule: str,
    learning: str,
    *,
    contributions: int = 2,
    period: int | None = None,
    typical: Fraction = Fraction(1),
    **options: Any,
) -> Setup:
    """A setup that protects persons."""
    person = Person(contributions=contributions, period=period, typical=typical)
    plain = setup_of(schedule, learning, **options)
    budget = replace(plain.plan.budget, contributions=contributions)
    return replace(plain, plan=replace(plain.plan, budget=budget, person=person))


@dataclass(frozen=True, kw_only=True)
class Run:
    """The calls of a run, what it made of their outputs, and which slots were admitted."""

    calls: list[Call]
    models: list[Any]
    admitted: Slots


def run(setup: Setup, data: Data, ids: Ids, script: Script, engine: Engine | None = None) -> Run:
    """Run the streams through the real code, with the script in place of the noise."""
    recorder = Recorder(script)
    models: list[Any] = []
    admitted: Slots = set()

    class WatchedRun(MemoryRun):
        def survey(self, stream: str, step: Span) -> Surveyed:
            recorder.line = measured("survey", stream, step, setup.plan.survey)
            seen = super().survey(stream, step)
            if (stated := seen.transform.stated) is not None:
                models.extend((stated.center, stated.scale, seen.class_shares))
            return seen

        def score(self, stream: str, step: Span) -> None:
            counted = self.steps.admit(stream, step)
            assert isinstance(counted, AdmittedStep)
            place: Any = None if stream == ONLY else stream
            slots = np.flatnonzero(counted.admitted)
            admitted.update((place, step.start + int(slot)) for slot in slots)
            if setup.plan.reserve and self.releases:
                recorder.line = measured("scores", stream, step, setup.plan.reserve)
                pieces = self.steps.pieces(stream, step)
                models.append(_score(setup, self.releases[-1], pieces, counted.admitted))

        def train(self, job: FitJob) -> Fitted:
            recorder.line = job.line
            fitted = super().train(job)
            models.append(fitted.weights)
            return fitted

    watched_run = WatchedRun(setup.settings(engine or Memory()))
    with recorder.instead_of_noise():
        length = max(X.shape[0] for X, _ in data.values())
        for start in range(0, length, setup.batch):
            part = slice(start, start + setup.batch)
            for stream, (X, y) in data.items():
                if start < X.shape[0]:
                    owners = owners_of(ids[stream][part], KEY).owners
                    records = owned_by(setup.records(X[part], y[part]), owners)
                    watched_run.take(records, stream or ONLY)
    return Run(calls=recorder.calls, models=models, admitted=admitted)


def _score(setup: Setup, release: Release, pieces: Sequence[Records], bits: Any) -> Any:
    return setup.scores(release, once(join(list(pieces)), bits))


def changed(data: Data, slots: Slots, x: Any, y: Any) -> Data:
    """The streams with another record in these slots."""
    copies = {stream: (X.copy(), labels.copy()) for stream, (X, labels) in data.items()}
    for stream, record in slots:
        X, labels = copies[stream]
        X[record], labels[record] = x, y
    return copies


def slots_of(ids: Ids, person: Any, within: Span | None = None) -> Slots:
    """All slots of a person, or those of a span of records."""
    return {
        (stream, record)
        for stream, each in ids.items()
        for record, other in enumerate(each)
        if other == person and (within is None or record in within)
    }


def pays(line: Line, slots: Slots) -> Fraction:
    """What a person pays for a line by which these admitted slots are read: the most of any."""
    fit = line.fit
    read = [record for stream, record in slots if stream == fit.stream and record in fit.span]
    if not read:
        return Fraction(0)
    parts = [part for span, part in fit.slot_weights if any(r in span for r in read)]
    return line.share * max(parts, default=Fraction(1)) ** fit.power


def broken(setup: Setup, first: Run, second: Run | None, slots: Slots) -> set[str]:
    """The laws that this pair of runs breaks; `slots` are those in which they differ.

    control flow: both runs make the same calls, with the same shapes and scales, and admit the
        same slots.
    post-processing: given the same outputs, models and transforms are the same.
    span: only what reads an admitted changed slot moves.
    fit: no line costs the person more than E^power times its share of a record's budget.
    budget: the whole transcript costs the person no more than the budget.
    """
    if second is None or first.admitted != second.admitted or not same_calls(first, second):
        return {"control flow"}
    laws = set()
    if not all(map(np.array_equal, first.models, second.models)):
        laws.add("post-processing")
    whole, spent = whole_budget(setup), Fraction(0)
    fits: dict[Any, tuple[list[Call], list[Call]]] = {}
    for a, b in zip(first.calls, second.calls, strict=True):
        own = fits.setdefault((a.line.fit.stream, a.line.fit.number), ([], []))
        own[0].append(a)
        own[1].append(b)
    for a_calls, b_calls in fits.values():
        lost, line = cost(setup, a_calls, b_calls), a_calls[0].line
        due = pays(line, slots & first.admitted)
        if lost > 0 and not due:
            laws.add("span")
        if lost > due * whole / setup.plan.budget.contributions:
            laws.add("fit")
        spent += lost
    if spent > whole:
        laws.add("budget")
    return laws


def same_calls(first: Run, second: Run) -> bool:
    """Whether two runs make the same calls, whatever they hide."""
    return all(
        a is not None and b is not None and a.form() == b.form()
        for a, b in zip_longest(first.calls, second.calls)
    )


@dataclass(frozen=True, kw_only=True)
class Scene:
    """A setup, streams with owners, and the slots of one person that change."""

    setup: Setup
    data: Data
    ids: Ids
    slots: Slots
    before: tuple[Any, Any]
    after: tuple[Any, Any]
    script: Script


def laws_broken(scene: Scene) -> set[str]:
    """The laws that are broken when the person's records in these slots are replaced."""
    one = partial(changed, scene.data, scene.slots)
    first = run(scene.setup, one(*scene.before), scene.ids, scene.script)
    assert first.calls
    try:
        second = run(scene.setup, one(*scene.after), scene.ids, again(first.calls))
    except Exception:
        second = None
    return broken(scene.setup, first, second, scene.slots)
