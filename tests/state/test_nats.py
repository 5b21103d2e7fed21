"""JetStream as a source, against a real server: each message once, in order, whatever happens."""

import asyncio
import random
import re
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import nats.errors
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.state.certificate import certificate
from tests.state.natsserver import STREAM, Server, needs_server
from tests.state.sent import bodies
from tidegate.checks import InvalidValueError
from tidegate.run.config import Config
from tidegate.sources import RawBatch, SourceColumns, SourceError
from tidegate.sources.broker import Patience
from tidegate.sources.clients.nats_reader import Reader, _explained
from tidegate.sources.nats_stream import NatsStream, StreamOffset, urls

pytestmark = needs_server
COLUMNS = SourceColumns(label="y", features=("a",), number_labels=True, dtype="float64")


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with Server(tmp_path_factory.mktemp("nats")) as server:
        yield server


@pytest.fixture
def server(shared: Server) -> Iterator[Server]:
    shared.make()
    yield shared
    shared.remove()


def source(server: Server, **how: Any) -> NatsStream:
    known = {"patience": 5.0, "stream": STREAM, **how}
    return NatsStream(name="records", columns=COLUMNS, url=(server.url,), **known)


def slots(batches: list[RawBatch]) -> list[float]:
    return [value for batch in batches for value in batch.X[:, 0].tolist()]


def taken(server: Server, offset: str | None = None, **how: Any) -> tuple[list[float], str | None]:
    """All that a source has after an offset, and the offset after that."""
    found = list(source(server, **how).batches(offset))
    return slots(found), found[-1].offset if found else offset


def test_all_messages_come_once_and_in_order(server: Server) -> None:
    assert taken(server) == ([], None)
    server.send(bodies(0, 5000))  # more than one pull
    batches = list(source(server).batches(None))
    assert slots(batches) == list(range(5000))
    assert [each % 2 for each in range(5000)] == [y for batch in batches for y in batch.y]
    assert len(batches) > 1
    for before, after in pairwise(batches):  # any batch is a place to go on from
        assert slots(list(source(server).batches(before.offset)))[: after.n] == slots([after])
    assert taken(server, batches[-1].offset) == ([], batches[-1].offset)
    server.send(bodies(5000, 3))
    assert taken(server, batches[-1].offset)[0] == [5000, 5001, 5002]
    assert server.do(lambda js: js.stream_info(STREAM)).state.consumer_count == 0


