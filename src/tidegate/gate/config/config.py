"""The configuration of a gate."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from tidegate.checks import InvalidValueError, json_of, refuse, whole
from tidegate.features.columns import Columns
from tidegate.features.feature_chain import FeatureChain
from tidegate.features.feature_map import FeatureMap, NamedMap
from tidegate.gate.config.column_table import ColumnTable, column_table
from tidegate.gate.config.feature_table import FeatureTable, feature_table
from tidegate.gate.config.keys import (
    ConfigError,
    key,
    read_table,
    table,
    tables,
)
from tidegate.gate.config.learner_table import LearnerTable, learner_table
from tidegate.gate.config.measure_tables import QualityTable, SurveyTable, with_earlier
from tidegate.gate.config.mistakes import (
    build_mistakes,
    column_mistakes,
    described,
    owner_mistakes,
    source_mistakes,
    text_mistakes,
)
from tidegate.gate.config.person_table import PersonTable
from tidegate.gate.config.schedule_table import ScheduleTable, schedule_table
from tidegate.gate.config.source_identity import SourceIdentity, same_file
from tidegate.gate.config.source_tables import (
    STANDARD_INPUT,
    BrokerTable,
    FileTable,
    SourceTable,
    TwoSources,
    one_or_two,
)
from tidegate.gate.config.tables import (
    FILES,
    AllocationTable,
    BudgetTable,
    ComputeTable,
    PublishTable,
    RecordsTable,
    StoreTable,
)
from tidegate.gate.config.texts import canonical, confirmed, plain, tables_in, tables_of
from tidegate.gate.locations import Locations
from tidegate.gate.sources import Files, Source, SourceColumns, StandardInput
from tidegate.gate.sources.broker import Resume
from tidegate.gate.sources.files import as_utf8
from tidegate.learn.learner import Task
from tidegate.learn.packed import Packing
from tidegate.plan import Plan, TwoStreamPlan
from tidegate.privacy import Budget
from tidegate.schedule import TwoStream

BY_OPTION = "add --resume {} {}"
"""How to resume `tidegate ingest` elsewhere in a file that has changed."""

NAME_ANOTHER = "tidegate run reads that one; name another file"

OPERATIONAL = {"source", "publish", "store", "compute"}
"""Sections that do not affect privacy: where records and releases are kept, and what computes."""


@dataclass(frozen=True, kw_only=True)
class Config:
    """The configuration of a gate: one field for each section of the TOML file.

    All checks happen on reading: building a plan or a learner from a `Config` does not fail.

    >>> config = Config.parse('''
    ... [schedule]
    ... kind = "sliding"
    ... window = 7168
    ... step = 1024
    ... [budget]
    ... epsilon = 1.0
    ... [records]
    ... classes = [0, 1]
    ... norm = 1.0
    ... ''')
    >>> config.plan().schedule
    SlidingWindow(window=7168, step=1024, sample=None, refit=None)
    >>> Config.parse('''
    ... [schedule]
    ... kind = "sliding"
    ... windw = 7168
    ... step = 0
    ... [budget]
    ... epsilon = 1.0
    ... ''')
    Traceback (most recent call last):
    tidegate.gate.config.keys.ConfigError: schedule.windw is not a known key: did you mean ...?
    schedule.step must be a whole number from 1 to 9007199254740992, got 0
    records is missing: add it, see docs/reference/configuration.md
    """

    schedule: ScheduleTable = key(schedule_table, "when models are trained, and on which records")
    budget: BudgetTable = key(
        table(BudgetTable), "what all models together may reveal about any one record, for ever"
    )
    records: RecordsTable = key(
        table(RecordsTable), "what a record is; none of this is inferred from the data"
    )
    person: PersonTable | None = key(
        table(PersonTable),
        "protects persons instead of records: the budget is then about any one person",
        default=None,
    )
    allocation: AllocationTable = key(
        table(AllocationTable), "how the budget is split", default=AllocationTable()
    )
    columns: tuple[ColumnTable, ...] = key(
        tables(column_table),
        "what the columns of a record are: numbers, categories, flags, times, texts or vectors",
        default=(),
    )
    features: tuple[FeatureTable, ...] = key(
        tables(feature_table), "maps that every record goes through, in this order", default=()
    )
    learner: LearnerTable = key(
        learner_table, "how models are trained and made private", default=LearnerTable()
    )
    survey: SurveyTable = key(
        table(SurveyTable), "what records look like, measured privately", default=SurveyTable()
    )
    quality: QualityTable = key(
        table(QualityTable), "how good models are, and how that is measured", default=QualityTable()
    )
    source: SourceTable | TwoSources | None = key(
        one_or_two, "where records come from; without it, Python or HTTP sends them", default=None
    )
    publish: PublishTable | None = key(
        table(PublishTable), "a folder for copies of the releases, without records", default=None
    )
    compute: ComputeTable = key(
        table(ComputeTable), "where models are computed", default=ComputeTable()
    )
    store: StoreTable | None = key(
        table(StoreTable), "where the state's data is, if not in its folder", default=None
    )
    not_private_seed: int | None = key(
        partial(whole, least=0), "for tests: noise that anyone with the seed can undo", default=None
    )

    def __post_init__(self) -> None:
        """Fill in defaults, and refuse sections that do not fit together."""
        budget = self.budget.build()
        if mistakes := list(column_mistakes(self)):
            raise ConfigError(mistakes)
        if self.columns and self.records.norm is None:
            object.__setattr__(self, "records", replace(self.records, norm=self._described().norm))
        object.__setattr__(self, "allocation", self.allocation.resolved(budget))
        object.__setattr__(self, "learner", self.learner.resolved(budget, self._classes))
        # What does not go with [person] does not make a plan either, for the same reason.
        mistakes = list(owner_mistakes(self)) or list(build_mistakes(self))
        if mistakes := [*mistakes, *text_mistakes(self), *source_mistakes(self)]:
            raise ConfigError(mistakes)

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> "Config":
        """From the tables of a TOML text."""
        config = read_table(cls, "", given)
        config.check_size()
        return config

    @classmethod
    def parse(cls, toml: str) -> "Config":
        """From TOML text."""
        return cls.of(described(tables_of(toml)))

    @classmethod
    def load(cls, path: str | Path) -> "Config":
        """From a TOML file."""
        tables = tables_in(path)
        if "members" in tables:
            raise ConfigError([f"{path} configures a fleet (it has [members]): use tidegate fleet"])
        return cls.of(described(tables))

    @classmethod
    def from_json(cls, json_text: str) -> "Config":
        """From the output of `to_json`, of this or an earlier version.

        Confirmations and size limits apply to new states only, so they are not checked again.
        """
        return read_table(cls, "", confirmed(with_earlier(json_of(json_text))))

    def settled(self, state: "Config | None" = None) -> "Config":
        """With the keys that new states fix and that are left out: a state's, or the defaults."""
        survey, quality = (None, None) if state is None else (state.survey, state.quality)
        return replace(
            self,
            records=self.records.settled(None if state is None else state.records),
            survey=self.survey.settled(survey, self.budget.build()),
            quality=self.quality.settled(quality),
        )

    def to_json(self) -> str:
        """This configuration as canonical JSON, with defaults filled in."""
        return canonical(plain(self.settled()))

    def privacy_json(self) -> str:
        """The settings that affect privacy, as canonical JSON.

        The other sections (`OPERATIONAL`) may change during the life of a state. So may where the
        key of ids is kept; the state notices if the key is another one. So may the folders of an
        encoder's files, which have a digest.
        """
        kept = {k: v for k, v in plain(self.settled()).items() if k not in OPERATIONAL}
        if self.columns:
            kept["columns"] = plain(tuple(each.without_folders() for each in self.columns))
        if self.features:
            kept["features"] = plain(tuple(each.without_folders() for each in self.features))
        if self.person is not None:
            kept["person"] = plain(replace(self.person, key=None))
        return canonical(kept)

    def check_size(self) -> None:
        """Refuse fits that would be too large, before any records arrive."""
        surveyed = self.survey.settled(None, self.budget.build()).share
        task = self.task().centred() if surveyed else self.task()
        try:
            self.learner.build().check_size(task, self.schedule.build().largest)
        except InvalidValueError as error:
            raise ConfigError([f"learner.{error}"]) from error

    def total(self) -> Budget:
        """The budget: of a record, or of a person if persons are protected."""
        return self.budget.build(1 if self.person is None else self.person.contributions)

    def source_columns(self) -> SourceColumns:
        """Which columns of a source are read, with the one that says whose a record is."""
        person = None if self.person is None else self.person.id
        return replace(self.records.build(self.column_map()), person=person)

    def holdout_columns(self) -> SourceColumns:
        """Which columns of public records are read."""
        return self.records.build(self.column_map())

    def plan(self) -> Plan | TwoStreamPlan:
        """The plan: what is released when, and what it costs."""
        schedule, budget = self.schedule.build(), self.total()
        shared: dict[str, Any] = {
            "budget": budget,
            "allocation": self.allocation.build(),
            "reserve": self.quality.settled(None).share,
            "survey": self.survey.settled(None, budget).share,
            "person": None if self.person is None else self.person.build(),
        }
        if isinstance(schedule, TwoStream):
            return TwoStreamPlan(schedule=schedule, **shared)
        return Plan(schedule=schedule, **shared)

    def task(self) -> Task:
        """The learning task: loss, norm and regularization."""
        return self.learner.task(classes=self._classes, norm=self.norm)

    @property
    def norm(self) -> float:
        """The bound on the norm of every record: as given, or as it follows from the columns."""
        if self.records.norm is None:
            raise LookupError("neither records.norm nor [[columns]]")
        return self.records.norm

    @property
    def read(self) -> tuple[str, ...] | None:
        """The columns of a record without its label, if they have names."""
        names = tuple(each.parameters["name"] for each in self.columns)
        return names or self.records.read

    @property
    def feature_names(self) -> tuple[str, ...]:
        """The names of the features of a record; of its columns, if maps change them."""
        columns = self.column_map()
        if columns is None or self.features:
            return self.read or ()
        return tuple(columns.get_feature_names_out().tolist())

    def column_map(self) -> Columns | None:
        """The map of the columns of [[columns]]; None if there are none."""
        return self._described() if self.columns else None

    def _described(self) -> Columns:
        rule = self.records.rule
        return Columns([each.build(rule) for each in self.columns], spelling=rule)

    def packing(self) -> Packing | None:
        """How records are packed in the store; None if the store keeps their features."""
        columns = self.column_map()
        if columns is None or self.features or not columns.dense:
            return None
        return Packing(columns=columns, norm=self.norm, dtype=self.records.dtype)

    def maps(self) -> tuple[NamedMap, ...]:
        """The feature maps that are applied to every record, in their order."""
        columns = self.column_map()
        return (*([] if columns is None else [columns]), *(each.build() for each in self.features))

    @property
    def _classes(self) -> int | None:
        """The number of classes; None if a target is predicted."""
        return None if self.records.classes is None else len(self.records.classes)

    def feature_map(self) -> FeatureMap:
        """The feature maps that are applied to every record before it is clipped."""
        return FeatureChain(maps=self.maps(), dtype=self.records.dtype, spelling=self.records.rule)

    def sources(self, *, pause: float | None = 1.0, follow: bool = False) -> dict[str, Source]:
        """The source of each stream, by the name of the stream; none if there is no [source].

        Args:
            pause: Seconds between two looks at a followed source; None to stop at its end.
            follow: Follow all of them.
        """
        streams = self._streams()
        if not streams:
            return {}
        columns = self.source_columns()
        if follow:
            streams = {name: replace(each, follow=True) for name, each in streams.items()}
        built = {name: each.build(name, columns, pause=pause) for name, each in streams.items()}
        return {name: self._by_steps(name, source) for name, source in built.items()}

    def _by_steps(self, stream: str, source: Source) -> Source:
        """Make standard input end a batch at each step, so that training need not wait."""
        if not isinstance(source, StandardInput):
            return source
        schedule = self.schedule.build()
        steps = schedule.steps[stream] if isinstance(schedule, TwoStream) else schedule.steps
        return replace(source, step=steps.size)

    @property
    def follows(self) -> bool:
        """Whether any source is followed."""
        return any(each.follow for each in self._streams().values())

    @property
    def identities(self) -> list[SourceIdentity]:
        """What the source of each stream reads."""
        return [each.identity for each in self._streams().values()]

    def _streams(self) -> dict[str, SourceTable]:
        if self.source is None:
            return {}
        if isinstance(self.source, TwoSources):
            return {"source": self.source.source, "target": self.source.target}
        return {"records": self.source}

    def file_sources(self) -> Iterator[FileTable]:
        """The sources that are files, or standard input."""
        return (each for each in self._streams().values() if isinstance(each, FileTable))

    def broker_sources(self) -> Iterator[BrokerTable]:
        """The sources that are brokers."""
        return (each for each in self._streams().values() if isinstance(each, BrokerTable))

    def source_of(
        self,
        path: str | Path,
        resume: Resume | None = None,
        aliases: Mapping[str, str] | None = None,
    ) -> Files:
        """A single file as a source with an offset of its own.

        A file that [source] names is refused: its records would be taken twice. A CSV file has the
        delimiter of [source].

        Args:
            path: The file.
            resume: The mark of an offset, and how many records of the file to skip instead.
            aliases: The names of columns that are called otherwise in the file.
        """
        place = as_utf8(Path(path)).resolve()
        for each in self.file_sources():
            if each.path != STANDARD_INPUT and Path(each.path).resolve() in {place, place.parent}:
                raise InvalidValueError(f"{path} is in [source]: {NAME_ANOTHER}")
        if any(same_file(place, each) for each in self.source_files()):
            raise InvalidValueError(f"{path} is a link to a file of [source]: {NAME_ANOTHER}")
        kind = place.suffix.removeprefix(".").lower()
        if kind not in FILES:
            raise refuse("the file", "a .csv, .parquet or .jsonl file", str(path))
        marks = [each.delimiter for each in self.file_sources() if each.type == kind == "csv"]
        more = {"delimiter": marks[0]} if marks and marks[0] is not None else {}
        reader = FILES[kind](columns=self.source_columns().with_aliases(aliases or {}), **more)
        return Files(
            name=file_name(path), path=Path(path), format=reader, resume=resume, remedy=BY_OPTION
        )

    def locations(self) -> Locations:
        """Where the state's database and segments are."""
        return Locations() if self.store is None else self.store.build()

    def files(self) -> Iterator[Path]:
        """The files that [source] names, and those in folders that it names."""
        for each in self.file_sources():
            path = Path(each.path)
            yield from path.glob(f"*.{each.type}") if path.is_dir() else [path]

    def source_files(self) -> Iterator[Path]:
        """The same without standard input."""
        return (path for path in self.files() if path != Path(STANDARD_INPUT))

    def holdout(self) -> Files | None:
        """The public records that releases are tested on, if there are any."""
        return None if self.quality.holdout is None else self.quality.build(self.holdout_columns())


def file_name(path: str | Path) -> str:
    """The name under which the offset of a single file is kept."""
    return f"file {Path(path).resolve()}"
