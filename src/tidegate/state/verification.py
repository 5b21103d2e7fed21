"""The checks of `tidegate verify`: a state against its plan, and against itself."""

import json
from collections.abc import Callable, Iterable, Iterator
from fractions import Fraction
from functools import partial
from itertools import zip_longest
from pathlib import Path
from typing import Any

from tidegate.checks import InvalidValueError, StoreError
from tidegate.gate import Gate
from tidegate.learn.preparation import preparation_of
from tidegate.learn.refit import refits
from tidegate.learn.rules import UNNUMBERED, rules_of
from tidegate.learn.score_kinds import headline_name
from tidegate.privacy import Line
from tidegate.privacy.budget import down
from tidegate.release import Card, canonical
from tidegate.release.card import NEIGHBOURS, NOT_PRIVATE
from tidegate.schedule import Span
from tidegate.schedule.fit import Arrived
from tidegate.state import publish_folder, stopped
from tidegate.state.card_keys import unknown_keys
from tidegate.state.damage import SETTINGS, UNREADABLE, Problem, damage, reported, text_digest
from tidegate.state.quality import on_card
from tidegate.state.store import Evaluation, Step
from tidegate.state.verify_noise import (
    Recomputed,
    alike,
    rounding,
    same,
    unknown_settings,
    value_of,
)
from tidegate.state.verify_surveys import Surveys

Report = Callable[[str], object]
"""Called with the name of the next check."""


def verify(gate: Gate, report: Report = str) -> Iterator[Problem]:
    """The problems of a state; none if it is sound.

    The store verifies checksums, sums of tables, the history and the hash chain. Then this function
    recomputes the plan from the order of the steps and compares it with the charges. It adds up the
    ledger, compares cards with settings, charges and evaluations, and recomputes the noise that
    they state. Last it checks the publish folder. It reads one snapshot, so a gate may run.

    Args:
        gate: The gate, possibly read-only.
        report: Called with the name of each check before it starts.
    """
    store, publish = gate.store, gate.config.publish
    with store.snapshot():
        report("records, models and releases")
        yield from store.verify()
        report("the plan, step by step")
        yield from reported(store.database, _against_plan(gate))
        yield from reported(store.database, stopped.problems(store, gate.config))
        yield from reported(store.database, _missing_records(gate))
        report("the cards")
        yield from reported(store.database, _against_cards(gate))
        yield from reported(store.database, _falling_rules(gate))
        report("the ledger")
        yield from reported(store.database, _overcharged(gate))
        if gate.plan.protects.persons:
            report("the ledger of persons")
            yield from reported(store.database, _wrong_key(gate))
        yield from reported(store.database, store.verify_persons(gate.plan.admission))
        if publish is not None:
            report(f"the files in {publish.folder}")
            problems = publish_folder.problems(Path(publish.folder), store)
            yield from reported(publish.folder, problems)
    if publish is not None:
        unexpected = publish_folder.unexpected(Path(publish.folder), store)
        yield from reported(publish.folder, unexpected)


def _overcharged(gate: Gate) -> Iterator[Problem]:
    """Records that have paid more than their budget."""
    for stream, ledger in gate.ledgers().items():
        worst = ledger.worst()
        if worst.share > 1:
            what = f"record {worst.record} has paid {worst.share} of its budget, above 1"
            yield damage(stream, what)


def _wrong_key(gate: Gate) -> Iterator[Problem]:
    """A key of persons that is missing, readable for others, or not the state's.

    Where the key is in the environment, whoever verifies need not have it.
    """
    if not gate.persons.at_hand:
        return
    try:
        gate.persons.check()
    except StoreError as error:
        yield Problem("the key of persons", str(error))


def _against_plan(gate: Gate) -> Iterator[Problem]:
    """Differences between the charges and the plan, given the order of the steps."""
    planned = _Planned(gate)
    for wanted, charged in zip_longest(planned.lines(gate.store.steps()), gate.store.lines()):
        one = wanted or charged
        if one is not None and wanted != charged:
            what = f"the plan charges {_line(wanted)}, but the state charged {_line(charged)}"
            yield damage(f"fit {one.fit.number}", what)
    yield from planned.problems
    for stream, done in planned.done.items():
        if done != gate.store.done(stream):
            yield damage(stream, f"steps end at {done}, but done is {gate.store.done(stream)}")
    begun = any(planned.done.values())
    if gate.store.state() != (planned.so_far.as_text(gate.plan.streams) if begun else None):
        yield damage(gate.store.database, "the two-stream state does not match the steps")


