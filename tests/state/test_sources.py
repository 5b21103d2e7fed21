"""A record keeps its slot whatever it and its neighbours hold, and arrives exactly once."""

import csv
import json
import math
import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array

from tests.state.file_sources import csv_source, json_source, parquet_source
from tidegate.data.intake import clean
from tidegate.gate import Gate
from tidegate.run.config import Config
from tidegate.sources import Batches, RawBatch, Source, SourceColumns, SourceError, every
from tidegate.sources.csv_file import Csv
from tidegate.sources.files import Files
from tidegate.sources.json_lines import JsonLines, StandardInput
from tidegate.sources.json_records import json_batch
from tidegate.sources.lines import Splitter, multiples
from tidegate.sources.parquet import Parquet
from tidegate.sources.source import NUMERAL, numbers

COLUMNS = SourceColumns(label="y", features=("a", "b"), number_labels=True, dtype="float64")
TEXTS = SourceColumns(label="y", text="t")

# A file is written and read anew by each example, so one folder does for all of them.
in_a_folder = settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])


def rows_of(batches: Iterator[RawBatch]) -> list[tuple[Any, ...]]:
    """What a stream says of each slot, in a form that compares."""
    said: list[tuple[Any, ...]] = []
    for batch in batches:
        assert len(batch.y) == batch.n > 0
        for slot in range(batch.n):
            x = np.atleast_1d(batch.X[slot]).tolist()
            said.append(
                (repr(x), repr(batch.y[slot]), batch.reasons.get(slot), batch.arrived(slot))
            )
    return said


def usable(source: Source, classes: tuple[Any, ...] = (0, 1)) -> list[bool]:
    flags: list[bool] = []
    for batch in source.batches(None):
        made = clean(batch.X, batch.y, classes=classes, norm=1.0)
        flags.extend(made.usable.tolist())
    return flags


def resumes_everywhere(source: Source) -> None:
    """Any cut gives the same stream of records."""
    parts = [(batch.offset, rows_of(iter([batch]))) for batch in source.batches(None)]
    for index, (offset, _) in enumerate(parts):
        rest = [row for _, rows in parts[index + 1 :] for row in rows]
        assert rows_of(source.batches(offset)) == rest


# -- lines


def split(data: bytes, splitter: Splitter, block: int) -> list[tuple[list[bytes], int]]:
    """The batches of some bytes that come in blocks, and the position after each."""
    found = []
    for start in range(0, len(data), block):
        for lines in splitter.feed(data[start : start + block]):
            found.append((lines, splitter.at))
    lines = splitter.end()
    return [*found, (lines, splitter.at)] if lines else found


@given(
    st.binary(max_size=200).map(lambda data: data.replace(b"a", b"\n")),
    st.integers(1, 50),
    st.integers(1, 50),
    st.integers(1, 9),
)
def test_lines_are_what_stands_between_line_feeds(
    data: bytes, block: int, longest: int, count: int
) -> None:
    expected = data.split(b"\n")
    if not expected[-1]:
        expected.pop()
    whole = split(data, Splitter(ends=multiples(count), longest=longest), block)
    assert [line for lines, _ in whole for line in lines] == [
        line[: longest + 1] for line in expected
    ]
    assert [len(lines) for lines, _ in whole[:-1]] == [count] * (len(whole) - 1)
    for index, (_, at) in enumerate(whole):  # any position is one to go on from
        rest = Splitter(ends=multiples(count), at=at, row=(index + 1) * count, longest=longest)
        assert split(data[at:], rest, len(data) + 1) == whole[index + 1 :]


def test_a_followed_file_gives_no_line_that_is_not_complete(tmp_path: Path) -> None:
    path = tmp_path / "f.jsonl"
    path.write_bytes(b'{"a": 1')
    more = iter([b', "b": 2, "y": 0}', b'\n{"a"'])

    def grow() -> bool:
        added = next(more, None)
        if added is not None:
            with path.open("ab") as file:
                file.write(added)
        return added is not None

    said = rows_of(json_source("s", path, COLUMNS, follow=grow).batches(None))
    assert said == [("[1.0, 2.0]", "0", None, '{"a": 1, "b": 2, "y": 0}')]


# -- CSV

counts = st.sampled_from([1, 3, 2**16])

