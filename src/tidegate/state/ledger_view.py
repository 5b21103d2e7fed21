"""What the records of a state have paid, line by line and in total. All of it is public."""

from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from tidegate.privacy import Ledger, Line
from tidegate.privacy.budget import down
from tidegate.release.trained_on import Reach, extended, in_words
from tidegate.state.measured_steps import MeasuredSteps
from tidegate.state.store import Evaluation, Step, Store

Row = dict[str, Any]


class LedgerView:
    """All charges of a store, which can be updated as they grow.

    Args:
        store: The store.
        streams: Its streams.
        descends: Whether fits start at earlier models, as those of a descent do.
        measured: What surveys and scores tell about the same steps.
    """

    def __init__(
        self, store: Store, streams: Sequence[str], *, descends: bool, measured: MeasuredSteps
    ) -> None:
        self._store, self._descends, self.measured = store, descends, measured
        self.ledgers = {stream: Ledger(limit=None) for stream in streams}
        self.evaluated: list[tuple[Step, Evaluation]] = []  # steps on which a release was tested
        self._surveyed: list[tuple[Step, Fraction]] = []  # steps with a survey
        self._lines: dict[int, tuple[str, Line]] = {}
        self._reach: dict[int, Reach] = {}
        self._steps = 0
        self._newest: int | None = None

    def catch_up(self) -> None:
        """Read new charges in one snapshot."""
        with self._store.snapshot():
            self.read()

    def read(self) -> None:
        """Read new charges; call it inside a snapshot, or if nobody else writes."""
        for stream, ledger in self.ledgers.items():
            for line in self._store.lines(stream, ledger.last):
                ledger.post(line)
                shown = line if self._descends else line._replace(fit=line.fit._replace(start=None))
                self._lines[line.fit.number] = (stream, shown)
                if line.fit.released:
                    self._newest = max(line.fit.number, self._newest or 0)
        for step in self._store.steps(self._steps):
            self._steps += 1
            self.measured.note(step)
            if step.evaluation is not None:
                self.evaluated.append((step, step.evaluation))
            if step.survey_share is not None:
                self._surveyed.append((step, step.survey_share))
            for share in step.measured:
                self.ledgers[step.stream].charge(step.span, share)

    def totals(self) -> list[Row]:
        """A row for each stream, with the budget spent by its most-charged record."""
        tested = Counter(step.stream for step, _ in self.evaluated)
        gone = Counter[str]()  # records of stopped steps
        paid = {stream: [Fraction(0)] for stream in self.ledgers}  # what each of those paid
        for each in self._store.stopped():
            gone[each.stream] += each.span.size
            paid.setdefault(each.stream, []).append(each.survey.share)
        return [
            {
                "stream": stream,
                "records": self._store.count(stream),
                "fits": ledger.posted,
                "evaluations": tested[stream],
                "worst_record": ledger.worst().record,
                "paid": down(ledger.worst().share),
                "most_for_ever": 1.0,
                "stopped_records": gone[stream],
                "stopped_paid": down(max(paid[stream])),
            }
            for stream, ledger in self.ledgers.items()
        ]

    def paid(self, record: int) -> list[Row]:
        """A row for each charge of a record, in order."""
        released = [fit for fit, (_, line) in sorted(self._lines.items()) if line.fit.released]
        numbers = {fit: number for number, fit in enumerate(released)}
        rows = [
            _of_fit(stream, line, record, numbers.get(fit))
            for fit, (stream, line) in self._lines.items()
        ]
        rows += [_of_step(step, "survey", share) for step, share in self._surveyed]
        rows += [
            _of_step(step, "quality", paid.share, paid.release) for step, paid in self.evaluated
        ]
        rows = [row for row in rows if row["start"] <= record < row["stop"]]
        return sorted(rows, key=lambda row: (row["stream"], row["at"], row["kind"]))

    def strip(self, stream: str, buckets: int) -> Row:
        """Divide a stream into buckets: the budget spent by the most-charged record of each."""
        count = self._store.count(stream)
        width = max(1, -(-count // buckets))
        most = [Fraction(0)] * -(-count // width)
        for span, share in self.ledgers[stream].runs():
            for bucket in range(span.start // width, min(len(most), -(-span.stop // width))):
                most[bucket] = max(most[bucket], share)
        starts = [bucket * width for bucket in range(len(most))]
        return {"stream": stream, "starts": starts, "paid": [down(share) for share in most]}

    def chain(self) -> list[Row]:
        """The chain of fits behind the newest release, base first."""
        numbers = [] if self._newest is None else [self._newest]
        while numbers and (prior := self._lines[numbers[-1]][1].fit.prior) is not None:
            numbers.append(prior)
        return [_block(self._lines[number][1]) for number in reversed(numbers)]

    def trained_on(self, number: int) -> str:
        """A sentence that says what the model of a fit was trained on."""
        if number not in self._lines:
            self.catch_up()
        last = self._lines[number][1].fit
        unknown = [] if number in self._reach else [last]
        while unknown and (prior := unknown[-1].prior) is not None and prior not in self._reach:
            unknown.append(self._lines[prior][1].fit)
        for fit in reversed(unknown):
            before = Reach() if fit.prior is None else self._reach[fit.prior]
            self._reach[fit.number] = extended(before, fit)
        return in_words(self._reach[number], last)


def _of_fit(stream: str, line: Line, record: int, release: int | None) -> Row:
    fit, share = line.fit, down(line.paid(record))
    source = {"stream": stream, "kind": "fit", "fit": fit.number, "release": release, "at": fit.at}
    return {**source, "start": fit.span.start, "stop": fit.span.stop, "share": share}


def _of_step(step: Step, kind: str, share: Fraction, release: int | None = None) -> Row:
    start, stop = step.span
    source = {"stream": step.stream, "kind": kind, "fit": None, "release": release}
    return {**source, "at": stop, "start": start, "stop": stop, "share": down(share)}


def _block(line: Line) -> Row:
    fit, share = line
    return {
        "fit": fit.number,
        "stream": fit.stream,
        "start": fit.span.start,
        "stop": fit.span.stop,
        "role": fit.role,
        "level": fit.level,
        "share": down(share),
        "emphasized": bool(fit.slot_weights),
        "started_from": fit.start,
        "emphasis": [
            {"start": span.start, "stop": span.stop, "weight": float(part), "share": down(paid)}
            for (span, part), (_, paid) in zip(fit.slot_weights, line.charges, strict=False)
        ],
    }
