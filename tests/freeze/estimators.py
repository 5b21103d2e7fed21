"""How estimators are run for the freeze. Every parameter is spelled out: a default may change."""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import tidegate
from tests.freeze.inside import FIRST, Person, seal
from tests.freeze.made import Configuration, Made
from tidegate import Paper, Plan, Tapered, TwoStreamPlan
from tidegate.schedule import TwoStream

Settings = Mapping[str, Any]


@dataclass(frozen=True)
class Records:
    """What an estimator is given: rows, labels, persons and streams; and rows to predict."""

    X: Any
    y: Any = None
    persons: Any = None
    stream: Any = None
    questions: Any = None

    def counts(self) -> dict[str, int]:
        """How many records each stream gets."""
        if self.stream is None:
            return {"records": self.X.shape[0] if hasattr(self.X, "shape") else len(self.X)}
        return {name: self.stream.count(name) for name in ("source", "target")}

    def given(self, fitted: Any) -> None:
        """Give them to an estimator, in one batch."""
        words = {"persons": self.persons, "stream": self.stream}
        words = {name: each for name, each in words.items() if each is not None}
        fitted.fit(self.X, *([] if self.y is None else [self.y]), **words)


def estimator(  # noqa: PLR0917 (a row of a table)
    name: str,
    kind: str,
    settings: Settings,
    schedule: Any,
    feed: Callable[[], Records],
    sampled: bool = False,
) -> Configuration:
    """A configuration of an estimator; its schedule is what its plan is printed of."""
    return Configuration(
        name=f"{kind} {name}".strip(),
        make=partial(_made, kind, settings, schedule, feed),
        spelled=partial(left_out, kind, settings),
        sampled=sampled,
    )


def left_out(kind: str, settings: Settings) -> list[str]:
    """The parameters of an estimator that are left to a default."""
    parameters = inspect.signature(getattr(tidegate, kind)).parameters
    return sorted(parameters.keys() - settings.keys())


def _made(
    kind: str, settings: Settings, schedule: Any, feed: Callable[[], Records], folder: Path
) -> Made:
    del folder
    fitted, fed = getattr(tidegate, kind)(**settings), feed()
    fed.given(fitted)
    sealed, previous = [], FIRST
    for release in fitted.releases_:
        sealed.append(seal(release.card, release.weights, previous))
        previous = sealed[-1].hash
    plan, counts = _plan(settings, schedule), fed.counts()
    if isinstance(plan, TwoStreamPlan):
        ledgers = {name: getattr(fitted.ledgers_, name) for name in counts}
    else:
        ledgers = {"records": fitted.ledger_}
        assert fitted.certificate_ == plan.certificate
    return Made(
        releases=sealed,
        ledgers=ledgers,
        counts=counts,
        plan=plan,
        until=next(iter(counts.values())),
        questions=fed.questions,
    )


def _plan(settings: Settings, schedule: Any) -> Plan | TwoStreamPlan:
    """The plan of an estimator, made anew: it says when its models come and what they cost."""
    budget, person, given = settings["budget"], None, settings.get("allocation", "paper")
    if settings["contributions"] is not None:
        limits = {name: settings[name] for name in ("contributions", "period", "typical")}
        person = Person(**limits)
        budget = replace(budget, contributions=person.contributions)
    allocation = (
        {"paper": Paper(), "tapered": Tapered()}.get(given) if isinstance(given, str) else given
    )
    survey = Fraction(settings.get("survey", 0))
    make: Any = TwoStreamPlan if isinstance(schedule, TwoStream) else Plan
    plan: Plan | TwoStreamPlan = make(
        schedule=schedule, budget=budget, allocation=allocation, survey=survey, person=person
    )
    return plan
