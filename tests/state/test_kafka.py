"""Kafka as a source, against the broker inside librdkafka, which speaks Kafka's protocol."""

import random
import re
from itertools import islice, pairwise
from pathlib import Path
from traceback import format_exception
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, Producer
from hypothesis import given
from hypothesis import strategies as st

from tests.state.commands import command, gate_text, hashes, killed, started
from tests.state.sent import bodies, from_a_file, messages
from tidegate.checks import InvalidValueError
from tidegate.run.config import Config
from tidegate.sources import RawBatch, SourceColumns, SourceError
from tidegate.sources.clients.kafka_reader import Reader, _client, read_settings
from tidegate.sources.kafka_topic import KafkaTopic, as_text, places_of, servers

COLUMNS = SourceColumns(label="y", features=("a",), number_labels=True, dtype="float64")
PARTITIONS = 4  # that the broker gives to every topic


class Cluster:
    """A broker that lives in this process."""

    def __init__(self) -> None:
        settings = {"bootstrap.servers": "unused", "test.mock.num.brokers": 1, "log_level": 0}
        self._producer = Producer(settings)
        (broker,) = self._producer.list_topics(timeout=10).brokers.values()
        self.server = f"{broker.host}:{broker.port}"

    def send(self, topic: str, sent: list[bytes], partition: int = 0) -> None:
        for body in sent:
            self._producer.produce(topic, body, partition=partition)
            self._producer.poll(0)
        assert self._producer.flush(20) == 0


@pytest.fixture(scope="module")
def cluster() -> Cluster:
    return Cluster()


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    return "".join(c for c in request.node.name if c.isalnum())


def source(cluster: Cluster, topic: str, **how: Any) -> KafkaTopic:
    known = {"patience": 5.0, **how}
    return KafkaTopic(name="r", columns=COLUMNS, servers=(cluster.server,), topic=topic, **known)


def slots(batches: list[RawBatch]) -> list[float]:
    return [value for batch in batches for value in batch.X[:, 0].tolist()]


def test_all_messages_come_once_and_in_order(cluster: Cluster, topic: str) -> None:
    cluster.send(topic, bodies(0, 3000))
    batches = list(source(cluster, topic, chunk=700).batches(None))
    assert slots(batches) == list(range(3000))
    assert len(batches) > 1
    for before, after in pairwise(batches):  # any batch is a place to go on from
        assert slots(list(source(cluster, topic).batches(before.offset)))[: after.n] == slots(
            [after]
        )
    assert list(source(cluster, topic).batches(batches[-1].offset)) == []
    cluster.send(topic, bodies(3000, 2))
    assert slots(list(source(cluster, topic).batches(batches[-1].offset))) == [3000, 3001]