values = st.one_of(
    st.floats().map(repr),
    st.integers().map(str),
    st.sampled_from(["", " ", "x", "nan", "-inf", "1_0", "1e999", "+5", " 7 ", ".5", "5.", "0x1"]),
    st.text(max_size=5),
)
csv_lines = st.one_of(
    st.lists(values, min_size=3, max_size=3).map(
        lambda row: ",".join(row).encode(errors="replace")
    ),
    st.lists(values, min_size=3, max_size=3).map(
        lambda row: ",".join(f'"{v}"' for v in row).encode(errors="replace")
    ),
    st.binary(max_size=12),
    st.sampled_from(
        [b"", b'"', b'1,"2,3', b"1,2", b"1,2,3,4", b"\r", b"1\r2,3,0", b"\xef\xbb\xbf1,2,0"]
    ),
).map(lambda line: line.replace(b"\n", b" "))


TRUTHS = {
    **dict.fromkeys(["true", "True", "TRUE"], 1.0),
    **dict.fromkeys(["false", "False", "FALSE"], 0.0),
}
"""Texts that are the numbers 1 and 0."""


def csv_slot(line: bytes) -> tuple[float, float, float]:
    """The naive reference: a, b and y of one line, not-a-number for what is none."""
    nothing = (math.nan,) * 3
    try:
        text = line.removesuffix(b"\r").decode()
        row = text.split(",")
        if '"' in text:
            row = next(csv.reader([text], strict=True))
    except (UnicodeDecodeError, csv.Error):
        return nothing
    if len(row) != 3:
        return nothing
    a, b, y = (v.strip(" \t\n\r\v\f") for v in row)
    made = [float(v) if NUMERAL.fullmatch(v) else TRUTHS.get(v, math.nan) for v in (a, b, y)]
    made = [v if math.isfinite(v) else math.nan for v in made]
    return made[0], made[1], made[2]


@in_a_folder
@given(st.lists(csv_lines, max_size=7), st.sampled_from([b"\n", b"\r\n"]), st.booleans(), counts)
@example([b"0.0,TRUE,TRUE", b"true,0,false", b"0,0,yes"], b"\n", True, 1)
def test_a_csv_slot_depends_on_its_line_alone(
    tmp_path: Path, body: list[bytes], end: bytes, last: bool, count: int
) -> None:
    path = tmp_path / "f.csv"
    path.write_bytes(
        end.join([b"a,b,y", *body]) + (end if last or not body or not body[-1] else b"")
    )
    found: list[tuple[float, ...]] = []
    source = Csv(name="s", path=path, columns=COLUMNS, count=count)
    for batch in source.batches(None):
        found.extend((*x, y) for x, y in zip(batch.X.tolist(), batch.y.tolist(), strict=True))
        assert all(json.loads(batch.arrived(slot)) for slot in range(batch.n))
    assert len(found) == len(body)
    for slot, line in zip(found, body, strict=True):
        for value, expected in zip(slot, csv_slot(line + b"\r" * (end == b"\r\n")), strict=True):
            assert repr(value) == repr(expected)
    resumes_everywhere(source)


@given(st.lists(values | st.from_regex(NUMERAL, fullmatch=True), max_size=8))
@example(["1e999", "x"])
@example(["1e-999"])
@example(["9" * 400, "0." + "1" * 400])
def test_what_a_text_is_taken_for_depends_on_it_alone(texts: list[str]) -> None:
    texts = [text.encode(errors="replace").decode() for text in texts]
    together = numbers(pa.array(texts, pa.string()))
    alone = [numbers(pa.array([text], pa.string()))[0] for text in texts]
    np.testing.assert_array_equal(together, alone)


def test_csv_rows_that_cannot_be_used(tmp_path: Path) -> None:
    path = tmp_path / "f.csv"
    path.write_bytes(
        b'y,extra,b,a\n1,,2,3\n0,x,"4",5\n1,2\n0,,caf\xe9,1\n1,"open,2,3\n\n7,,1,2\n1,,x,2\n0,,1e400,2\n1,,6,7\n'
    )
    (batch,) = csv_source("s", path, COLUMNS).batches(None)
    assert clean(batch.X, batch.y, classes=(0, 1), norm=1.0).usable.tolist() == [
        *[True, True, False, False, False, False, False, False, False, True],
    ]
    assert batch.reasons == {
        2: "2 values instead of 4",
        3: "not UTF-8",
        4: "a quote out of place",
        5: "1 values instead of 4",
    }
    assert batch.X[[0, 1, 9]].tolist() == [[3.0, 2.0], [5.0, 4.0], [7.0, 6.0]]
    assert json.loads(batch.arrived(3)) == {"line": "0,,caf\\xe9,1"}
    assert json.loads(batch.arrived(7)) == {"y": "1", "extra": "", "b": "x", "a": "2"}


