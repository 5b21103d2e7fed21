"""The child process of a service."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tidegate.serve.process import Answer, Process


@contextmanager
def own_id() -> Iterator[Answer]:
    yield os.getpid


@pytest.mark.thorough
@pytest.mark.parametrize("which", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_for_the_whole_service_does_not_end_its_work(which: signal.Signals) -> None:
    """A terminal and systemd signal all processes; the service must not take that for a crash."""
    process = Process("training", own_id)
    try:
        child = process.ask()
        os.kill(child, which)
        assert process.ask() == child
    finally:
        process.end()
    with pytest.raises(ProcessLookupError):
        os.kill(child, 0)


@pytest.mark.thorough
def test_a_request_is_checked_once_the_process_can_be_interrupted() -> None:
    """Whoever makes a request impossible and then interrupts the process misses none."""
    checked: list[bool] = []

    def check() -> None:
        checked.append(process._running is not None)
        raise LookupError

    process = Process("training", own_id, check=check)
    try:
        with pytest.raises(LookupError):
            process.ask()
        assert checked == [True]
    finally:
        process.end()


@pytest.mark.thorough
def test_a_process_that_was_killed_is_replaced() -> None:
    process = Process("training", own_id)
    try:
        child = process.ask()
        process.interrupt()
        assert process.ask() != child
    finally:
        process.end()
