"""The configuration of a gate."""

from collections.abc import Iterator, Mapping
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from tidegate.checks import InvalidValueError, json_of, whole
from tidegate.data.columns import TableColumns
from tidegate.data.feature_map import FeatureChain, FeatureMap, NamedMap
from tidegate.data.intake import Intake
from tidegate.data.records import NOT_PACKED, NotPacked, Packing
from tidegate.kinds import CHANGEABLE, parameters
from tidegate.learn.learner import Task
from tidegate.privacy import Budget
from tidegate.run.config.keys import (
    ConfigError,
    given_keys,
    key,
    keys_left_out,
    read_table,
    table,
    tables,
)
from tidegate.run.config.kind_tables import (
    ColumnTable,
    FeatureTable,
    LearnerTable,
    ScheduleTable,
    SourceTable,
    TwoSources,
    column_table,
    feature_table,
    learner_table,
    one_or_two,
    schedule_table,
    with_installed_sources,
)
from tidegate.run.config.mistakes import (
    build_mistakes,
    column_mistakes,
    described,
    owner_mistakes,
    size_mistakes,
    source_mistakes,
    text_mistakes,
)
from tidegate.run.config.sections import with_earlier
from tidegate.run.config.tables import (
    AllocationTable,
    BudgetTable,
    ComputeTable,
    Locations,
    PersonTable,
    PublishTable,
    QualityTable,
    RecordsTable,
    SurveyTable,
)
from tidegate.run.config.texts import confirmed, fixed, plain, sorted_json, tables_in, tables_of
from tidegate.run.settings import BitsByPlace, Settings
from tidegate.schedule import TwoStream
from tidegate.schedule.plan import Plan, TwoStreamPlan
from tidegate.sources import ConfiguredSource, Source, SourceColumns, every, once
from tidegate.sources.configured import Resume, SourceIdentity, same_file
from tidegate.sources.files import BY_OPTION, Files, as_utf8, one_file

