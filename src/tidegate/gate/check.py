"""Check how a file would be read and what would be released, without a state or a charge.

Unless the records are public, they are only counted. So the report, its errors and how long it
takes depend on public facts: the configuration, the columns of the file, its size and the number
of its records.
"""

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tidegate.checks import InvalidValueError, refuse
from tidegate.features.columns import Columns
from tidegate.features.rows import as_rows
from tidegate.gate.check_records import Examined, Findings
from tidegate.gate.column_advice import column_advice
from tidegate.gate.config import Config
from tidegate.gate.config.source_identity import same_file
from tidegate.gate.config.source_tables import STANDARD_INPUT, FileTable, TwoSources
from tidegate.gate.config.tables import FILES
from tidegate.gate.sources import Csv, Files, JsonLines, Parquet, SourceColumns, SourceError
from tidegate.gate.sources.files import Format, as_utf8, regular
from tidegate.gate.sources.lines import MAX_LINE_BYTES
from tidegate.learn.labels import cut_words
from tidegate.learn.owners import MAX_ID_BYTES as LONGEST_ID
from tidegate.plan import Plan, TwoStreamPlan
from tidegate.schedule import fits

Role = Literal["feature", "text", "label", "person", "ignored"]

TEXT, ID = "text", "id"


@dataclass(frozen=True, kw_only=True)
class ColumnCheck:
    """How a column of a file is read.

    Attributes:
        name: Its name.
        role: What it is to a record.
        type: Its type in the file; None if each record has its own, as in JSON lines.
        read_as: What its values are converted to; None if it is ignored.
    """

    name: str
    role: Role
    type: str | None
    read_as: str | None


@dataclass(frozen=True, kw_only=True)
class Released:
    """What the plan releases.

    Attributes:
        schedule: The kind of the schedule.
        first: How many records have arrived when the first model is released.
        step: The number of records in a step, by stream.
        releases: How many models the records of the file release; None if there are two streams,
            because the order of their steps decides it.
        left: How many records are left over after the last complete step; None likewise.
    """

    schedule: str
    first: int
    step: Mapping[str, int]
    releases: int | None
    left: int | None


@dataclass(frozen=True, kw_only=True)
class Check:
    """How a file would be read, and what the plan would release.

    Attributes:
        file: The file.
        type: Its format.
        delimiter: What separates its values; None if it is not CSV.
        records: The number of its records, which is public.
        columns: How each column is read: those that are read, then those that are ignored.
        features: How many numbers the feature maps make of a record.
        norm: A bound on the length of a record.
        scaled_down: Whether records can be longer, and are scaled down to the norm. If not, the
            bound follows from the columns.
        unusable_if: The rules by which a record cannot be used, by their short names.
        plan: What is released.
        found: What the records show; None unless they are public.
        advice: What they say about the declared columns, a line each.
    """

    file: str
    type: str
    delimiter: str | None
    records: int
    columns: tuple[ColumnCheck, ...]
    features: int
    norm: float
    scaled_down: bool
    unusable_if: Mapping[str, str]
    plan: Released
    found: Findings | None
    advice: tuple[str, ...] = ()


def check_file(config: Config, path: Path, *, public: bool = False) -> Check:
    """Check a file against a configuration.

    Args:
        config: Says what a record is.
        path: A CSV, Parquet or JSON lines file; it may be the configured source.
        public: Whether everyone may know the records. Only then are they read.
    """
    columns = _columns(config)
    kind, reader = _reader(config, as_utf8(path), columns)
    try:
        if path.is_dir():
            raise SourceError(f"{path} is a folder: name one of its files")
        regular(path)
        checked = _column_checks(reader, path, columns, label=_label(config), public=public)
        records = reader.records(path)
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else "it is damaged"
        raise SourceError(f"{path} cannot be read: {reason}; check the path") from error
    found = _findings(config, reader, path, columns) if public else None
    advice: Iterable[str] = ()
    if found is not None and columns.kinds is not None:
        advice = column_advice(columns.kinds, found, pure=config.budget.delta is None)
    return Check(
        file=str(path),
        type=kind,
        delimiter=reader.delimiter if isinstance(reader, Csv) else None,
        records=records,
        columns=checked,
        features=_width(config, columns),
        norm=config.norm,
        scaled_down=_scaled_down(config, columns),
        unusable_if=rules(config, reader, columns),
        plan=_released(config.plan(), config.schedule.kind, records),
        found=found,
        advice=tuple(advice),
    )