def test_text_columns_and_text_labels(tmp_path: Path) -> None:
    (tmp_path / "f.csv").write_text('t;y\nhigh tide;wet\n"a; b";dry\nnaïve;wet\n', encoding="utf-8")
    (batch,) = csv_source("s", tmp_path / "f.csv", TEXTS, delimiter=";").batches(None)
    assert batch.X.tolist() == ["high tide", "a; b", "naïve"]
    assert batch.y.tolist() == ["wet", "dry", "wet"]


def test_a_file_of_one_column_may_have_blank_lines(tmp_path: Path) -> None:
    columns = SourceColumns(label="y", text="y")
    (tmp_path / "f.csv").write_text("y\n\n\na\n\n")
    (batch,) = csv_source("s", tmp_path / "f.csv", columns).batches(None)
    assert batch.X.tolist() == ["", "", "a", ""]


@pytest.mark.thorough
def test_csv_across_blocks(tmp_path: Path) -> None:
    rows = "".join(f"{i},{i + 1},{i % 2}\n" for i in range(200_000))
    (tmp_path / "f.csv").write_text("a,b,y\n" + rows * 4)
    source = csv_source("s", tmp_path / "f.csv", COLUMNS)
    batches = list(source.batches(None))
    assert len(batches) > 1
    assert np.concatenate([batch.X for batch in batches])[:, 0].tolist() == [*range(200_000)] * 4
    after = list(source.batches(batches[0].offset))
    assert sum(batch.n for batch in after) == 800_000 - batches[0].n


@pytest.mark.parametrize("content", [b"", b"a,b,y", b"a,b,y\n", b"\xef\xbb\xbfa,b,y\r\n"])
def test_a_csv_file_without_records(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "f.csv").write_bytes(content)
    assert list(csv_source("s", tmp_path / "f.csv", COLUMNS).batches(None)) == []


def test_ten_thousand_bad_rows(tmp_path: Path) -> None:
    (tmp_path / "f.csv").write_bytes(b"a,b,y\n1,2,0\n" + b'"\xff,\n' * 10_000 + b"3,4,1\n")
    flags = usable(csv_source("s", tmp_path / "f.csv", COLUMNS))
    assert flags == [True, *[False] * 10_000, True]


def test_a_followed_csv_file_waits_for_its_header(tmp_path: Path) -> None:
    path = tmp_path / "f.csv"
    path.write_bytes(b"a,")
    more = iter([b"b,y\n1", b",2,0\n3,4,", b"1\n"])

    def grow() -> bool:
        added = next(more, b"")
        with path.open("ab") as file:
            file.write(added)
        return bool(added)

    batches = list(csv_source("s", path, COLUMNS, follow=grow).batches(None))
    assert [batch.X.tolist() for batch in batches] == [[[1.0, 2.0]], [[3.0, 4.0]]]


# -- JSON lines

json_lines = st.one_of(
    st.fixed_dictionaries(
        {},
        optional={
            name: st.floats()
            | st.integers()
            | st.text(max_size=3)
            | st.none()
            | st.booleans()
            | st.lists(st.integers(), max_size=2)
            for name in "aby"
        },
    ).map(lambda row: json.dumps(row).encode()),
    st.binary(max_size=12).map(lambda line: line.replace(b"\n", b" ")),
    st.sampled_from(
        [b"", b"[1, 2]", b"{", b"[" * 5_000, b"9" * 5000, b'{"a": 1' + b"0" * 400 + b"}"]
    ),
)


def json_slot(line: bytes) -> tuple[float, float]:
    try:
        row = json.loads(line.decode())
    except (ValueError, RecursionError):
        return math.nan, math.nan
    made = [math.nan, math.nan]
    for index, name in enumerate("ab"):
        if isinstance(row, dict) and isinstance(value := row.get(name), int | float):
            made[index] = float(value) if abs(value) < 1e308 else math.inf
    return made[0], made[1]


