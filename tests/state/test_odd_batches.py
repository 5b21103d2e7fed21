"""Batches whose records are read one by one: what one record holds does not change another."""

import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv
import pytest

from tests.state.gatelife import opened
from tests.state.test_columns_in_gate import COLUMNS, CONFIG, NAMES, config
from tidegate.checks import InvalidValueError
from tidegate.data.intake import Intake
from tidegate.data.predicted import Classes, Target
from tidegate.data.values import as_numbers
from tidegate.features import Columns, Number
from tidegate.release.export_formats import export
from tidegate.run.config import Config
from tidegate.sources import RawBatch
from tidegate.sources.arrow_records import ArrowRecords
from tidegate.sources.csv_file import Csv

PLAIN = b"5,A,x,yes,2020-01-01,ill"
QUOTED = b'5,A,"x",yes,2020-01-01,ill'


def read(lines: list[bytes], used: Config) -> tuple[Any, RawBatch]:
    columns, reads, names = used.column_map(), used.source_columns(), [*NAMES, "y"]
    assert columns is not None
    raw = Csv(path="r.csv", columns=reads)._batch(lines, names, reads.find(names, "r.csv"))
    return columns.transform(raw.X), raw


@pytest.mark.parametrize("other", [PLAIN, QUOTED])
@pytest.mark.parametrize("first", [True, False])
def test_a_blank_line_is_the_same_beside_any_other(other: bytes, first: bool) -> None:
    """Arrow fills it with empty values, but only if all lines of a batch are plain."""
    text = CONFIG.format(records="", columns=COLUMNS).replace('"well"', '""')
    lines, blank = ([b"", other], 0) if first else ([other, b""], 1)
    _, raw = read(lines, Config.parse(text))
    assert raw.y[blank] is None  # and not the class ""
    assert raw.reasons == {blank: "1 values instead of 6"}
    assert raw.y[1 - blank] == "ill"


@pytest.mark.parametrize("lines", [[PLAIN, PLAIN], [PLAIN, QUOTED]])
def test_lines_above_2_gib_are_read_like_others(
    lines: list[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Arrow's reader refuses them, and an array of plain strings cannot hold their values."""
    expected, _ = read(lines, config())

    def refused(*_: Any, **__: Any) -> Any:
        raise OverflowError

    monkeypatch.setattr(pyarrow.csv, "read_csv", refused)
    rows, raw = read(lines, config())
    assert rows.tobytes() == expected.tobytes()
    assert list(raw.y) == ["ill", "ill"]
    kinds = {each.type for each in raw.X.columns.values()}
    assert kinds == {pa.large_string()}


def test_plain_and_odd_lines_together_may_be_above_2_gib() -> None:
    _, raw = read([PLAIN, QUOTED, PLAIN], config())
    assert {each.type for each in raw.X.columns.values()} == {pa.large_string()}


def test_pieces_and_dictionaries_of_texts_may_be_above_2_gib() -> None:
    texts = pa.chunked_array([["A", "5"], ["B"]])
    table = pa.table({**dict.fromkeys([*NAMES, "y"], texts), "ward": texts.dictionary_encode()})
    raw = ArrowRecords(columns=config().source_columns()).part(table)
    assert {each.type for each in raw.X.columns.values()} == {pa.large_string()}
    assert raw.X.columns["ward"].to_pylist() == ["A", "5", "B"]


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string()])
def test_a_category_that_is_not_utf8_is_wrong(kind: pa.DataType) -> None:
    used = config()
    columns = used.column_map()
    assert columns is not None
    ward = columns.checked[1]
    given = pa.array([b"A", b"\xff", b"Z"], pa.binary()).view(pa.string()).cast(kind, safe=False)
    cells = ward.cells(given)
    assert cells.wrong.tolist() == [False, True, False]
    assert np.asarray(cells.values)[[0, 2]].tolist() == [0, 3]


