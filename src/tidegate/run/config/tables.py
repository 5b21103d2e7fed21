"""Sections whose keys do not depend on a kind: typed keys, and a method to build an object."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import SplitResult, parse_qs, urlsplit

from tidegate.checks import (
    InvalidValueError,
    between,
    flag,
    fraction,
    one_of,
    optional,
    place,
    positive,
    ratio,
    refuse,
    whole,
    word,
    words,
)
from tidegate.data.columns import TableColumns
from tidegate.data.predicted import Predicted, Target, predicted_of
from tidegate.data.values import NEWEST, a_rule, places_in
from tidegate.kinds import CHANGEABLE, build
from tidegate.privacy import Allocation, Budget, Paper, Tapered
from tidegate.privacy.budget import MAX_CONTRIBUTIONS, budget_of
from tidegate.privacy.person import Person, typical_slots
from tidegate.run.config.keys import (
    REFERENCE,
    ascending,
    given_keys,
    key,
    labels,
    number_range,
    refuse_both,
)
from tidegate.run.engine import Disk, Engine, Memory
from tidegate.schedule.plan import default_survey
from tidegate.sources.files import Files, kind_of_file, one_file
from tidegate.sources.source import Dtype, SourceColumns

if TYPE_CHECKING:
    from tidegate.run.cluster import Dask


@dataclass(frozen=True, kw_only=True)
class BudgetTable:
    """[budget]: the privacy budget of one record, or of one person, over all time."""

    epsilon: float = key(
        positive, "smaller is more private and noisier: 1 is a strong promise, 10 a weak one"
    )
    delta: float | None = key(
        partial(between, low=0, high=1),
        "far below 1 / records (docs/guarantee.md); leave it out: stricter, more noise",
        default=None,
    )
    weak_delta: bool | None = key(
        flag, "confirms a delta above 0.001, which hardly protects", default=None, compare=False
    )

    def __post_init__(self) -> None:
        self.build()

    def build(self, contributions: int = 1) -> Budget:
        """The budget; `contributions` is above 1 only if persons are protected."""
        budget = budget_of(self.epsilon, self.delta, weak_delta=bool(self.weak_delta))
        return budget if contributions == 1 else replace(budget, contributions=contributions)


ALLOCATIONS: dict[str, Callable[..., Allocation]] = {Paper.name: Paper, Tapered.name: Tapered}


@dataclass(frozen=True, kw_only=True)
class AllocationTable:
    """[allocation]: how the budget is divided among levels."""

    name: str = key(
        one_of(*ALLOCATIONS),
        '"paper" splits evenly, "tapered" gives more to larger blocks',
        default=Paper.name,
    )
    rate: Fraction | None = key(
        ratio,
        "the ratio of the shares of adjacent levels; the default depends on the budget",
        only=(Tapered.name,),
        default=None,
    )

    def __post_init__(self) -> None:
        self.build()

    def resolved(self, budget: Budget) -> "AllocationTable":
        """The table with defaults replaced by values."""
        if self.name == Tapered.name and not self.rate:
            return replace(self, rate=budget.tapered_rate)
        return self

    def build(self) -> Allocation:
        """The allocation."""
        return build(ALLOCATIONS, self.name, given_keys(self, "name"))


@dataclass(frozen=True, kw_only=True)
class RecordsTable:
    """[records]: what a record is. All of it is public, and none of it is inferred from data."""

    classes: tuple[int, ...] | tuple[str, ...] | None = key(
        labels,
        'all possible labels: whole numbers, or texts such as ["no", "yes"]',
        default=None,
    )
    target: tuple[float, float] | None = key(
        number_range,
        "to predict a number, not a class: its range; others are clipped into it",
        default=None,
    )
    norm: float | None = key(
        partial(between, low=2**-64, high=2**64),
        "longer records are scaled down to it; it follows from [[columns]], if given",
        default=None,
    )
    columns: tuple[str, ...] | None = key(
        words, "the columns of numbers, best near 0 and of similar size", default=None
    )
    text: str | None = key(
        word, "the column of text, instead of columns; the first map must take text", default=None
    )
    label: str | None = key(word, "the column of labels, or of the target", default=None)
    cuts: tuple[float, ...] | None = key(
        ascending,
        "if the label is a number: where one class ends and the next begins",
        default=None,
    )
    dtype: Dtype = key(one_of("float32", "float64"), "how numbers are stored", default="float32")
    spelling: int | None = key(
        a_rule,
        "the rule by which values are spelled; leave it out: new states have 2",
        default=None,
        new=lambda config: config.records.rule,
        earlier=1,
    )

    def __post_init__(self) -> None:
        given, classes = given_keys(self), self.classes or ()
        if {"classes", "target"}.isdisjoint(given):
            missing = "classes is missing: add it, or target to predict a number"
            raise InvalidValueError(f"{missing}, see {REFERENCE}")
        refuse_both(given, "target", "classes")
        refuse_both(given, "text", "columns")
        if self.label in {*(self.columns or ()), self.text} - {None}:
            raise refuse("label", "a column that is not a feature", self.label)
        refuse_both(given, "cuts", "target")
        if self.cuts and len(self.cuts) != len(classes) - 1:
            allowed = f"{len(classes) - 1} numbers for {len(classes)} classes"
            raise refuse("cuts", allowed, shown=f"{len(self.cuts)}")
        try:
            places_in("classes", classes, self.rule)
        except InvalidValueError as error:
            raise InvalidValueError(f"{error}{self.spelling_hint}") from None

    @property
    def rule(self) -> int:
        """The rule by which values are spelled, see `tidegate.data.values`."""
        return self.spelling or NEWEST

    @property
    def spelling_hint(self) -> str:
        """What to do about values that only rule 2 spells alike."""
        old = "; for a state that version 0.1 created, add spelling = 1 to [records]"
        return "" if self.spelling else old

    @property
    def predicted(self) -> Predicted:
        """What is predicted: one of the classes, or the target."""
        return predicted_of(self.classes, self.number, self.cuts)

    @property
    def number(self) -> Target | None:
        """The number that is predicted; None if it is a class."""
        return Target(*self.target) if self.target else None

    @property
    def class_count(self) -> int | None:
        """The number of classes; None if a target is predicted."""
        return len(self.classes) if self.classes else None

    @property
    def number_labels(self) -> bool:
        """Whether the column of labels holds numbers, and not texts."""
        whole = all(isinstance(each, int) for each in self.classes or ())  # so is a target
        return whole or bool(self.cuts)

    @property
    def groups(self) -> Sequence[int | str]:
        """What surveys count: the classes, or the parts of the target's range."""
        return self.predicted.labels

    @property
    def read(self) -> tuple[str, ...] | None:
        """The columns of a record without its label, if they have names."""
        return (self.text,) if self.text else self.columns

    def build(self, kinds: TableColumns | None = None) -> SourceColumns:
        """Which columns of a source are read.

        Args:
            kinds: The columns of [[columns]], if there are any.
        """
        if not (self.columns or self.text or kinds):
            raise InvalidValueError(
                "columns is missing: describe the columns in [[columns]] to use a source"
            )
        if not self.label:
            raise InvalidValueError("label is missing: add it to use a source")
        return SourceColumns(
            label=self.label,
            features=tuple(kinds.names) if kinds else self.columns or (),
            text=self.text,
            number_labels=self.number_labels,
            dtype=self.dtype,
            kinds=kinds,
            spelling=self.rule,
        )


