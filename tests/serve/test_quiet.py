"""Strangers cannot fill the operator's log."""

import json
import logging
import os
import socket
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit

import pytest

pytest.importorskip("fastapi", reason="needs the extra serve")

from tests.serve.served import config
from tidegate.gate import Gate
from tidegate.serve import quiet

MALFORMED = [
    b"nonsense\r\n\r\n",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",  # TLS
    b"GET /v1/health HTTP/1.1\r\n\r\n",  # no Host
    b"GET / HTTP/1.1\r\nHost: x\r\nX: " + b"x" * 20_000 + b"\r\n\r\n",
    b"GET /v1/health HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
    b"POST /v1/records HTTP/1.1\r\nHost: x\r\nContent-Length: x\r\n\r\n",
]


@pytest.mark.slow
def test_malformed_requests_leave_a_few_lines(tmp_path: Path) -> None:
    Gate.open(tmp_path / "state", config()).close()
    command = [sys.executable, "-m", "tidegate", "serve", str(tmp_path / "state"), "--port", "0"]
    with subprocess.Popen(
        [*command, "--format", "json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=os.environ | {"PYTHONUNBUFFERED": "1"},
        text=True,
    ) as process:
        assert process.stdout is not None
        port = urlsplit(json.loads(process.stdout.readline())["url"]).port
        assert port is not None
        for number in range(120):
            with socket.create_connection(("127.0.0.1", port), timeout=20) as connection:
                connection.sendall(MALFORMED[number % len(MALFORMED)])
                connection.shutdown(socket.SHUT_WR)
                connection.recv(4096)
        process.terminate()
        _, said = process.communicate(timeout=60)
    lines = said.splitlines()
    assert 1 <= len(lines) <= 20, said


def test_what_was_left_out_is_counted_and_other_lines_are_not_held_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lines, now = list[str](), [0.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])

    class Kept(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            lines.append(record.getMessage())

    log, handler = logging.getLogger("test.quiet"), Kept()

    def refuse(numbers: range) -> None:
        for number in numbers:
            log.warning("request %d is malformed", number)

    handler.addFilter(quiet.Quiet())
    log.addHandler(handler)
    log.propagate = False
    try:
        refuse(range(100))
        log.warning("the disk is full")
        assert lines == [f"request {n} is malformed" for n in range(5)] + ["the disk is full"]
        now[0] += 61
        refuse(range(100, 103))
    finally:
        log.removeHandler(handler)
        log.propagate = True
    assert lines[6:] == ["request 100 is malformed (95 more like this were not logged)"]