@pytest.mark.parametrize("seed", range(3))
def test_the_order_of_partitions_is_that_of_offsets(
    cluster: Cluster, topic: str, seed: int
) -> None:
    rng = random.Random(seed)
    sizes = [rng.randrange(60) for _ in range(PARTITIONS)]
    for partition, size in enumerate(sizes):
        cluster.send(topic, bodies(1000 * partition, size), partition)
    whole = sorted(
        (offset // 16, partition, offset)
        for partition, size in enumerate(sizes)
        for offset in range(size)
    )
    expected = [1000 * partition + offset for _, partition, offset in whole]
    assert slots(list(source(cluster, topic, chunk=16).batches(None))) == expected
    found: list[float] = []
    offset = None
    while len(found) < len(expected):  # stopped after any number of batches
        for batch in source(cluster, topic, chunk=16).batches(offset):
            found, offset = found + slots([batch]), batch.offset
            if rng.random() < 0.4:
                break
    assert found == expected


def test_what_is_no_record_keeps_its_slot(cluster: Cluster, topic: str) -> None:
    cluster.send(topic, [b'{"a": 1, "y": 0}', b"{", b"", b'{"a": 4, "y": 1}'])
    (batch,) = source(cluster, topic).batches(None)
    assert batch.n == 4
    assert dict(batch.reasons) == {1: "not JSON", 2: "not JSON"}
    assert batch.X[[0, 3], 0].tolist() == [1, 4]


def test_trimmed_messages_are_missed(cluster: Cluster, topic: str) -> None:
    cluster.send(topic, bodies(0, 10))
    (batch,) = source(cluster, topic).batches(None)
    padding = b'{"a": 7, "y": 0, "z": "' + b"x" * 900_000 + b'"}'
    for _ in range(10):  # each alone, for the broker forgets by batches, after 5 megabytes
        cluster.send(topic, [padding])
    with pytest.raises(SourceError, match=r"partition 0 has lost messages 10 to \d+ before") as e:
        list(source(cluster, topic).batches(batch.offset))
    assert "\n" not in str(e.value)
    old, new = str(e.value).split("resume = ['")[1].split("']")[0].split("', '")
    assert old == batch.offset
    rest = slots(list(source(cluster, topic, resume=(old, new)).batches(batch.offset)))
    assert rest == [7.0] * (19 - places_of(new)[1][0].offset)
    assert slots(list(source(cluster, topic).batches(None))) == rest


def test_trimmed_messages_of_a_partition_that_had_none_are_missed(
    cluster: Cluster, topic: str
) -> None:
    cluster.send(topic, bodies(0, 10))
    (batch,) = source(cluster, topic).batches(None)
    padding = b'{"a": 7, "y": 0, "z": "' + b"x" * 900_000 + b'"}'
    for _ in range(10):
        cluster.send(topic, [padding], partition=2)
    with pytest.raises(SourceError, match=r"partition 2 has lost messages 0 to \d+ before"):
        list(source(cluster, topic).batches(batch.offset))


def test_a_topic_made_anew_is_refused(cluster: Cluster, topic: str) -> None:
    cluster.send(topic, bodies(0, 10))
    (batch,) = source(cluster, topic).batches(None)
    other = Cluster()
    other.send(topic, bodies(0, 3))
    with pytest.raises(SourceError, match="ends before message 3, but 9 was taken"):
        list(source(other, topic).batches(batch.offset))
    other.send(topic, bodies(3, 7))
    with pytest.raises(SourceError, match="has another message 9 than the one that was taken"):
        list(source(other, topic).batches(batch.offset))
    consent = (batch.offset, "{}")
    assert len(slots(list(source(other, topic, resume=consent).batches(batch.offset)))) == 10
    gone = as_text({**places_of(batch.offset)[1], 9: places_of(batch.offset)[1][0]})
    with pytest.raises(SourceError, match="has no partition 9 any more"):
        list(source(cluster, topic).batches(gone))


def test_an_offset_is_one_of_its_topic(cluster: Cluster, topic: str) -> None:
    cluster.send(topic, bodies(0, 3))
    cluster.send(f"{topic}2", bodies(10, 5))
    (batch,) = source(cluster, topic).batches(None)
    whose, places = places_of(batch.offset)
    assert whose == topic
    match = (
        f"^the offset belongs to topic {topic}, but .source. names {topic}2: name {topic} "
        rf"again, or to continue with {topic}2 "
        rf"add resume = \['{re.escape(batch.offset)}', '{{}}'\] to its"
    )
    with pytest.raises(SourceError, match=match):
        list(source(cluster, f"{topic}2").batches(batch.offset))
    consent = (batch.offset, "{}")
    (other,) = source(cluster, f"{topic}2", resume=consent).batches(batch.offset)
    assert slots([other]) == [10, 11, 12, 13, 14]
    unsaid = as_text(places)
    assert list(source(cluster, topic).batches(unsaid)) == []
    cluster.send(topic, bodies(7, 2), partition=3)  # a partition that is new
    assert slots(list(source(cluster, topic).batches(batch.offset))) == [7, 8]


def test_no_topic(cluster: Cluster) -> None:
    with pytest.raises(SourceError, match="refuses topic absent: Broker: Unknown topic"):
        list(source(cluster, "absent").batches(None))


REFUSES = "the Kafka client refuses "
NOT_A_SETTING = "source.settings, must be a setting such as "


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        ("sasl.username=a\n\nhunter2", "line 3 of {}, named by " + NOT_A_SETTING),
        ("# ours\nhunter2=", "line 2 of {}, named by " + NOT_A_SETTING),
        ("sasl password hunter2=", "line 1 of {}, named by " + NOT_A_SETTING),
        ("error_cb=hunter2", "line 1 of {}, named by " + NOT_A_SETTING),
        ("no.such=hunter2", REFUSES + "no.such in {}"),
        ("socket.timeout.ms = 1\n", REFUSES + "socket.timeout.ms in {}"),
        ("security.protocol=hunter2", REFUSES + "security.protocol in {}"),
        (
            "security.protocol=sasl_plaintext\nsasl.mechanism=hunter2",
            REFUSES + "some of the settings in {}",
        ),
        (
            "security.protocol=ssl\nssl.key.pem=hunter2",
            REFUSES + "ssl.key.pem in {}",
        ),
        ("topic.blacklist=[hunter2", REFUSES + "some of the settings in {}"),
        ("default.topic.config=hunter2", REFUSES + "some of the settings in {}"),
        ("sasl.password=\udcff", "{}, named by source.settings, cannot be read: check"),
    ],
)
def test_settings_are_refused_and_not_quoted(tmp_path: Path, lines: str, told: str) -> None:
    file = tmp_path / "kafka.settings"
    file.write_bytes(lines.encode(errors="surrogateescape"))
    known = KafkaTopic(
        name="r", columns=COLUMNS, servers=("a:1",), topic="t", settings=str(file), patience=0.1
    )
    with pytest.raises(SourceError) as refused:
        list(known.batches(None))
    assert str(refused.value).startswith(told.format(file))
    assert "hunter2" not in "".join(format_exception(refused.value))


