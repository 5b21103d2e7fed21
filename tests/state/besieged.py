"""A Gate whose every fit meets an erasure, for tests and for processes that are killed."""

import json
import os
import threading
import time
from pathlib import Path
from typing import Any

from tests.state.gatelife import TIME, config, stream
from tidegate.gate import Gate
from tidegate.learn.learner import Fitted
from tidegate.run.config import Config
from tidegate.run.config.tables import Locations
from tidegate.run.executor import FitJob
from tidegate.sources import raw_batch

RECORDS = 400
"""Four steps of 100 records, each with one fit, which reads the three newest steps."""


def settings(**sections: Any) -> Config:
    """A small gate with one fit for each step."""
    schedule = {"kind": "fading", "step": 100, "forget": "1/5", "memory": 3}
    return config(schedule, **{"budget": {"epsilon": 1.0, "delta": 1e-6}} | sections)


def until(met: Any) -> None:
    """Wait for what must come, however slow the machine is."""
    deadline = time.monotonic() + 60
    while not met():
        assert time.monotonic() < deadline
        time.sleep(0.001)


class Besieged(Gate):
    """At every fit another thread asks for an erasure of a record of the fit.

    The fit goes on once the erasure is committed, or waits for the step.
    """

    def besiege(self, told: Path | None = None) -> None:
        """Begin with it; write the receipts to a file, a line each."""
        self.attempted: list[int] = []  # the step of each fit, by its first record
        self.published: list[int] = []  # of each receipt, how many records were done then
        self.erasers: list[threading.Thread] = []
        self._told = told

    def train(self, job: FitJob) -> Fitted:
        start = job.line.fit.at - 100
        number = start + 10 + len(self.attempted)
        self.attempted.append(start)
        before = self.store.erasures()
        self.erasers.append(threading.Thread(target=self._siege, args=(number,), daemon=True))
        self.erasers[-1].start()
        turns = self._run.attempts._turns
        until(lambda: self.store.erasures() > before or turns.waiting)
        return super().train(job)

    def _siege(self, number: int) -> None:
        line = self.erase(record=number)
        self.published.append(self.store.done("records"))
        if self._told is not None:
            with self._told.open("a") as file:
                file.write(json.dumps([number, line.hash]) + "\n")

    def ended(self) -> None:
        """Wait until all erasures have been answered."""
        for each in self.erasers:
            each.join(60)
            assert not each.is_alive()


def live(folder: Path, told: Path, failpoint: str = "") -> None:
    """Train four steps under siege, and be killed at that."""
    os.environ["TIDEGATE_FAILPOINT"] = failpoint
    with Besieged.open(folder, clock=lambda: TIME) as gate:
        gate.besiege(told)
        list(gate.advance())
        gate.ended()


def prepared(folder: Path, where: Locations) -> None:
    """A state with all records and no step."""
    store = {} if where.database is None else {"store": {"database": where.database}}
    with Gate.open(folder, settings(**store), clock=lambda: TIME) as gate:
        gate.take(raw_batch(*stream(RECORDS)))
