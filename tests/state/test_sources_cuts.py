"""Where batches end is a matter of counts: never of bytes, nor of how long a record is."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.state.file_sources import csv_source
from tests.state.gatelife import config, opened
from tests.state.test_sources_resume import KINDS, Sent
from tidegate.sources import RawBatch, SourceColumns
from tidegate.sources.json_lines import StandardInput

TEXTS = SourceColumns(label="y", text="t")
lengths = st.lists(st.integers(0, 300), min_size=1, max_size=20)


def write(path: Path, texts: list[str]) -> Path:
    """A file of texts, of the kind that its name says."""
    if path.suffix == ".csv":
        path.write_text("t,y\n" + "".join(f"{text},p\n" for text in texts))
    elif path.suffix == ".jsonl":
        path.write_text("".join(json.dumps({"t": text, "y": "p"}) + "\n" for text in texts))
    else:
        table = pa.table({"t": pa.array(texts, pa.string()), "y": ["p"] * len(texts)})
        pq.write_table(table, path, row_group_size=5)
    return path


def cuts(batches: Iterator[RawBatch]) -> list[int]:
    return [batch.n for batch in batches if batch.n]


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.sampled_from(sorted(KINDS)), lengths, st.integers(1, 6), st.data())
def test_files_are_cut_by_counts(
    tmp_path: Path, kind: str, sizes: list[int], count: int, data: st.DataObject
) -> None:
    # a record is longer than what is read at once, and than the blocks that are digested
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tidegate.sources.lines.BLOCK", data.draw(st.integers(1, 200)))
        patch.setattr("tidegate.sources.lines.BYTES", data.draw(st.integers(1, 200)))
        path = write(tmp_path / f"f.{kind}", ["x" * n for n in sizes])
        files = KINDS[kind]("s", path, TEXTS, count=count)
        found = list(files.batches(None))
        n, whole = len(sizes), len(sizes) // count
        assert cuts(iter(found)) == [count] * whole + [n % count] * (n % count > 0)
        stop = data.draw(st.integers(0, len(found) - 1))
        assert cuts(files.batches(found[stop].offset)) == cuts(iter(found[stop + 1 :]))


@given(lengths, st.integers(1, 6), st.integers(1, 999))
def test_standard_input_is_cut_by_counts(sizes: list[int], step: int, most: int) -> None:
    data = "".join(json.dumps({"t": "x" * n, "y": "p"}) + "\n" for n in sizes).encode()
    pipe = StandardInput(name="s", columns=TEXTS, stream=Sent(data, most), step=step)
    n = len(sizes)
    assert cuts(pipe.batches(None)) == [step] * (n // step) + [n % step] * (n % step > 0)


def test_a_file_that_grew_is_cut_where_it_would_have_been(tmp_path: Path) -> None:
    path = write(tmp_path / "f.csv", ["x"] * 7)
    files = csv_source("s", path, TEXTS, count=5)
    *_, last = files.batches(None)
    write(path, ["x"] * 17)
    assert cuts(files.batches(last.offset)) == [3, 5, 2]


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_a_long_value_moves_no_cut_in_the_state(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tidegate.sources.source.MOST", 64)
    monkeypatch.setattr("tidegate.sources.lines.BLOCK", 512)

    def spans(name: str, long: int) -> list[tuple[int, int]]:
        values: list[Any] = [1.5] * 1000
        values[long] = 1.0000000000000002 if kind == "parquet" else "1." + "0" * 2000
        path = tmp_path / f"{name}.{kind}"
        if kind == "csv":
            path.write_text("a,y\n" + "".join(f"{value},1\n" for value in values))
        elif kind == "jsonl":
            path.write_text("".join(f'{{"a": {value}, "y": 1}}\n' for value in values))
        else:
            pq.write_table(pa.table({"a": values, "y": np.ones(1000, int)}), path)
        table = {"classes": [0, 1], "norm": 1.5, "columns": ["a"], "label": "y"}
        known = config(records=table, source={"type": kind, "path": str(path)})
        with opened(tmp_path / name, known) as gate:
            (source,) = known.sources().values()
            for batch in source.batches(None):
                gate.take(batch, source=source.name)
            query = "SELECT start, stop FROM segments ORDER BY start"
            found: list[tuple[int, int]] = gate.store._db.execute(query).fetchall()
            return found

    assert spans("one", 0) == spans("other", 999)
