"""Server-sent events under odd requests, many clients and clients that vanish."""

import os
import socket
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

pytest.importorskip("fastapi", reason="needs the extra serve")

from tests.serve.served import Served, become, served
from tidegate.serve.access_tokens import Tokens
from tidegate.serve.limits import Limits
from tidegate.serve.routes import release_routes

VISIBLE = st.text(st.characters(min_codepoint=0x20, max_codepoint=0x7E), max_size=30)
IDS = VISIBLE | st.integers(-9, 10**18).map(str) | st.just("9" * 5000) | st.just("0, 1")
ACCEPT = VISIBLE | st.sampled_from(
    ["text/event-stream", "application/json", "*/*;q=0", "a/b;;", ""]
)


def ask(running: Served, **headers: str) -> socket.socket:
    """A connection that has asked for events and read nothing yet."""
    lines = [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    head = ["GET /v1/releases/events HTTP/1.1", "Host: x", *lines]
    head += [f"Authorization: Bearer {running.tokens['read']}", "", ""]
    connection = socket.create_connection(("127.0.0.1", running.port), timeout=20)
    connection.sendall("\r\n".join(head).encode())
    return connection


def read(connection: socket.socket, until: bytes) -> bytes:
    found = b""
    while until not in found and (data := connection.recv(65536)):
        found += data
    return found


@settings(deadline=None, max_examples=30, suppress_health_check=[HealthCheck.differing_executors])
@given(last=IDS, accept=ACCEPT)
def test_odd_requests_are_answered_or_refused(service: Served, last: str, accept: str) -> None:
    with ask(service, Last_Event_ID=last, Accept=accept) as connection:
        said = read(connection, b"event: progress")
        status = int(said.split()[1])
        assert status in {200, 400, 422}
        assert (b"event: progress" in said) == (status == 200)


@pytest.mark.parametrize(
    ("last", "told"),
    [("0", [1, 2]), ("1", [2]), ("2", []), ("7", []), ("-1", []), ("x", []), ("9" * 17, [])],
)
def test_what_came_after_the_last_event_is_told_first(
    service: Served, last: str, told: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(release_routes, "CHUNK", 1)  # all are told, though not read at once
    with ask(service, Last_Event_ID=last) as connection:
        said = read(connection, b"event: progress").decode()
    found = [line.removeprefix("id: ") for line in said.splitlines() if line.startswith("id: ")]
    assert found == list(map(str, told))


def test_who_listens_is_sent_away_when_the_token_is_revoked(tmp_path: Path) -> None:
    with served(tmp_path / "state") as running:
        (name,) = [each.name for each in Tokens(running.folder).all() if each.scopes == ("read",)]
        with ask(running) as connection:
            read(connection, b"event: progress")
            Tokens(running.folder).revoke(name)
            running.send(10)
            rest = read(connection, b"0\r\n\r\n")  # the end of the answer
            assert b'"records": 10' not in rest
        assert become(lambda: len(running.runner._watchers) == 0)


def test_many_who_listen_and_vanish_leave_nothing_behind(tmp_path: Path) -> None:
    """More than may listen are sent away; those that vanish are noticed without any news."""
    most = 5
    limits = Limits(token_watchers=most, rate=10_000, burst=10_000)
    with served(tmp_path / "state", limits=limits) as running:
        running.ask("GET", "/v1/status")
        before = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0
        for vanish in ("read", "unread", "reset"):
            asked = [ask(running) for _ in range(3 * most)]
            assert become(lambda: len(running.runner._watchers) == most)
            assert running.ask("GET", "/v1/releases/latest").status == 404, "who asks, not waits"
            assert running.ask("GET", "/v1/releases/latest?wait=1").status == 429
            if vanish == "read":
                heads = [read(each, b"\r\n\r\n") for each in asked]
                listening = [b" 200 " in head.splitlines()[0] for head in heads]
                assert sum(listening) >= most
                assert {head.split()[1] for head in heads} <= {b"200", b"429"}
            for each in asked:
                if vanish == "reset":  # with RST: no end that could be read
                    each.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
                each.close()
            assert become(lambda: len(running.runner._watchers) == 0), vanish
        assert running.ask("GET", "/v1/health").status == 200
        if before:
            assert become(lambda: len(os.listdir("/proc/self/fd")) <= before), "connections leak"
