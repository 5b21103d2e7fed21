"""A service whose records have columns of every kind: bodies, predictions, and hostile senders."""

import json
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

pytest.importorskip("fastapi", reason="needs the extra serve")

from tests.serve.served import Answer, Served, config, served
from tidegate.checks import InvalidValueError
from tidegate.client import ServiceError
from tidegate.gate import Config
from tidegate.serve.bodies import ARROW, JSON, Reader

COLUMNS: list[dict[str, Any]] = [
    {"name": "age", "kind": "number", "low": 0, "high": 100},
    {"name": "ward", "kind": "category", "values": ["a", "b"]},
    {"name": "room", "kind": "category", "hash": 8},
    {"name": "smoker", "kind": "flag"},
    {"name": "when", "kind": "time"},
    {"name": "note", "kind": "text", "size": 16},
    {"name": "scan", "kind": "vector", "size": 3, "norm": 1.0},
]
GOOD = {
    "age": pa.array([30.0, 60.0]),
    "ward": pa.array(["a", "b"]),
    "room": pa.array(["r1", "r2"]),
    "smoker": pa.array([True, False]),
    "when": pa.array(["2024-01-01", "2024-06-01T10:00"]),
    "note": pa.array(["low tide", "high tide"]),
    "scan": pa.array([[0.1, 0.2, 0.3], [0.3, 0.2, 0.1]], pa.list_(pa.float64())),
    "y": pa.array(["no", "yes"]),
}
FIRST = 1500
LATE = np.array([2**63 - 1, -(2**63) + 1])


def settings() -> Config:
    records = {"classes": ["no", "yes"], "label": "y"}
    once = {"kind": "independent", "step": FIRST}  # one release, for all tests
    return config(records=records, columns=COLUMNS, budget={"epsilon": 8.0}, schedule=once)


def rows(n: int, start: int = 0) -> list[dict[str, Any]]:
    """Records that can be told apart by their age."""
    made = []
    for slot in range(start, start + n):
        old = slot % 2
        record = {name: GOOD[name][old].as_py() for name in GOOD}
        made.append({**record, "age": 30 + 40 * old + slot % 7})
    return made


def body(**columns: pa.Array) -> bytes:
    """An Arrow body with some columns of other kinds."""
    table = pa.table({**GOOD, **columns})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue().to_pybytes())


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("columns") / "state", settings()) as running:
        taken = running.ask("POST", "/v1/records", {"records": rows(FIRST)})
        assert (taken.status, taken.json) == (200, {"count": FIRST, "taken": FIRST})
        running.wait_for(0)
        yield running


def send(service: Served, content: bytes, kind: str = ARROW, to: str = "records") -> Answer:
    return service.ask("POST", f"/v1/{to}", content, Content_Type=kind)


@pytest.mark.thorough
def test_bodies_of_all_forms_predict_alike(service: Served) -> None:
    without = [{k: v for k, v in row.items() if k != "y"} for row in rows(2)]
    named = service.ask("POST", "/v1/predict", {"records": without})
    placed = service.ask("POST", "/v1/predict", {"x": [list(row.values()) for row in without]})
    ages = pa.array([row["age"] for row in without])
    arrow = send(service, body(age=ages), to="predict")
    assert [named.status, placed.status, arrow.status] == [200, 200, 200]
    assert named.json == placed.json == arrow.json


