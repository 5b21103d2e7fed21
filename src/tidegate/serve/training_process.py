"""A gate that trains in a separate process, so that training does not slow down requests.

Threads share the interpreter lock: while a fit ran on another thread, one prediction in a hundred
took two to four times as long. A process can also run with a lower priority.
"""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from threadpoolctl import threadpool_limits

from tidegate.gate import Gate
from tidegate.learn.learner import Fitted
from tidegate.run.config.tables import ComputeTable
from tidegate.run.executor import FitJob
from tidegate.serve.process import Answer, Process
from tidegate.state.folder_store import FolderStore
from tidegate.state.stopped import Stop


class TrainingProcessGate(Gate):
    """A gate whose fits run in a process that only reads the state and returns weights.

    Only the service itself writes to the state. An interrupted fit was never released, so it is
    repeated with new noise.
    """

    _fits: Process | None = None  # None for a read-only gate

    def _recover(self, state: Path, stops: Sequence[Stop]) -> None:
        super()._recover(state, stops)
        setup, check = (state.absolute(), self.config.compute), self._run.attempts.check
        self._fits = Process("training", _training, *setup, check=check)

    def train(self, job: FitJob) -> Fitted:
        """The private model of a fit; a fit on a cluster needs no process."""
        if self._fits is None or self.config.compute.engine == "dask":
            return super().train(job)
        fitted: Fitted = self._fits.ask(job)
        return fitted

    def end_fits(self) -> None:
        """Kill the training process, which may hold erased records; the next fit starts another."""
        if self._fits is not None:
            self._fits.interrupt()
        super().end_fits()

    def close(self) -> None:
        """Close the state and kill the training process."""
        if self._fits is not None:
            self._fits.end()
        super().close()


@contextmanager
def _training(folder: Path, compute: ComputeTable) -> Iterator[Answer]:
    """Prepare the process to train fits."""
    store, engine = FolderStore(folder, read_only=True), compute.build()

    def train(job: FitJob) -> Fitted:
        return job.train(store, engine)

    with threadpool_limits(max(1, (os.cpu_count() or 1) - 1)):
        yield train
