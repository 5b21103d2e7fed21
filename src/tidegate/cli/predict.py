"""`tidegate predict`: use a release on the records of a file."""

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from errno import ENOENT
from pathlib import Path
from typing import Any

import click
import numpy as np
import pyarrow as pa
from pyarrow import csv, parquet
from pyarrow import json as json_lines

from tidegate.checks import InvalidValueError, refuse
from tidegate.cli import options
from tidegate.cli.chosen_model import chosen_model, number
from tidegate.cli.prediction_file import check_output, write_predictions
from tidegate.cli.types import PATH
from tidegate.features.codec import columns_in, takes_text
from tidegate.features.columns import Column, Columns, Table
from tidegate.features.numbers import as_numbers
from tidegate.gate.propose import likely_delimiter
from tidegate.gate.sources import Csv, Files, JsonLines, Parquet, SourceColumns
from tidegate.gate.sources.files import Format
from tidegate.gate.sources.source import checked_first, objects
from tidegate.release import StoredRelease

EPILOG = """\b
Examples:
  tidegate predict tidegate.state new.csv
  tidegate predict model.safetensors new.parquet
  tidegate predict model.onnx new.jsonl --format json
  tidegate predict published new.csv --output predictions.parquet
  tidegate predict tidegate.state new.csv --column age=Alter
"""

MAX_COLUMNS_SHOWN = 8
"""The most columns that an error names, and the most classes that the table shows."""

TABLES = {".csv": csv.read_csv, ".parquet": parquet.read_table, ".jsonl": json_lines.read_json}

Batch = tuple[Any, Mapping[int, str]]
"""Records in the form that the release takes, and why some of them cannot be used, by slot."""


@click.command(epilog=EPILOG)
@click.argument("model", type=PATH)
@click.argument("file", type=PATH)
@number
@options.aliases
@click.option("--output", type=PATH, help="Write to this .csv or .parquet file, not to the screen.")
@options.form
def predict(  # noqa: PLR0913, PLR0917 (an argument for each option)
    model: Path,
    file: Path,
    number: int | None,
    aliases: tuple[str, ...],
    output: Path | None,
    form: str,
) -> None:
    """Predict the class or the number of each record in FILE (.csv, .parquet or .jsonl).

    MODEL is a state, a folder of published releases, or an exported .safetensors, .npz or .onnx
    file. The table shows the probability of each class, or if there are more than eight, that of
    the label; --format json and --output show all. A record that cannot be used gets no prediction.
    """
    if file.suffix not in TABLES:
        raise refuse("FILE", f"a file that ends in {', '.join(TABLES)}", str(file))
    if output is not None:
        check_output(output, [file, model])
    release = chosen_model(model, number)
    unusable: dict[int, str] = {}
    rows = _rows(release, _batches(file, options.pairs(aliases), release), unusable)
    if output is not None:
        _report(write_predictions(output, release, rows), len(unusable), output, form)
    else:
        if form == "table" and release.target is None:
            rows = _narrow(rows, release.card["classes"])
        options.show(rows, form, empty=f"{file} has no records")
    if unusable and form == "table":
        first, why = next(iter(unusable.items()))
        many = f"{len(unusable):,} record{'s' if len(unusable) > 1 else ''} cannot be used"
        options.say(f"tidegate: {many}; the first is {first:,}: {why}", err=True)


def _report(records: int, unusable: int, output: Path, form: str) -> None:
    if form == "json":
        click.echo(json.dumps({"file": str(output), "records": records, "unusable": unusable}))
    else:
        click.echo(f"Wrote {records:,} prediction{'' if records == 1 else 's'} to {output}")


def _batches(file: Path, aliases: Mapping[str, str], release: StoredRelease) -> Iterator[Batch]:
    """The records of a file, as they were read for training."""
    columns = columns_in(release.card["features"])
    if columns is not None:
        yield from _of_any_kind(file, aliases, columns)
        return
    X = _records(file, aliases, release)
    if X.ndim == 1:
        usable, why = [isinstance(each, str) for each in X], "its text is missing"
    else:
        usable = np.isfinite(X).all(axis=1).tolist()
        why = "a value is missing or not a finite number"
    yield X, {slot: why for slot, good in enumerate(usable) if not good}


