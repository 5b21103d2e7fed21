"""Batches whose records are read one by one: what one record holds does not change another."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest

from tests.gate.gatelife import opened
from tests.gate.test_columns_in_gate import COLUMNS, CONFIG, NAMES, config
from tidegate.checks import InvalidValueError
from tidegate.gate.config import Config
from tidegate.gate.export import export
from tidegate.gate.sources import Csv, Parquet, RawBatch

PLAIN = b"5,A,x,yes,2020-01-01,ill"
QUOTED = b'5,A,"x",yes,2020-01-01,ill'


def read(lines: list[bytes], used: Config) -> tuple[Any, RawBatch]:
    columns, reads, names = used.column_map(), used.source_columns(), [*NAMES, "y"]
    assert columns is not None
    raw = Csv(columns=reads)._batch(lines, names, reads.find(names, "r.csv"))
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
    raw = Parquet(columns=config().source_columns()).part(table)
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