@settings(max_examples=8, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(sizes=st.lists(st.integers(1, 40), min_size=1, max_size=5), seed=st.integers(0, 99))
def test_at_any_cut_nothing_is_lost_or_taken_twice(
    shared: Server, sizes: list[int], seed: int
) -> None:
    name, rng = f"s{time.monotonic_ns()}", random.Random(seed)
    shared.make(name)
    found: list[float] = []
    offset, sent = None, 0
    for size in sizes:
        shared.send(bodies(sent, size), f"{name}.x")
        sent += size
        for batch in source(shared, stream=name).batches(offset):
            if rng.random() < 0.3:  # stopped before it was durable
                break
            found, offset = found + slots([batch]), batch.offset
    rest, _ = taken(shared, offset, stream=name)
    assert found + rest == list(range(sent))
    shared.remove(name)


def test_what_is_no_record_keeps_its_slot(server: Server) -> None:
    server.send([b'{"a": 1, "y": 0}', b"", b"{", b"\xff", b"[1]", b'{"y": 1}', b'{"a": 7, "y": 1}'])
    (batch,) = source(server).batches(None)
    assert batch.n == 7
    assert batch.X[[0, 6], 0].tolist() == [1, 7]
    assert np.isnan(batch.X[1:6, 0]).all()
    assert batch.reasons == {
        1: "not JSON",
        2: "not JSON",
        3: "not UTF-8",
        4: "not a JSON object",
    }
    assert batch.arrived(2) == '{"line": "{"}'


def test_subjects_are_taken_apart(server: Server) -> None:
    for turn in range(3):
        server.send(bodies(10 * turn, 2), "records.north")
        server.send(bodies(10 * turn + 5, 2), "records.south.x")
    north, place = taken(server, subject="records.north")
    assert north == [0, 1, 10, 11, 20, 21]
    assert taken(server, subject="records.south.>")[0] == [5, 6, 15, 16, 25, 26]
    server.send(bodies(30, 1), "records.north")
    assert taken(server, place, subject="records.north")[0] == [30]


def test_an_offset_is_one_of_its_subject(server: Server, shared: Server) -> None:
    for turn in range(3):
        server.send(bodies(turn, 1), "records.north")
        server.send(bodies(10 + turn, 1), "records.south")
    _, place = taken(server, subject="records.north")
    assert place is not None
    assert place.endswith("@records/records.north")
    match = (
        r"^the offset belongs to stream/subject records/records.north, but .source. names "
        r"records/records.south: name records/records.north again, or to continue with "
        rf"records/records.south add resume = \['{re.escape(place)}', '5@-'\] to"
    )
    with pytest.raises(SourceError, match=match):  # it would have skipped 10 and 11
        taken(server, place, subject="records.south")
    with pytest.raises(SourceError, match=r"but .source. names records/>: name"):
        taken(server, place)
    shared.make("other")
    with pytest.raises(SourceError, match=r"names other/records.north: .*, '0@-'\]"):
        taken(server, place, subject="records.north", stream="other")
    shared.remove("other")
    rest, after = taken(server, place, subject="records.south", resume=(place, "5@-"))
    assert rest == [12]
    assert taken(server, after, subject="records.south", resume=(place, "5@-")) == ([], after)
    unsaid = place.removesuffix("@records/records.north")
    assert taken(server, unsaid, subject="records.north") == ([], unsaid)
    assert taken(server, subject=">")[1] == taken(server)[1]  # they are the same messages


def sent_of_sizes(
    server: Server, sizes: list[int], headers: dict[str, str] | None = None, stream: str = STREAM
) -> None:
    async def publish(js: Any) -> None:
        for slot, size in enumerate(sizes):
            body = b'{"a": %d, "y": 0, "z": "%s"}' % (slot, b"x" * size)
            await js.publish(f"{stream}.x", body, headers=headers)

    server.do(publish)


@contextmanager
def watched(room: int) -> Iterator[list[list[int]]]:
    """How long the messages of each pull are, with so many bytes of room."""
    pulls: list[list[int]] = []
    some = Reader._some

    async def seen(reader: Reader, n: int, room: int = 0) -> Any:
        found = await some(reader, n, room)
        pulls.append([len(message.data) for message in found])
        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tidegate.sources.clients.nats_reader.BYTES", room)
        patch.setattr(Reader, "_some", seen)
        yield pulls


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    sizes=st.lists(st.sampled_from([0, 1, 2, 300, 2000]), min_size=1, max_size=30),
    room=st.integers(150, 900),
    headers=st.sampled_from([None, {"a": "b", "c": "ä"}, {"Description": "MaxBytes"}]),
)
def test_pulls_are_bounded_by_bytes(
    shared: Server,
    caplog: pytest.LogCaptureFixture,
    sizes: list[int],
    room: int,
    headers: dict[str, str] | None,
) -> None:
    name = f"s{time.monotonic_ns()}"
    shared.make(name)
    sent_of_sizes(shared, sizes, headers, name)
    with watched(room) as pulls:
        (batch,) = source(shared, stream=name).batches(None)  # however many pulls that takes
    shared.remove(name)
    assert slots([batch]) == list(range(len(sizes)))
    for lengths in pulls:  # a message that is too large comes alone
        assert len(lengths) <= 1 or sum(lengths) <= room
    assert caplog.text == ""  # nothing was waited for


@pytest.mark.parametrize("subject", [None, f"{STREAM}.x"])
@pytest.mark.parametrize("long", [0, 5, 10])
def test_batches_end_by_counts_however_long_a_message_is(
    server: Server, monkeypatch: pytest.MonkeyPatch, subject: str | None, long: int
) -> None:
    monkeypatch.setattr("tidegate.sources.clients.nats_reader.batch_size", lambda _: 4)
    sent_of_sizes(server, [2000 if slot == long else 0 for slot in range(11)])
    with watched(300) as pulls:
        batches = list(source(server, subject=subject).batches(None))
    assert slots(batches) == list(range(11))
    assert [batch.n for batch in batches] == [4, 4, 3]
    assert len(pulls) > 3


@pytest.mark.parametrize("headers", [None, {"Nats-Expected-Stream": STREAM, "c": "7"}])
def test_a_room_that_is_used_up_exactly_is_not_waited_at(
    server: Server, caplog: pytest.LogCaptureFixture, headers: dict[str, str] | None
) -> None:
    sent_of_sizes(server, [0] * 4, headers)
    counts = set()
    for room in range(195, 205) if headers is None else range(293, 303):
        with watched(room) as pulls:
            assert slots(list(source(server).batches(None))) == [0, 1, 2, 3]
        counts.add(len(pulls[0]))
    assert counts == {1, 2}  # so that one of the rooms was exactly that of two messages
    assert caplog.text == ""