def _of_any_kind(file: Path, aliases: Mapping[str, str], columns: Columns) -> Iterator[Batch]:
    """Records with columns of any kind; nothing is guessed from the values of a file."""
    wanted = SourceColumns(label=columns.names[0], features=tuple(columns.names), kinds=columns)
    wanted = wanted.with_aliases(aliases)
    readers: dict[str, Any] = {".csv": Csv, ".parquet": Parquet, ".jsonl": JsonLines}
    more = {"delimiter": likely_delimiter(file)} if file.suffix == ".csv" and file.exists() else {}
    reader: Format = readers[file.suffix](columns=wanted, **more)
    batches = Files(name="predict", path=file, format=reader).batches(None)
    for raw in checked_first(batches, str(file)):
        table: Table = raw.X
        bad = columns.bad(table)
        why = {
            slot: f"its {each.name} is {_fault(each)}"
            for each in columns.checked
            for slot in np.flatnonzero(bad[each.name]).tolist()
        }
        yield table, dict(sorted((why | dict(raw.reasons)).items()))


def _fault(column: Column) -> str:
    """What is wrong with a value that contradicts a column."""
    what = "a listed value" if "others" in column.without else f"a {column.kind}"
    return f"missing or not {what}" if "gaps" in column.without else f"not {what}"


def _records(file: Path, aliases: Mapping[str, str], release: StoredRelease) -> Any:
    """Read the numbers or the texts of a file."""
    trained = tuple(release.card.get("columns") or ())
    for name in aliases:
        if name not in trained:
            allowed = f"NAME=NAME_IN_FILE, NAME one of {', '.join(trained[:MAX_COLUMNS_SHOWN])}"
            raise refuse("--column", allowed, name)
    columns = [aliases.get(name, name) for name in trained]
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
        lacks, has = (
            ", ".join(names[:MAX_COLUMNS_SHOWN]) for names in (missing, table.column_names)
        )
        raise InvalidValueError(
            f"{file} has no column {lacks}; it has {has}. Rename its columns, or add "
            f"--column {missing[0]}=NAME_IN_FILE"
        )
    table = table.select(columns or table.column_names)
    if takes_text(release.card["features"]):
        if table.num_columns != 1:
            raise refuse("FILE", "one column, which holds the text", shown=f"{table.num_columns}")
        return objects(table.column(0).to_pylist())
    with np.errstate(over="ignore"):  # a record with infinite values cannot be used
        return as_numbers(table).astype(release.card["dtype"])  # as in training


def _rows(
    release: StoredRelease, batches: Iterable[Batch], unusable: dict[int, str]
) -> Iterator[dict[str, Any]]:
    """Yield a row for each record, without a prediction if the record cannot be used.

    Args:
        release: The model.
        batches: The records.
        unusable: Filled with the records that cannot be used, and why.
    """
    index = 0
    for X, why in batches:
        slots = [slot for slot in range(len(X)) if slot not in why]
        unusable |= {index + slot: reason for slot, reason in why.items()}
        predicted = dict(zip(slots, _predicted(release, X[slots]) if slots else [], strict=True))
        nothing = _predicted_row(release, None)
        for slot in range(len(X)):
            yield {"record": index, **predicted.get(slot, nothing)}
            index += 1


def _predicted(release: StoredRelease, X: Any) -> Iterator[dict[str, Any]]:
    if release.target is not None:
        return ({"prediction": each} for each in release.model().predict(X).tolist())
    found = release.classifier().predict_proba(X).tolist()
    return (_predicted_row(release, chances) for chances in found)


def _predicted_row(release: StoredRelease, chances: Sequence[float] | None) -> dict[str, Any]:
    """What is predicted for one record; None for one that cannot be used."""
    if release.target is not None:
        return {"prediction": None}
    if chances is None:
        return {"label": None, "probability": None, "probabilities": None}
    known = dict(zip(release.card["classes"], chances, strict=True))
    label = max(known, key=known.__getitem__)
    return {"label": label, "probability": known[label], "probabilities": known}


def _narrow(rows: Iterable[dict[str, Any]], classes: Sequence[Any]) -> Iterator[dict[str, Any]]:
    """Rows for a terminal: the probability of each class, or of the label if there are many."""
    for row in rows:
        chances = row.pop("probabilities") or {}
        if len(classes) <= MAX_COLUMNS_SHOWN:
            del row["probability"]
            row |= {f"P({name})": chances.get(name) for name in classes}
        yield row