def test_a_client_sends_tables(service: Served) -> None:
    without = [{k: v for k, v in row.items() if k != "y"} for row in rows(2)]
    named = service.ask("POST", "/v1/predict", {"records": without}).json["probabilities"]
    frame = pd.DataFrame(rows(2))
    with service.client() as client:
        before = client.ingest(rows(2), "y")
        assert client.ingest(frame, "y") == before + 2
        assert client.ingest(pa.table(GOOD), "y") == before + 4
        for X in (without, frame, frame[list(frame)[::-1]]):
            assert client.predict(X).probabilities.tolist() == named
        with pytest.raises(ServiceError, match="give the columns age, ward"):
            client.ingest(frame, ["no", "yes"])
        with pytest.raises(InvalidValueError, match="persons must be None for a table"):
            client.ingest(frame, "y", persons=[1, 2])
        mixed = frame.assign(note=["secret", 1.5], age=pd.Series([1j, "x"]), room=[[1], {"a": 2}])
        assert client.ingest(mixed, "y") == before + 6
        coded = frame.assign(**{n: frame[n].astype("category") for n in ("ward", "room", "y")})
        assert client.ingest(coded, "y") == before + 8
        assert client.predict(coded).probabilities.tolist() == named
        assert client.ingest(pl.from_pandas(coded), "y") == before + 10


def test_a_body_without_records_is_taken(service: Served) -> None:
    bodies: list[dict[str, list[Any]]] = [{"records": []}, {"x": [], "y": []}]
    for empty in bodies:
        assert service.ask("POST", "/v1/records", empty).json["taken"] == 0
        assert service.ask("POST", "/v1/predict", empty).json["labels"] == []


def strange() -> dict[str, pa.Array]:
    """Arrays of types that no column is expected to have."""
    nothing = pa.nulls(6)
    return {
        **{f"{unit} late": pa.array(LATE, pa.timestamp(unit)) for unit in ("s", "ms", "us", "ns")},
        "late in a zone": pa.array(LATE, pa.timestamp("s", "America/New_York")),
        "nowhere": pa.array([0, 1], pa.timestamp("s", "No/Where")),
        "days": pa.array([2**31 - 1, -(2**31)], pa.int32()).view(pa.date32()),
        "milliseconds": pa.array(LATE).view(pa.date64()),
        "clock": pa.array([1, 2], pa.time32("s")),
        "duration": pa.array(LATE, pa.duration("s")),
        "interval": pa.array([(1, 2, 3), (1, 2, 3)], pa.month_day_nano_interval()),
        "bytes": pa.array([b"\xff", b"a"]),
        "few bytes": pa.array([b"ab", b"cd"], pa.binary(2)),
        "views": pa.array(["a", "b"], pa.string_view()),
        "views of bytes": pa.array([b"a", b"\xff"], pa.binary_view()),
        "runs": pa.RunEndEncodedArray.from_arrays(pa.array([2], pa.int32()), pa.array(["a"])),
        "nothing": pa.nulls(2),
        "half": pa.array(np.array([1, 2], np.float16)),
        "large": pa.array(np.array([2**64 - 1, 0], np.uint64)),
        "decimal": pa.array([1, 2], pa.decimal256(76, 3)),
        "lists of nothing": pa.ListArray.from_arrays(pa.array([0, 3, 6], pa.int32()), nothing),
        "lists of text": pa.array([["a"], ["b"]]),
        "lists of times": pa.ListArray.from_arrays(
            pa.array([0, 3, 6], pa.int32()), pa.array(np.repeat(LATE, 3), pa.timestamp("s"))
        ),
        "struct": pa.array([{"a": 1}, {"a": 2}]),
        "map": pa.array([[("a", 1)], [("b", 2)]], pa.map_(pa.string(), pa.int64())),
        "list views": pa.array([[1.0], [2.0]], pa.list_view(pa.float64())),
        "long lists": pa.array([[1.0, 2, 3], [1, 2, None]], pa.large_list(pa.float64())),
        "empty lists": pa.array([[], []], pa.list_(pa.float64(), 0)),
        "union": pa.UnionArray.from_sparse(
            pa.array([0, 1], pa.int8()), [pa.array([1, 2]), pa.array(["a", "b"])]
        ),
        "dictionary": pa.array(["a", "b"]).dictionary_encode(),
        "not UTF-8": pa.array([b"\xff", b"a"]).view(pa.string()),
    }


