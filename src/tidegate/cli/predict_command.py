"""`tidegate predict`: use a release on the records of a file."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
import numpy as np

from tidegate.checks import refuse
from tidegate.cli import options
from tidegate.cli.chosen_model import chosen_model, number
from tidegate.cli.prediction_file import check_output, write_predictions
from tidegate.cli.types import PATH
from tidegate.data.columns import Column, TableColumns
from tidegate.data.columns.table import columns_in
from tidegate.data.feature_map import takes_text
from tidegate.release import StoredRelease
from tidegate.sources import SourceColumns
from tidegate.sources.files import Files, kind_of_file, readable, regular
from tidegate.sources.source import NO_LABEL, checked_first

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

NO_TEXT, NO_NUMBER = "its text is missing", "a value is missing or not a finite number"

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
    kind_of_file(file, "FILE")
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
    """The records of a file, as they were read for training; nothing is guessed from values."""
    if file.exists():
        regular(file)
    reader = kind_of_file(file).guessed(file, NO_LABEL)
    columns = columns_in(release.card["features"])
    wanted = _columns(release, columns, reader).with_aliases(aliases)
    batches = replace(reader, columns=wanted).batches(None)
    for raw in checked_first(batches, str(file)):
        faults = _faults(raw.X, columns) | dict(raw.reasons)
        yield raw.X, dict(sorted(faults.items()))


def _columns(release: StoredRelease, columns: TableColumns | None, reader: Files) -> SourceColumns:
    """Which columns of a file are read; all of them if the model knows no names."""
    names = columns.names if columns is not None else release.card.get("columns") or ()
    if not names:
        with readable(reader.root):
            header = reader.header(reader.root)
            names = [each.name for each in header or ()] or list(reader.sample(reader.root, 1))
    if not takes_text(release.card["features"]):
        features, dtype = tuple(names), release.card["dtype"]
        return SourceColumns(label=names[0], features=features, dtype=dtype, kinds=columns)
    if len(names) != 1:
        raise refuse("FILE", "one column, which holds the text", shown=f"{len(names)}")
    return SourceColumns(label=names[0], text=names[0])


def _faults(X: Any, columns: TableColumns | None) -> dict[int, str]:
    """Why some records cannot be used, by slot."""
    if columns is not None:
        bad = columns.bad(X)
        return {
            slot: f"its {each.name} is {_fault(each)}"
            for each in columns.checked
            for slot in np.flatnonzero(bad[each.name]).tolist()
        }
    if X.ndim == 1:
        return {slot: NO_TEXT for slot, each in enumerate(X) if not isinstance(each, str)}
    return dict.fromkeys(np.flatnonzero(~np.isfinite(X).all(axis=1)).tolist(), NO_NUMBER)


def _fault(column: Column) -> str:
    """What is wrong with a value that contradicts a column."""
    what = "a listed value" if "others" in column.without else f"a {column.kind}"
    return f"missing or not {what}" if "gaps" in column.without else f"not {what}"


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
