"""What the records of a target stream have paid, phase by phase."""

from bisect import bisect_right
from fractions import Fraction

from tidegate.privacy.shares import Shares
from tidegate.schedule import Fit, Span
from tidegate.schedule.binary import is_power, log2


class TargetPhases:
    """The closed phases of a target stream, kept as runs of phases of one length.

    The order of arrivals decides where phases end, so no formula knows it; a regular order makes
    one run.

    Args:
        shares: What a level costs.
    """

    def __init__(self, shares: Shares) -> None:
        self._shares = shares
        self._open, self._read = 0, False
        self._starts: list[int] = []
        self._lengths: list[int] = []  # a run lasts until the next one starts

    def open(self, start: int, *, read: bool) -> None:
        """Close the present phase if the next one starts here.

        Args:
            start: The target step at which the present phase starts.
            read: Whether its steps are read at all: they are not before the first source model.
        """
        length = start - self._open if self._read else 0
        if start > self._open and (not self._lengths or self._lengths[-1] != length):
            self._starts.append(self._open)
            self._lengths.append(length)
        self._open, self._read = start, read

    def paid(self, step: int, posted: int) -> Fraction:
        """What a record of a step of a closed phase has paid, at any time since."""
        del posted
        run = bisect_right(self._starts, step) - 1
        length = self._lengths[run]
        if length == 0:
            return Fraction(0)
        index = (step - self._starts[run]) % length + 1
        levels = [level for level in range(log2(length) + 1) if 1 << level >= index]
        if not is_power(index):
            levels.append(0)
        return sum((self._share(level) for level in levels), Fraction(0))

    def _share(self, level: int) -> Fraction:
        return self._shares.of(Fit(0, 0, Span(0, 1), None, "update", level))
