"""The checks of `tidegate verify`: a state against its plan, and against itself."""

from collections.abc import Callable, Iterable, Iterator
from itertools import zip_longest
from pathlib import Path

from tidegate.checks import InvalidValueError
from tidegate.gate import Gate
from tidegate.learn.score_kinds import headline_name
from tidegate.privacy import Line
from tidegate.schedule import Span
from tidegate.schedule.fit import Arrived
from tidegate.state import stopped, verify_cards, verify_published
from tidegate.state.card_keys import same
from tidegate.state.damage import UNREADABLE, Problem, damage, reported
from tidegate.state.store import Evaluation, Step
from tidegate.state.verify_cards import Recomputed, Surveys

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
    folders = [publish.folder] if publish else []
    stops = stopped.problems(store, gate.config)
    checks = {
        "records, models and releases": [store.verify()],
        "the plan, step by step": [_against_plan(gate), stops, _missing_records(gate)],
        "the cards": [verify_cards.problems(gate), verify_cards.falling_rules(gate)],
        "the ledger": [_overcharged(gate)],
    }
    checks.setdefault(gate.persons.ledger, []).append(gate.persons.problems())
    with store.snapshot():
        for name, found in checks.items():
            report(name)
            for problems in found:
                yield from store.reported(problems)
        for folder in folders:
            report(f"the files in {folder}")
            yield from reported(folder, verify_published.problems(Path(folder), store))
    for folder in folders:
        yield from reported(folder, verify_published.unexpected(Path(folder), store))


def _overcharged(gate: Gate) -> Iterator[Problem]:
    """Records that have paid more than their budget."""
    for stream, ledger in gate.ledgers().items():
        worst = ledger.worst()
        if worst.share > 1:
            what = f"record {worst.record} has paid {worst.share} of its budget, above 1"
            yield damage(stream, what)


def _against_plan(gate: Gate) -> Iterator[Problem]:
    """Differences between the charges and the plan, given the order of the steps."""
    planned = _Planned(gate)
    for wanted, charged in zip_longest(planned.lines(gate.store.steps()), gate.store.lines()):
        one = wanted or charged
        if one and wanted != charged:
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


class _Planned:
    """Recomputes the plan from the steps, in the order in which they completed."""

    def __init__(self, gate: Gate) -> None:
        self._gate = gate
        self._recomputed = Recomputed(gate.store, gate.about, gate.form)
        self._surveys = Surveys(gate)
        self._releases, self._stopped = 0, "not stopped"
        self.so_far = Arrived()
        self.done = dict.fromkeys(gate.streams, 0)
        self.problems: list[Problem] = []

    def lines(self, steps: Iterable[Step]) -> Iterator[Line]:
        """The lines that each step should have charged; checks each step on the way."""
        plan = self._gate.plan
        for step in steps:
            start = self.done[step.stream]
            span = Span(start, start + self._gate.progress.step(step.stream))
            self._expect(step, "its records are", span, step.span)
            if span != step.span:
                return  # what is due at any place may take for ever to list
            self._expect(step, "its survey cost", plan.survey or None, step.survey_share)
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
            due, self.so_far = plan.step_lines(self.so_far, step.stream, step.span.stop)
            for line in due:
                self._releases += line.fit.released
                yield line

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