@in_a_folder
@given(st.lists(json_lines, max_size=7), counts)
def test_a_json_slot_depends_on_its_line_alone(
    tmp_path: Path, body: list[bytes], count: int
) -> None:
    path = tmp_path / "f.jsonl"
    path.write_bytes(b"".join(line + b"\n" for line in body))
    source = JsonLines(name="s", path=path, columns=COLUMNS, count=count)
    found = [x for batch in source.batches(None) for x in batch.X.tolist()]
    assert len(found) == len(body)
    for slot, line in zip(found, body, strict=True):
        for value, expected in zip(slot, json_slot(line), strict=True):
            if abs(value) < 1e308 or abs(expected) < 1e308:
                assert value == expected
    for batch in source.batches(None):
        clean(batch.X, batch.y, classes=(0, 1), norm=1.0)  # no label breaks a batch
        assert all(isinstance(json.loads(batch.arrived(i)), dict) for i in range(batch.n))
    resumes_everywhere(source)


def test_json_rows_that_cannot_be_used(tmp_path: Path) -> None:
    path = tmp_path / "f.jsonl"
    path.write_bytes(
        b'{"a": 1, "b": 2, "y": 1}\nnot json\n[1]\n{"a": "1", "b": 2, "y": 1}\n\xff\n'
        b'{"a": 1, "y": 0}\n'
        b'{"a": 1, "b": 2, "y": [1]}\n{"a": 1, "b": 2, "y": 0}'
    )
    source = json_source("s", path, COLUMNS)
    assert usable(source) == [True, False, False, False, False, False, False, True]
    (batch,) = source.batches(None)
    assert batch.reasons == {1: "not JSON", 2: "not a JSON object", 4: "not UTF-8"}
    assert json.loads(batch.arrived(1)) == {"line": "not json"}


class Pipe:
    """A stream that hands out what it has in given pieces."""

    def __init__(self, *pieces: bytes) -> None:
        self.pieces = list(pieces)

    def read(self, size: int, /) -> bytes | None:
        if not self.pieces:
            return b""
        piece = self.pieces[0]
        self.pieces[0] = piece[size:]
        if not self.pieces[0]:
            self.pieces.pop(0)
        return piece[:size]


def piped(*pieces: bytes) -> StandardInput:
    return StandardInput(name="s", columns=COLUMNS, stream=Pipe(*pieces))


ROW = b'{"a": %d, "b": 2, "y": 1}\n'


@given(
    st.lists(st.integers(0, 99), min_size=1, max_size=8), st.lists(st.integers(1, 60), max_size=5)
)
def test_standard_input_skips_what_it_has_had(rows: list[int], cuts: list[int]) -> None:
    data = b"".join(ROW % row for row in rows)
    pieces: list[bytes] = []
    rest = data
    for cut in cuts:
        pieces, rest = [*pieces, rest[:cut]], rest[cut:]
    pieces = [piece for piece in [*pieces, rest] if piece]
    batches = list(piped(*pieces).batches(None))
    assert [x for batch in batches for x in batch.X[:, 0]] == rows
    seen = 0
    for batch in batches:
        seen += batch.n
        again = [x for part in piped(data).batches(batch.offset) for x in part.X[:, 0]]
        assert again == rows[seen:]


def test_standard_input_that_is_another_stream_is_refused() -> None:
    *_, batch = piped(ROW % 1, ROW % 2).batches(None)
    for data in (ROW % 1 + ROW % 3 + ROW % 4, ROW % 1, b""):
        with pytest.raises(SourceError, match="send the stream again from its beginning"):
            next(piped(data).batches(batch.offset))
    with pytest.raises(SourceError, match="not one of standard input"):
        next(piped(b"").batches("7"))


def test_the_config_opens_standard_input() -> None:
    read, write = os.pipe()
    os.write(write, ROW % 5)
    os.close(write)
    before = os.dup(0)
    os.dup2(read, 0)
    config = Config.of(
        {
            "schedule": {"kind": "independent", "step": 1},
            "budget": {"epsilon": 1.0},
            "records": {"classes": [0, 1], "norm": 1.0, "columns": ["a", "b"], "label": "y"},
            "source": {"type": "jsonl", "path": "-"},
        }
    )
    try:
        source = config.sources()["records"]
        assert [batch.X.tolist() for batch in source.batches(None) if batch.n] == [[[5.0, 2.0]]]
    finally:
        os.dup2(before, 0)
        os.close(before)
        os.close(read)


# -- Parquet


def write(path: Path, group: int | None = None, **columns: Any) -> Path:
    pq.write_table(pa.table(columns), path, row_group_size=group)
    return path


floats = st.none() | st.floats(width=32)


