"""The public facts of a state: numbers of the plan, the ledger and the releases.

Nothing else that depends on the content of records is public, not even how many cannot be used.
"""

import threading
from itertools import islice
from pathlib import Path
from typing import Any

from tidegate.gate import Gate
from tidegate.privacy.budget import down
from tidegate.release import Card, StoredRelease, described
from tidegate.schedule.plan import TwoStreamPlan
from tidegate.state.status import promise, public_status

Fields = dict[str, Any]

LEFT_OUT = {"transform", "noisy_counts", "calibration", "thresholds", "confusion"}
"""Entries of a card that listings leave out, wherever they are."""


def _short(card: Any) -> Any:
    """A card for a listing; /v1/releases/{number} has the whole card."""
    if not isinstance(card, dict):
        return card
    return {key: _short(value) for key, value in card.items() if key not in LEFT_OUT}


class Facts:
    """Reads the public facts of a state without waiting for its writer; thread-safe."""

    def __init__(self, folder: Path) -> None:
        self.gate = Gate.look(folder)
        self._view = self.gate.ledger_view()
        self._reading = threading.Lock()

    def close(self) -> None:
        """Stop reading."""
        self.gate.close()

    def releases(self, start: int, most: int) -> list[Fields]:
        """The releases from a number on."""
        with self._reading:
            listed = list(islice(self.gate.releases(start), most))
            return [self._summary(release, _short(release.card)) for release in listed]

    def summary(self, release: StoredRelease) -> Fields:
        """A release without its weights."""
        with self._reading:
            return self._summary(release, release.card)

    def _summary(self, release: StoredRelease, card: Card) -> Fields:
        return {
            "number": release.number,
            "at": card["at"],
            "hash": release.hash,
            "previous": release.previous,
            "time": card["time"],
            "trained_on": self._view.trained_on(card["fit"]),
            "card": card,
        }

    def release(self, number: int) -> StoredRelease | None:
        """One release; None if there is none with this number."""
        with self._reading:
            return next(islice(self.gate.releases(number), 1), None)

    def ledger(self, record: int | None = None, stream: str | None = None) -> Fields:
        """What the records of each stream have paid, or one record, line by line."""
        with self._reading:
            self._view.catch_up()
            lines = self._view.totals() if record is None else self._view.paid(record)
        if record is None:
            most = {"worst": max(line["paid"] for line in lines), "most_for_ever": 1.0}
            return {"lines": lines, "summary": {"fits": sum(row["fits"] for row in lines), **most}}
        lines = [line for line in lines if stream in {None, line["stream"]}]
        return {"lines": lines, "summary": {"record": record, "lines": len(lines)}}

    def strip(self, buckets: int) -> Fields:
        """The most that any record of each bucket has paid so far."""
        with self._reading:
            self._view.catch_up()
            strips = [self._view.strip(stream, buckets) for stream in self.gate.streams]
        return {"bound": 1, "streams": strips}

    def plan(self) -> Fields:
        """The plan, and the blocks behind the newest release."""
        with self._reading:
            self._view.catch_up()
            chain = self._view.chain()
        records, read, window = self.gate.config.records, self.gate.config.read, None
        if chain:  # with two streams, only the blocks of the stream of the newest fit
            own = [block for block in chain if block["stream"] == chain[-1]["stream"]]
            start = min(block["start"] for block in own)
            window = {"start": start, "stop": max(block["stop"] for block in own)}
        return {
            **promise(self.gate),
            "allocation": described(self.gate.plan.allocation),
            "forever": self._forever(),
            "records": {
                "columns": None if records.text or read is None else list(read),
                "kinds": self._kinds(),
                "text": records.text,
                "label": records.label,
                "classes": list(records.groups),
                "target": None if records.target is None else list(records.target),
            },
            "chain": chain,
            "window": window,
        }

    def _kinds(self) -> list[Fields] | None:
        """What the columns are, if they are not all numbers."""
        columns = self.gate.config.column_map()
        return None if columns is None else [each.described() for each in columns.checked]

    def _forever(self) -> dict[str, float]:
        """The most that any record of each stream ever pays; at most 1."""
        plan = self.gate.plan
        if isinstance(plan, TwoStreamPlan):
            most = plan.forever
        else:
            most = {self.gate.streams[0]: plan.forever}
        return {stream: down(share + plan.reserve) for stream, share in most.items()}

    def status(self) -> Fields:
        """The public status."""
        with self._reading:
            self._view.catch_up()
            return public_status(self.gate, self._view)
