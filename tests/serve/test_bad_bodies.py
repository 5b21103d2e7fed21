"""Bad bodies: refused in one line that quotes nothing, or taken with their slots kept."""

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("fastapi", reason="needs the extra serve")

from tests.serve.served import Served, config, served
from tests.serve.test_api import ARROW, arrow
from tidegate.checks import InvalidValueError
from tidegate.serve.bodies import JSON, Reader
from tidegate.serve.framing import lenient
from tidegate.serve.limits import Limits

SECRET = "271828"


def listed(rows: Any, width: int = 2) -> Any:
    return pa.array(rows, pa.list_(pa.float64(), width))


def compressed() -> bytes:
    table = pa.table({"x": listed([[0.0, 0.0]] * 1000), "y": [0] * 1000})
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    with pa.ipc.new_stream(sink, table.schema, options=options) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


GOOD = arrow(pa.table({"x": listed([[1.0, 2.0]]), "y": [0]}))
REFUSED: dict[str, tuple[str, bytes]] = {
    "empty": (JSON, b""),
    "not JSON": (JSON, b"{" + SECRET.encode()),
    "not UTF-8": (JSON, b'{"x": [["\xff"]], "y": [0]}'),
    "not an object": (JSON, b"[]"),
    "too deep": (JSON, b"[" * 100_000),
    "no labels": (JSON, b'{"x": [[1, 2]]}'),
    "nothing": (JSON, b"{}"),
    "too few labels": (JSON, b'{"x": [[271828, 2], [1, 2]], "y": [0]}'),
    "too wide": (JSON, b'{"x": [[1, 2, 271828]], "y": [0]}'),
    "ragged": (JSON, b'{"x": [[1, 2], [271828]], "y": [0, 1]}'),
    "no rows": (JSON, b'{"x": [271828, 2], "y": [0, 1]}'),
    "no columns": (JSON, b'{"x": [[]], "y": [0]}'),
    "records are no list": (JSON, b'{"records": {"a": 271828}}'),
    "not Arrow": (ARROW, SECRET.encode() * 100),
    "cut short": (ARROW, GOOD[:-40]),
    "a head only": (ARROW, GOOD[:60]),
    "compressed": (ARROW, compressed()),
    "dictionaries": (ARROW, arrow(pa.table({"a": pa.array(["x"]).dictionary_encode()}))),
    "no such column": (ARROW, arrow(pa.table({"a": [1.0], "y": [0]}))),
    "a column twice": (ARROW, arrow(pa.Table.from_arrays([pa.array([1.0])] * 3, ["a", "a", "y"]))),
    "wrong width": (ARROW, arrow(pa.table({"x": listed([[1.0, 2.0, 3.0]], 3), "y": [0]}))),
    "no y": (ARROW, arrow(pa.table({"x": listed([[1.0, 2.0]])}))),
    "nested": (
        ARROW,
        arrow(pa.table({"x": pa.array([[["z"]]], pa.list_(pa.list_(pa.string()), 1)), "y": [0]})),
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_bad_body_is_refused_in_one_line(service: Served, name: str) -> None:
    kind, body = REFUSED[name]
    before = service.runner.gate.store.count("records")
    answer = service.ask("POST", "/v1/records", body, Content_Type=kind)
    assert answer.status == 422
    assert list(answer.json) == ["error"]
    assert "\n" not in answer.json["error"]
    assert SECRET not in answer.json["error"]
    assert service.runner.gate.store.count("records") == before
    assert service.ask("POST", "/v1/predict", body, Content_Type=kind).status in {200, 422}


BAD_RECORDS: list[tuple[list[Any], Any]] = [
    ([SECRET, "text"], 0),
    ([None, 1], 1),
    ([1, 2], "no class"),
    ([1, 2], None),
    ([1, 2], {"a": [1]}),
    ([1, [2]], 0),
    ([float("nan"), 1], 0),
    ([float("inf"), 1], 0),
    ([1e308, -1e308], 0),
    (["\ud800", 1], 1),
    ([True, False], True),
]


def test_a_bad_record_keeps_its_slot_and_nobody_is_told(tmp_path: Path) -> None:
    with served(tmp_path / "state") as running:
        for number, (x, y) in enumerate(BAD_RECORDS, start=1):
            body = json.dumps({"x": [x, [0.5, 0.5]], "y": [y, 1]}).encode()
            answer = running.ask("POST", "/v1/records", body, Content_Type=JSON)
            assert (answer.status, answer.json) == (200, {"count": 2 * number, "taken": 2})
        huge = b'{"x": [[' + b"9" * 5000 + b', 1], [1, 1]], "y": [0, 1]}'
        assert running.ask("POST", "/v1/records", huge, Content_Type=JSON).status == 200
        rows = [{"a": 1, "b": 2, "y": 0}, {"a": "x"}, 7, None, {"a": 1, "b": 2}]
        answer = running.ask("POST", "/v1/records", {"records": rows})
        assert answer.json["taken"] == 5
        nulls = pa.table({"x": listed([[1.0, 2.0], None, [None, 1.0]]), "y": [0, 1, None]})
        answer = running.ask("POST", "/v1/records", arrow(nulls), Content_Type=ARROW)
        assert answer.json["taken"] == 3
        gate, start = running.runner.gate, 2 * len(BAD_RECORDS) + 2
        held = {bad.slot for bad in gate.store.quarantine("records")}
        assert held & set(range(start, start + 8)) == {start + n for n in (1, 2, 3, 4, 6, 7)}
        assert not any(slot % 2 for slot in held if slot < start), "the good ones are good"


@given(body=st.binary(max_size=200), kind=st.sampled_from([JSON, ARROW]))
def test_any_bytes_are_read_or_refused(body: bytes, kind: str) -> None:
    with suppress(InvalidValueError):
        Reader(config=config()).batch(kind, body)


def test_lists_of_no_numbers_are_refused() -> None:
    empty = pa.array([[], []], pa.list_(pa.float64(), 0))
    with pytest.raises(InvalidValueError, match="got 0"):
        Reader(config=config()).batch(ARROW, arrow(pa.table({"x": empty, "y": [0, 1]})))


@given(data=st.data())
def test_a_stream_that_is_damaged_anywhere_is_read_or_refused(data: st.DataObject) -> None:
    body = bytearray(GOOD)
    for _ in range(data.draw(st.integers(1, 3))):
        body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    with suppress(InvalidValueError):
        assert Reader(config=config()).batch(ARROW, bytes(body)).n <= 100_000


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda parts: st.lists(parts, max_size=4) | st.dictionaries(st.text(), parts, max_size=4),
)


@given(value=VALUES)
def test_both_readers_of_json_read_the_same(value: Any) -> None:
    """Else what one record is read as would depend on a NaN in another, which the fast refuses."""
    body = json.dumps(value).encode()
    try:
        fast = orjson.loads(body)
    except orjson.JSONDecodeError:
        return
    assert repr(fast) == repr(lenient(body.decode()))


@pytest.mark.parametrize("beside", ["NaN", "1e999", '"\\ud800"', "9" * 5000, "1"])
def test_what_the_fast_reader_refuses_changes_no_other_record(beside: str) -> None:
    body = f'{{"x": [[18446744073709551617, 0.1], [{beside}, 1]], "y": [0, 1]}}'
    X = Reader(config=config()).batch(JSON, body.encode()).X
    assert X[0].tolist() == [2.0**64, 0.1]


def test_what_the_labels_are_does_not_change_the_records() -> None:
    reader, rows = Reader(config=config()), [[1, "2"], ["x", None]]
    alone = reader.batch(JSON, json.dumps({"x": rows[:1], "y": [0]}).encode()).X
    beside = reader.batch(JSON, json.dumps({"x": rows, "y": [0, "?"]}).encode()).X
    assert np.array_equal(alone[0], beside[0])


def test_texts_are_records_where_the_configuration_says_so(tmp_path: Path) -> None:
    settings = config(
        records={"classes": ["a", "b"], "norm": 1.0, "text": "title", "label": "kind"},
        features=[{"map": "text", "n_features": 32}],
        schedule={"kind": "independent", "step": 4},
    )
    with served(tmp_path / "state", settings) as running:
        texts = ["one", "two", "\ud800", ""]
        body = {"x": texts, "y": ["a", "b", "a", "b"]}
        assert running.ask("POST", "/v1/records", body).json["count"] == 4
        named = {"records": [{"title": text, "kind": "a"} for text in texts]}
        assert running.ask("POST", "/v1/records", named).json["count"] == 8
        table = arrow(pa.table({"title": ["x", None], "kind": ["a", "b"]}))
        assert running.ask("POST", "/v1/records", table, Content_Type=ARROW).json["count"] == 10
        with running.client() as client:
            assert client.ingest(["x", "y"], ["a", "b"]) == 12
            running.wait_for(2)
            assert set(client.predict(["x", "y"]).labels) <= {"a", "b"}


def test_what_is_too_large_is_refused_before_it_is_read(tmp_path: Path) -> None:
    limits = Limits(body=1000, records=5, rate=1000, burst=1000)
    with served(tmp_path / "state", limits=limits) as running:
        big = running.ask("POST", "/v1/records", b"x" * 1001, Content_Type=JSON)
        too_large = "the body must be at most 1000 bytes: send fewer records at a time"
        assert (big.status, big.json) == (413, {"error": too_large})
        many = running.ask("POST", "/v1/records", {"x": [[1, 2]] * 6, "y": [0] * 6})
        assert many.status == 422
        assert running.ask("POST", "/v1/records", b"a,b", Content_Type="text/csv").status == 415


@pytest.mark.parametrize(
    ("record", "why"),
    [
        (b"null", "not a JSON object"),
        (b"[1, 2]", "not a JSON object"),
        (b'{"a": 1, "b": nul}', "not JSON"),
        (b'{"a": "\xff", "b": 1}', "not UTF-8"),
        (b'{"a": ' + b"[" * 1100 + b"]" * 1100 + b', "b": 1}', "nested too deep"),
    ],
)
def test_a_record_to_predict_that_is_no_object_is_named_by_its_place(
    record: bytes, why: str
) -> None:
    """Not as one that lacks columns, which it may have."""
    body = b'{"records": [{"a": 1, "b": 2}, %b]}' % record
    with pytest.raises(InvalidValueError) as refused:
        Reader(config=config(), labelled=False).batch(JSON, body)
    assert str(refused.value) == f"records[1] is {why}: correct it, or leave it out"


def test_long_names_of_columns_are_cut_in_errors() -> None:
    body = arrow(pa.table({"k" * 100_000: [1.0]}))
    with pytest.raises(InvalidValueError, match=r"which has k{60}…: check the column names"):
        Reader(config=config()).batch(ARROW, body)