def test_settings_that_are_taken(cluster: Cluster, topic: str, tmp_path: Path) -> None:
    file = tmp_path / "kafka.settings"
    file.write_text("# ours\n\n socket.timeout.ms = 1000\nclient.id=a=b\n")
    assert read_settings(str(file)) == {"socket.timeout.ms": "1000", "client.id": "a=b"}
    cluster.send(topic, bodies(0, 3))
    assert slots(list(source(cluster, topic, settings=str(file)).batches(None))) == [0, 1, 2]
    with pytest.raises(SourceError, match="cannot be read"):
        list(source(cluster, topic, settings=str(tmp_path / "none")).batches(None))


def test_no_setting_changes_what_exactly_once_rests_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rests_on = {
        "bootstrap.servers": "a:1",
        "enable.auto.commit": False,
        "auto.offset.reset": "error",
        "isolation.level": "read_committed",
        "enable.partition.eof": True,
    }
    file = tmp_path / "kafka.settings"
    file.write_text("".join(f"{name}=other\n" for name in (*rests_on, "client.id")))
    monkeypatch.setattr("tidegate.sources.clients.kafka_reader.Consumer", dict)
    known = KafkaTopic(name="r", columns=COLUMNS, servers=("a:1",), topic="t", settings=str(file))
    made: Any = _client(known)
    assert made["client.id"] == "other"
    assert {name: made[name] for name in rests_on} == rests_on


@pytest.mark.parametrize("long", [0, 200, 699])
def test_batches_end_by_counts_however_long_a_message_is(
    cluster: Cluster, topic: str, monkeypatch: pytest.MonkeyPatch, long: int
) -> None:
    monkeypatch.setattr("tidegate.sources.broker.MAX_MESSAGES", 300)
    sent = bodies(0, 700)
    sent[long] = sent[long][:-1] + b', "z": "' + b"x" * 900_000 + b'"}'
    cluster.send(topic, sent)
    batches = list(source(cluster, topic).batches(None))
    assert slots(batches) == list(range(700))
    assert [batch.n for batch in batches] == [300, 300, 100]