NAME_ANOTHER = "tidegate run reads that one; name another file"


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
    tidegate.run.config.keys.ConfigError: schedule.windw is not a known key: did you mean ...?
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
        one_or_two,
        "where records come from; without it, Python or HTTP sends them",
        life=CHANGEABLE,
        default=None,
    )
    publish: PublishTable | None = key(
        table(PublishTable),
        "a folder for copies of the releases, without records",
        life=CHANGEABLE,
        default=None,
    )
    compute: ComputeTable = key(
        table(ComputeTable), "where models are computed", life=CHANGEABLE, default=ComputeTable()
    )
    store: Locations | None = key(
        table(Locations),
        "where the state's data is, if not in its folder",
        life=CHANGEABLE,
        default=None,
    )
    not_private_seed: int | None = key(
        partial(whole, least=0), "for tests: noise that anyone with the seed can undo", default=None
    )

    def __post_init__(self) -> None:
        """Fill in defaults, and refuse sections that do not fit together."""
        budget = self.budget.build()
        if mistakes := list(column_mistakes(self)):
            raise ConfigError(mistakes)
        if (columns := self.column_map()) and not self.records.norm:
            object.__setattr__(self, "records", replace(self.records, norm=columns.norm))
        object.__setattr__(self, "allocation", self.allocation.resolved(budget))
        object.__setattr__(self, "learner", self.learner.resolved(budget, self.records.class_count))
        # What does not go with [person] does not make a plan either, for the same reason.
        mistakes = list(owner_mistakes(self)) or list(build_mistakes(self))
        if mistakes := [*mistakes, *text_mistakes(self), *source_mistakes(self)]:
            raise ConfigError(mistakes)

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> "Config":
        """From the tables of a TOML text."""
        config = read_table(cls, "", given)
        if mistakes := list(size_mistakes(config)):
            raise ConfigError(mistakes)
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
        return read_table(
            cls, "", with_installed_sources(confirmed(with_earlier(json_of(json_text))))
        )

    def settled(self, state: "Config | None" = None) -> "Config":
        """With the keys that new states fix and that are left out: a state's, or the defaults."""
        sections = dict(self._settled(state))
        if sections != self.complete:
            return replace(self, **sections)
        settled = copy(self)  # with all that is resolved: what a new state has is checked already
        vars(settled).update(sections)
        return settled

    def _settled(self, state: "Config | None" = None) -> Iterator[tuple[str, Any]]:
        """The sections, with what is left out taken from a state, or from the defaults."""
        for name, section in given_keys(self).items():
            left_out = keys_left_out(section)
            if not state:
                values = {each.name: each.new(self) for each in left_out if each.new}
            else:
                values = {each.name: getattr(vars(state)[name], each.name) for each in left_out}
            yield name, replace(section, **values) if values else section

    @cached_property
    def complete(self) -> dict[str, Any]:
        """The sections as a new state has them: with the keys that are left out."""
        return dict(self._settled())

    def to_json(self) -> str:
        """This configuration as canonical JSON, with defaults filled in."""
        return sorted_json(plain(self.complete))

    def privacy_json(self) -> str:
        """The settings that affect privacy, as canonical JSON.

        Other sections may change during the life of a state. So may where the key of ids is kept;
        the state notices if the key is another one. So may the folders of an encoder's files, which
        have a digest.
        """
        kept = {name: each for name, each in self.complete.items() if name not in OPERATIONAL}
        return sorted_json(plain({name: fixed(each) for name, each in kept.items()}))

    @cached_property
    def settings(self) -> Settings:
        """What a run is told: all of this, resolved once."""
        packing = self.packing()
        return Settings(
            plan=self.plan(),
            task=self.task(),
            learner=self.learner.build(),
            intake=Intake(
                norm=self.norm,
                predicted=self.records.predicted,
                features=self.feature_map(),
                spelling=self.records.rule,
                packed=packing.columns,
            ),
            packing=packing,
            features=self.feature_map(),
            dtype=self.records.dtype,
            columns=self.read,
            label=self.records.label,
            scores=bool(self.complete["quality"].scores),
            noise=BitsByPlace(self.not_private_seed),
        )

    def total(self) -> Budget:
        """The budget: of a record, or of a person if persons are protected."""
        return self.plan().budget

    def source_columns(self) -> SourceColumns:
        """Which columns of a source are read, with the one that says whose a record is."""
        person = self.person.id if self.person else None
        return replace(self.records.build(self.column_map()), person=person)

    def plan(self) -> Plan | TwoStreamPlan:
        """The plan: what is released when, and what it costs."""
        return self._plan

    @cached_property
    def _plan(self) -> Plan | TwoStreamPlan:
        schedule = self.schedule.build()
        person = self.person.build() if self.person else None
        shared: dict[str, Any] = {
            "budget": self.budget.build(person.contributions if person else 1),
            "allocation": self.allocation.build(),
            "reserve": self.complete["quality"].share,
            "survey": self.complete["survey"].share,
            "person": person,
        }
        if isinstance(schedule, TwoStream):
            return TwoStreamPlan(schedule=schedule, **shared)
        return Plan(schedule=schedule, **shared)

    def task(self) -> Task:
        """The learning task: loss, norm and regularization."""
        return self.learner.task(classes=self.records.class_count, norm=self.norm)

    @property
    def norm(self) -> float:
        """The bound on the norm of every record: as given, or as it follows from the columns."""
        if not self.records.norm:
            raise LookupError("neither records.norm nor [[columns]]")
        return self.records.norm

    @property
    def read(self) -> tuple[str, ...] | None:
        """The columns of a record without its label, if they have names."""
        names = tuple(each.parameters["name"] for each in self.columns)
        return names or self.records.read

    def column_map(self) -> TableColumns | None:
        """The map of the columns of [[columns]]; None if there are none."""
        return self._column_map

    @cached_property
    def _column_map(self) -> TableColumns | None:
        rule = self.records.rule
        kinds = [each.build(rule) for each in self.columns]
        return TableColumns(kinds, spelling=rule) if kinds else None

    def packing(self) -> Packing | NotPacked:
        """How records are packed in the store."""
        columns = self.column_map()
        if not columns or self.features or not columns.dense:
            return NOT_PACKED
        return Packing(columns=columns, norm=self.norm, dtype=self.records.dtype)

    def maps(self) -> tuple[NamedMap, ...]:
        """The feature maps that are applied to every record, in their order."""
        columns = self.column_map()
        return (*([columns] if columns else []), *(each.build() for each in self.features))

    def feature_map(self) -> FeatureMap:
        """The feature maps that are applied to every record before it is clipped."""
        return FeatureChain(maps=self.maps(), dtype=self.records.dtype, spelling=self.records.rule)

    def sources(self, *, pause: float | None = 1.0, follow: bool = False) -> dict[str, Source]:
        """The source of each stream, by the name of the stream; none if there is no [source].

        Args:
            pause: Seconds between two looks at a followed source; None to stop at its end.
            follow: Follow all of them.
        """
        wait = once if pause is None else every(pause)
        opened = {}
        for name, each in self.configured().items():
            followed = replace(each, follow=each.follow or follow)
            step = self.plan().streams[name].size
            opened[name] = followed.opened(name, self.source_columns(), wait=wait, step=step)
        return opened

    def configured(self) -> dict[str, ConfiguredSource]:
        """The source that [source] names for each stream, not opened yet."""
        return self.source.streams() if self.source else {}

    @property
    def follows(self) -> bool:
        """Whether any source is followed."""
        return any(each.follow for each in self.configured().values())

    @property
    def identities(self) -> list[SourceIdentity]:
        """What the source of each stream reads."""
        return [each.identity for each in self.configured().values()]

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
        place = as_utf8(Path(path))
        if any(each.reads(place) for each in self.configured().values()):
            raise InvalidValueError(f"{path} is in [source]: {NAME_ANOTHER}")
        if any(same_file(place, each) for each in self.files()):
            raise InvalidValueError(f"{path} is a link to a file of [source]: {NAME_ANOTHER}")
        return replace(
            one_file(Path(path), self.configured().values()),
            name=file_name(path),
            columns=self.source_columns().with_aliases(aliases or {}),
            resume=resume,
            remedy=BY_OPTION,
        )

    def locations(self) -> Locations:
        """Where the state's database and segments are."""
        return self.store or Locations()

    def files(self) -> Iterator[Path]:
        """The files that [source] names, and those in folders that it names."""
        for each in self.configured().values():
            yield from each.paths

    def holdout(self) -> Files | None:
        """The public records that releases are tested on, if there are any."""
        if not self.quality.holdout:
            return None
        columns = self.records.build(self.column_map())
        return self.quality.build(columns)


OPERATIONAL = {each.name for each in parameters(Config) if each.life == CHANGEABLE}
"""Sections that do not affect privacy: where records and releases are kept, and what computes."""


def file_name(path: str | Path) -> str:
    """The name under which the offset of a single file is kept."""
    return f"file {Path(path).resolve()}"
