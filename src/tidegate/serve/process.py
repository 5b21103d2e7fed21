"""A child process of the service that handles one request at a time."""

import os
import signal
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from tidegate.checks import StoreError
from tidegate.gate.child_process import end_with_parent

Answer = Callable[..., Any]
"""Handles a request in the process: takes its arguments, and returns the result to send back."""

NICENESS = 5
"""How much lower its scheduling priority is than the service's."""


class Process:
    """A child process that `start` or the first request starts; a request restarts one that died.

    It has a lower priority than the service and ends with it. If memory runs out, the kernel kills
    this process rather than the service.

    Args:
        name: What the process does, for error messages.
        prepare: Called once in the process; returns a context manager that makes the `Answer`.
        setup: The arguments of `prepare`.
        check: Called before each request, once the process is running; raises if the request must
            not be made any more.
    """

    def __init__(
        self,
        name: str,
        prepare: Callable[..., AbstractContextManager[Answer]],
        *setup: Any,
        check: Callable[[], None] | None = None,
    ) -> None:
        self._name, self._prepare, self._setup, self._check = name, prepare, setup, check
        self._running: tuple[Any, Connection] | None = None

    def ask(self, *question: Any) -> Any:
        """Send a request and return the result; an exception in the process is raised here."""
        _, pipe = self.start()
        if self._check is not None:  # `interrupt` finds the process from here on
            self._check()
        try:
            pipe.send(question)
            answer = pipe.recv()
        except (OSError, EOFError):
            self.end()
            died = f"{self._name} process died; restarting"
            raise StoreError(f"{died}. If this repeats, check the machine's memory") from None
        if isinstance(answer, Exception):
            raise answer
        return answer

    def start(self) -> tuple[Any, Connection]:
        """The process and its pipe; it is started if it is not running."""
        if self._running is not None and not self._running[0].is_alive():
            self.end()  # it was interrupted, or has died, while nobody asked
        return self._running or self._new()

    def _new(self) -> tuple[Any, Connection]:
        # Not a fork: it would copy the locks of our threads in whatever state they are.
        context = get_context("spawn")
        ours, theirs = context.Pipe()
        setup = (theirs, self._prepare, self._setup)
        process = context.Process(target=_run, args=setup, name=self._name, daemon=True)
        process.start()
        theirs.close()
        self._running = process, ours
        return self._running

    def interrupt(self) -> None:
        """Kill it from another thread than the one that asks, which then cleans up."""
        if (running := self._running) is not None:
            running[0].kill()
            running[0].join()

    def end(self) -> None:
        """Kill it, which is safe because it writes nothing."""
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
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # systemd sends it to all; the service ends us
    os.nice(NICENESS)
    with suppress(OSError):  # not on Linux
        Path("/proc/self/oom_score_adj").write_text("1000")
    with prepare(*setup) as answer:
        while True:
            question = pipe.recv()
            try:
                pipe.send(answer(*question))
            except Exception as error:  # `ask` raises it again
                pipe.send(error)