class Gappy:
    """A client whose partitions have offsets of no message, as transactions and compaction leave.

    It hands over at most three messages at a time, and the end of a partition once it is there:
    a copy that lags ends before it should, as often as is said.
    """

    def __init__(self, kept: dict[int, list[int]], ends: dict[int, int], lags: int = 0) -> None:
        self._kept, self._ends, self._at, self._lags = kept, ends, (0, 0), lags

    def list_topics(self, topic: str, timeout: float) -> Any:  # noqa: ARG002
        known = SimpleNamespace(error=None, partitions=dict.fromkeys(self._kept))
        return SimpleNamespace(topics={topic: known})

    def get_watermark_offsets(self, which: Any, timeout: float) -> tuple[int, int]:  # noqa: ARG002
        return 0, self._ends[which.partition]

    def assign(self, partitions: list[Any]) -> None:
        (which,) = partitions
        self._at = which.partition, which.offset

    def consume(self, n: int, timeout: float) -> list[Any]:
        assert n == 1 or timeout == 0  # the client would wait for all of them
        partition, at = self._at
        found = [each for each in self._kept[partition] if each >= at][: min(n, 3)]
        half = self._ends[partition] // 2
        if self._lags and found:
            found = [each for each in found if each < half]
            if not found:
                self._lags -= timeout > 0
                return [self._message(max(at, half), partition, ended=True)] if timeout else []
        self._at = partition, found[-1] + 1 if found else self._ends[partition]
        messages = [self._message(offset, partition) for offset in found]
        return messages or [self._message(self._ends[partition], partition, ended=True)]

    def _message(self, offset: int, partition: int, *, ended: bool = False) -> Any:
        error = SimpleNamespace(code=lambda: KafkaError._PARTITION_EOF) if ended else None
        return SimpleNamespace(
            error=lambda: error,
            offset=lambda: offset,
            partition=lambda: partition,
            timestamp=lambda: (1, 1000 + offset),
            value=lambda: b"%d" % (100 * partition + offset),
        )