@in_a_folder
@given(
    st.lists(
        st.tuples(
            floats, st.none() | st.integers(-(2**63), 2**63 - 1), st.none() | st.integers(0, 2)
        ),
        max_size=20,
    ),
    st.integers(1, 7),
    st.integers(1, 7),
)
def test_parquet_rows_are_slots_from_any_row_on(
    tmp_path: Path, rows: list[tuple[Any, ...]], group: int, count: int
) -> None:
    a, b, y = (
        pa.array([row[i] for row in rows], kind)
        for i, kind in enumerate((pa.float32(), pa.int64(), pa.int8()))
    )
    path = write(tmp_path / "f.parquet", group, b=b, y=y, a=a)
    source = Parquet(name="s", path=path, columns=COLUMNS, count=count)
    found = [x for batch in source.batches(None) for x in batch.X.tolist()]
    expected = [[math.nan if v is None else float(v) for v in row[:2]] for row in rows]
    np.testing.assert_array_equal(np.reshape(found, (-1, 2)), np.reshape(expected, (-1, 2)))
    labels = [label for batch in source.batches(None) for label in batch.y]
    np.testing.assert_array_equal(labels, [math.nan if row[2] is None else row[2] for row in rows])
    resumes_everywhere(source)
    arrived = [
        json.loads(batch.arrived(i)) for batch in source.batches(None) for i in range(batch.n)
    ]
    assert [row["b"] for row in arrived] == [row[1] for row in rows]


def test_how_a_value_is_rounded_does_not_depend_on_a_null(tmp_path: Path) -> None:
    # 2^24 + 1 + 2^-29 parts: rounding it to float32 at once and by way of float64 may differ
    value = 2**60 + 2**36 + 1
    columns = SourceColumns(label="y", features=("a",), number_labels=True)
    alone = write(tmp_path / "a.parquet", a=pa.array([value, 1]), y=[0, 0])
    beside = write(tmp_path / "b.parquet", a=pa.array([value, None], pa.int64()), y=[0, 0])
    first, second = (
        next(parquet_source("s", path, columns).batches(None)).X[0, 0] for path in (alone, beside)
    )
    assert first == second


def test_parquet_text_and_dictionaries(tmp_path: Path) -> None:
    words = pa.array(["u", None, "v"])
    write(tmp_path / "f.parquet", t=words, y=pa.array(["p", "q", None]).dictionary_encode())
    (batch,) = parquet_source("s", tmp_path / "f.parquet", TEXTS).batches(None)
    assert batch.X.tolist() == ["u", None, "v"]
    assert batch.y.tolist() == ["p", "q", None]


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (
            {"a": [1.0], "y": [0]},
            r"^column b is not in .*f\.parquet, which has a, y: check the column names$",
        ),
        ({"a": ["1"], "b": [1], "y": [0]}, r"^column a of .* must hold numbers, got string$"),
        (
            {"a": [1], "b": [1], "y": ["0"]},
            r"^column y of .* must hold numbers, got string: convert",
        ),
        ({"a": [[1]], "b": [1], "y": [0]}, r"^column a of .* must hold numbers, got list"),
    ],
)
def test_a_parquet_file_that_does_not_fit_is_refused(
    tmp_path: Path, columns: dict[str, Any], message: str
) -> None:
    """By rule 1 of spelling; rule 2 reads each value by itself, because one changes the type."""
    path = tmp_path / "f.parquet"
    write(path, **columns)
    with pytest.raises(SourceError, match=message):
        next(parquet_source("s", path, replace(COLUMNS, spelling=1)).batches(None))
    if len(columns) == 3:
        batch = next(parquet_source("s", path, COLUMNS).batches(None))
        assert np.isnan(batch.X[0, 0]) == isinstance(columns["a"][0], list)


def test_what_is_no_parquet_file_is_refused(tmp_path: Path) -> None:
    for content in (b"", b"PAR1 or not"):
        (tmp_path / "f.parquet").write_bytes(content)
        with pytest.raises(
            SourceError, match=r"f\.parquet is not a readable Parquet file: restore it"
        ):
            next(parquet_source("s", tmp_path / "f.parquet", COLUMNS).batches(None))


def test_a_parquet_file_without_rows(tmp_path: Path) -> None:
    kinds = {"a": pa.array([], pa.float32()), "b": pa.array([], pa.float32())}
    write(tmp_path / "f.parquet", **kinds, y=pa.array([], pa.int64()))
    assert list(parquet_source("s", tmp_path / "f.parquet", COLUMNS).batches(None)) == []


def test_huge_values_are_single_unusable_records(tmp_path: Path) -> None:
    columns = SourceColumns(label="y", features=("a",), number_labels=True, dtype="float32")
    write(tmp_path / "f.parquet", a=[1.0, 1e300, -math.inf, 2.0], y=[0, 0, 0, 1])
    assert usable(parquet_source("s", tmp_path / "f.parquet", columns)) == [
        True,
        False,
        False,
        True,
    ]


