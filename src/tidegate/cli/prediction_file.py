"""Writes predictions to a CSV or Parquet file, whole or not at all."""

from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import csv, parquet

from tidegate.checks import refuse
from tidegate.release import StoredRelease
from tidegate.whole_file import delete_unfinished, new_file, sync_folder

WRITERS: dict[str, Any] = {".csv": csv.CSVWriter, ".parquet": parquet.ParquetWriter}

ROWS_PER_WRITE = 2**16
"""Predictions written at once."""


def check_output(output: Path, inputs: Iterable[Path]) -> None:
    """Refuse a file of predictions that would replace, or lie in, what is read."""
    if output.suffix not in WRITERS:
        raise refuse("--output", f"a file that ends in {' or '.join(WRITERS)}", str(output))
    if output.is_dir() or not output.parent.is_dir():
        raise refuse("--output", "a file in a folder that exists", str(output))
    for each in inputs:
        same = output.exists() and each.exists() and output.samefile(each)
        if same or output.resolve() == each.resolve():
            raise refuse("--output", "another file than those that are read", str(output))
        if each.is_dir() and output.resolve().is_relative_to(each.resolve()):
            raise refuse("--output", f"outside of {each}, which is read", str(output))


def write_predictions(output: Path, release: StoredRelease, rows: Iterable[dict[str, Any]]) -> int:
    """Write a line for each record; return their number.

    The columns are `record`, `label`, `probability` and a probability `P(class)` for each class;
    for a target `record` and `prediction`. A record that cannot be used has a number only.

    Args:
        output: The file; an earlier one is replaced once the new one is complete.
        release: The model.
        rows: The predictions, as `tidegate predict --format json` prints them.
    """
    schema, records = _schema(release), 0
    delete_unfinished(output.parent, output.name)
    with (
        new_file(output, point="export") as file,
        WRITERS[output.suffix](file, schema) as writer,
    ):
        for part in _parts(map(_flat, rows)):
            writer.write_table(pa.Table.from_pylist(part, schema))
            records += len(part)
    sync_folder(output.parent)
    return records


def _schema(release: StoredRelease) -> pa.Schema:
    record = ("record", pa.int64())
    if release.target is not None:
        return pa.schema([record, ("prediction", pa.float64())])
    classes = release.card["classes"]
    chances = [(f"P({each})", pa.float64()) for each in classes]
    label = ("label", pa.array(classes).type)
    return pa.schema([record, label, ("probability", pa.float64()), *chances])


def _flat(row: dict[str, Any]) -> dict[str, Any]:
    chances = row.pop("probabilities", None) or {}
    return {**row, **{f"P({name})": chance for name, chance in chances.items()}}


def _parts(rows: Iterable[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    whole = iter(rows)
    while part := list(islice(whole, ROWS_PER_WRITE)):
        yield part
