"""A Gate that trains in a process of its own, so that those who ask notice nothing of it.

Threads of one process share an interpreter lock: while a fit ran on another thread, one prediction
in a hundred took two to four times as long as otherwise. A process can also stand back.
"""

import os
import signal
import threading
from multiprocessing import get_context, parent_process
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Self

from threadpoolctl import threadpool_limits

from tidegate.checks import StoreError
from tidegate.gate.config import Config
from tidegate.gate.config.tables import ComputeTable
from tidegate.gate.folder_store import FolderStore
from tidegate.gate.gate import Clock, Gate, now, reader
from tidegate.learn.learner import Task, Weights
from tidegate.learn.trainer import Trainer
from tidegate.privacy import Line

NICENESS = 5
"""How far fits stand back where there are fewer cores than there is to do."""


class ApartGate(Gate):
    """A Gate whose fits run in a process that only reads the state and hands back weights.

    All that is durable is written here. A fit that is cut short, with its process or with ours,
    has been seen by nobody: it is made again, with new noise.
    """

    _fits: "Process"

    @classmethod
    def open(
        cls, folder: str | Path, config: Config | str | Path | None = None, *, clock: Clock = now
    ) -> Self:
        """See `Gate.open`."""
        gate = super().open(folder, config, clock=clock)
        gate._fits = Process(Path(folder), gate.config.compute)
        return gate

    def train(
        self,
        trainer: Trainer[Task],
        stream: str,
        line: Line,
        prior: Weights | None,
        start: Weights | None,
    ) -> Weights:
        """The private weights of a fit; one on a cluster runs apart already."""
        if self.config.compute.engine == "dask":
            return super().train(trainer, stream, line, prior, start)
        return self._fits.ask(trainer, stream, line, prior, start)

    def close(self) -> None:
        """Let go of the state, and end the process that trains, whatever it is at."""
        self._fits.end()
        super().close()


class Process:
    """A process that carries out one fit at a time, begun when it is first asked.

    Args:
        folder: The state that it reads.
        compute: Where it computes.
    """

    def __init__(self, folder: Path, compute: ComputeTable) -> None:
        self._folder = folder.absolute()
        self._compute = compute
        self._running: tuple[Any, Connection] | None = None

    def ask(self, *work: Any) -> Weights:
        """The weights of a fit."""
        if self._running is None:
            # Not a fork: this process has threads, whose locks would be copied as they are.
            context = get_context("spawn")
            ours, theirs = context.Pipe()
            told = (self._folder, self._compute, theirs)
            process = context.Process(target=_work, args=told, daemon=True)
            process.start()
            theirs.close()
            self._running = process, ours
        try:
            self._running[1].send(work)
            made = self._running[1].recv()
        except (OSError, EOFError):
            self.end()
            raise StoreError("the process that trains has ended: it is started again") from None
        if isinstance(made, Exception):
            raise made
        weights: Weights = made
        return weights

    def end(self) -> None:
        """End it at once: it writes nothing."""
        if self._running is not None:
            process, pipe = self._running
            self._running = None
            process.kill()
            process.join()
            pipe.close()


def _work(folder: Path, compute: ComputeTable, pipe: Connection) -> None:
    """Stand back, leave it to the parent to be interrupted, and end with it however it ends."""
    os.nice(NICENESS)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    store, engine = FolderStore(folder, read_only=True), compute.build()
    with threadpool_limits(max(1, (os.cpu_count() or 1) - 1)):
        while True:
            trainer, stream, line, prior, start = pipe.recv()
            try:
                pipe.send(trainer.train(line, reader(store, stream, engine), prior, start))
            except Exception as error:  # raised again where it was asked for
                pipe.send(error)


def _end_with_parent() -> None:
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