# -- folders


def fill(folder: Path, name: str, *firsts: float) -> None:
    write(folder / name, a=list(firsts), b=[0.0] * len(firsts), y=[0] * len(firsts))


def firsts(batches: Iterator[RawBatch]) -> list[float]:
    return [float(x) for batch in batches for x in batch.X[:, 0]]


def test_a_folder_is_read_in_the_order_of_names(tmp_path: Path) -> None:
    fill(tmp_path, "b.parquet", 3.0)
    fill(tmp_path, "a.parquet", 1.0, 2.0)
    fill(tmp_path, ".hidden.parquet", 9.0)
    fill(tmp_path, "_temporary.parquet", 9.0)
    (tmp_path / "c.parquet.part").write_text("half a file")
    source = parquet_source("s", tmp_path, COLUMNS)
    assert firsts(source.batches(None)) == [1.0, 2.0, 3.0]
    resumes_everywhere(source)


@pytest.mark.parametrize(
    ("make", "suffix", "head", "row"),
    [
        (csv_source, "csv", "a,b,y\n", "%d,0,1\n"),
        (json_source, "jsonl", "", '{"a":%d,"b":0,"y":1}\n'),
    ],
)
def test_folders_of_lines(
    tmp_path: Path, make: Callable[..., Files], suffix: str, head: str, row: str
) -> None:
    for name, values in {"1": [1, 2], "2": [], "3": [3]}.items():
        (tmp_path / f"{name}.{suffix}").write_text(head + "".join(row % value for value in values))
    source = make("s", tmp_path, COLUMNS)
    assert firsts(source.batches(None)) == [1, 2, 3]
    resumes_everywhere(source)


def test_a_folder_that_grows(tmp_path: Path) -> None:
    fill(tmp_path, "a.parquet", 1.0)
    coming = iter([("b.parquet", 2.0), ("c.parquet", 3.0)])

    def grow() -> bool:
        name, first = next(coming, ("", 0.0))
        if name:
            fill(tmp_path, name, first)
        return bool(name)

    source = parquet_source("s", tmp_path, COLUMNS, follow=grow)
    offsets, found = [], []
    for batch in source.batches(None):
        offsets.append(batch.offset)
        found.extend(batch.X[:, 0].tolist())
    assert found == [1.0, 2.0, 3.0]
    still = parquet_source("s", tmp_path, COLUMNS)
    (tmp_path / "a.parquet").unlink()  # what was taken may go
    assert firsts(still.batches(offsets[0])) == [2.0, 3.0]
    assert firsts(still.batches(offsets[2])) == []
    fill(tmp_path, "d.parquet", 4.0)
    assert firsts(still.batches(offsets[2])) == [4.0]


def test_a_file_that_comes_too_late_is_refused(tmp_path: Path) -> None:
    fill(tmp_path, "b.parquet", 1.0)
    source = parquet_source("s", tmp_path, COLUMNS)
    (batch,) = source.batches(None)
    fill(tmp_path, "a.parquet", 2.0)
    with pytest.raises(SourceError, match=r"^a\.parquet in .* is new, but .* rename it"):
        next(source.batches(batch.offset))


def test_a_file_that_is_gone_too_early_is_refused(tmp_path: Path) -> None:
    fill(tmp_path, "a.parquet", 1.0, 2.0)
    source = Parquet(name="s", path=tmp_path, columns=COLUMNS, count=1)
    first, _ = source.batches(None)
    (tmp_path / "a.parquet").unlink()
    with pytest.raises(SourceError, match=r"was removed before it was read to its end: restore"):
        next(source.batches(first.offset))


# -- refusals of the whole


@pytest.mark.parametrize("make", [csv_source, json_source, parquet_source])
def test_a_file_that_is_not_there_is_refused(tmp_path: Path, make: Callable[..., Files]) -> None:
    with pytest.raises(
        SourceError, match=r"none cannot be read: No such file or directory; check the path"
    ):
        next(make("s", tmp_path / "none", COLUMNS).batches(None))