def _columns(config: Config) -> SourceColumns:
    try:
        return config.source_columns()
    except InvalidValueError as error:
        raise InvalidValueError(f"records.{error}") from error


def _reader(config: Config, path: Path, columns: SourceColumns) -> tuple[str, Format]:
    """The format of a file and its reader: those of [source] if it is there, or by its suffix."""
    tables = [each for each in _tables(config) if each.path != STANDARD_INPUT]
    named = [each for each in tables if _reads(each, path)]
    kind = named[0].type if named else path.suffix.removeprefix(".").lower()
    if kind not in FILES:
        raise refuse("the file", "a .csv, .parquet or .jsonl file", str(path))
    alike = [each.delimiter for each in named or tables if each.type == kind == "csv"]
    more = {"delimiter": alike[0]} if alike and alike[0] is not None else {}
    return kind, FILES[kind](columns=columns, **more)


def _tables(config: Config) -> list[FileTable]:
    given = config.source
    tables = [given.source, given.target] if isinstance(given, TwoSources) else [given]
    return [each for each in tables if isinstance(each, FileTable)]


def _reads(table: FileTable, path: Path) -> bool:
    place = Path(table.path)
    return place.resolve() in {path.resolve(), path.resolve().parent} or same_file(path, place)


def _column_checks(
    reader: Format, path: Path, columns: SourceColumns, *, label: str, public: bool
) -> tuple[ColumnCheck, ...]:
    """How each column is read; refuse a file that lacks one or has one of the wrong type."""
    read = [_read(columns, name, label) for name in columns.read]
    if isinstance(reader, JsonLines):  # the keys of an object belong to its record
        return tuple(ColumnCheck(name=n, role=r, type=None, read_as=a) for n, r, a in read)
    if isinstance(reader, Parquet):
        schema = _schema(path)
        types = dict(zip(schema.names, map(str, schema.types), strict=True))
        _check_names(schema.names, path, columns, shown=True)
        reader.check_types(schema, str(path))
    elif isinstance(reader, Csv):
        names = reader.header(path)
        types = dict.fromkeys(names, TEXT)
        # The first line may be a record, if the file has no header.
        _check_names(names, path, columns, shown=public)
    else:  # pragma: no cover (every format of FILES is above)
        raise TypeError(type(reader).__name__)
    kept = [ColumnCheck(name=n, role=r, type=types[n], read_as=a) for n, r, a in read]
    others = [name for name in types if name not in columns.read]
    ignored = [ColumnCheck(name=n, role="ignored", type=types[n], read_as=None) for n in others]
    return (*kept, *ignored)


def _label(config: Config) -> str:
    """How the label is read."""
    records = config.records
    if records.cuts is not None:
        return f"number, {cut_words(records.cuts, records.classes or ())}"
    if records.target is not None:
        low, high = records.target
        return f"number from {low:g} to {high:g}"
    return "number" if config.source_columns().number_labels else TEXT


def _read(columns: SourceColumns, name: str, label: str) -> tuple[str, Role, str]:
    if name == columns.person:
        return name, "person", ID
    if name == columns.label:
        return name, "label", label
    if columns.kinds is not None:
        kinds = {each.name: each.explained for each in columns.kinds.checked}
        return name, "feature", kinds[name]
    return (name, "text", TEXT) if name == columns.text else (name, "feature", columns.dtype)


def _schema(path: Path) -> pa.Schema:
    try:
        return pq.read_schema(path)
    except pa.ArrowException as error:
        raise SourceError(
            f"{path} is not a readable Parquet file: restore it, or write it again"
        ) from error


def _check_names(names: Sequence[str], path: Path, columns: SourceColumns, *, shown: bool) -> None:
    """Refuse a file that does not have every configured column once."""
    times = Counter(names)
    if not names:
        raise SourceError(f"{path} has no columns: its first line must name them")
    missing = [name for name in columns.read if times[name] == 0]
    if missing:
        wrong = f"{_listed('column', missing)} not in {path}"
        if shown:
            wrong += f", which has {_few(names)}"
        hint = "" if shown else "; if its records are public, --public lists what it has"
        own = "records.columns, text" if columns.kinds is None else "[[columns]]"
        keys = f"{own} and records.label" if columns.person is None else f"{own}, label, person.id"
        raise SourceError(f"{wrong}: check {keys}{hint}")
    if twice := [name for name in columns.read if times[name] > 1]:
        raise SourceError(f"{_listed('column', twice)} more than once in {path}: rename the others")


