"""How measures are written: in percent, as plain numbers, or in the unit of the target.

± is two standard deviations of the noise, wherever it is printed.
"""

import math
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

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