def test_an_offset_of_something_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "f.csv").write_text("a,b,y\n1,2,0\n")
    source = csv_source("s", tmp_path / "f.csv", COLUMNS)
    (batch,) = source.batches(None)
    for offset in ("", "7", "{}", "[]", '{"file": "f.csv", "at": -1, "last": true, "rank": 1}'):
        with pytest.raises(
            SourceError, match=r"^the offset is not one of a file or folder: earlier records"
        ):
            next(source.batches(offset))
    (tmp_path / "g.csv").write_text("a,b,y\n1,2,0\n")
    with pytest.raises(SourceError, match=r"g\.csv is not the file f\.csv that was read: name"):
        next(csv_source("s", tmp_path / "g.csv", COLUMNS).batches(batch.offset))
    (tmp_path / "f.csv").write_text("a,b,y\n")
    with pytest.raises(SourceError, match="has 6 bytes, but 12 were read before"):
        next(source.batches(batch.offset))


@pytest.mark.parametrize(
    ("make", "head", "row"),
    [(csv_source, b"a,b,y\n", b"1,2,0"), (json_source, b"", b'{"a": 1, "b": 2, "y": 0}')],
)
def test_a_last_line_may_get_its_line_feed_later_but_nothing_else(
    tmp_path: Path, make: Callable[..., Files], head: bytes, row: bytes
) -> None:
    path = tmp_path / "f"
    path.write_bytes(head + row)
    (batch,) = make("s", path, COLUMNS).batches(None)
    path.write_bytes(head + row + b"\n" + row + b"\n")
    assert firsts(make("s", path, COLUMNS).batches(batch.offset)) == [1.0]
    path.write_bytes(head + row + b"\n")
    assert firsts(make("s", path, COLUMNS).batches(batch.offset)) == []
    path.write_bytes(head + row + row)
    with pytest.raises(SourceError, match="its last line has grown since: remove what"):
        next(make("s", path, COLUMNS).batches(batch.offset))


def test_other_files_that_shrank_are_refused(tmp_path: Path) -> None:
    fill(tmp_path, "f.parquet", 1.0, 2.0)
    (batch,) = parquet_source("s", tmp_path / "f.parquet", COLUMNS).batches(None)
    fill(tmp_path, "f.parquet", 1.0)
    with pytest.raises(SourceError, match="has 1 rows, but 2 were read before"):
        next(parquet_source("s", tmp_path / "f.parquet", COLUMNS).batches(batch.offset))
    (tmp_path / "f.jsonl").write_text("{}\n{}\n")
    (batch,) = json_source("s", tmp_path / "f.jsonl", COLUMNS).batches(None)
    (tmp_path / "f.jsonl").write_text("{}\n")
    with pytest.raises(SourceError, match="has 3 bytes, but 6 were read before"):
        next(json_source("s", tmp_path / "f.jsonl", COLUMNS).batches(batch.offset))


@pytest.mark.parametrize(
    ("header", "message"),
    [
        (b"a,y\n", r"^column b is not in .*f\.csv, which has a, y: check the column names$"),
        (
            b"a,b,b,y\n",
            r"^column b is 2 times in .*f\.csv, which has a, b, b, y: check the column names$",
        ),
        (b'a,"b,y\n', r"^the first line of .*f\.csv is not a list of column names: add a header"),
        (b"a,\xff,y\n", r"^the first line of .*f\.csv is not a list of column names: add a header"),
        (b"\n", r"^column a is not in .*f\.csv, which has no columns: check the column names$"),
    ],
)
def test_a_header_that_does_not_fit_is_refused(tmp_path: Path, header: bytes, message: str) -> None:
    (tmp_path / "f.csv").write_bytes(header + b"1,2,3\n")
    with pytest.raises(SourceError, match=message):
        next(csv_source("s", tmp_path / "f.csv", COLUMNS).batches(None))


def test_many_columns_are_not_all_listed(tmp_path: Path) -> None:
    (tmp_path / "f.csv").write_text(",".join(f"c{i}" for i in range(100)) + "\n")
    with pytest.raises(SourceError, match=r"c18, c19 and 80 more: check the column names$"):
        next(csv_source("s", tmp_path / "f.csv", COLUMNS).batches(None))