def _few(names: Sequence[str]) -> str:
    more = f" and {len(names) - 20} more" if len(names) > 20 else ""
    return ", ".join(names[:20]) + more


def _listed(what: str, names: Sequence[str]) -> str:
    return f"{what}s {_few(names)} are" if len(names) > 1 else f"{what} {names[0]} is"


def rules(config: Config, reader: Format, columns: SourceColumns) -> dict[str, str]:
    """The rules by which a record cannot be used, by their short names."""
    made: dict[str, str] = {}
    longest = f"longer than {MAX_LINE_BYTES // 2**20} MiB"
    if isinstance(reader, Csv):
        wrong = "a quote out of place or fewer or more values than the header"
        made["line"] = f"its line is not UTF-8, has {wrong}, or is {longest}"
    elif isinstance(reader, JsonLines):
        made["line"] = f"its line is not a JSON object in UTF-8, or is {longest}"
    if columns.kinds is not None:
        made["kind"] = f"a value contradicts its column's kind{_without(columns.kinds)}"
    elif columns.text is None:
        most = float(np.finfo(columns.dtype).max)
        text = {Csv: "not a decimal numeral, ", JsonLines: "text, "}.get(type(reader), "")
        odd = f"missing, {text}NaN, or above {most:.2g} in size"
        made["number"] = f"a feature is not a finite {columns.dtype} number: {odd}"
    else:
        made["text"] = "its text is missing"
    if config.features:
        made["map"] = "the feature maps make a number of it that is not finite"
    classes = config.records.classes
    what = "whole number" if columns.number_labels else TEXT
    if classes is None:
        made["label"] = "its target is missing or not a finite number"
    elif config.records.cuts is not None:
        made["label"] = "its label is missing or not a number"
    else:
        made["label"] = f"its label is not one of the {len(classes)} classes ({what})"
    if columns.person is not None:
        long = f"longer than {LONGEST_ID:,} bytes"
        made["person"] = (
            f"its person's id is missing or empty, not text or a whole number, or {long}"
        )
    return made


def _without(columns: Columns) -> str:
    """What else contradicts some columns: those that are said to be without gaps or others."""
    keys = {key for each in columns.checked for key in each.without}
    if not keys:
        return " (a missing value does not)"
    said = {"gaps": "is missing where gaps = false", "others": "is not listed where others = false"}
    return f", {', '.join(f'or {words}' for key, words in said.items() if key in keys)}"


def _width(config: Config, columns: SourceColumns) -> int:
    """How many numbers the feature maps make of any record; refuse columns that do not fit."""
    blank: Any = [""] if columns.text is not None else np.zeros((1, len(columns.features)))
    if columns.kinds is not None:
        blank = [dict.fromkeys(columns.features)]
    return int(as_rows(config.feature_map().transform(blank)).shape[1])


def _scaled_down(config: Config, columns: SourceColumns) -> bool:
    """Whether a record can be longer than the norm; [[columns]] alone bound every record."""
    if columns.kinds is None or config.features:
        return True
    return config.norm < columns.kinds.norm


def _released(plan: Plan | TwoStreamPlan, kind: str, records: int) -> Released:
    if isinstance(plan, TwoStreamPlan):
        sizes = {name: steps.size for name, steps in plan.schedule.steps.items()}
        return Released(schedule=kind, first=plan.first, step=sizes, releases=None, left=None)
    complete = plan.steps.complete(records)
    return Released(
        schedule=kind,
        first=plan.first,
        step={"records": plan.steps.size},
        releases=sum(fit.released for fit in fits(plan.schedule, complete)),
        left=records - plan.steps.count(complete),
    )


def _findings(config: Config, reader: Format, path: Path, columns: SourceColumns) -> Findings:
    """What the records of a public file show."""
    examined = Examined(
        features=config.feature_map(),
        classes=config.records.classes,
        norm=config.norm,
        target=config.records.predicted,
        columns=columns,
        cuts=config.records.cuts,
    )
    batches: Iterator[Any] = Files(name="check", path=path, format=reader).batches(None)
    for raw in batches:
        examined.add(raw)
    return examined.findings()
