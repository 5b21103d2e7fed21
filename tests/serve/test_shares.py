"""Each token has its own share: nobody is locked out by what another token, or a stranger, does."""

import select
import socket
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("fastapi", reason="needs the extra serve")

from tests.serve.served import Served, become, served, slow_disk, stream
from tests.serve.test_events import ask, read
from tests.serve.test_faults import request
from tidegate.serve.connections import victim
from tidegate.serve.limits import Limits, NoSlotError, Slots


@given(
    most=st.integers(1, 5),
    each=st.integers(1, 5),
    asked=st.lists(st.sampled_from("abcdefg"), max_size=40),
)
def test_every_token_has_one_slot_and_none_has_more_than_it_may(
    most: int, each: int, asked: list[str]
) -> None:
    slots, held = Slots("slots", most=most, each=each), Counter[str]()
    with ExitStack() as stack:
        for token in asked:
            may = not held[token] or (held[token] < each and held.total() < most)
            assert slots.free(token) == may
            try:
                stack.enter_context(slots.taken(token))
            except NoSlotError:
                assert not may
                continue
            assert may
            held[token] += 1
            assert slots._held.total() == held.total() <= most + len(held)
    assert slots._held.total() == 0


@contextmanager
def slow_bodies(running: Served, n: int) -> Iterator[list[socket.socket]]:
    """Bodies of one token that do not arrive."""
    with ExitStack() as stack:
        where = ("127.0.0.1", running.port)
        slow = [stack.enter_context(socket.create_connection(where)) for _ in range(n)]
        for each in slow:
            each.sendall(request(running, 1000) + b'{"x": ')
        yield slow


def answered(connections: list[socket.socket]) -> list[socket.socket]:
    """Those that have something to read."""
    return select.select(connections, [], [], 0)[0]


def test_slow_bodies_of_one_token_keep_out_no_other(tmp_path: Path) -> None:
    with served(tmp_path / "state") as running, slow_bodies(running, 20) as slow:
        assert become(lambda: len(answered(slow)) == 16)
        away = sum(b" 429 " in each.recv(4096).splitlines()[0] for each in answered(slow))
        assert away == 16, "four are on their way in"
        with running.client("ingest", patience=0) as other:
            assert other.ingest(*stream(10)) == 10


def test_event_streams_of_one_token_keep_out_no_other(tmp_path: Path) -> None:
    with served(tmp_path / "state") as running, ExitStack() as stack:
        asked = [stack.enter_context(ask(running)) for _ in range(70)]
        assert become(lambda: len(running.runner._watchers) == Limits.token_watchers)
        assert running.ask("GET", "/v1/releases/latest?wait=1").status == 429
        assert sum(b" 200 " in read(each, b"\r\n").splitlines()[0] for each in asked) == 16
        with running.client("read", patience=0) as other:
            status, _ = other.status(), running.send(10)
            assert status["releases"] == 0
            secret = other._authorization.removeprefix("Bearer ")
        answer = running.ask("GET", "/v1/releases/latest?wait=0.1", token=secret)
        assert answer.status == 404, "it could wait"


def test_batches_of_one_token_that_wait_for_the_disk_keep_out_no_other(tmp_path: Path) -> None:
    limits = Limits(waiting=1000, rate=10_000, burst=10_000)
    with (
        served(tmp_path / "state", limits=limits) as running,
        slow_disk() as going,
        ThreadPoolExecutor(2) as pool,
        running.client("ingest", patience=0) as other,
    ):
        first = pool.submit(running.send, 20)
        assert become(lambda: running.runner.waiting == 1)
        assert running.send(20).status == 429, "it has one that waits"
        second = pool.submit(other.ingest, *stream(20))
        assert become(lambda: running.runner.waiting == 2)
        going.set()
        assert first.result().status == 200
        assert second.result() == 40


def test_idle_connections_of_strangers_keep_out_nobody(tmp_path: Path) -> None:
    """More of them than there may be connections: who has a token is answered, and stays."""
    limits = Limits(connections=8, rate=10_000, burst=10_000)
    with served(tmp_path / "state", limits=limits) as running, ExitStack() as stack:
        listening = stack.enter_context(ask(running))
        read(listening, b"event: progress")
        where = ("127.0.0.1", running.port)
        strangers = [stack.enter_context(socket.create_connection(where)) for _ in range(30)]
        for each in strangers[::2]:
            each.sendall(b"GET /v1/health HTTP/1.1\r\nHost: x\r\n")
        assert running.ask("GET", "/v1/status").status == 200
        assert running.send(10).status == 200
        assert b'"records": 10' in read(listening, b'"records": 10'), "it was not closed"


def slow_stranger(running: Served) -> socket.socket:
    """A connection whose request was refused while its body is still to come."""
    connection = socket.create_connection(("127.0.0.1", running.port), timeout=20)
    lines = ("POST /v1/records HTTP/1.1", "Host: x", "Content-Length: 1000", "", "{")
    connection.sendall("\r\n".join(lines).encode())
    answer = b""
    while not answer.endswith(b"}"):
        answer += connection.recv(4096)
    assert b" 401 " in answer.splitlines()[0]
    return connection


def test_slow_bodies_of_strangers_close_no_connection_that_may_show_a_token(tmp_path: Path) -> None:
    """It is older than all of theirs, and has sent nothing yet."""
    limits = Limits(connections=8, rate=10_000, burst=10_000)
    with served(tmp_path / "state", limits=limits) as running, ExitStack() as stack:
        honest = stack.enter_context(socket.create_connection(("127.0.0.1", running.port)))
        honest.settimeout(20)
        for _ in range(30):
            stack.enter_context(slow_stranger(running))
        body = b'{"x": [[0.5, 0.5]], "y": [1]}'
        honest.sendall(request(running, len(body)) + body)
        assert b" 200 " in honest.recv(4096).splitlines()[0]


@given(
    there=st.lists(
        st.tuples(st.sampled_from([None, "app", "board", "other"]), st.booleans()),
        min_size=1,
        max_size=30,
    )
)
def test_strangers_are_closed_first_and_then_the_token_that_has_most(
    there: list[tuple[str | None, bool]],
) -> None:
    closed = victim([*there, (None, False)])
    owners = [owner for owner, _ in there]
    if (None, True) in there:
        assert closed == there.index((None, True)), "one that was answered without a token"
    elif None in owners:
        assert closed == owners.index(None)
    else:
        having = Counter(owners)
        assert having[owners[closed]] == max(having.values())
        assert closed == owners.index(owners[closed])


def is_open(connection: socket.socket) -> bool:
    connection.setblocking(False)
    try:
        return connection.recv(1) != b""
    except BlockingIOError:
        return True
    except OSError:
        return False


def test_many_connections_at_once_leave_as_many_as_may_be(tmp_path: Path) -> None:
    limits = Limits(connections=5, rate=10_000, burst=10_000)
    with served(tmp_path / "state", limits=limits) as running, ExitStack() as stack:
        where = ("127.0.0.1", running.port)
        asked = [stack.enter_context(socket.create_connection(where)) for _ in range(200)]
        assert become(lambda: sum(map(is_open, asked)) <= 5)
        assert running.ask("GET", "/v1/plan").status == 200
