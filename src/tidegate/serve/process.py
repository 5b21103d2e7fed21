"""A process beside the service that answers one question at a time."""

import os
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from tidegate.checks import StoreError
from tidegate.gate.child_process import end_with_parent

Answer = Callable[..., Any]
"""What a process does with a question: the arguments are the question, the result is sent back."""

NICENESS = 5
"""How far it stands back where there are fewer cores than there is to do."""


class Process:
    """A process that is started by the first question, and again by the next one if it has died.

    It leaves processors to the service first, and ends with it, however that ends. If memory runs
    out, the kernel ends this process rather than the service.

    Args:
        name: What the process does, for error messages.
        prepare: Called once in the process; the context manager that it returns makes the `Answer`.
        setup: The arguments of `prepare`.
    """

    def __init__(
        self, name: str, prepare: Callable[..., AbstractContextManager[Answer]], *setup: Any
    ) -> None:
        self._name, self._prepare, self._setup = name, prepare, setup
        self._running: tuple[Any, Connection] | None = None

    def ask(self, *question: Any) -> Any:
        """The answer to a question; what is raised there is raised here."""
        _, pipe = self._running or self._start()
        try:
            pipe.send(question)
            answer = pipe.recv()
        except (OSError, EOFError):
            self.end()
            raise StoreError(f"the {self._name} process died; restarting it") from None
        if isinstance(answer, Exception):
            raise answer
        return answer

    def _start(self) -> tuple[Any, Connection]:
        # Not a fork: this process has threads, whose locks would be copied as they are.
        context = get_context("spawn")
        ours, theirs = context.Pipe()
        setup = (theirs, self._prepare, self._setup)
        process = context.Process(target=_run, args=setup, name=self._name, daemon=True)
        process.start()
        theirs.close()
        self._running = process, ours
        return self._running

    def end(self) -> None:
        """End it at once: it writes nothing."""
        if self._running is not None:
            process, pipe = self._running
            self._running = None
            process.kill()
            process.join()
            pipe.close()


def _run(
    pipe: Connection, prepare: Callable[..., AbstractContextManager[Answer]], setup: Any
) -> None:
    end_with_parent()
    os.nice(NICENESS)
    with suppress(OSError):  # not on Linux
        Path("/proc/self/oom_score_adj").write_text("1000")
    with prepare(*setup) as answer:
        while True:
            question = pipe.recv()
            try:
                pipe.send(answer(*question))
            except Exception as error:  # raised again by the one who asked
                pipe.send(error)
