"""`tidegate predict`: use a release on the records of a file."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar

import click
import numpy as np
import pyarrow as pa
from pyarrow import csv, parquet

from tidegate.checks import refuse
from tidegate.cli import options
from tidegate.cli.chosen_model import chosen_model, number
from tidegate.cli.options import PATH
from tidegate.data.columns import Column, TableColumns
from tidegate.data.columns.table import columns_in
from tidegate.data.feature_map import takes_text
from tidegate.release import StoredRelease
from tidegate.sources import SourceColumns
from tidegate.sources.files import Files, kind_of_file, readable, regular
from tidegate.sources.source import NO_LABEL, checked_first
from tidegate.whole_file import delete_unfinished, new_file, sync_folder

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

WRITERS: dict[str, Any] = {".csv": csv.CSVWriter, ".parquet": parquet.ParquetWriter}

ROWS_PER_WRITE = 2**16
"""Predictions written at once."""

Row = dict[str, Any]

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
    if output:
        check_output(output, [file, model])
    release = chosen_model(model, number)
    said = Numbers(release) if release.target else Labels(release)
    unusable: dict[int, str] = {}
    rows = _rows(said, _batches(file, options.pairs(aliases), release), unusable)
    if output:
        records = write_predictions(output, said, rows)
        written = {"file": str(output), "records": records, "unusable": len(unusable)}
        many = f"{records:,} prediction{'' if records == 1 else 's'}"
        options.answer(written, form, f"Wrote {many} to {output}")
    else:
        shown = said.narrow(rows) if form == "table" else rows
        options.show(shown, form, empty=f"{file} has no records")
    if unusable and form == "table":
        first, why = next(iter(unusable.items()))
        many = f"{len(unusable):,} record{'s' if len(unusable) > 1 else ''} cannot be used"
        options.say(f"tidegate: {many}; the first is {first:,}: {why}", err=True)


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
    names = columns.names if columns else release.card.get("columns") or ()
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
    if columns:
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


@dataclass(frozen=True)
class Labels:
    """What a release of classes says of each record."""

    release: StoredRelease

    nothing: ClassVar[Row] = {"label": None, "probability": None, "probabilities": None}

    @property
    def classes(self) -> list[Any]:
        """The classes."""
        found: list[Any] = self.release.card["classes"]
        return found

    def rows(self, X: Any) -> Iterator[Row]:
        """The label of each record, and the probability of each class."""
        for chances in self.release.classifier().predict_proba(X).tolist():
            known = dict(zip(self.classes, chances, strict=True))
            label = max(known, key=known.__getitem__)
            yield {"label": label, "probability": known[label], "probabilities": known}

    def narrow(self, rows: Iterable[Row]) -> Iterator[Row]:
        """Rows for a terminal: the probability of each class, or of the label if many."""
        for row in rows:
            chances = row.pop("probabilities") or {}
            if len(self.classes) <= MAX_COLUMNS_SHOWN:
                del row["probability"]
                row |= {f"P({name})": chances.get(name) for name in self.classes}
            yield row

    @property
    def columns(self) -> dict[str, Any]:
        """The columns of a file, with their types."""
        chances = {f"P({each})": pa.float64() for each in self.classes}
        return {"label": pa.array(self.classes).type, "probability": pa.float64(), **chances}

    @staticmethod
    def flat(row: Row) -> Row:
        """A row for a file."""
        chances = row.pop("probabilities") or {}
        return {**row, **{f"P({name})": chance for name, chance in chances.items()}}


@dataclass(frozen=True)
class Numbers:
    """What a release of a target says of each record."""

    release: StoredRelease

    nothing: ClassVar[Row] = {"prediction": None}
    columns: ClassVar[dict[str, Any]] = {"prediction": pa.float64()}

    def rows(self, X: Any) -> Iterator[Row]:
        """The prediction for each record."""
        return ({"prediction": each} for each in self.release.model().predict(X).tolist())

    def narrow(self, rows: Iterable[Row]) -> Iterable[Row]:
        """Rows for a terminal: as they are."""
        return rows

    @staticmethod
    def flat(row: Row) -> Row:
        """A row for a file: as it is."""
        return row


def _rows(
    said: Labels | Numbers, batches: Iterable[Batch], unusable: dict[int, str]
) -> Iterator[Row]:
    """Yield a row for each record, without a prediction if the record cannot be used.

    Args:
        said: What the model says of records.
        batches: The records.
        unusable: Filled with the records that cannot be used, and why.
    """
    index = 0
    for X, why in batches:
        slots = [slot for slot in range(len(X)) if slot not in why]
        unusable |= {index + slot: reason for slot, reason in why.items()}
        predicted = dict(zip(slots, said.rows(X[slots]) if slots else [], strict=True))
        for slot in range(len(X)):
            yield {"record": index, **predicted.get(slot, said.nothing)}
            index += 1


# --- to a file, whole or not at all


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


def write_predictions(output: Path, said: Labels | Numbers, rows: Iterable[Row]) -> int:
    """Write a line for each record; return their number.

    The columns are `record`, `label`, `probability` and a probability `P(class)` for each class;
    for a target `record` and `prediction`. A record that cannot be used has a number only.

    Args:
        output: The file; an earlier one is replaced once the new one is complete.
        said: What the model says of records.
        rows: The predictions, as `tidegate predict --format json` prints them.
    """
    schema, records = pa.schema({"record": pa.int64(), **said.columns}), 0
    flat = map(said.flat, rows)
    delete_unfinished(output.parent, output.name)
    with (
        new_file(output, point="export") as file,
        WRITERS[output.suffix](file, schema) as writer,
    ):
        while part := list(islice(flat, ROWS_PER_WRITE)):
            writer.write_table(pa.Table.from_pylist(part, schema))
            records += len(part)
    sync_folder(output.parent)
    return records
