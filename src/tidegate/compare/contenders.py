"""The contenders of a comparison: schedules, and methods of other packages."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from importlib.metadata import EntryPoint
from typing import Any, NamedTuple, Protocol

from tidegate import plugins
from tidegate.compare.labelled import LabelledStream
from tidegate.compare.method import Method, Scheduled
from tidegate.kinds import parameters
from tidegate.learn.learner import Learner, Task
from tidegate.privacy import Budget
from tidegate.privacy.person import Person
from tidegate.schedule import Fading
from tidegate.schedule.protocol import SCHEDULES, alone

FORGETS = (Fraction(2, 5), Fraction(3, 10), Fraction(1, 5), Fraction(1, 8), Fraction(1, 15))
"""Forget rates to choose from: a step counts for half after 1.4, 1.9, 3.1, 5.2 and 10 more."""

OWN_STEP_ONLY = Fraction(1, 5)
"""The forget rate that is tried with a memory of one step; there it sets how long models linger."""

SLIDING_REFIT = "sliding-refit"
SLIDING_CHAIN = "sliding-chain"
GRID = ("fading", "sliding", SLIDING_REFIT, "continual", "growing", "independent")
"""The names of the schedules that are tried by default."""

CONSTANT = "constant"
"""The name of the method that always answers the same, if a package adds it."""

OWN_METHODS = (*alone(), SLIDING_REFIT)
"""This library's own methods; fading stands for several settings."""


# --- schedules


class Setting(NamedTuple):
    """A schedule with some of its keys.

    Attributes:
        name: Its name in tables and plots.
        kind: The kind of schedule.
        keys: Keys of the [schedule] table besides its sizes; None leaves a configured key out.
    """

    name: str
    kind: str
    keys: Mapping[str, str | int | bool | None]


def settings_of(name: str, forgets: Sequence[Fraction] = FORGETS) -> Iterator[Setting]:
    """The settings behind a name: several for fading, one for every other schedule.

    >>> [each.name for each in settings_of("fading", [Fraction(1, 4)])]
    ['fading 1/4', 'fading 1/5, memory 1']
    >>> next(settings_of("fading", [Fraction(1, 4)])).keys
    {'forget': '1/4', 'memory': 9, 'linger': None}
    """
    if name == "fading":
        for forget in forgets:
            memory = Fading(step=1, forget=forget).memory
            yield _fading(f"fading {forget}", forget, memory)
        yield _fading(f"fading {OWN_STEP_ONLY}, memory 1", OWN_STEP_ONLY, 1)
    elif name == SLIDING_REFIT:
        yield Setting(name, "sliding", {"refit": True})
    elif name == "sliding":
        yield Setting(name, "sliding", {"refit": None})
    else:
        yield Setting(name, name, {})


def _fading(name: str, forget: Fraction, memory: int | None) -> Setting:
    return Setting(name, "fading", {"forget": str(forget), "memory": memory, "linger": None})


def sizes_of(kind: str) -> tuple[str, ...]:
    """The sizes that a schedule requires, the longest first."""
    return tuple(each.name for each in parameters(SCHEDULES[kind]) if each.required)


# --- methods of other packages


@dataclass(frozen=True, kw_only=True)
class Problem:
    """What a method of another package is to solve, under the same terms as the schedules.

    Attributes:
        budget: The budget of every record or, if persons are protected, of every person.
        learner: How each fit is trained.
        regularization: Lambda; None leaves it to the learner.
        person: How much a person may contribute; None if records are protected.
        target: Whether a number is predicted, not a class.
        surveyed: Whether the models of the schedules may add a constant, as surveys allow.
        first: Records before the first release of the configured schedule.
        step: Records between two releases.
        window: Records in a window.
        newest: Whether the configured schedule learns from the newest records only.
        records: Records in the stream.
    """

    budget: Budget
    learner: Learner[Task]
    regularization: float | None
    person: Person | None
    target: bool
    surveyed: bool
    first: int
    step: int
    window: int
    newest: bool
    records: int


class Baseline(Protocol):
    """What an entry point of the group `tidegate.methods` names.

    Attributes:
        usual: Whether it is compared if no method is asked for by name.
        runs_once: Whether all its runs would be the same.
    """

    @property
    def usual(self) -> bool: ...  # noqa: D102 (see above)
    @property
    def runs_once(self) -> bool: ...  # noqa: D102

    def methods(self, problem: Problem) -> Sequence[Method]:
        """The method, once for each setting to try; InvalidValueError says why it cannot be had."""

    def note(self, problem: Problem) -> str:
        """What to say below the tables about how it was compared; empty if nothing."""


def added_methods() -> dict[str, EntryPoint]:
    """The methods of other packages; they cannot replace one of this library."""
    found = plugins.added(plugins.METHODS)
    return {name: entry for name, entry in found.items() if name not in OWN_METHODS}


# --- contenders


@dataclass(frozen=True, kw_only=True)
class Contender:
    """One way to spend a budget: a method of another package.

    Attributes:
        name: Its name in tables and plots.
        budget: The budget of every record, or of every person.
        methods: One for each setting; the best of them counts.
        runs_once: Whether all its runs would be the same.
        note: What to say below the tables about how it was compared.
        configured: Whether it is the configured schedule.
        table: The [schedule] table of a schedule; empty for any other method.
    """

    name: str
    budget: Budget
    methods: Sequence[Method]
    runs_once: bool = False
    note: str = ""
    configured: bool = False
    table: Mapping[str, Any] = field(default_factory=dict)

    @property
    def records_kept(self) -> float:
        """How many records stay stored after a release; infinite if all do, NaN if unknown."""
        return math.nan

    @property
    def retained(self) -> Mapping[str, int | None] | None:
        """The same for JSON, and for how many steps, its own included, a record stays."""
        return None

    def admitted(self, stream: LabelledStream) -> float:  # noqa: ARG002
        """The share of the records with a person that count; NaN if there is nothing to say."""
        return math.nan

    @property
    def title(self) -> str:
        """Its name, with a mark if it is configured."""
        return f"{self.name} *" if self.configured else self.name


@dataclass(frozen=True, kw_only=True)
class ScheduleContender(Contender):
    """A schedule of this library, with its setting.

    Attributes:
        scheduled: The one method.
    """

    scheduled: Scheduled

    @property
    def records_kept(self) -> float:
        """Those that a later fit reads, besides those of the step that is not complete."""
        schedule = self.scheduled.plan.schedule
        steps = schedule.look_back
        return math.inf if steps is None else schedule.steps.count(steps - 1)

    @property
    def retained(self) -> Mapping[str, int | None]:
        """See `Contender`."""
        kept = self.records_kept
        records = None if math.isinf(kept) else int(kept)
        return {"records": records, "steps": self.scheduled.plan.schedule.look_back}

    def admitted(self, stream: LabelledStream) -> float:
        """See `Contender`."""
        return self.scheduled.admitted(stream)


def kept(contender: Contender) -> str:
    """How many records stay stored, in words: "all" if none is ever deleted, "-" if unknown."""
    count = contender.records_kept
    if math.isnan(count):
        return "-"
    return "all" if math.isinf(count) else f"{count:,.0f}"
