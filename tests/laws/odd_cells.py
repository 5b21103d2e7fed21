"""Pairs of files that differ in one cell, and how libraries read them with inferred types."""

import io
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv
import pyarrow.json
import pyarrow.parquet as pq

Cells = Mapping[str, Sequence[Any]]
"""The cells of a file by the name of their column: texts of a CSV file, or values of JSON."""


def as_csv(cells: Cells) -> bytes:
    """A CSV file."""
    rows = zip(*cells.values(), strict=True)
    return "".join(",".join(row) + "\n" for row in [tuple(cells), *rows]).encode()


def as_json_lines(cells: Cells) -> bytes:
    """A file of JSON lines."""
    rows = zip(*cells.values(), strict=True)
    return b"".join(json.dumps(dict(zip(cells, row, strict=True))).encode() + b"\n" for row in rows)


CSV: dict[str, Callable[[bytes], Any]] = {
    "pandas": lambda data: pd.read_csv(io.BytesIO(data)),
    "pandas-pyarrow": lambda data: pd.read_csv(
        io.BytesIO(data), engine="pyarrow", dtype_backend="pyarrow"
    ),
    "polars": lambda data: pl.read_csv(io.BytesIO(data)),
    "pyarrow": lambda data: pyarrow.csv.read_csv(io.BytesIO(data)),
}
JSON: dict[str, Callable[[bytes], Any]] = {
    "pandas": lambda data: pd.read_json(io.BytesIO(data), lines=True),
    "polars": lambda data: pl.read_ndjson(io.BytesIO(data)),
    "pyarrow": lambda data: pyarrow.json.read_json(io.BytesIO(data)),
}


def table_of(reader: Callable[[bytes], Any], data: bytes) -> Any:
    """The table that a library makes of a file; None if it refuses the file."""
    try:
        return reader(data)
    except Exception:
        return None


def labels_of(table: Any, name: str) -> Any:
    """A column of a table."""
    return table.column(name) if isinstance(table, pa.Table) else table[name]


def write_parquet(table: Any, path: Path) -> bool:
    """Write a table to a Parquet file by its own library; False if it is not readable."""
    try:
        if isinstance(table, pd.DataFrame):
            table.to_parquet(path)
        elif isinstance(table, pl.DataFrame):
            table.write_parquet(path)
        else:
            pq.write_table(table, path)
        pq.read_schema(path)  # Polars writes numbers of 128 bits, which Arrow cannot read
    except Exception:
        return False
    return True


def changed(cells: Cells, name: str, place: int, odd: Any) -> Cells:
    """The cells with one of them replaced."""
    column = [*cells[name]]
    column[place] = odd
    return {**cells, name: column}
