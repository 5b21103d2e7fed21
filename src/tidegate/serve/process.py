"""Child processes of the service: they end with their parent, and handle one request at a time."""

import os
import resource
import signal
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from multiprocessing import get_context, parent_process
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from tidegate.checks import InvalidValueError, StoreError, nothing

Answer = Callable[..., Any]
"""Handles a request in the process: takes its arguments, and returns the result to send back."""

TOO_SLOW = "the body takes too long to read: send fewer records at a time"

NICENESS = 5
"""How much lower its scheduling priority is than the service's."""


def end_with_parent() -> None:
    """Make this child process exit when its parent exits, even if the parent is killed.

    Call it first. A terminal sends Ctrl-C to all its processes; the child ignores it, so that the
    parent decides.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_wait_for_parent, daemon=True).start()


def _wait_for_parent() -> None:
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


@dataclass(frozen=True, kw_only=True)
class Bounds:
    """The time and the memory that a request may take; by default any."""

    seconds: float | None = None
    memory: int = 2**62  # bytes, beyond what the process has when it is ready


UNBOUNDED = Bounds()


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
        bounds: The time and the memory that a request may take.
    """

    def __init__(
        self,
        name: str,
        prepare: Callable[..., AbstractContextManager[Answer]],
        *setup: Any,
        check: Callable[[], object] = nothing,
        bounds: Bounds = UNBOUNDED,
    ) -> None:
        self._name, self._prepare, self._setup, self._check = name, prepare, setup, check
        self._bounds = bounds
        self._running: tuple[Any, Connection] | None = None

    def ask(self, *question: Any, sent: Callable[[], object] = nothing) -> Any:
        """Send a request and return the result; an exception in the process is raised here.

        Args:
            question: The arguments of the `Answer`.
            sent: Called once the request is sent.
        """
        _, pipe = self.start()
        self._check()  # `interrupt` finds the process from here on
        try:
            pipe.send(question)
            sent()
            if not pipe.poll(self._bounds.seconds):
                self.end()
                raise InvalidValueError(TOO_SLOW)
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
        # Not a fork of ours: it would copy the locks of our threads in whatever state they are.
        context = get_context("forkserver")
        context.set_forkserver_preload([self._prepare.__module__])
        ours, theirs = context.Pipe()
        setup = (theirs, self._prepare, self._setup, self._bounds)
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


def _limit_memory(room: int) -> None:
    """Let this process take at most so many more bytes of memory."""
    with suppress(OSError, ValueError):  # not on Linux, or there is a stricter limit
        pages = int(Path("/proc/self/statm").read_text().split()[5])  # data and stack
        most = pages * resource.getpagesize() + room
        resource.setrlimit(resource.RLIMIT_DATA, (most, most))


def _run(
    pipe: Connection,
    prepare: Callable[..., AbstractContextManager[Answer]],
    setup: Any,
    bounds: Bounds,
) -> None:
    end_with_parent()
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # systemd sends it to all; the service ends us
    os.nice(NICENESS)
    with suppress(OSError):  # not on Linux
        Path("/proc/self/oom_score_adj").write_text("1000")
    with prepare(*setup) as answer:
        _limit_memory(bounds.memory)
        while True:
            question = pipe.recv()
            try:
                pipe.send(answer(*question))
            except Exception as error:  # `ask` raises it again
                pipe.send(error)