def _missing_records(gate: Gate) -> Iterator[Problem]:
    """Missing records that a future fit will read."""
    first: dict[str, int] = {}
    for segment in gate.store.held():
        first.setdefault(segment.stream, segment.span.start)
    for stream in gate.streams:
        needed, count = gate.progress.needed(stream), gate.store.count(stream)
        held = min(first.get(stream, count), count)
        if needed < held:
            what = f"records [{needed}, {held}) are missing, but a future fit needs them"
            yield damage(stream, what)


def _against_cards(gate: Gate) -> Iterator[Problem]:
    """Cards that differ from the settings, charges or evaluations."""
    settings, named = text_digest(gate.store.settings()), False
    about = json.loads(canonical(gate.about.entries()))
    evaluations = {(step.stream, step.span.stop): step for step in gate.store.steps()}
    recomputed, surveys = Recomputed(gate.store, gate.about, gate.form), Surveys(gate)
    rounded = rounding(about)
    refitted = refits(preparation_of(gate.plan.survey).task(gate.about.task))
    for line, (stream, card) in zip(gate.store.lines(), gate.store.cards(), strict=False):
        named = named or SETTINGS in card
        wanted = {
            **_of_line(gate, line),
            "evaluation.step_before": _measured(evaluations.get((stream, line.fit.at))),
            **({SETTINGS: settings} if named else {}),
            **{key: about.get(key) for key in FIXED},
            "neighbours": about.get("neighbours", NEIGHBOURS),
            "stream": line.fit.stream,
            **({} if refitted else {"refit": None}),
            "warning": None if gate.settings.private else NOT_PRIVATE,
        }
        try:
            wanted |= recomputed.of_fit(stream, line, card)
            wanted |= surveys.of_card(stream, line.fit.at, card)
            unknown = [*unknown_keys(card), *unknown_settings(card, wanted)]
        except (InvalidValueError, StoreError, *UNREADABLE):
            what = "its settings cannot be recomputed: its charge or its prior is damaged"
            yield damage(f"fit {line.fit.number}", what)
            unknown = []
        for name in unknown:
            yield damage(f"fit {line.fit.number}", f"its card has {name}, which no card has")
        for key in sorted(wanted):
            agree = same if key.startswith("settings.") else partial(alike, rounded=rounded)
            value, exact = value_of(card, key), not key.startswith(("settings.", "evaluation."))
            if value != wanted[key] if exact else not agree(value, wanted[key]):
                what = f"its card says {key} {value}, not {wanted[key]}"
                yield damage(f"fit {line.fit.number}", what)
        for key in DESCRIBED:
            if not described_alike(card.get(key), about.get(key)):
                what = f"its card says {key} {card.get(key)}, not {about.get(key)}"
                yield damage(f"fit {line.fit.number}", what)


def _falling_rules(gate: Gate) -> Iterator[Problem]:
    """Cards under lower rules than a card before them: a state never goes back."""
    highest = UNNUMBERED
    for line, (_, card) in zip(gate.store.lines(), gate.store.cards(), strict=False):
        try:
            rules = rules_of(card)
        except InvalidValueError:
            continue  # reported: its settings cannot be recomputed
        if rules < highest:
            what = f"its card says rules {rules}, after a card that says {highest}"
            yield damage(f"fit {line.fit.number}", what)
        highest = max(highest, rules)


FIXED = (
    *("norm", "regularization", "classes", "target", "cuts", "dtype", "columns", "label"),
    *("protects", "spelling"),
)
"""The settings on a card that no version writes otherwise."""

DESCRIBED = ("schedule", "allocation", "learner", "loss", "features")
"""The settings on a card with parameters, of which a later version may have more."""


def described_alike(stated: Any, wanted: Any) -> bool:
    """Whether a card describes a setting as it is; an older one may lack what is not set.

    >>> described_alike({"kind": "Number", "low": 0.0}, {"kind": "Number", "low": 0.0, "log": None})
    True
    >>> described_alike({"kind": "Number", "low": 0.0}, {"kind": "Number", "low": 0.0, "high": 1.0})
    False
    """
    if isinstance(stated, dict) and isinstance(wanted, dict):
        added = wanted.keys() - stated.keys()
        return (
            stated.keys() <= wanted.keys()
            and all(wanted[key] is None for key in added)
            and all(described_alike(stated[key], wanted[key]) for key in stated)
        )
    if isinstance(stated, list) and isinstance(wanted, list):
        return len(stated) == len(wanted) and all(map(described_alike, stated, wanted))
    if stated in (None, []) and wanted in (None, []):
        return True
    return isinstance(stated, bool) == isinstance(wanted, bool) and bool(stated == wanted)