@pytest.mark.parametrize("name", ["weights", "label", "probabilities", "value_0", "constant_0"])
def test_a_column_with_a_name_of_the_onnx_file_is_told(name: str, tmp_path: Path) -> None:
    columns = f'[[columns]]\nname = "{name}"\nkind = "number"\nlow = 0\nhigh = 9'
    rows = [{name: slot % 10} for slot in range(300)]
    with opened(tmp_path / "state", config(columns=columns)) as gate:
        gate.ingest(rows, ["well", "ill"] * 150)
        (release, *_) = gate.releases()
    with pytest.raises(InvalidValueError, match=f"column {name} has a name that ONNX files"):
        export(release, tmp_path / "model.onnx")


TARGET = Intake(norm=1.0, predicted=Target(0, 10))
CUT = Intake(norm=1.0, predicted=Classes(["low", "high"], cuts=[4.0]))

LONG = "x" * 20_000
LONG_LABELS = [LONG, [LONG], [1.0] * 20_000 + [LONG], LONG.encode()]


@pytest.mark.parametrize("label", LONG_LABELS, ids=["text", "list", "long list", "bytes"])
@pytest.mark.parametrize("intake", [TARGET, CUT], ids=["target", "cuts"])
def test_one_long_label_takes_no_more_memory_than_itself(intake: Intake, label: Any) -> None:
    """An array of texts takes the length of the longest for each of them: here 1.6 GB."""
    before = [1.0] if isinstance(label, str | bytes) else [[1.0]]
    y, X = [*before * 20_000, label], np.zeros((20_001, 1))
    tracemalloc.start()
    try:
        intake.records(X, y)
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert most < 2**25


def test_one_long_entry_of_a_list_takes_no_more_memory_than_itself() -> None:
    X: list[list[Any]] = [*[[1.0, 2.0]] * 20_000, [1.0, LONG]]
    tracemalloc.start()
    try:
        rows = as_numbers(X)
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert most < 2**25
    assert np.isnan(rows[-1, 1])
    assert (rows[:-1] == [1.0, 2.0]).all()


def test_bytes_are_read_as_the_texts_that_they_hold() -> None:
    """Readers of files make bytes of a whole column, if one text in it is not UTF-8."""
    texts = ["1", "2.5", "true", "FALSE", "x"]
    odd = pa.table({"a": pa.array([*map(str.encode, texts), b"\xff"])})
    expected = as_numbers(pa.table({"a": pa.array([*texts, None])}))
    np.testing.assert_array_equal(as_numbers(odd), expected)
    assert TARGET.records(np.zeros((3, 1)), [b"1", b"true", b"\xff"]).usable.tolist() == [
        *(True, True, False)
    ]


@pytest.mark.parametrize("odd", [np.longdouble(1) / 3, np.clongdouble(1j)])
def test_a_long_float_does_not_change_the_labels_beside_it(odd: Any) -> None:
    y = np.array([0, 1, odd])
    whole = Intake(norm=1.0, predicted=Classes([0, 1])).records(np.zeros((3, 1)), y)
    assert whole.usable.tolist() == [True, True, False]
    assert whole.y.tolist() == [0, 1, 0]


@pytest.mark.parametrize("odd", [pd.NA, pd.NaT, 1j, object()], ids=["NA", "NaT", "1j", "object"])
@pytest.mark.parametrize("values", [[1, 2], ["1", "2"], [True, False]])
def test_one_object_does_not_change_the_values_beside_it_in_polars(
    values: list[Any], odd: Any
) -> None:
    """Polars keeps the whole column as Python objects then."""
    columns = Columns([Number("a", low=0, high=10)])
    held = pl.DataFrame({"a": pl.Series("a", [*values, odd], dtype=pl.Object)})
    plain = pl.DataFrame({"a": values})
    np.testing.assert_array_equal(columns.transform(held)[:2], columns.transform(plain))