@given(
    kept=st.dictionaries(st.integers(0, 2), st.sets(st.integers(0, 40)), min_size=1),
    markers=st.integers(0, 3),
    chunk=st.integers(1, 12),
    stops=st.lists(st.integers(1, 4), max_size=4),
)
def test_offsets_of_no_message_are_passed_over(
    kept: dict[int, set[int]], markers: int, chunk: int, stops: list[int]
) -> None:
    topic = KafkaTopic(name="r", columns=COLUMNS, servers=("a:1",), topic="t", chunk=chunk)
    offsets = {partition: sorted(each) for partition, each in kept.items()}
    ends = {partition: max(each, default=-1) + 1 + markers for partition, each in kept.items()}
    client: Any = Gappy(offsets, ends)
    order = sorted((o // chunk, p, o) for p, each in offsets.items() for o in each)
    found: list[bytes] = []
    offset = None
    for stop in [*stops, None]:  # after so many pulls; the last one goes to the end
        for pulled in islice(Reader(topic, places_of(offset)[1], client).chunks(), stop):
            found, offset = found + pulled.bodies, pulled.offset
    assert found == [b"%d" % (100 * partition + offset) for _, partition, offset in order]


@given(
    counts=st.lists(st.integers(0, 30), min_size=1, max_size=3).filter(any),
    chunk=st.integers(1, 12),
    lags=st.integers(1, 3),
)
def test_a_partition_that_ends_early_is_read_again(
    counts: list[int], chunk: int, lags: int
) -> None:
    topic = KafkaTopic(name="r", columns=COLUMNS, servers=("a:1",), topic="t", chunk=chunk)
    offsets = {partition: list(range(n)) for partition, n in enumerate(counts)}
    client: Any = Gappy(offsets, dict(enumerate(counts)), lags)
    order = sorted((o // chunk, p, o) for p, each in offsets.items() for o in each)
    found: list[bytes] = []
    offset = None

    def read() -> None:
        nonlocal found, offset
        for pulled in Reader(topic, places_of(offset)[1], client).chunks():
            found, offset = found + pulled.bodies, pulled.offset

    for _ in range(lags):
        with pytest.raises(ConnectionError, match="ends before its reported end"):
            read()
    read()
    assert found == [b"%d" % (100 * partition + offset) for _, partition, offset in order]


@pytest.mark.parametrize("stale", [(0, 3), (1, 2)])
def test_a_message_that_was_not_asked_for_is_not_taken(stale: tuple[int, int]) -> None:
    class Stale(Gappy):
        def consume(self, n: int, timeout: float) -> list[Any]:
            found = super().consume(n, timeout)
            partition, offset = stale
            again = self._at == (1, 4)  # after messages 1 to 3 of partition 1
            return [*found, self._message(offset, partition)] if again else found

    topic = KafkaTopic(name="r", columns=COLUMNS, servers=("a:1",), topic="t", chunk=4)
    client: Any = Stale({0: list(range(4)), 1: list(range(4))}, {0: 4, 1: 4})
    with pytest.raises(ConnectionError, match="an unexpected message"):
        list(Reader(topic, {}, client).chunks())


@pytest.mark.slow  # the client takes its time to find out
def test_a_broker_that_stays_away(topic: str) -> None:
    cluster = Cluster()
    cluster.send(topic, bodies(0, 3))
    known = source(cluster, topic, patience=1.0)
    assert len(list(known.batches(None))) == 1
    del cluster
    with pytest.raises(SourceError, match="has not answered for 1 s"):
        list(known.batches(None))


@pytest.mark.slow
def test_a_run_that_is_killed_goes_on(cluster: Cluster, topic: str, tmp_path: Path) -> None:
    expected, errors = from_a_file(tmp_path / "file"), tmp_path / "errors"
    (tmp_path / "run").mkdir()
    path = tmp_path / "run" / "gate.toml"
    table = f'[source]\ntype = "kafka"\nservers = "{cluster.server}"\ntopic = "{topic}"\n'
    path.write_text(gate_text(path.parent, table))
    for start in range(0, 2000, 100):
        cluster.send(topic, messages(start, 100))
        run = started("run", str(path), "--quiet", "--follow", errors=errors)
        assert killed(run, random.uniform(0.2, 0.7))
    assert command("run", str(path), "--quiet", errors=errors).code == 0
    assert hashes(tmp_path / "run") == expected


def test_the_table() -> None:
    base = {
        "schedule": {"kind": "independent", "step": 10},
        "budget": {"epsilon": 1.0},
        "records": {"classes": [0, 1], "norm": 1.0, "columns": ["a"], "label": "y"},
    }
    table = {"type": "kafka", "servers": ["a:9092", "b:9092"], "topic": "t"}
    config = Config.of(base | {"source": table})
    assert Config.from_json(config.to_json()) == config.settled()
    (built,) = config.sources(follow=True).values()
    assert isinstance(built, KafkaTopic)
    for wrong in ("host", "user:secret@host:9092", "SASL://host:1", "a:1,b:2", ":1", 7):
        with pytest.raises(InvalidValueError, match=r"servers must be") as error:
            servers("servers", wrong)
        assert "secret" not in str(error.value)
    for offset in (
        "",
        "7",
        "[]",
        '{"x": [1, 2]}',
        '{"0": 1}',
        '{"0": [1.5, 2]}',
        '{"0": ["a", 1]}',
        '{"topic": 7}',
    ):
        with pytest.raises(SourceError, match="not one of a Kafka topic"):
            places_of(offset)