def _of_line(gate: Gate, line: Line) -> Card:
    """The values that a card must have, given the ledger line of its fit."""
    fit, budget = line.fit, gate.plan.budget
    return {
        "fit": fit.number,
        "at": fit.at,
        "start": fit.span.start,
        "stop": fit.span.stop,
        "share": str(line.share),
        "share_rounded_down": down(line.share),
        "sample": fit.sample,
        "prior": fit.prior,
        "level": fit.level,
        "emphasis": [[*span, str(part)] for span, part in fit.slot_weights],
        "budget.epsilon": budget.epsilon,
        "budget.delta": budget.delta,
        budget.unit: budget.of_share(line.share),
        "private": gate.settings.private,
    }


def _measured(step: Step | None) -> Card | None:
    if step is None or step.evaluation is None:
        return None
    return on_card(step.evaluation, step.span)


class _Planned:
    """Recomputes the plan from the steps, in the order in which they completed."""

    def __init__(self, gate: Gate) -> None:
        self._gate = gate
        self._recomputed, self._surveys = (
            Recomputed(gate.store, gate.about, gate.form),
            Surveys(gate),
        )
        self._releases, self._stopped = 0, "not stopped"
        self.so_far = Arrived()
        self.done = dict.fromkeys(gate.streams, 0)
        self.problems: list[Problem] = []

    def lines(self, steps: Iterable[Step]) -> Iterator[Line]:
        """The lines that each step should have charged; checks each step on the way."""
        for step in steps:
            start = self.done[step.stream]
            span = Span(start, start + self._gate.progress.step(step.stream))
            self._expect(step, "its records are", span, step.span)
            if span != step.span:
                return  # what is due at any place may take for ever to list
            self._expect(step, "its survey cost", self._survey, step.survey_share)
            self.problems += self._surveys.problems(step)
            self._expect(step, "the state before it is", "not stopped", self._stopped)
            stops = self._surveys.stops(step)
            evaluation = "nothing" if stops else self._evaluation()
            self._expect(step, "its evaluation cost", evaluation, _paid(step.evaluation))
            self._check_accuracy(step)
            self.done[step.stream] = step.span.stop
            if stops:  # no fit may follow
                self._stopped = "stopped"
                continue
            plan, at = self._gate.plan, step.span.stop
            due, self.so_far = plan.step_lines(self.so_far, step.stream, at)
            for line in due:
                self._releases += line.fit.released
                yield line

    @property
    def _survey(self) -> Fraction | None:
        return self._gate.plan.survey or None

    def _evaluation(self) -> str:
        share = self._gate.plan.reserve
        bought = bool(share) and self._releases > 0
        return f"{share} for release {self._releases - 1}" if bought else "nothing"

    def _check_accuracy(self, step: Step) -> None:
        """Recompute the private accuracy (or error) of a step and its deviation."""
        if step.evaluation is None:
            return
        if bool(step.evaluation.scores) != self._gate.settings.scores:
            self._expect(step, "its scores are", "as configured", "there or missing")
        try:
            wanted = self._recomputed.headline(step.evaluation, step.span.size)
        except (InvalidValueError, *UNREADABLE) as error:
            self._expect(step, "its scores are", "readable", f"damaged: {error}")
            return
        stored = (step.evaluation.value, step.evaluation.deviation)
        if not all(map(same, stored, wanted)):
            name = headline_name(step.evaluation.scores)
            self._expect(step, f"its {name} and deviation are", wanted, stored)

    def _expect(self, step: Step, what: str, wanted: object, actual: object) -> None:
        if wanted != actual:
            where = f"the step of {step.stream} at {step.span.stop}"
            self.problems.append(damage(where, f"{what} {actual}, but the plan says {wanted}"))


def _paid(evaluation: Evaluation | None) -> str:
    if evaluation is None:
        return "nothing"
    return f"{evaluation.share} for release {evaluation.release}"


def _line(line: Line | None) -> str:
    if line is None:
        return "nothing"
    charge = f"{line.share} to records [{line.fit.span.start}, {line.fit.span.stop})"
    if line.fit.slot_weights:
        charge += f" with slot weights {', '.join(str(part) for _, part in line.fit.slot_weights)}"
        charge += f" to the power {line.fit.power}"
    return charge
