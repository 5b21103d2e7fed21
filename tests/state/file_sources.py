"""Sources of files of each format."""

from pathlib import Path
from typing import Any

from tidegate.sources import SourceColumns
from tidegate.sources.configured import Follow, once
from tidegate.sources.csv_file import Csv
from tidegate.sources.files import Files
from tidegate.sources.json_lines import JsonLines
from tidegate.sources.parquet import Parquet


def csv_source(name: str, path: Path, columns: SourceColumns, **more: Any) -> Files:
    """The lines of a CSV file or of a folder of them."""
    return Csv(name=name, path=path, columns=columns, **following(**more))


def json_source(name: str, path: Path, columns: SourceColumns, **more: Any) -> Files:
    """The lines of a file of JSON or of a folder of them."""
    return JsonLines(name=name, path=path, columns=columns, **following(**more))


def parquet_source(name: str, path: Path, columns: SourceColumns, **more: Any) -> Files:
    """The rows of a Parquet file or of a folder of them."""
    return Parquet(name=name, path=path, columns=columns, **following(**more))


def following(*, follow: Follow | None = None, **more: Any) -> dict[str, Any]:
    """The fields of a source that is followed if something says how to wait."""
    return {"follow": follow is not None, "wait": follow or once, **more}
