"""The child process of a service."""

import asyncio
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

import pytest

pytest.importorskip("fastapi", reason="needs the extra serve")

from tests.serve.served import config, served
from tests.serve.test_training_process import until
from tidegate.checks import StoreError
from tidegate.serve.bodies import JSON, Reader
from tidegate.serve.parser import Parser, Question
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
def test_it_can_be_started_before_the_first_request() -> None:
    process = Process("parsing", own_id)
    try:
        child = process.start()[0].pid
        assert process.start()[0].pid == child
        assert process.ask() == child
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


def test_the_process_that_parses_starts_with_the_service(tmp_path: Path) -> None:
    """The first sender of a large body does not wait for imports."""
    with patch.object(Process, "start", autospec=True) as start:
        with served(tmp_path / "state", parsing=True):
            until(lambda: start.called)
        assert {each.args[0]._name for each in start.call_args_list} == {"parsing"}


def test_a_parser_that_died_is_replaced_before_the_next_body() -> None:
    parser = Parser(Reader(config=config()))
    body = bytearray(b'{"x": [[1, 2]], "y": [0]}')
    died = patch.object(Process, "ask", side_effect=StoreError("parsing process died"))
    with died, patch.object(Process, "start") as start:
        with pytest.raises(StoreError):
            asyncio.run(parser.batch("app", Question(JSON, body, labelled=True)))
        until(lambda: start.called)
        parser.close()