@pytest.mark.parametrize("odd", strange())
def test_columns_of_any_type_are_answered(service: Served, odd: str) -> None:
    for name in GOOD:
        content = body(**{name: strange()[odd]})
        for to in ("records", "predict"):
            answer = send(service, content, to=to)
            assert answer.status in {200, 422}, (name, to, answer.body)
    assert service.ask("GET", "/v1/status").status == 200


def test_a_few_bytes_do_not_become_many_values(service: Served) -> None:
    many = 10**7  # 2**31 - 1 would do as well, and take 100 GB
    nothing = pa.ListArray.from_arrays(pa.array([0, many, many], pa.int32()), pa.nulls(many))
    long = b"x" * 2**14
    view = struct.pack("<i4sii", len(long), long[:4], 0, 0)
    buffers = [None, pa.py_buffer(2 * view), pa.py_buffer(long)]
    shared = pa.Array.from_buffers(pa.string_view(), 2, buffers)
    for name, array in {"scan": nothing, "smoker": shared, "ward": shared, "room": shared}.items():
        answer = send(service, body(**{name: array}))
        assert answer.status == 422, name
        assert answer.json["error"].startswith(f"column {name} of the body must be texts, numbers")


@pytest.mark.parametrize("filler", [0, 2**16], ids=["here", "in another process"])
@pytest.mark.parametrize(
    "odd",
    [
        *(
            b"[" * 900 + b"]" * 900,
            b"[" * 90_000 + b"]" * 90_000,
            b'{"a":' * 900 + b"1" + b"}" * 900,
        ),
        *(
            b'"\\ud800"',
            b"NaN",
            b"-Infinity",
            b"9" * 5000,
            b"1e999",
            b'"\\u0000"',
            b"{}",
            b'"\xff"',
        ),
    ],
    ids=lambda odd: odd[:9].decode(errors="replace"),
)
def test_values_of_any_form_affect_their_record_alone(
    service: Served, odd: bytes, filler: int
) -> None:
    plain = service.ask("POST", "/v1/predict", {"records": rows(2)}).json["probabilities"]
    for name in GOOD:
        first, second = (json.dumps(row).encode() for row in rows(2))
        wrong = json.dumps({**rows(1)[0], name: "@"}).encode().replace(b'"@"', odd)
        content = b'{"records": [' + b",".join([first, wrong, second]) + b"]}" + b" " * filler
        answer = send(service, content, JSON)
        assert (answer.status, answer.json.get("taken")) == (200, 3), (name, answer.body)
        answer = send(service, content, JSON, to="predict")
        assert answer.status in {200, 422}, (name, answer.body)
        if answer.status == 200:
            given = answer.json["probabilities"]
            assert [given[0], given[2]] == plain, name


@pytest.mark.parametrize("name", ["age", "ward", "room", "smoker", "when", "note", "scan"])
def test_text_that_is_not_utf8_contradicts_its_kind(name: str) -> None:
    """It is not a missing value; the record cannot be used, and the other one can."""
    broken = pa.array([b"\xff", None], pa.binary()).view(pa.string())
    raw = Reader(config=settings()).batch(ARROW, body(**{name: broken}))
    columns = settings().column_map()
    assert columns is not None
    assert np.isnan(columns.transform(raw.X)).all(axis=1).tolist() == [True, False]
    assert f'"{name}": "\\\\xff"' in raw.arrived(0)


def test_a_label_that_is_not_utf8_is_none() -> None:
    broken = pa.array([b"\xff", b"no"], pa.binary()).view(pa.string())
    assert list(Reader(config=settings()).batch(ARROW, body(y=broken)).y) == [None, "no"]


def test_an_arrow_body_may_have_many_columns_of_text() -> None:
    names = [f"c{index}" for index in range(40)]
    columns = [{"name": name, "kind": "category", "hash": 4} for name in names]
    many = config(records={"classes": ["no", "yes"], "label": "y"}, columns=columns)
    table = pa.table(dict.fromkeys([*names, "y"], pa.array(["no", "yes"] * 5000)))
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    raw = Reader(config=many).batch(ARROW, sink.getvalue().to_pybytes())
    assert raw.n == 10_000


