"""Sources of files of each format."""

from pathlib import Path
from typing import Any

from tidegate.gate.sources import Csv, Files, JsonLines, Parquet, SourceColumns
from tidegate.gate.sources.files import Follow


def csv_source(
    name: str, path: Path, columns: SourceColumns, *, follow: Follow | None = None, **more: Any
) -> Files:
    """The lines of a CSV file or of a folder of them."""
    return Files(name=name, path=path, format=Csv(columns=columns, **more), follow=follow)


def json_source(
    name: str, path: Path, columns: SourceColumns, *, follow: Follow | None = None
) -> Files:
    """The lines of a file of JSON or of a folder of them."""
    return Files(name=name, path=path, format=JsonLines(columns=columns), follow=follow)


def parquet_source(
    name: str, path: Path, columns: SourceColumns, *, follow: Follow | None = None
) -> Files:
    """The rows of a Parquet file or of a folder of them."""
    return Files(name=name, path=path, format=Parquet(columns=columns), follow=follow)
