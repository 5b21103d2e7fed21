"""`tidegate export` and `tidegate predict`: use a release outside its state."""

import json
import os
from collections.abc import Iterable, Iterator, Sequence
from errno import ENOENT
from pathlib import Path
from typing import Any

import click
import numpy as np
import pyarrow as pa
from pyarrow import csv, parquet
from pyarrow import json as json_lines

from tidegate.checks import InvalidValueError, refuse
from tidegate.cli import advice, options
from tidegate.cli.types import PATH, count
from tidegate.features.codec import takes_text
from tidegate.features.numbers import as_numbers
from tidegate.gate.export import export as write
from tidegate.gate.export import load_release
from tidegate.gate.gate import Gate
from tidegate.gate.sources.source import objects
from tidegate.release import StoredRelease

EXPORT_EPILOG = """\b
Examples:
  tidegate export tidegate.state model.safetensors      the newest release
  tidegate export tidegate.state model.onnx --release 12
  tidegate export tidegate.state card.md
"""

PREDICT_EPILOG = """\b
Examples:
  tidegate predict tidegate.state new.csv
  tidegate predict model.safetensors new.parquet
  tidegate predict model.npz new.jsonl --format json
"""

MOST = 8
"""The most columns that an error names, and the most classes that the table shows."""

TABLES = {".csv": csv.read_csv, ".parquet": parquet.read_table, ".jsonl": json_lines.read_json}


@click.command(epilog=EXPORT_EPILOG)
@options.state
@click.argument("file", type=PATH)
@click.option("--release", type=count(least=0), help="Number of the release [newest].")
@options.form
def export(state: Path, file: Path, release: int | None, form: str) -> None:
    """Write a release to FILE, in the format of FILE's extension.

    .npz (NumPy), .safetensors, .onnx and .joblib (a scikit-learn pipeline) hold the model, .json
    and .md its card. All but .joblib also hold the card and the hash.
    """
    with Gate.look(state) as gate:
        chosen = _chosen(gate, release)
    if not file.parent.is_dir():
        raise refuse("FILE", "in a folder that exists", str(file))
    write(chosen, file)
    if form == "json":
        written = {"release": chosen.number, "hash": chosen.hash, "file": str(file)}
        click.echo(json.dumps(written))
    else:
        click.echo(f"Wrote release {chosen.number:,} to {file}")


def _chosen(gate: Gate, number: int | None) -> StoredRelease:
    chosen = gate.store.newest() if number is None else gate.store.release(number)
    if chosen is None:
        more = "add records with tidegate run or tidegate ingest"
        raise InvalidValueError(f"{advice.waiting(gate)}; {more}")
    return chosen


@click.command(epilog=PREDICT_EPILOG)
@click.argument("model", type=PATH)
@click.argument("file", type=PATH)
@click.option(
    "--column",
    "columns",
    multiple=True,
    help="Column to read, if names differ from training; repeat for each, in training order.",
)
@options.form
def predict(model: Path, file: Path, columns: tuple[str, ...], form: str) -> None:
    """Predict the class of each record in FILE (.csv, .parquet or .jsonl).

    MODEL is a state (its newest release is used) or an exported .safetensors or .npz file. A record
    that cannot be used gets no label.
    """
    if model.is_dir():
        with Gate.look(model) as gate:
            release = _chosen(gate, None)
    else:
        release = load_release(model)
    trained = tuple(release.card.get("columns") or ())
    if columns and trained and len(columns) != len(trained):
        allowed = f"given once for each of {', '.join(trained)}"
        raise refuse("--column", allowed, shown=", ".join(columns))
    rows = _predictions(release, _records(file, columns or trained, release))
    options.show(rows if form == "json" else _narrow(rows, release.card["classes"]), form)


def _records(file: Path, columns: tuple[str, ...], release: StoredRelease) -> Any:
    """Read the records of a file, in the form that the release's feature map takes."""
    if file.suffix not in TABLES:
        raise refuse("FILE", f"a file that ends in {', '.join(TABLES)}", str(file))
    try:
        table = TABLES[file.suffix](str(file))
    except FileNotFoundError:  # Arrow does not name the file
        raise InvalidValueError(
            f"{file} cannot be read: {os.strerror(ENOENT)}; check the path"
        ) from None
    except pa.ArrowException:  # its message may quote a record
        broken = f"{file} is not a readable {file.suffix} file: check its content and its extension"
        raise InvalidValueError(broken) from None
    if missing := [name for name in columns if name not in table.column_names]:
        lacks, has, wants = (
            ", ".join(names[:MOST]) for names in (missing, table.column_names, columns)
        )
        raise InvalidValueError(
            f"{file} has no column {lacks}; it has {has}. Rename its columns, or give --column "
            f"once for each of {wants}"
        )
    table = table.select(list(columns) or table.column_names)
    if takes_text(release.card["features"]):
        if table.num_columns != 1:
            raise refuse("--column", "the one column that holds the text", list(columns))
        return objects(table.column(0).to_pylist())
    with np.errstate(over="ignore"):  # a record with infinite values cannot be used
        return as_numbers(table).astype(release.card["dtype"])  # as in training


def _predictions(release: StoredRelease, X: Any) -> Iterator[dict[str, Any]]:
    """Yield a row for each record, without a label if the record cannot be used."""
    text = X.ndim == 1
    usable = [isinstance(each, str) for each in X] if text else np.isfinite(X).all(axis=1)
    slots = np.flatnonzero(usable).tolist()
    predicted: dict[int, list[float]] = {}
    if slots:
        predicted = dict(zip(slots, release.model().predict_proba(X[slots]).tolist(), strict=True))
    for index in range(len(X)):
        row: dict[str, Any] = {"record": index, "label": None, "probability": None}
        chances = dict(zip(release.card["classes"], predicted.get(index, ()), strict=False))
        if chances:
            label = max(chances, key=chances.__getitem__)
            row |= {"label": label, "probability": chances[label]}
        yield {**row, "probabilities": chances or None}


def _narrow(rows: Iterable[dict[str, Any]], classes: Sequence[Any]) -> Iterator[dict[str, Any]]:
    """Rows for a terminal: the probability of each class, or of the label if there are many."""
    for row in rows:
        chances = row.pop("probabilities") or {}
        if len(classes) <= MOST:
            del row["probability"]
            row |= {f"P({name})": chances.get(name) for name in classes}
        yield row