@pytest.mark.slow
def test_a_size_that_is_counted_otherwise_costs_a_wait_and_no_message(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {"SILENCE": 1.0, "_size": lambda _: 99}.items():
        monkeypatch.setattr(f"tidegate.sources.clients.nats_reader.{name}", value)
    sent_of_sizes(server, [0] * 5)
    with watched(200) as pulls:
        assert slots(list(source(server).batches(None))) == [0, 1, 2, 3, 4]
    assert list(map(len, pulls)) == [2, 2, 1]


def test_large_messages_after_small_ones(server: Server) -> None:
    sizes = [10] * 4200 + [900_000] * 40 + [10] * 5
    sent_of_sizes(server, sizes)
    with watched(2**24) as pulls:
        batches = list(source(server).batches(None))
    assert slots(batches) == list(range(len(sizes)))
    assert [batch.n for batch in batches] == [4096, 149]
    assert 2**23 < max(map(sum, pulls)) <= 2**24


@pytest.mark.parametrize("subject", [None, f"{STREAM}.x"])
@pytest.mark.parametrize("lost", [1, 3, 10])
def test_a_message_lost_on_its_way_is_read_again(
    server: Server,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    subject: str | None,
    lost: int,
) -> None:
    receive, left = Reader._receive, [lost]
    no_more: Any = SimpleNamespace(reply="", headers={})

    async def lossy(reader: Reader, message: Any) -> None:
        number = message.metadata.sequence.consumer if message.reply else 0
        if number in left:
            left.remove(number)
            await receive(reader, no_more)
        else:
            await receive(reader, message)

    monkeypatch.setattr(Reader, "_receive", lossy)
    monkeypatch.setattr("tidegate.sources.clients.nats_reader.batch_size", lambda _: 4)
    server.send(bodies(0, 11))
    assert taken(server, subject=subject)[0] == list(range(11))
    assert left == []
    assert "lost in transit" in caplog.text or lost == 1


def test_messages_are_waited_for_however_slowly_they_come(monkeypatch: pytest.MonkeyPatch) -> None:
    def message(number: int) -> Any:
        place = SimpleNamespace(sequence=SimpleNamespace(consumer=number))
        known = {"subject": "s", "reply": "r", "headers": None, "data": b"", "metadata": place}
        return SimpleNamespace(**known)

    async def nothing(*_: object) -> None:
        """The request goes nowhere."""

    async def slow(waiting: Any, _: float) -> None:
        waiting.close()
        if coming:
            await reader._receive(coming.pop())
        raise TimeoutError

    known = NatsStream(name="r", columns=COLUMNS, url=("nats://a",), stream="s")
    coming = [message(3), message(2), message(1)]
    reader = Reader(known, StreamOffset(sequence=0))
    monkeypatch.setattr(reader._client, "publish", nothing)
    monkeypatch.setattr("tidegate.sources.clients.nats_reader.asyncio.wait_for", slow)
    found = asyncio.run(reader._some(5))  # what is left behind would be missed by the next pull
    assert [each.metadata.sequence.consumer for each in found] == [1, 2, 3]


KEPT = """
import sys
from tidegate.sources import SourceColumns
from tidegate.sources.nats_stream import NatsStream, urls
columns = SourceColumns(label="y", features=("a",), number_labels=True, dtype="float64")
(url, stream) = sys.argv[1:]
batches = NatsStream(name="r", columns=columns, url=(url,), stream=stream).batches(None)
print(next(batches).n)
cycle = [batches]
cycle.append(cycle)
"""


@pytest.mark.thorough
def test_a_source_that_nobody_has_closed_ends_with_the_process(server: Server) -> None:
    server.send(bodies(0, 3))
    words = [sys.executable, "-c", KEPT, server.url, STREAM]
    ended = subprocess.run(words, capture_output=True, text=True, timeout=30, check=False)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "3\n", "")


def test_following_waits_for_more(server: Server) -> None:
    server.send(bodies(0, 3))
    looks = 0

    def follow() -> bool:
        nonlocal looks
        looks += 1
        if looks == 2:
            server.send(bodies(3, 2))
        return looks < 4

    assert taken(server, follow=True, wait=follow)[0] == [0, 1, 2, 3, 4]


def purge(server: Server, upto: int) -> None:
    server.do(lambda js: js.purge_stream(STREAM, seq=upto + 1))