def test_a_hundred_thousand_columns_are_found() -> None:
    names = tuple(f"c{i}" for i in range(100_000))
    columns = SourceColumns(label="y", features=names, number_labels=True)
    assert columns.find(["y", *reversed(names)], "f.csv") == [*range(100_000, 0, -1), 0]
    assert columns.batch == 8


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet"])
def test_a_hundred_thousand_columns_can_be_opened(tmp_path: Path, kind: str) -> None:
    names, rows = [f"c{i}" for i in range(100_000)], 10
    path = tmp_path / f"f.{kind}"
    if kind == "csv":
        path.write_text(
            ",".join([*names, "y"]) + "\n" + (",".join(["1.5"] * 100_000) + ",1\n") * rows
        )
    elif kind == "jsonl":
        path.write_text((json.dumps(dict.fromkeys(names, 1.5) | {"y": 1}) + "\n") * rows)
    else:
        values = pa.array([1.5] * rows)
        pq.write_table(pa.table([*[values] * 100_000, [1] * rows], names=[*names, "y"]), path)
    toml = f"""
    schedule = {{kind = "independent", step = 100}}
    budget = {{epsilon = 1.0}}
    records = {{classes = [0, 1], norm = 1.0, label = "y", columns = {json.dumps(names)}}}
    source = {{type = "{kind}", path = "{path}"}}
    """
    config = Config.parse(toml)
    with Gate.open(tmp_path / "state", config) as gate:
        (source,) = config.sources().values()
        assert gate.take(next(iter(source.batches(None))), source=source.name) in {8, rows}


@pytest.mark.parametrize("mark", [";", "\t", "|"])
def test_another_delimiter_is_guessed_but_not_taken(tmp_path: Path, mark: str) -> None:
    (tmp_path / "f.csv").write_text(mark.join("abyz") + "\n")
    with pytest.raises(
        SourceError, match=r"seem to be separated by '.*: set source.delimiter to it$"
    ):
        next(csv_source("s", tmp_path / "f.csv", COLUMNS).batches(None))


def test_a_delimiter_is_one_character() -> None:
    for bad in ("", ";;", '"', "\n", "ä"):
        with pytest.raises(ValueError, match=r"^delimiter must be one ASCII character"):
            Csv(path="a.csv", columns=COLUMNS, delimiter=bad)


def test_a_line_too_long_is_one_unusable_slot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("csv_file", "json_records"):
        monkeypatch.setattr(f"tidegate.sources.{module}.MAX_LINE_BYTES", 30)
    part = json_batch([b"1" * 31, (ROW % 1)[:-1]], COLUMNS)
    assert part.reasons == {0: "longer than 30 bytes"}
    assert part.X[1].tolist() == [1.0, 2.0]
    (tmp_path / "f.csv").write_bytes(b"a,b,y\n1,2," + b"0" * 40 + b"\n3,4,0\n")
    (batch,) = csv_source("s", tmp_path / "f.csv", COLUMNS).batches(None)
    assert batch.reasons == {0: "longer than 30 bytes"}
    assert batch.X[1].tolist() == [3.0, 4.0]


# -- iterables


def test_python_batches_of_any_kind() -> None:
    pairs = [
        (np.array([[1.0, 2.0], [3.0, math.nan]]), np.array([0, 1])),
        (csr_array([[0.0, 5.0]]), [1]),
        ([[6.0, 7.0]], [None]),
    ]
    source = Batches(name="s", pairs=pairs)
    batches = list(source.batches(None))
    assert [batch.n for batch in batches] == [2, 1, 1]
    assert batches[0].arrived(1) == '{"x": [3.0, NaN], "y": 1}'
    assert batches[1].arrived(0) == '{"x": [0.0, 5.0], "y": 1}'
    assert batches[2].arrived(0) == '{"x": [6.0, 7.0], "y": null}'
    assert [batch.n for batch in source.batches("2")] == [1]
    with pytest.raises(SourceError, match="not a number of batches"):
        next(source.batches("-1"))


def test_following_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []
    monkeypatch.setattr("time.sleep", pauses.append)
    assert every(0.5)()
    assert pauses == [0.5]


def test_a_long_parquet_file_takes_no_more_memory_than_a_short_one(tmp_path: Path) -> None:
    rows, groups = 2**16, 24
    schema = pa.schema([("a", pa.float64()), ("y", pa.int64())])
    with pq.ParquetWriter(tmp_path / "long.parquet", schema) as writer:
        for _ in range(groups):
            values = np.random.default_rng().normal(size=rows)
            writer.write_table(pa.table([values, np.zeros(rows, int)], schema=schema))
    columns = SourceColumns(label="y", features=("a",), number_labels=True)
    source = parquet_source("long", tmp_path / "long.parquet", columns)
    before, held = pa.total_allocated_bytes(), []
    for batch in source.batches(None):
        held.append(pa.total_allocated_bytes() - before)
        del batch
    assert len(held) > 1
    assert max(held) < 8 * rows * groups  # half of what the columns of the file take
