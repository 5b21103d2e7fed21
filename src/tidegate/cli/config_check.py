"""Check how a file would be read and what would be released, without a state or a charge.

Unless the records are public, they are only counted. So the report, its errors and how long it
takes depend on public facts: the configuration, the columns of the file, its size and the number
of its records.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from tidegate.checks import InvalidValueError
from tidegate.cli.column_advice import column_advice
from tidegate.data.owners import MAX_ID_BYTES as LONGEST_ID
from tidegate.data.predicted import Classes, Target
from tidegate.data.rows import as_rows
from tidegate.run.config import Config
from tidegate.schedule import fits
from tidegate.schedule.plan import Plan, TwoStreamPlan
from tidegate.sources import SourceColumns, SourceError
from tidegate.sources.configured import same_file
from tidegate.sources.files import Files, as_utf8, one_file, readable, regular
from tidegate.sources.public_records import Examined, Findings, shape_of
from tidegate.sources.source import few

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
    reader = replace(_reader(config, as_utf8(path)), name="check", columns=columns)
    if path.is_dir():
        raise SourceError(f"{path} is a folder: name one of its files")
    with readable(path):
        regular(path)
        checked = _column_checks(reader, path, label=_label(config), public=public)
        records = reader.records(path)
    found = _findings(config, reader) if public else None
    advice: Iterable[str] = ()
    if found and columns.kinds:
        advice = column_advice(columns.kinds, found, pure=not config.budget.delta)
    return Check(
        file=str(path),
        type=reader.type,
        delimiter=reader.separator,
        records=records,
        columns=checked,
        features=_width(config, columns),
        norm=config.norm,
        scaled_down=_scaled_down(config, columns),
        unusable_if=rules(config, reader),
        plan=_released(config.plan(), config.schedule.kind, records),
        found=found,
        advice=tuple(advice),
    )


def _columns(config: Config) -> SourceColumns:
    try:
        return config.source_columns()
    except InvalidValueError as error:
        raise InvalidValueError(f"records.{error}") from error


def _reader(config: Config, path: Path) -> Files:
    """A file as a source: as [source] reads it, if it is there, or by the ending of its name."""
    for each in config.configured().values():
        if isinstance(each, Files) and (each.reads(path) or same_file(path, each.root)):
            return replace(each, path=path, follow=False, resume=None)
    return one_file(path, config.configured().values())


def _column_checks(
    reader: Files, path: Path, *, label: str, public: bool
) -> tuple[ColumnCheck, ...]:
    """How each column is read; refuse a file that lacks one or has one of the wrong type."""
    columns = reader.columns
    read = [_read(columns, name, label) for name in columns.read]
    named = reader.header(path)
    if named is None:  # the keys of an object belong to its record
        return tuple(ColumnCheck(name=n, role=r, type=None, read_as=a) for n, r, a in read)
    # Without types, the first line may be a record, if the file has no header.
    shown = public or any(each.type for each in named)
    _check_names([each.name for each in named], path, columns, shown=shown)
    reader.check_types(path)
    types = {each.name: TEXT if each.type is None else str(each.type) for each in named}
    kept = [ColumnCheck(name=n, role=r, type=types[n], read_as=a) for n, r, a in read]
    others = [name for name in types if name not in columns.read]
    ignored = [ColumnCheck(name=n, role="ignored", type=types[n], read_as=None) for n in others]
    return (*kept, *ignored)


def _label(config: Config) -> str:
    """How the label is read."""
    plain = "number" if config.source_columns().number_labels else TEXT
    return config.records.predicted.read_as(plain)


def _read(columns: SourceColumns, name: str, label: str) -> tuple[str, Any, str]:
    """A column that is read, with its role and what its values are converted to."""
    if name == columns.person:
        return name, "person", ID
    if name == columns.label:
        return name, "label", label
    return name, *shape_of(columns).read_as(name)


def _check_names(names: Sequence[str], path: Path, columns: SourceColumns, *, shown: bool) -> None:
    """Refuse a file that does not have every configured column once."""
    times = Counter(names)
    if not names:
        raise SourceError(f"{path} has no columns: its first line must name them")
    missing = [name for name in columns.read if times[name] == 0]
    if missing:
        wrong = f"{_listed('column', missing)} not in {path}"
        if shown:
            wrong += f", which has {few(names)}"
        hint = "" if shown else "; if its records are public, --public lists what it has"
        rest = ", label, person.id" if columns.person else " and records.label"
        raise SourceError(f"{wrong}: check {shape_of(columns).keys}{rest}{hint}")
    if twice := [name for name in columns.read if times[name] > 1]:
        raise SourceError(f"{_listed('column', twice)} more than once in {path}: rename the others")


def _listed(what: str, names: Sequence[str]) -> str:
    return f"{what}s {few(names)} are" if len(names) > 1 else f"{what} {names[0]} is"


def rules(config: Config, reader: Files) -> dict[str, str]:
    """The rules by which a record cannot be used, by their short names."""
    columns, shape = reader.columns, shape_of(reader.columns)
    made = {"line": reader.unusable_line} if reader.unusable_line else {}
    made[shape.rule] = shape.why(reader.odd_number)
    if config.features:
        made["map"] = "the feature maps make a number of it that is not finite"
    made["label"] = _label_rule(config, columns)
    if columns.person:
        long = f"longer than {LONGEST_ID:,} bytes"
        made["person"] = (
            f"its person's id is missing or empty, not text or a whole number, or {long}"
        )
    return made


def _label_rule(config: Config, columns: SourceColumns) -> str:
    predicted = config.records.predicted
    if isinstance(predicted, Target):
        return "its target is missing or not a finite number"
    if isinstance(predicted, Classes) and predicted.cuts:
        return "its label is missing or not a number"
    what = "whole number" if columns.number_labels else TEXT
    return f"its label is not one of the {len(predicted.labels)} classes ({what})"


def _width(config: Config, columns: SourceColumns) -> int:
    """How many numbers the feature maps make of any record; refuse columns that do not fit."""
    return int(as_rows(config.feature_map().transform(shape_of(columns).blank)).shape[1])


def _scaled_down(config: Config, columns: SourceColumns) -> bool:
    """Whether a record can be longer than the norm; [[columns]] alone bound every record."""
    return bool(config.features) or config.norm < shape_of(columns).norm


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


def _findings(config: Config, reader: Files) -> Findings:
    """What the records of a public file show."""
    examined = Examined(
        features=config.feature_map(),
        predicted=config.records.predicted,
        norm=config.norm,
        columns=reader.columns,
    )
    for raw in reader.batches(None):
        examined.add(raw)
    return examined.findings()