def test_trimmed_messages_are_missed(server: Server) -> None:
    server.send(bodies(0, 10))
    _, place = taken(server)
    purge(server, 10)
    assert taken(server, place)[0] == []  # all were taken
    server.send(bodies(10, 10))
    purge(server, 15)
    with pytest.raises(SourceError, match=r"has lost messages 11 to 15 before .* resume = \[") as e:
        taken(server, place)
    assert "\n" not in str(e.value)
    assert place is not None
    assert f"resume = ['{place}', '15@-']" in str(e.value)
    rest, after = taken(server, place, resume=(place, "15@-"))
    assert rest == [15, 16, 17, 18, 19]
    purge(server, 20)
    server.send(bodies(20, 3))
    purge(server, 21)
    with pytest.raises(SourceError, match="has lost messages 21 to 21"):  # that was another loss
        taken(server, after, resume=(place, "15@-"))
    assert taken(server)[0] == [21, 22]  # whoever starts takes what there is


def test_trimmed_messages_of_other_subjects_may_be_ours(server: Server) -> None:
    server.send(bodies(0, 2), "records.a")
    _, place = taken(server, subject="records.a")
    server.send(bodies(0, 5), "records.b")
    server.send(bodies(2, 2), "records.a")
    purge(server, 4)
    with pytest.raises(SourceError, match=r"messages 3 to 4 \(maybe of other subjects\)"):
        taken(server, place, subject="records.a")


def test_a_deleted_message_is_missed(server: Server) -> None:
    server.send(bodies(0, 10))
    server.do(lambda js: js.delete_msg(STREAM, 6))
    batches = source(server).batches(None)
    before = next(batches)
    assert slots([before]) == [0, 1, 2, 3, 4]  # what came before it is taken
    with pytest.raises(SourceError, match="has lost messages 6 to 6"):
        next(batches)
    place = before.offset
    with pytest.raises(SourceError, match="has lost messages 6 to 6"):
        taken(server, place)
    assert taken(server, place, resume=(place, "6@-"))[0] == [6, 7, 8, 9]
    server.do(lambda js: js.delete_msg(STREAM, 5))
    with pytest.raises(SourceError, match="another message 5 than the one that was taken, or none"):
        taken(server, place)


@pytest.mark.parametrize("sent", [0, 3, 10, 20])
def test_a_stream_made_anew_is_refused(server: Server, sent: int) -> None:
    server.send(bodies(0, 10))
    _, place = taken(server)
    server.remove()
    server.make()
    server.send(bodies(100, sent))
    match = f"ends at message {sent}, but 10" if sent < 10 else "has another message 10"
    with pytest.raises(SourceError, match=match):
        taken(server, place)
    assert place is not None
    assert taken(server, place, resume=(place, "0@-"))[0] == list(range(100, 100 + sent))


@pytest.mark.parametrize("kind", [{"retention": "workqueue"}, {"max_msgs_per_subject": 1}])
def test_streams_that_do_not_keep_messages_are_refused(shared: Server, kind: Any) -> None:
    shared.make("fleeting", **kind)
    with pytest.raises(SourceError, match=r"stream fleeting may delete messages before .*: set"):
        taken(shared, stream="fleeting")
    shared.remove("fleeting")


