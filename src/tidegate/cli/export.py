"""`tidegate export` and `tidegate predict`: a release outside of its state."""

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
"""How many columns are named, or classes shown beside each other."""

TABLES = {".csv": csv.read_csv, ".parquet": parquet.read_table, ".jsonl": json_lines.read_json}


@click.command(epilog=EXPORT_EPILOG)
@options.state
@click.argument("file", type=PATH)
@click.option("--release", type=count(least=0), help="Which one; the newest if left out.")
@options.form
def export(state: Path, file: Path, release: int | None, form: str) -> None:
    """Write a release to FILE, in the form that its ending says.

    .npz (NumPy), .safetensors, .onnx and .joblib (a scikit-learn pipeline) hold the model, .json
    and .md its card. All but .joblib hold card and hash as well.
    """
    with Gate.look(state) as gate:
        chosen = _chosen(gate, release)
    if not file.parent.is_dir():
        raise refuse("FILE", "in a folder that exists", str(file))
    write(chosen, file)
    if form == "json":
        told = {"release": chosen.number, "hash": chosen.hash, "file": str(file)}
        click.echo(json.dumps(told))
    else:
        click.echo(f"Release {chosen.number:,} is in {file}")


def _chosen(gate: Gate, number: int | None) -> StoredRelease:
    chosen = gate.store.newest() if number is None else gate.store.release(number)
    if chosen is None:
        raise InvalidValueError(advice.waiting(gate))
    return chosen


@click.command(epilog=PREDICT_EPILOG)
@click.argument("model", type=PATH)
@click.argument("file", type=PATH)
@click.option(
    "--column",
    "columns",
    multiple=True,
    help="A column to read, where its name is another than in training; once for each.",
)
@options.form
def predict(model: Path, file: Path, columns: tuple[str, ...], form: str) -> None:
    """Predict the class of each record in FILE (.csv, .parquet or .jsonl).

    MODEL is a state, whose newest release is taken, or a release in a .safetensors or .npz file,
    which needs no state. A record that cannot be used gets no label.
    """
    if model.is_dir():
        with Gate.look(model) as gate:
            release = _chosen(gate, None)
    else:
        release = load_release(model)
    known = tuple(release.card.get("columns") or ())
    if columns and known and len(columns) != len(known):
        allowed = f"given once for each of {', '.join(known)}"
        raise refuse("--column", allowed, told=", ".join(columns))
    rows = _predictions(release, _records(file, columns or known, release))
    options.show(rows if form == "json" else _narrow(rows, release.card["classes"]), form)


def _records(file: Path, columns: tuple[str, ...], release: StoredRelease) -> Any:
    """The records of a file, as the release's feature map takes them."""
    if file.suffix not in TABLES:
        raise refuse("FILE", f"one that ends in {', '.join(TABLES)}", str(file))
    try:
        table = TABLES[file.suffix](str(file))
    except FileNotFoundError:  # Arrow does not say which
        raise InvalidValueError(f"{file} cannot be read: {os.strerror(ENOENT)}") from None
    except pa.ArrowException:  # its message may quote a record
        told = f"{file} is not a readable {file.suffix} file: check its form and its ending"
        raise InvalidValueError(told) from None
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
            raise refuse("--column", "the one that holds the text", list(columns))
        return objects(table.column(0).to_pylist())
    with np.errstate(over="ignore"):  # what becomes infinite cannot be used
        return as_numbers(table).astype(release.card["dtype"])  # as the records of the fits


def _predictions(release: StoredRelease, X: Any) -> Iterator[dict[str, Any]]:
    """A row for each record; without a label if it cannot be used."""
    text = X.ndim == 1
    usable = [isinstance(each, str) for each in X] if text else np.isfinite(X).all(axis=1)
    slots = np.flatnonzero(usable).tolist()
    found: dict[int, list[float]] = {}
    if slots:
        found = dict(zip(slots, release.model().predict_proba(X[slots]).tolist(), strict=True))
    for index in range(len(X)):
        row: dict[str, Any] = {"record": index, "label": None, "probability": None}
        chances = dict(zip(release.card["classes"], found.get(index, ()), strict=False))
        if chances:
            label = max(chances, key=chances.__getitem__)
            row |= {"label": label, "probability": chances[label]}
        yield {**row, "probabilities": chances or None}


def _narrow(rows: Iterable[dict[str, Any]], classes: Sequence[Any]) -> Iterator[dict[str, Any]]:
    """Rows for a terminal: the probability of each class, or of the label where there are many."""
    for row in rows:
        chances = row.pop("probabilities") or {}
        if len(classes) <= MOST:
            del row["probability"]
            row |= {f"P({name})": chances.get(name) for name in classes}
        yield row
