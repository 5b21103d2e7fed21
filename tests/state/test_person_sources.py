"""Ids of persons: every source reads them, and a bad one costs its own slot and no other."""

import io
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from confluent_kafka import Producer
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.state.file_sources import csv_source, json_source, parquet_source
from tests.state.natsserver import STREAM, Server, needs_server
from tidegate.checks import InvalidValueError
from tidegate.data.owners import MAX_ID_BYTES, owners_of
from tidegate.sources import Batches, RawBatch, Source, SourceColumns, SourceError, raw_batch
from tidegate.sources.broker import id_of
from tidegate.sources.json_lines import StandardInput
from tidegate.sources.kafka_topic import KafkaTopic
from tidegate.sources.nats_stream import NatsStream

PLAIN = SourceColumns(label="y", features=("a", "b"), number_labels=True, dtype="float64")
OWNED = SourceColumns(
    label="y", features=("a", "b"), number_labels=True, dtype="float64", person="p"
)
KEY = bytes(32)

SECRET = "Ada-Lovelace-1815"
HUGE = SECRET * (2**20 // len(SECRET))
"""An id of a megabyte."""

BAD: list[Any] = [
    None,
    "",
    True,
    1.5,
    [SECRET],
    {SECRET: 1},
    HUGE,
    "\ud800",
    "é" * (MAX_ID_BYTES // 2 + 1),
]
"""What is no id, in JSON."""

Write = Callable[[Path, list[Any]], Any]


def as_csv(path: Path, ids: list[Any]) -> Source:
    lines = [
        f"{slot},{slot % 2},{'' if each is None else each},{2 * slot}" for slot, each in rows(ids)
    ]
    path.with_suffix(".csv").write_text("a,y,p,b\n" + "".join(f"{line}\n" for line in lines))
    return csv_source("r", path.with_suffix(".csv"), OWNED)


def as_json(path: Path, ids: list[Any]) -> Source:
    objs = [{"p": each, "a": slot, "b": 2 * slot, "y": slot % 2} for slot, each in rows(ids)]
    path.with_suffix(".jsonl").write_text("".join(json.dumps(each) + "\n" for each in objs))
    return json_source("r", path.with_suffix(".jsonl"), OWNED)


def as_parquet(path: Path, ids: list[Any]) -> Source:
    slots = np.arange(len(ids))
    table = pa.table({"p": pa.array(ids), "a": slots, "b": 2.0 * slots, "y": slots % 2})
    pq.write_table(table, path.with_suffix(".parquet"), row_group_size=3)
    return parquet_source("r", path.with_suffix(".parquet"), OWNED)


def as_pipe(path: Path, ids: list[Any]) -> Source:
    as_json(path, ids)
    pipe = io.BytesIO(path.with_suffix(".jsonl").read_bytes())
    return StandardInput(name="r", columns=OWNED, stream=pipe)


def as_batches(path: Path, ids: list[Any]) -> Source:
    del path
    slots = np.arange(len(ids))
    X = np.column_stack([slots, 2 * slots])
    return Batches(
        name="r", pairs=[(X[:3], slots[:3] % 2, ids[:3]), (X[3:], slots[3:] % 2, ids[3:])]
    )


READERS: dict[Write, Any] = {
    as_csv: csv_source,
    as_json: json_source,
    as_parquet: parquet_source,
}


def rows(ids: list[Any]) -> Iterator[tuple[int, Any]]:
    return enumerate(ids)


def persons(source: Source, offset: str | None = None) -> list[Any]:
    found: list[Any] = []
    for batch in source.batches(offset):
        assert batch.persons is not None
        assert len(batch.persons) == batch.n
        found += batch.persons
    return found


def owners(ids: Any) -> list[tuple[int, ...]]:
    return [tuple(each) for each in owners_of(ids, KEY).owners.tolist()]


@pytest.mark.parametrize("write", [as_csv, as_json, as_parquet, as_pipe, as_batches])
def test_every_source_reads_ids(tmp_path: Path, write: Write) -> None:
    texts = ["17", "ada", "0017", "Ada", "ada", " ada", "é"]
    assert persons(write(tmp_path / "r", texts)) == texts
    numbers = [17, 17, -3, 2**62, 0, 5, 6]
    found = persons(write(tmp_path / "r", numbers))
    assert owners(found) == owners(list(map(str, numbers)))  # CSV has texts, others numbers


@pytest.mark.parametrize("write", [as_csv, as_json, as_parquet])
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40)
@given(
    ids=st.lists(
        st.none() | st.text(st.characters(codec="utf-8", exclude_characters='\r\n,"'), max_size=9),
        min_size=1,
        max_size=9,
    )
)
def test_ids_change_nothing_else(tmp_path: Path, write: Write, ids: list[str | None]) -> None:
    source = write(tmp_path / "r", ids if any(ids) else [*ids, "x"])
    without = READERS[write]("r", source.path, PLAIN)
    for batch, other in zip(source.batches(None), without.batches(None), strict=True):
        np.testing.assert_array_equal(batch.X, other.X)
        np.testing.assert_array_equal(batch.y, other.y)
        assert batch.reasons == other.reasons
        assert batch.offset == other.offset
        assert other.persons is None
        assert [each or None for each in batch.persons or ()][: len(ids)] == [
            each or None for each in ids
        ]


def test_a_bad_id_costs_its_own_slot_and_no_other(tmp_path: Path) -> None:
    ids = [each for bad in BAD for each in (bad, "ada")]
    (batch,) = as_json(tmp_path / "r", ids).batches(None)
    assert batch.X[:, 0].tolist() == list(range(len(ids)))
    assert batch.reasons == {}
    assert batch.persons is not None
    keyed = owners_of(batch.persons, KEY)
    assert sorted(keyed.reasons) == list(range(0, len(ids), 2))
    assert not any(SECRET in reason or len(reason) > 99 for reason in keyed.reasons.values())
    assert len(set(owners(batch.persons)[1::2])) == 1


def test_a_line_that_cannot_be_read_has_no_id(tmp_path: Path) -> None:
    path = tmp_path / "r.csv"
    path.write_bytes(b'a,b,y,p\n1,2,0,ada\n1,2,0\n1,2,0,"ad\n\n1,2,0,\xff\n1,2,1,"b,ob"\n1,2,1,\n')
    (batch,) = csv_source("r", path, OWNED).batches(None)
    assert batch.persons == ["ada", None, None, None, None, "b,ob", ""]
    assert sorted(batch.reasons) == [1, 2, 3, 4]
    path = tmp_path / "r.jsonl"
    path.write_bytes(
        b'{"p": 1, "a": 1, "b": 2, "y": 0}\n{"p": 2\n[]\n\xff\n{"a": 1, "b": 2, "y": 0}\n'
    )
    (batch,) = json_source("r", path, OWNED).batches(None)
    assert batch.persons == [1, None, None, None, None]
    assert sorted(batch.reasons) == [1, 2, 3]


@pytest.mark.parametrize("write", [as_csv, as_parquet])
def test_a_file_without_the_column_is_refused_by_its_name(tmp_path: Path, write: Write) -> None:
    source: Any = write(tmp_path / "r", [SECRET] * 4)
    columns = SourceColumns(label="y", features=("a", "b"), number_labels=True, person="patient")
    other = READERS[write]("r", source.path, columns)
    with pytest.raises(
        SourceError, match=r"column patient is not in .*check the column names"
    ) as no:
        list(other.batches(None))
    assert SECRET not in str(no.value)
    assert "\n" not in str(no.value)


@pytest.mark.parametrize(
    "ids",
    [[1.5, 2.5], [True, False], [None, None], [b"a", b"b"], [["a"], ["b"]], [1.0, None]],
)
def test_a_parquet_column_of_another_type_is_refused(tmp_path: Path, ids: list[Any]) -> None:
    with pytest.raises(SourceError, match=r"column p of .* must hold text or whole numbers"):
        list(as_parquet(tmp_path / "r", ids).batches(None))


def test_a_parquet_column_may_be_a_dictionary_or_any_integer(tmp_path: Path) -> None:
    for kind in (pa.uint64(), pa.int8(), pa.large_string(), pa.dictionary(pa.int8(), pa.string())):
        ids = pa.array(["5", "7", None, "5"]).cast(pa.dictionary(pa.int8(), pa.string()))
        given = (
            ids
            if isinstance(kind, pa.DictionaryType)
            else pa.array(["5", "7", None, "5"]).cast(kind)
        )
        table = pa.table({"p": given, "a": [1.0] * 4, "b": [1.0] * 4, "y": [0] * 4})
        pq.write_table(table, tmp_path / "r.parquet")
        found = persons(parquet_source("r", tmp_path / "r.parquet", OWNED))
        assert owners(found) == owners(["5", "7", None, "5"])


@pytest.mark.parametrize("write", [as_csv, as_json, as_parquet, as_batches])
def test_ids_go_on_where_reading_stopped(tmp_path: Path, write: Write) -> None:
    ids = [f"p{slot}" for slot in range(20)]
    source = write(tmp_path / "r", ids)
    if not isinstance(source, Batches):
        source = type(source)(name="r", path=source.path, columns=OWNED, count=6)
    taken = 0
    for batch in list(source.batches(None)):
        taken += batch.n
        assert persons(source, batch.offset) == ids[taken:]


@pytest.mark.parametrize(
    "ids",
    [
        np.array([3, 5]),
        np.array(["3", "5"]),
        np.array(["3", "5"], object),
        pa.array([3, 5]),
        pa.chunked_array([["3"], ["5"]]),
        pd.Series([3, 5], index=[7, 9]),
        ("3", 5),
    ],
)
def test_ids_from_python_may_be_in_anything(ids: Any) -> None:
    batch = raw_batch(np.ones((2, 1)), [0, 1], ids)
    assert owners(batch.persons) == owners(["3", "5"])


@pytest.mark.parametrize("ids", ["ab", b"ab", 7, ["a"], ["a", "b", "c"], np.zeros(3), iter("ab")])
def test_ids_from_python_are_one_for_each_record(ids: Any) -> None:
    with pytest.raises(InvalidValueError, match="persons must be"):
        raw_batch(np.ones((2, 1)), [0, 1], ids)


# -- brokers

HEADERS: list[tuple[bytes | None, Any]] = [
    (b"ada", "ada"),
    (b"17", "17"),
    (None, None),  # no such header
    (b"", ""),
    (b"\xff\xfe", ()),
    (b"x" * 5000, "x" * 5000),
    (b"ada", "ada"),
]
"""What a header holds, and the id in it."""


def body(slot: int, **more: Any) -> bytes:
    return json.dumps({"a": slot, "b": 0, "y": slot % 2, **more}).encode()


def check_headers(batches: list[RawBatch]) -> None:
    assert [value for batch in batches for value in batch.X[:, 0]] == list(range(len(HEADERS)))
    found = [each for batch in batches for each in batch.persons or ()]
    assert found == [each for _, each in HEADERS]
    assert sorted(owners_of(found, KEY).reasons) == [2, 3, 4, 5]


def test_an_id_in_a_header_of_kafka_or_in_a_field(tmp_path: Path) -> None:
    del tmp_path
    settings = {"bootstrap.servers": "unused", "test.mock.num.brokers": 1, "log_level": 0}
    producer = Producer(settings)
    (broker,) = producer.list_topics(timeout=10).brokers.values()
    for slot, (value, _) in enumerate(HEADERS):
        headers: list[Any] = [("other", b"bob"), ("p", b"overruled"), ("p", value)]
        sent = headers if value is not None else headers[:1]
        producer.produce("t", body(slot, p=f"in-body-{slot}"), partition=0, headers=sent)
    assert producer.flush(20) == 0
    known: Any = {"name": "r", "servers": (f"{broker.host}:{broker.port}",), "topic": "t"}
    check_headers(list(KafkaTopic(columns=OWNED, id_from="header", **known).batches(None)))
    fields = persons(KafkaTopic(columns=OWNED, **known))
    assert fields == [f"in-body-{slot}" for slot in range(len(HEADERS))]
    assert all(batch.persons is None for batch in KafkaTopic(columns=PLAIN, **known).batches(None))


def test_a_damaged_message_keeps_the_id_in_its_header() -> None:
    """As docs/guarantee.md says; an id in a field is lost with the message."""
    settings = {"bootstrap.servers": "unused", "test.mock.num.brokers": 1, "log_level": 0}
    producer = Producer(settings)
    (broker,) = producer.list_topics(timeout=10).brokers.values()
    damaged = [body(0, p="ada")[:-1], b"\xff", b"", b'"ada"']
    for message in damaged:
        producer.produce("t", message, partition=0, headers=[("p", b"ada")])
    assert producer.flush(20) == 0
    known: Any = {"name": "r", "servers": (f"{broker.host}:{broker.port}",), "topic": "t"}
    assert persons(KafkaTopic(columns=OWNED, id_from="header", **known)) == ["ada"] * len(damaged)
    assert persons(KafkaTopic(columns=OWNED, **known)) == [None] * len(damaged)


@needs_server
def test_an_id_in_a_header_of_nats_or_in_a_field(tmp_path: Path) -> None:
    with Server(tmp_path) as server:
        server.make()

        async def publish(js: Any) -> None:
            for slot, (value, _) in enumerate(HEADERS):
                text = None if value is None else value.decode("utf-8", "surrogateescape")
                headers = {"other": "bob"} if text is None else {"p": text, "other": "bob"}
                if text is not None and not text.isascii():
                    headers["p"] = "\N{REPLACEMENT CHARACTER}"  # what the client makes of it
                await js.publish(f"{STREAM}.x", body(slot, p=f"in-body-{slot}"), headers=headers)
            await js.publish(f"{STREAM}.y", body(0))  # no headers at all

        server.do(publish)
        known: Any = {"name": "r", "url": (server.url,), "stream": STREAM}
        only = {**known, "subject": f"{STREAM}.x"}
        check_headers(list(NatsStream(columns=OWNED, id_from="header", **only).batches(None)))
        assert persons(NatsStream(columns=OWNED, id_from="header", **known))[-1] is None
        fields = persons(NatsStream(columns=OWNED, **known))
        assert fields == [*(f"in-body-{slot}" for slot in range(len(HEADERS))), None]


def test_a_header_that_is_not_text_is_no_id() -> None:
    assert id_of(b"ada") == id_of("ada") == "ada"
    assert id_of(None) is None
    assert id_of(b"\xff") == id_of("\N{REPLACEMENT CHARACTER}") == ()