@dataclass(frozen=True, kw_only=True)
class PublishTable:
    """[publish]: a folder for copies of the releases, without records."""

    folder: str = key(place, "the folder that releases are written to")


def dask(**options: Any) -> "Dask":
    """The Dask engine, if its extra is installed."""
    try:
        from tidegate.run.cluster import Dask  # noqa: PLC0415
    except ModuleNotFoundError as error:
        allowed = (
            "memory or disk without the extra: in your clone of Tidegate, run pip install '.[dask]'"
        )
        raise refuse("engine", allowed, "dask") from error
    return Dask(**options)


ENGINES: dict[str, Callable[..., Engine]] = {"memory": Memory, "disk": Disk, "dask": dask}


@dataclass(frozen=True, kw_only=True)
class ComputeTable:
    """[compute]: where fits are computed."""

    engine: str = key(
        one_of(*ENGINES),
        '"disk" if the records of a fit do not fit in memory; "dask" for a cluster',
        default="memory",
    )
    workers: int | None = key(
        optional, "how many processes to start on this machine", only=("dask",), default=None
    )
    scheduler: str | None = key(
        place, "the address of a running Dask scheduler", only=("dask",), default=None
    )

    def __post_init__(self) -> None:
        self.build()

    def build(self) -> Engine:
        """The engine; a cluster is started or connected to at the first fit."""
        given = given_keys(self, "engine")
        if self.engine != "dask" and given:
            wrong = f"{next(iter(given))} is a key of dask, not of {self.engine}"
            raise InvalidValueError(f'{wrong}: remove it, or set engine = "dask"')
        return ENGINES[self.engine](**given)


def typical(name: str, value: object) -> Fraction:
    """An exact number of 1 or more: 54, 2.5 or "5/2"."""
    try:
        return typical_slots(value)
    except InvalidValueError as error:  # it names the key without its table
        raise InvalidValueError(f"{name.removesuffix('typical')}{error}") from None


def variable(name: str, value: object) -> str:
    """The name of an environment variable."""
    text = value if isinstance(value, str) else ""
    if not (text.isascii() and text.isidentifier()):
        # It may be the key itself, which no error may show.
        allowed = "the name of an environment variable, such as PERSON_KEY"
        raise refuse(name, allowed, shown="something else")
    return text


