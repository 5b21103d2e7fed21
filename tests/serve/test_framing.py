"""A record that is no JSON costs its own slot, and nothing else depends on it."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("fastapi", reason="needs the extra serve")

from tests.serve.served import config, served
from tests.serve.test_api import ARROW, arrow
from tidegate.checks import InvalidValueError
from tidegate.serve.bodies import JSON, Reader
from tidegate.serve.framing import framed

READER = Reader(config=config())
MOST = 100_000

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(),
    lambda parts: st.lists(parts, max_size=4) | st.dictionaries(st.text(), parts, max_size=4),
    max_leaves=20,
)
BAD = [
    b"NaN",
    b"[" * 1024 + b"]" * 1024,
    b'{"a": ' * 1030 + b"1" + b"}" * 1030,
    b'"\xff"',
    b'"\xed\xa0\x80"',
    b'"\\ud800"',
    b'"\x01"',
    b'"\\x"',
    b'"\\\\"',
    b'"\\\\\\"]}"',
    b"9" * 5000,
    b"1e999",
    b"nonsense",
    b"01",
    b"'",
    b"[1, 2}",
    b"[}",
    b"\xc3\x28",
    b"\x00",
]


def matrix(rows: list[bytes], labels: list[bytes]) -> bytes:
    return b'{"x": [%b], "y": [%b]}' % (b", ".join(rows), b", ".join(labels))


def same(one: Any, other: Any) -> bool:
    return repr(one) == repr(other)  # not-a-number is not equal to itself


@given(
    rows=st.lists(st.tuples(VALUES, VALUES, VALUES), max_size=5),
    bad=st.sampled_from(BAD),
    at=st.integers(0, 5),
    label=st.booleans(),
)
def test_a_record_that_is_no_json_costs_only_its_slot(
    rows: list[Any], bad: bytes, at: int, label: bool
) -> None:
    texts = [json.dumps([a, b]).encode() for a, b, _ in rows]
    labels = [json.dumps(y).encode() for _, _, y in rows]
    alone = READER.batch(JSON, matrix([b"[1, 2]", *texts], [b"0", *labels]))
    at = min(at, len(rows)) + 1
    texts.insert(at - 1, b"[0, 0]" if label else b"[%b, 0]" % bad)
    labels.insert(at - 1, bad if label else b"0")
    beside = READER.batch(JSON, matrix([b"[1, 2]", *texts], [b"0", *labels]))
    assert beside.n == alone.n + 1
    others = [slot for slot in range(beside.n) if slot != at]
    assert np.array_equal(beside.X[others], alone.X, equal_nan=True)
    assert same(beside.y[others].tolist(), alone.y.tolist())
    assert beside.y[at] not in {0, 1} if label else not np.isfinite(beside.X[at]).all()


@given(bad=st.sampled_from(BAD), at=st.integers(0, 2))
def test_the_same_holds_for_objects(bad: bytes, at: int) -> None:
    rows = [b'{"a": 1, "b": 2, "y": 0}', b'{"a": 3, "b": 4, "y": 1, "c": %b}' % bad]
    for broken in (bad, b'{"a": %b, "b": 0, "y": 0}' % bad, b'{"y": %b}' % bad):
        given_rows = [*rows[:1], *rows[:1]]
        given_rows.insert(at, broken)
        raw = READER.batch(JSON, b'{"records": [%b]}' % b",".join(given_rows))
        others = [slot for slot in range(3) if slot != at]
        assert raw.X[others].tolist() == [[1, 2], [1, 2]]
        assert raw.y[others].tolist() == [0, 0]
        assert not np.isfinite(raw.X[at]).all() or raw.y[at] not in {0, 1}
        json.loads(raw.arrived(at))


@given(x=st.lists(VALUES, max_size=5), y=VALUES, z=VALUES)
def test_a_frame_finds_what_a_parser_finds(x: list[Any], y: Any, z: Any) -> None:
    for indent in (None, 1):
        body = json.dumps({"z": z, "x": x, "y": y}, indent=indent, ensure_ascii=False)
        try:
            raw = body.encode()
            parsed = orjson.loads(raw)
        except ValueError:
            continue
        found = framed(raw, {"x", "y"}, MOST)
        assert same(found["x"], parsed["x"])
        assert same(found["y"], parsed["y"] if isinstance(parsed["y"], list) else None)


@pytest.mark.parametrize("levels", [99, 100, 101, 1000, 1021, 1022, 1023, 1024, 1025, 2000])
def test_how_deep_a_record_may_be_does_not_depend_on_others(levels: int) -> None:
    deep = b'{"a": 1, "b": 2, "y": 0, "c": %b}' % (b"[" * levels + b"]" * levels)
    usable = []
    for other in (
        b'{"a": 1, "b": 1, "y": 0}',
        b'{"a": NaN}',
        b'{"a": "\xff"}',
        b"[" * 3 + b"]" * 3,
    ):
        raw = READER.batch(JSON, b'{"records": [%b, %b]}' % (deep, other))
        usable.append(bool(np.isfinite(raw.X[0]).all()))
    assert set(usable) == {levels <= 1021}, "the record itself is one level more"


@pytest.mark.parametrize("bad", [b'"\xff"', b"NaN", b"[[1], {}]", b'"a\\"]"'])
def test_a_body_that_is_cut_short_is_refused_wherever_that_is(bad: bytes) -> None:
    body = matrix([b"[1, 2]", b"[%b, 2]" % bad], [b"0", b"1"])
    assert READER.batch(JSON, body).n == 2
    for stop in range(len(body)):
        with pytest.raises(InvalidValueError, match="JSON object"):
            READER.batch(JSON, body[:stop])


BROKEN = [
    b'{"x": [[1, "\xff"],], "y": [0]}',
    b'{"x": [,[1, "\xff"]], "y": [0]}',
    b'{"x": [[1, "\xff"],,[1, 2]], "y": [0, 1, 0]}',
    b'{"x": [[1, "\xff"]}, "y": [0]}',
    b'{"x": [[1, "\xff"]][], "y": [0]}',
    b'{"x": [[1, "\xff"]], "y": [0],}',
    b'{"x": [[1, "\xff"]] "y": [0]}',
    b'{"x": [[1, "\xff"]], "y" [0]}',
    b'{"x": [[1, "\xff"]], "y": }',
    b'{"x": [[1, "\xff"]], : [0]}',
    b'{x: [[1, "\xff"]], "y": [0]}',
    b'{"x": [[1, "\xff"]], "y": [0]} {}',
    b'[{"x": [[1, "\xff"]], "y": [0]}]',
    b'{"x": [[1, "\xff"]]]], "y": [[[0]}',
    b"{\xff}",
    b"{,}",
    b'"\xff"',
    b"}{",
    b'\xef\xbb\xbf{"x": [[1, "\xff"]], "y": [0]}',
    '{"x": [[1, NaN]], "y": [0]}'.encode("utf-16"),
]


@pytest.mark.parametrize("body", BROKEN)
def test_a_body_whose_frame_is_broken_is_refused(body: bytes) -> None:
    with pytest.raises(InvalidValueError, match="JSON object"):
        READER.batch(JSON, body)


def test_the_last_of_two_members_of_a_name_counts_and_names_may_be_escaped() -> None:
    for x in (b"[[NaN, 2]]", b"[[3, 2]]"):
        body = b'{"x": [[7, 7], 8], "\\u0078": %b, "y": {}, "y": [1], "\xc3\xa9": ["]"]}' % x
        raw = READER.batch(JSON, body)
        assert raw.X[:, 1].tolist() == [2]
        assert raw.y.tolist() == [1]
        with pytest.raises(InvalidValueError, match='"x" and "y"'):
            READER.batch(JSON, body.replace(b'"y": [1]', b'"y": 1'))


TOO_MANY = {
    "JSON": b'{%b "x": [[1, 2]], "y": [1]}' % b"".join(b'"%d": 1,' % i for i in range(1000)),
    "not JSON": b'{%b "x": [["\xff", 2]], "y": [1]}' % (b'"": 1,' * 1000),
    "lists, not JSON": b'{%b "x": [["\xff", 2]], "y": [1]}' % (b'"x": [1],' * 1000),
}


@pytest.mark.parametrize("body", TOO_MANY.values(), ids=TOO_MANY)
def test_more_members_than_may_be_are_counted_before_they_are_read(body: bytes) -> None:
    """Two million of them, in 16 MiB, kept other senders waiting for minutes."""
    with pytest.raises(InvalidValueError, match="at most 1,000 members, got 1,002"):
        READER.batch(JSON, body)


def test_more_records_than_may_be_are_counted_before_they_are_read() -> None:
    body = b'{"x": [%b"\xff"], "y": []}' % (b'"",' * MOST)
    with pytest.raises(InvalidValueError, match="at most 100000 records, got 100001"):
        READER.batch(JSON, body)


@pytest.mark.parametrize("many", [0, 9000])
def test_such_records_are_taken_and_kept_for_the_operator(tmp_path: Path, many: int) -> None:
    """In a body that is read where it arrives, and in one that another process reads."""
    good = [b"[0.5, 0.5]"] * many
    rows = [b"[%b, 1]" % BAD[1], b'["\xff", 1]', b"[1, 1e308]", b"[1, 2]", b"[1, 2]", *good]
    body = matrix(rows, [b"0", b"1", b"0", b'"\xfe"', b"1", *([b"0"] * many)])
    with served(tmp_path / "state") as running:
        answer = running.ask("POST", "/v1/records", body, Content_Type=JSON)
        assert answer.json == {"count": 5 + many, "taken": 5 + many}
        bad = {each.slot: each for each in running.runner.gate.store.quarantine("records")}
        named = b'{"records": [{"a": 1, "b": "\xff", "y": 0}, {"a": 1, "b": 2, "y": 0}]}'
        assert running.ask("POST", "/v1/records", named, Content_Type=JSON).json["taken"] == 2
    assert {slot: each.reason for slot, each in bad.items() if slot != 2} == {
        0: "nested too deep",
        1: "not UTF-8",
        3: "not UTF-8",
    }
    assert json.loads(bad[1].payload or "") == {"x": '["\\xff", 1]', "y": 1}
    assert json.loads(bad[3].payload or "") == {"x": [1, 2], "y": '"\\xfe"'}
    assert set(bad) == {0, 1, 2, 3}, "1e308 is no float32"


@pytest.mark.thorough
def test_text_of_arrow_that_is_not_utf8_costs_only_its_slot(tmp_path: Path) -> None:
    settings = config(
        records={"classes": ["a", "b"], "norm": 1.0, "text": "title", "label": "kind"},
        features=[{"map": "text", "n_features": 32}],
        schedule={"kind": "independent", "step": 100},
    )
    titles = pa.array([b"one", b"\xff\xfe", None, b"four"], pa.binary())
    kinds = pa.array([b"a", b"b", b"a", b"\xff"], pa.binary())
    table = pa.table({"title": titles.view(pa.string()), "kind": kinds.view(pa.string())})
    with served(tmp_path / "state", settings) as running:
        answer = running.ask("POST", "/v1/records", arrow(table), Content_Type=ARROW)
        assert answer.json == {"count": 4, "taken": 4}
        long = {"x": ["y" * 70_000, "short"], "y": ["a", "b"]}
        assert running.ask("POST", "/v1/records", long).json["taken"] == 2
        bad = {each.slot: each for each in running.runner.gate.store.quarantine("records")}
    assert set(bad) == {1, 2, 3, 4}
    assert json.loads(bad[1].payload or "") == {"title": "\\xff\\xfe", "kind": "b"}
    assert bad[4].reason == "longer than 65536 characters"
    assert math.isclose(len(bad[4].payload or ""), 70_000, rel_tol=0.01)
