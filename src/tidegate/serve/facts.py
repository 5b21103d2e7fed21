"""What may be told: public numbers only, computed from the plan, the ledger and the releases.

How many records cannot be used is not among them, nor anything else that records have a say in but
through a release.
"""

import threading
from collections.abc import Iterator
from fractions import Fraction
from itertools import islice
from pathlib import Path
from typing import Any

from tidegate.gate.gate import Gate
from tidegate.plan import TwoStreamPlan
from tidegate.privacy import Ledger
from tidegate.privacy.rounding import down
from tidegate.release import StoredRelease, described
from tidegate.schedule import Fit

Facts = dict[str, Any]

MOST_POINTS = 1000
"""How far back private quality is told."""


def summary(release: StoredRelease) -> Facts:
    """A release without its weights."""
    card = release.card
    return {
        "number": release.number,
        "at": card["at"],
        "hash": release.hash,
        "previous": release.previous,
        "time": card["time"],
        "card": card,
    }


class Books:
    """The ledger and the releases of a state, read as they grow, by a reader of its own.

    It never waits for the gate that writes. Any thread may ask.

    Args:
        folder: The state.
    """

    def __init__(self, folder: Path) -> None:
        self.gate = Gate.look(folder)
        self._reading = threading.Lock()
        self._ledgers = {stream: Ledger() for stream in self.gate.streams}
        self._fits: dict[int, tuple[Fit, Fraction]] = {}
        self._newest: Fit | None = None
        self._quality: list[Facts] = []
        self._releases = 0

    def close(self) -> None:
        """Stop reading."""
        self.gate.close()

    def _catch_up(self) -> None:
        """Read what has been charged and released since the last time."""
        for stream, ledger in self._ledgers.items():
            for line in self.gate.store.lines(stream, after=ledger.last):
                ledger.post(line)
                self._fits[line.fit.number] = line
                newer = self._newest is None or line.fit.number > self._newest.number
                if line.fit.released and newer:
                    self._newest = line.fit
        for release in self.gate.releases(self._releases):
            self._releases = release.number + 1
            known = (release.card["evaluation"] or {}).get("step_before")
            if known is not None:
                told = {name: known[name] for name in ("of_release", "accuracy", "deviation")}
                self._quality.append({"at": known["stop"], **told})

    # --- releases

    def releases(self, start: int, most: int) -> list[Facts]:
        """The releases from a number on."""
        return [summary(release) for release in islice(self.gate.releases(start), most)]

    def release(self, number: int) -> StoredRelease | None:
        """One release, None if there is none of this number."""
        return next(islice(self.gate.releases(number), 1), None)

    # --- the ledger

    def ledger(self) -> Facts:
        """What the records have paid, stream by stream."""
        with self._reading:
            self._catch_up()
            lines = list(self._totals())
            posted = sum(ledger.posted for ledger in self._ledgers.values())
            worst = max(line["paid_for_fits"] + line["reserved_for_quality"] for line in lines)
            told = {"fits": posted, "releases": self._releases, "worst": worst}
        return {"lines": lines, "summary": {**told, "most_for_ever": 1.0}}

    def _totals(self) -> Iterator[Facts]:
        for stream, paid in self._ledgers.items():
            worst = paid.worst()
            yield {
                "stream": stream,
                "records": self.gate.store.count(stream),
                "fits": paid.posted,
                "worst_record": worst.record,
                "paid_for_fits": down(worst.share),
                "reserved_for_quality": down(self.gate.reserve),
                "most_for_ever": 1.0,
            }

    def paid(self, record: int, stream: str | None) -> Facts:
        """What one record has paid, fit by fit, in a stream or in each."""
        with self._reading:
            self._catch_up()
            names = [name for name in self.gate.streams if stream in {None, name}]
            lines = [
                {
                    "stream": name,
                    "fit": fit.number,
                    "at": fit.at,
                    "start": fit.span.start,
                    "stop": fit.span.stop,
                    "share": down(share),
                }
                for name in names
                for fit, share in self._fits.values()
                if record in fit.span and fit.stream in {None, name}
            ]
            paid = {name: self._ledgers[name].paid(record) + self.gate.reserve for name in names}
        told = {name: down(share) for name, share in paid.items()}
        return {"lines": lines, "summary": {"record": record, "paid": told}}

    def strip(self, buckets: int) -> Facts:
        """The most that any record of each bucket has paid so far."""
        with self._reading:
            self._catch_up()
            streams = [self._strip(*each, buckets) for each in self._ledgers.items()]
        return {"bound": 1, "streams": streams}

    def _strip(self, stream: str, ledger: Ledger, buckets: int) -> Facts:
        count = self.gate.store.count(stream)
        width = max(1, -(-count // buckets))
        most = [self.gate.reserve] * -(-count // width)
        for span, share in ledger.runs():
            for bucket in range(span.start // width, min(len(most), -(-span.stop // width))):
                most[bucket] = max(most[bucket], share + self.gate.reserve)
        starts = [bucket * width for bucket in range(len(most))]
        return {"stream": stream, "starts": starts, "paid": [down(share) for share in most]}

    # --- the plan, and how things stand

    def plan(self) -> Facts:
        """What is released when and what it costs, and the blocks behind the newest release."""
        with self._reading:
            self._catch_up()
            chain = list(self._chain())
        starts, stops = [fit.span.start for fit, _ in chain], [fit.span.stop for fit, _ in chain]
        known = self.gate.config.records
        return {
            **self._promise(),
            "allocation": described(self.gate.plan.allocation),
            "reserved_for_quality": down(self.gate.reserve),
            "forever": self._forever(),
            "records": {
                "columns": None if known.columns is None else list(known.columns),
                "text": known.text,
                "label": known.label,
                "classes": list(known.classes),
            },
            "chain": [_block(*line) for line in chain],
            "window": {"start": min(starts), "stop": max(stops)} if chain else None,
        }

    def _promise(self) -> Facts:
        budget = self.gate.plan.budget
        return {
            "schedule": described(self.gate.plan.schedule),
            "budget": {"epsilon": budget.epsilon, "delta": budget.delta},
            "private": self.gate.config.not_private_seed is None,
        }

    def _chain(self) -> Iterator[tuple[Fit, Fraction]]:
        """The fits behind the newest release, the base first."""
        numbers = [] if self._newest is None else [self._newest.number]
        while numbers and (prior := self._fits[numbers[-1]][0].prior) is not None:
            numbers.append(prior)
        return (self._fits[number] for number in reversed(numbers))

    def _forever(self) -> dict[str, float]:
        """The most that any record of a stream ever pays: at most 1."""
        plan, reserve = self.gate.plan, self.gate.reserve
        if isinstance(plan, TwoStreamPlan):
            most = {"source": plan.source.forever, "target": plan.target.forever}
        else:
            most = {self.gate.streams[0]: plan.forever}
        return {stream: down(share + reserve) for stream, share in most.items()}

    def status(self) -> Facts:
        """How things stand: public numbers only."""
        with self._reading:
            self._catch_up()
            return {
                **self._promise(),
                "releases": self._releases,
                "streams": [self._of_stream(stream) for stream in self.gate.streams],
                "quality": self._quality[-MOST_POINTS:],
            }

    def _of_stream(self, stream: str) -> Facts:
        count, needed = self.gate.store.count(stream), self.gate.needed(stream)
        held = [each.span.start for each in self.gate.store.held() if each.stream == stream]
        start = min([count, *held])
        why = f"fits to come may read records from {needed:,} on" if held else "nothing is held"
        return {
            "stream": stream,
            "records": count,
            "done": self.gate.store.done(stream),
            "step": self.gate.step(stream),
            "held_from": start,
            "held_records": count - start,
            "held_because": why,
        }


def _block(fit: Fit, share: Fraction) -> Facts:
    return {
        "fit": fit.number,
        "stream": fit.stream,
        "start": fit.span.start,
        "stop": fit.span.stop,
        "role": fit.role,
        "level": fit.level,
        "share": down(share),
    }
