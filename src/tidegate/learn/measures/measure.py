"""The registry of measures: how good a model is, each measure in one place with its words.

Everything that shows measures reads it: cards, commands, metrics, the page, `compare`, verdicts.
"""

import math
from collections.abc import Mapping
from typing import Any, ClassVar, Literal, NamedTuple, TypeVar

from tidegate.learn.measures.forms import TOO_NOISY, Ends, Form

Kind = Literal["classes", "target"]
"""What is predicted."""


class Measure(NamedTuple):
    """A number and the standard deviation of its noise; 0 if it is exact.

    The value is as estimated: noise can take a share below 0 or above 1. `as_json` keeps it in
    range.
    """

    value: float
    deviation: float = 0.0

    def scaled(self, unit: float, zero: float = 0.0) -> "Measure":
        """The same in another unit, from another zero."""
        return Measure(zero + unit * self.value, unit * self.deviation)

    def as_json(
        self, low: float = -math.inf, high: float = math.inf, *, digits: int = 5
    ) -> dict[str, float]:
        """The value, kept in its range, and its deviation.

        >>> Measure(1.012345678, 0.02).as_json(0, 1)
        {'value': 1.0, 'deviation': 0.02}
        """
        value = min(max(self.value, low), high) + 0.0  # not -0.0
        return {"value": round(value, digits), "deviation": round(self.deviation, digits)}


def exactly(value: Any) -> Measure:
    """A number without noise."""
    return Measure(float(value))


class Score:
    """A measure that is one number; the docstring of a subclass says what it is, for metrics.

    Attributes:
        kind: What is predicted.
        name: Its key on cards and in JSON.
        label: What people call it.
        form: How it is written, and in which range it lies.
        needs: What must hold of that which it is read off, such as "two": two classes.
        missing: What stands for it where this does not hold.
        listed: Whether people are shown it; cards and JSON have it anyway.
        alone: Whether it is shown by itself, and not only beside another.
        baseline: The measure that says what a constant reaches, shown beside it.
        better: 1 if more of it is better, -1 if less is.
        judges: Verdicts compare the known measure for which this is smallest with its baseline;
            0 for one that they do not compare.
        brief: Whether also the line of a release in `tidegate run` has it.
    """

    kind: ClassVar[Kind] = "classes"
    name: ClassVar[str]
    label: ClassVar[str] = ""
    form: ClassVar[Form] = Form()
    needs: ClassVar[tuple[str, ...]] = ()
    missing: ClassVar[Any] = None
    listed: ClassVar[bool] = True
    alone: ClassVar[bool] = True
    baseline: ClassVar[str] = ""
    better: ClassVar[int] = 1
    judges: ClassVar[int] = 0
    brief: ClassVar[bool] = False

    def noisy(self, known: Any) -> Any:
        """Read it off noisy scores: `Estimates` or `EstimatedSums`; None if noise hides it."""
        raise NotImplementedError

    def exact(self, known: Any) -> Any:
        """Read it off public records: `Answers` or `Predictions`; None if it is not defined."""
        raise NotImplementedError

    def read(self, known: Any) -> Any:
        """Read it off either of them, if it applies."""
        if not all(getattr(known, need) for need in self.needs):
            return self.missing
        return self.exact(known) if known.is_exact else self.noisy(known)

    @property
    def about(self) -> str:
        """What it is, in a sentence."""
        return (type(self).__doc__ or self.label).partition("\n")[0]

    @property
    def heading(self) -> str:
        """What tables call it."""
        return self.label.replace(" ", "_")

    def shown(self, measure: Mapping[str, float]) -> str:
        """A measure on a card, ± its margin."""
        return self.form.text(measure["value"], measure["deviation"])

    def guarded(self, measure: Mapping[str, float] | None) -> Mapping[str, float] | None:
        """A measure for JSON; None if the words beside it say that it is too noisy to tell."""
        return None if not measure or self.shown(measure) == TOO_NOISY else measure

    def as_json(self, found: Any, ends: Ends) -> Any:
        """The measure as cards have it."""
        return found and found.as_json(*self.form.span(ends), digits=self.form.digits(ends))


class Detail(Score):
    """A measure that is more than one number: a curve or a table."""

    listed: ClassVar[bool] = False

    def as_json(self, found: Any, ends: Ends) -> Any:
        """The measure as cards have it."""
        del ends
        return found if found is None else found.as_json()


class CurveRow:
    """A row of a curve: a dataclass of plain numbers and measures, None where there are too few."""

    def span(self, name: str) -> tuple[float, float]:  # noqa: ARG002 (most are shares)
        """The range of a measure."""
        return 0.0, 1.0

    def as_json(self) -> dict[str, Any]:
        """All of it as plain numbers."""
        return {
            name: each.as_json(*self.span(name)) if isinstance(each, Measure) else each
            for name, each in vars(self).items()
        }


class Rows(tuple[Any, ...]):
    """The rows of a curve."""

    __slots__ = ()

    def as_json(self) -> list[Any]:
        """All rows as plain numbers."""
        return [row.as_json() for row in self]


S = TypeVar("S", bound=Score)

REGISTRY: dict[Kind, dict[str, Score]] = {"classes": {}, "target": {}}
"""Every measure, by what is predicted and by its name, in reading order."""


def register(measure: type[S]) -> type[S]:
    """Add a measure to the registry."""
    REGISTRY[measure.kind][measure.name] = measure()
    return measure


def numbers_for(kind: Kind) -> dict[str, Score]:
    """The measures that are one number, by their names."""
    return {k: each for k, each in REGISTRY[kind].items() if not isinstance(each, Detail)}


def listed(kind: Kind) -> list[Score]:
    """The measures that people are shown."""
    return [score for score in REGISTRY[kind].values() if score.listed]


def score_named(name: str) -> Score:
    """The measure of a name; one that both kinds have is written alike."""
    return {**REGISTRY["target"], **REGISTRY["classes"]}[name]


def kind_of(measures: Mapping[str, Any]) -> Kind:
    """What the model predicts whose measures these are, as cards or listings have them."""
    own = {"target", *REGISTRY["target"]} - {*REGISTRY["classes"]}
    return "target" if own & measures.keys() else "classes"


class Measures:
    """How good a model is, by each measure, which is also an attribute.

    None stands for what is not defined, or lost in the noise.

    Args:
        known: What they are read off: noisy scores or public records.
    """

    def __init__(self, known: Any) -> None:
        self.kind: Kind = known.kind
        self.records: int = known.slots
        self.ends: Ends = known.ends
        self.values = {name: each.read(known) for name, each in REGISTRY[known.kind].items()}

    def __getattr__(self, name: str) -> Any:
        try:
            return self.__dict__["values"][name]
        except KeyError:
            raise AttributeError(name) from None

    def as_json(self) -> dict[str, Any]:
        """All measures as plain numbers, each kept in its range."""
        scores = REGISTRY[self.kind]
        return {
            "records": self.records,
            **({"target": [*self.ends]} if self.kind == "target" else {}),
            **{name: scores[name].as_json(each, self.ends) for name, each in self.values.items()},
        }