@dataclass(frozen=True, kw_only=True)
class PersonTable:
    """[person]: whose each record is, and how much a person may contribute."""

    id: str = key(word, "the column, field or header that says whose a record is")
    contributions: int = key(
        partial(whole, most=MAX_CONTRIBUTIONS),
        "k: what a person's records may cost together, in units of one record",
    )
    typical: Fraction = key(
        typical,
        "how many records a person is expected to have in a fit; for accuracy only",
        default=Fraction(1),
    )
    period: int | None = key(
        optional,
        "protect what a person does in this many consecutive steps; default: for life",
        default=None,
    )
    key: str | None = key(
        variable,
        "environment variable with the key of ids; by default a file of the state",
        life=CHANGEABLE,  # the state notices if the key itself is another one
        default=None,
    )

    def build(self) -> Person:
        """How much a person may contribute."""
        return Person(contributions=self.contributions, typical=self.typical, period=self.period)


SCORES = Fraction(1, 20)
"""The default share of scores."""


def part(name: str, value: object) -> Fraction:
    """Check that a value is a share from 0 to below 1."""
    share = fraction(name, value)
    if share == 1:
        raise refuse(name, "a share from 0 to below 1, such as 0.05", value)
    return share


@dataclass(frozen=True, kw_only=True)
class SurveyTable:
    """[survey]: what the records of each step look like, measured privately."""

    share: Fraction | None = key(
        part,
        "the budget share for means and scales of features; 0.05 with a delta, else 0",
        default=None,
        new=lambda config: default_survey(config.budget.build()),
        earlier="0",
    )


@dataclass(frozen=True, kw_only=True)
class QualityTable:
    """[quality]: how good the releases are, measured on the step after each."""

    share: Fraction | None = key(
        part,
        "the share of the budget for private scores; 0.05, or 0 with a holdout",
        default=None,
        new=lambda config: Fraction(0) if config.quality.holdout else SCORES,
        earlier="0",
    )
    scores: bool | None = key(
        flag,
        "false measures nothing but the accuracy, with less noise",
        default=None,
        new=lambda _: True,
        earlier=False,
    )
    holdout: str | None = key(
        place,
        "a file of public records to test on; no record of a source may be in it",
        default=None,
    )

    def __post_init__(self) -> None:
        if self.holdout:
            kind_of_file(Path(self.holdout), "holdout")

    def build(self, columns: SourceColumns) -> Files:
        """The public records that releases are tested on; the table must name a holdout."""
        return replace(one_file(Path(self.holdout or "")), name="holdout", columns=columns)


SECRETS = ("key", "secret", "token", "password")
"""Words in the names of credentials."""

UNSAFE = {
    *("file", "local", "asynclocal", "memory", "data", "dir", "generic", "reference"),
    *("cached", "blockcache", "filecache", "simplecache", "asyncwrapper", "async_wrapper"),
    *("http", "https", "zip", "tar", "libarchive", "git", "github", "gist", "pyscript"),
}
"""Protocols of fsspec that are not durable or not private, wrap another, or cannot be written."""


@dataclass(frozen=True, kw_only=True)
class Locations:
    """[store]: where the database and the segments of a state are, if not in its folder.

    Attributes:
        database: The URL of a PostgreSQL database; None for SQLite in the folder.
        segments: An absolute path or a URI that pyarrow supports; None for the folder.

    >>> Locations(database="postgresql://tidegate:secret@db.example/ledgers")
    Traceback (most recent call last):
    tidegate.checks.InvalidValueError: database must be a URL without a password (give that in
    PGPASSFILE, PGPASSWORD or a service file), got one with a password
    """

    database: str | None = key(
        place, "PostgreSQL; password in PGPASSFILE or PGPASSWORD", default=None
    )
    segments: str | None = key(
        place, "a URL or absolute path; credentials in the environment", default=None
    )

    def __post_init__(self) -> None:
        url = _parts("database", self.database or "postgresql:")
        if url.scheme not in {"postgresql", "postgres"}:
            scheme = url.scheme or "none"
            raise refuse("database", "a URL such as postgresql://host/database", shown=scheme)
        query = parse_qs(url.query, keep_blank_values=True)
        if url.password is not None or any("password" in name.lower() for name in query):
            without = "a URL without a password (give that in PGPASSFILE, PGPASSWORD or a service"
            raise refuse("database", f"{without} file)", shown="one with a password")
        url = _parts("segments", self.segments or "/")
        if url.scheme in {"", "file"} and not url.path.startswith("/"):
            allowed = "an absolute path, or a URI such as s3://bucket/records"
            raise refuse("segments", allowed, self.segments)
        kind, _, protocol = url.scheme.partition("+")
        if kind == "fsspec" and ("::" in (self.segments or "") or protocol in UNSAFE):
            allowed = "an absolute path, or a URI of one file system that stores files durably"
            raise refuse("segments", allowed, self.segments)
        names = " ".join(parse_qs(url.query, keep_blank_values=True)).lower()
        if "@" in url.netloc or any(word in names for word in SECRETS):
            without = "a URI without credentials (give those in the environment)"
            raise refuse("segments", without, shown="one with credentials")


def _parts(name: str, value: str) -> SplitResult:
    try:
        return urlsplit(value)
    except ValueError:
        raise refuse(name, "a path or URL", shown="one that cannot be parsed") from None
