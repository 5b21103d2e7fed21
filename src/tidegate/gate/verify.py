"""What `tidegate verify` checks: the state against the plan, and against itself."""

import json
from collections.abc import Callable, Iterable, Iterator
from itertools import zip_longest
from pathlib import Path
from typing import Any

from tidegate.gate import publish_folder
from tidegate.gate.durable_run import as_text
from tidegate.gate.gate import Gate
from tidegate.gate.integrity import SETTINGS, text_digest
from tidegate.gate.quality import on_card
from tidegate.gate.store import Evaluation, Problem, Step, damage, reported
from tidegate.privacy import Line
from tidegate.progress import lines_at
from tidegate.release import Card, canonical
from tidegate.schedule import Span
from tidegate.schedule.twostream import Arrived

Told = Callable[[str], object]
"""Told what is being checked."""


def verify(gate: Gate, told: Told = str) -> Iterator[Problem]:
    """All that is wrong with a state, nothing if it is sound.

    The store checks what it holds: checksums of the segments, sums of the tables, the history of
    steps and fits, the hash chain of the releases. Here the plan is recomputed from the order in
    which steps completed and held against the lines that were charged, the lines are added up, the
    cards are held against settings, lines and evaluations, and the folder that releases are
    published to is read. All is read as of one moment, so that a Gate may go on meanwhile.

    Args:
        gate: What to verify; it may be one that only looks.
        told: Told what is being checked, as that takes its time.
    """
    store, publish = gate.store, gate.config.publish
    with store.snapshot():
        told("records, models and releases")
        yield from store.verify()
        told("the plan, step by step")
        yield from reported(store.database, _against_plan(gate))
        yield from reported(store.database, _missing_records(gate))
        told("the cards")
        yield from reported(store.database, _against_cards(gate))
        told("the ledger")
        yield from reported(store.database, _overcharged(gate))
        if publish is not None:
            told(f"what is published in {publish.folder}")
            found = publish_folder.problems(Path(publish.folder), store)
            yield from reported(publish.folder, found)
    if publish is not None:
        strangers = publish_folder.strangers(Path(publish.folder), store)
        yield from reported(publish.folder, strangers)


def _overcharged(gate: Gate) -> Iterator[Problem]:
    """Where a record has paid more than there is."""
    for stream, ledger in gate.ledgers().items():
        worst = ledger.worst()
        if worst.share > 1:
            what = f"record {worst.record} has paid {worst.share}, more than its whole budget"
            yield Problem(stream, what)


def _against_plan(gate: Gate) -> Iterator[Problem]:
    """Where what was done is not what the plan says, given the order in which steps completed."""
    planned = _Planned(gate)
    for wanted, found in zip_longest(planned.lines(gate.store.steps()), gate.store.lines()):
        one = wanted or found
        if one is not None and wanted != found:
            what = f"planned is {_line(wanted)}, charged was {_line(found)}"
            yield damage(f"fit {one.fit.number}", what)
    yield from planned.problems
    for stream, done in planned.done.items():
        if done != gate.store.done(stream):
            yield damage(stream, f"steps end at {done}, not {gate.store.done(stream)}")
    begun = any(planned.done.values())
    if gate.store.state() != (as_text(gate.plan, planned.so_far) if begun else None):
        yield damage(gate.store.database, "does not follow from its steps")


def _missing_records(gate: Gate) -> Iterator[Problem]:
    """Where records that a fit to come will read are not held."""
    first: dict[str, int] = {}
    for segment in gate.store.held():
        first.setdefault(segment.stream, segment.span.start)
    for stream in gate.streams:
        needed, count = gate.progress.needed(stream), gate.store.count(stream)
        found = min(first.get(stream, count), count)
        if needed < found:
            what = f"records [{needed}, {found}) are missing, which a fit to come needs"
            yield damage(stream, what)


def _against_cards(gate: Gate) -> Iterator[Problem]:
    """Where a card does not say what was settled, charged and evaluated."""
    settings, named = text_digest(gate.store.settings()), False
    known = json.loads(canonical(gate.about.card()))
    evaluations = {(step.stream, step.span.stop): step for step in gate.store.steps()}
    for line, (stream, card) in zip(gate.store.lines(), gate.store.cards(), strict=False):
        named = named or SETTINGS in card
        wanted = {
            **_of_line(gate, line),
            "evaluation.step_before": _measured(evaluations.get((stream, line.fit.at))),
            **({SETTINGS: settings} if named else {key: known[key] for key in FIXED}),
        }
        found = {key: _value(card, key) for key in wanted}
        for key in sorted(wanted):
            if wanted[key] != found[key]:
                what = f"its card says {key} {found[key]}, not {wanted[key]}"
                yield damage(f"fit {line.fit.number}", what)


FIXED = ("norm", "regularization", "classes", "dtype", "columns", "label")
"""What a card without the digest of the settings still says of them, in the same words for ever."""


def _of_line(gate: Gate, line: Line) -> Card:
    """What a card must say, given the fit and what it cost."""
    fit, budget = line.fit, gate.plan.budget
    return {
        "fit": fit.number,
        "at": fit.at,
        "start": fit.span.start,
        "stop": fit.span.stop,
        "share": str(line.share),
        "budget.epsilon": budget.epsilon,
        "budget.delta": budget.delta,
        budget.unit: budget.of_share(line.share),
        "private": gate.config.not_private_seed is None,
    }


def _measured(step: Step | None) -> Card | None:
    if step is None or step.evaluation is None:
        return None
    return on_card(step.evaluation, step.span)


def _value(card: Card, key: str) -> Any:
    """What a card says under a key, None if nothing; a dot leads into a table."""
    value: Any = card
    for name in key.split("."):
        value = value.get(name) if isinstance(value, dict) else None
    return value


class _Planned:
    """What the plan makes of the steps, in the order in which they completed."""

    def __init__(self, gate: Gate) -> None:
        self._gate = gate
        self._releases = 0
        self.so_far = Arrived()
        self.done = dict.fromkeys(gate.streams, 0)
        self.problems: list[Problem] = []

    def lines(self, steps: Iterable[Step]) -> Iterator[Line]:
        """What each step should have charged; on the way each step itself is checked."""
        for step in steps:
            start = self.done[step.stream]
            span = Span(start, start + self._gate.progress.step(step.stream))
            self._expect(step, "is of records", span, step.span)
            self._expect(step, "has paid for", self._evaluation(), _paid(step.evaluation))
            self.done[step.stream] = step.span.stop
            due, self.so_far = lines_at(self._gate.plan, self.so_far, step.stream, step.span.stop)
            for line in due:
                self._releases += line.fit.released
                yield line

    def _evaluation(self) -> str:
        share = self._gate.config.quality.share
        bought = share is not None and self._releases > 0
        return f"{share} for release {self._releases - 1}" if bought else "nothing"

    def _expect(self, step: Step, what: str, wanted: object, found: object) -> None:
        if wanted != found:
            where = f"the step of {step.stream} at {step.span.stop}"
            self.problems.append(damage(where, f"{what} {found}, planned is {wanted}"))


def _paid(evaluation: Evaluation | None) -> str:
    if evaluation is None:
        return "nothing"
    return f"{evaluation.share} for release {evaluation.release}"


def _line(line: Line | None) -> str:
    if line is None:
        return "nothing"
    told = f"{line.share} for records [{line.fit.span.start}, {line.fit.span.stop})"
    if line.fit.slot_weights:
        told += f", which count for {', '.join(str(part) for _, part in line.fit.slot_weights)}"
    return told