def test_no_stream_and_no_server(shared: Server, caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(SourceError, match="there is no stream absent on the NATS server at nats:"):
        taken(shared, stream="absent")
    away = NatsStream(
        name="r", columns=COLUMNS, url=("nats://127.0.0.1:1",), stream="s", patience=0.6
    )
    with pytest.raises(SourceError, match=r"has not answered for 0.6 s .*run again when it does"):
        list(away.batches(None))
    (line,) = [each.message for each in caplog.records]
    assert "does not answer (no servers available for connection): waiting up to 0.6 s" in line


def test_a_server_that_is_killed_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tidegate.sources.clients.nats_reader.batch_size", lambda _: 256)
    found: list[float] = []
    with Server(tmp_path) as server:
        server.make()
        server.send(bodies(0, 3000))
        for batch in source(server, patience=20.0).batches(None):
            if not found:
                server.kill()
                threading.Timer(0.7, server.start).start()
            found += slots([batch])
    assert found == list(range(3000))


def test_credentials_come_from_outside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Server(tmp_path, "--user", "ward", "--pass", "secret") as server:
        server.do(lambda js: js.add_stream(name=STREAM), user="ward", password="secret")
        with pytest.raises(SourceError, match="refuses the credentials, or requires some: see"):
            taken(server)
        monkeypatch.setenv("TIDEGATE_NATS_USER", "ward")
        monkeypatch.setenv("TIDEGATE_NATS_PASSWORD", "secret")
        assert taken(server) == ([], None)
        plain, server.url = server.url, server.url.replace("nats:", "tls:")
        with pytest.raises(SourceError, match="does not require TLS"):  # no password is sent
            taken(server)
        server.url = plain
    with pytest.raises(SourceError, match=r"absent.pem, named in .source., is not a file: check"):
        taken(server, ca="absent.pem")
    (tmp_path / "empty.pem").write_text("")
    with pytest.raises(SourceError, match=r"empty.pem, .* source.ca, holds no certificate: name"):
        taken(server, ca=str(tmp_path / "empty.pem"))


@pytest.mark.slow
def test_tls(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    key, signed = (str(path) for path in certificate(tmp_path))
    options = ("--tls", "--tlscert", signed, "--tlskey", key)
    with Server(tmp_path / "server", *options) as server:
        trusted = ssl.create_default_context(cafile=signed)
        server.do(lambda js: js.add_stream(name=STREAM, subjects=["records.>"]), tls=trusted)
        server.do(lambda js: js.publish("records.x", bodies(7, 1)[0]), tls=trusted)
        caplog.clear()
        assert taken(server, ca=signed)[0] == [7]
        with pytest.raises(SourceError, match="the certificate is not trusted: self-signed"):
            taken(server)
        assert caplog.text == ""


STREAMS = ("records.north", "my records", "*", ">", "a/b", "a\\b", "records\n")
SUBJECTS = ("a b", "a..b", ".a", "a.", ">.a", "a.>.b", "a>", "records ")


def test_the_table() -> None:
    table = {"type": "nats", "url": "nats://localhost:4222", "stream": "s", "subject": "s.>"}
    base = {
        "schedule": {"kind": "independent", "step": 10},
        "budget": {"epsilon": 1.0},
        "records": {"classes": [0, 1], "norm": 1.0, "columns": ["a"], "label": "y"},
    }
    config = Config.of(base | {"source": table})
    assert Config.from_json(config.to_json()) == config.settled()
    assert isinstance(config.configured()["records"], NatsStream)
    (built,) = config.sources(follow=True).values()
    assert isinstance(built, NatsStream)
    assert built.url == ("nats://localhost:4222",)
    assert list(config.files()) == []
    for key, value, told in [
        ("url", "nats://me:secret@host", "source.url must be without user and password"),
        ("url", "http://host", "source.url must be such as nats://host:4222"),
        ("url", "TLS://host:4222", "source.url must be such as nats://host:4222"),
        ("url", "nats://[x", "source.url must be such as nats://host:4222"),
        ("url", "nats://host:99999", "source.url must be such as nats://host:4222"),
        *(("stream", each, "source.stream must be the name of a stream") for each in STREAMS),
        *(("subject", each, "source.subject must be such as records") for each in SUBJECTS),
        ("resume", ["1@-"], "source.resume must be the two texts of the error"),
        ("path", "x.csv", "source.path is a key of csv, jsonl, parquet, not of nats: remove it"),
        (
            "type",
            "natz",
            "^source.type must be one of csv, jsonl, kafka, nats, parquet, got 'natz'$",
        ),
    ]:
        with pytest.raises(InvalidValueError, match=told) as error:
            Config.of(base | {"source": table | {key: value}})
        assert "secret" not in str(error.value)
    for subject in ("north", ">", "*", "north.>", "*.x.*", "a-1.b_2"):
        assert Config.of(base | {"source": table | {"subject": subject}}).source is not None
    assert urls("url", ["nats://a:1", "tls://b:2"]) == ("nats://a:1", "tls://b:2")


def test_offsets_of_others_are_refused(shared: Server) -> None:
    for offset in ("", "7", "@x", "a@-", "-1@-", "7@", "7@-@"):
        with pytest.raises(SourceError, match="not one of a NATS stream"):
            list(source(shared).batches(offset))
    place = StreamOffset(sequence=7, time="2026-01-02T03:04:05+00:00")
    assert StreamOffset.of(place.text()) == place


@pytest.mark.parametrize(
    ("error", "told"),
    [(TimeoutError(), "no response in time"), (nats.errors.TimeoutError(), "timeout")],
)
def test_what_a_server_does_not_say_is_told(error: Exception, told: str) -> None:
    def silent() -> None:
        with _explained(NatsStream(name="r", columns=COLUMNS, url=("nats://a",), stream="s")):
            raise error

    with pytest.raises(ConnectionError, match=f"^{told}$"):
        silent()


@pytest.mark.thorough
def test_patience_ends() -> None:
    patience = Patience("the broker", 0.1)
    patience.wait("refused")
    patience.renew()
    patience.wait("refused")
    with pytest.raises(SourceError, match="the broker has not answered"):
        patience.wait("refused")
