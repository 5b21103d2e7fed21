"""A Gate that trains in a process of its own, so that those who ask notice nothing of it.

Threads of one process share an interpreter lock: while a fit ran on another thread, one prediction
in a hundred took two to four times as long as otherwise. A process can also stand back.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from threadpoolctl import threadpool_limits

from tidegate.executor import FitJob
from tidegate.gate.config.tables import ComputeTable
from tidegate.gate.folder_store import FolderStore
from tidegate.gate.gate import Gate
from tidegate.learn.learner import Weights
from tidegate.serve.process import Answer, Process


class TrainingProcessGate(Gate):
    """A Gate whose fits run in a process that only reads the state and hands back weights.

    All that is durable is written here. A fit that is cut short, with its process or with ours,
    has been seen by nobody: it is made again, with new noise.
    """

    _fits: Process | None = None  # a gate that was opened to read only has none

    def _recover(self, state: Path) -> None:
        super()._recover(state)
        self._fits = Process("training", _training, state.absolute(), self.config.compute)

    def train(self, job: FitJob) -> Weights:
        """The private weights of a fit; one on a cluster runs apart already."""
        if self._fits is None or self.config.compute.engine == "dask":
            return super().train(job)
        weights: Weights = self._fits.ask(job)
        return weights

    def close(self) -> None:
        """Let go of the state, and end the training process, whatever it is doing."""
        if self._fits is not None:
            self._fits.end()
        super().close()


@contextmanager
def _training(folder: Path, compute: ComputeTable) -> Iterator[Answer]:
    """Carry out fits."""
    store, engine = FolderStore(folder, read_only=True), compute.build()

    def train(job: FitJob) -> Weights:
        return job.train(store, engine)

    with threadpool_limits(max(1, (os.cpu_count() or 1) - 1)):
        yield train