@pytest.mark.parametrize("part", [b"ward", b"Europe/Paris"])
def test_a_schema_that_is_not_utf8_is_refused(service: Served, part: bytes) -> None:
    zoned = pa.array([0, 1], pa.timestamp("s", "Europe/Paris"))
    content = body(when=zoned).replace(part, b"\xff" * len(part))
    for to in ("records", "predict"):
        answer = send(service, content, to=to)
        assert answer.status == 422, answer.body
        assert answer.json["error"].startswith("the body must be an Arrow IPC stream")


@pytest.mark.thorough
def test_a_gap_where_there_is_none_is_taken_like_any_record_and_not_predicted(
    tmp_path: Path,
) -> None:
    """The answer to a sender does not say what a record holds; a prediction names the column."""
    columns = [
        {**each, "gaps": False, **({"others": False} if "values" in each else {})}
        for each in COLUMNS
    ]
    once = {"kind": "independent", "step": 100}
    records = {"classes": ["no", "yes"], "label": "y"}
    used = config(records=records, columns=columns, budget={"epsilon": 8.0}, schedule=once)
    odd = [{**rows(1)[0], "age": None}, {**rows(1)[0], "ward": "elsewhere"}]
    with served(tmp_path / "state", used) as running, running.client() as client:
        plain = running.ask("POST", "/v1/records", {"records": rows(2)})
        gaps = running.ask("POST", "/v1/records", {"records": odd})
        assert [plain.status, gaps.status] == [200, 200]
        assert plain.json["taken"] == gaps.json["taken"] == 2
        client.ingest(pd.DataFrame(rows(96)), "y")
        running.wait_for(0)
        card = running.ask("GET", "/v1/releases/0").json["card"]
        assert card["features"][0]["columns"][0]["gaps"] is False
        without = [{k: v for k, v in row.items() if k != "y"} for row in odd]
        answer = running.ask("POST", "/v1/predict", {"records": without})
        assert answer.status == 422
        assert "the kind of age (gaps = false), ward (gaps = false, others = false)" in str(
            answer.json["error"]
        )
        with pytest.raises(ServiceError, match=r"age \(gaps = false\)"):
            client.predict(without)


def misspelt(n: int, name: str = "aeg") -> list[dict[str, Any]]:
    return [{name if key == "age" else key: v for key, v in row.items()} for row in rows(n)]


@pytest.mark.parametrize("n", [1, 5])
def test_a_body_that_lacks_a_column_in_every_record_is_refused(service: Served, n: int) -> None:
    before = service.runner.gate.store.count("records")
    answer = service.ask("POST", "/v1/records", {"records": misspelt(n)})
    assert answer.status == 422
    assert "no record of the body has column age (did you mean aeg?)" in answer.body.decode()
    with (
        service.client() as client,
        pytest.raises(ServiceError, match=r"column age \(did you mean aeg\?\)"),
    ):
        client.ingest(misspelt(n), "y")
    assert service.runner.gate.store.count("records") == before, "nothing was taken"


@pytest.mark.parametrize("other", [{"age": None}, "no object", 17], ids=str)
def test_one_other_record_is_enough_for_a_body_to_be_taken(other: Any) -> None:
    reader = Reader(config=settings())
    body = json.dumps({"records": [*misspelt(4), other]}).encode()
    raw = reader.batch(JSON, body)
    assert raw.n == 5
    assert raw.X.columns["age"][:4] == [None] * 4
    null = json.dumps({"records": [{**row, "age": None} for row in misspelt(1)]}).encode()
    assert reader.batch(JSON, null).n == 1, "null is a gap"


def test_only_names_that_every_record_has_are_proposed() -> None:
    given = [*misspelt(2), *misspelt(1, "agee")]
    with pytest.raises(InvalidValueError, match="has column age: correct"):
        Reader(config=settings()).batch(JSON, json.dumps({"records": given}).encode())
