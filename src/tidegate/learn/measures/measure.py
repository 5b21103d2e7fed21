"""The registry of measures: how good a model is, each measure in one place with its words.

Everything that shows measures reads it: cards, commands, metrics, the page, `compare`, verdicts.
They are written in percent, as plain numbers, or in the unit of the target. ± is two standard
deviations of the noise, wherever it is printed.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple, TypeVar

DIGITS = 5
"""Decimals of a measure in JSON."""

RANGE_DIGITS = 6
"""Digits of a number as wide as the range of targets, in JSON, or more of a wide range."""

MAX_SHOWN_DEVIATION = 0.25
"""With a larger deviation a share tells nothing, and is not shown as a number."""

TOO_NOISY = "too noisy to tell"


class Ends(NamedTuple):
    """The ends of the public range of targets; those of a share where classes are predicted."""

    low: float = 0.0
    high: float = 1.0

    @property
    def width(self) -> float:
        """The width of the range."""
        return self.high - self.low


def margin(deviation: float) -> float:
    """What is printed after ±, for the standard deviation of the noise."""
    return 2 * deviation


@dataclass(frozen=True, kw_only=True)
class Form:
    """How a measure is written, and in which range it lies.

    Attributes:
        low: The least that it can be.
        high: The largest.
        most_noise: With a larger deviation it tells nothing.
        page: The format of the page that writes it so.
        spec: The format of exact values in `compare`.
    """

    page: ClassVar[str] = "plain"

    low: float = 0.0
    high: float = math.inf
    most_noise: float = math.inf
    spec: str = ".3f"

    def written(self, value: float, noise: float) -> str:
        """The value ± its margin."""
        return f"{value:.3f}" + (f" ± {margin(noise):.3f}" if noise else "")

    def hidden(self, value: float, noise: float) -> bool:
        """Whether the noise hides the value."""
        del value
        return noise > self.most_noise

    def text(self, value: float, noise: float) -> str:
        """The value ± its margin, or `TOO_NOISY`.

        >>> Form().text(0.50341, 0.0), Form().text(0.7, 0.01)
        ('0.503', '0.700 ± 0.020')
        """
        return TOO_NOISY if self.hidden(value, noise) else self.written(value, noise)

    def kept(self, value: float, noise: float) -> float | None:
        """The value of a headline, kept in its range; None if it is too noisy to tell."""
        return None if self.hidden(value, noise) else min(max(value, self.low), self.high)

    def spread(self, value: float) -> float:
        """Roughly the deviation of what one record contributes to a mean of this value."""
        return value

    def span(self, ends: Ends) -> tuple[float, float]:
        """The range that values in JSON are kept in."""
        del ends
        return self.low, self.high

    def digits(self, ends: Ends) -> int:
        """Decimals in JSON."""
        del ends
        return DIGITS


@dataclass(frozen=True, kw_only=True)
class Percent(Form):
    """A share, in percent; with a sign, if it may be below 0.

    >>> Percent().text(0.8123, 0.0149), Percent(low=-1.0).text(-0.012, 0.004)
    ('81.2 % ± 3.0', '-1.2 % ± 0.8')
    >>> Percent().text(1.3, 0.4), Percent().kept(1.02, 0.05)
    ('too noisy to tell', 1.0)
    """

    page: ClassVar[str] = "around"

    high: float = 1.0
    most_noise: float = MAX_SHOWN_DEVIATION
    spec: str = ".1%"

    def written(self, value: float, noise: float) -> str:
        """See `Form`."""
        around = f" ± {100 * margin(noise):.1f}" if noise else ""
        return f"{100 * value:{'+' if self.low < 0 else ''}.1f} %{around}"

    def spread(self, value: float) -> float:
        """See `Form`: a record is right or wrong."""
        return math.sqrt(max(value * (1 - value), 0.0))


@dataclass(frozen=True, kw_only=True)
class InUnits(Form):
    """A number in the unit of the target; its range is in units of the range of targets.

    Attributes:
        rooted: Whether it is the root of a noisy square, which may be below 0.
        spec: Only the sign: the range decides the rest.

    >>> InUnits().text(26.5744, 3.2658), InUnits(low=-1.0).text(3.0, 0.0)
    ('26.6 ± 6.5', '+3')
    >>> InUnits().kept(3.0, 0.5), InUnits().kept(-0.1, 0.5)
    (3.0, None)
    """

    page: ClassVar[str] = "inUnits"

    high: float = 1.0
    rooted: bool = False
    spec: str = ""

    def written(self, value: float, noise: float) -> str:
        """See `Form`: with two digits of the margin, or four of an exact value."""
        sign = "+" if self.low < 0 else ""
        if not noise:
            return f"{value:{sign}.4g}"
        around = margin(noise)
        digits = max(1 - math.floor(math.log10(around)), 0)
        return f"{value:{sign}.{digits}f} ± {around:.{digits}f}"

    def hidden(self, value: float, noise: float) -> bool:
        """See `Form`."""
        return self.rooted and value < noise

    def kept(self, value: float, noise: float) -> float | None:
        """See `Form`."""
        return None if value < noise else value

    def span(self, ends: Ends) -> tuple[float, float]:
        """See `Form`."""
        return self.low * ends.width, self.high * ends.width

    def digits(self, ends: Ends) -> int:
        """See `Form`."""
        return max(RANGE_DIGITS - math.ceil(math.log10(ends.width)), DIGITS)


class Level(InUnits):
    """A number within the range of targets."""

    def span(self, ends: Ends) -> tuple[float, float]:
        """See `Form`."""
        return ends


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


class Score(ABC):
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

    @abstractmethod
    def noisy(self, known: Any) -> Any:
        """Read it off noisy scores: `Estimates` or `EstimatedSums`; None if noise hides it."""

    @abstractmethod
    def exact(self, known: Any) -> Any:
        """Read it off public records: `Answers` or `Predictions`; None if it is not defined."""

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
