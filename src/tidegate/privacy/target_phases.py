"""What the records of a target stream have paid, phase by phase."""

from bisect import bisect_right
from fractions import Fraction

from tidegate.privacy.shares import Shares
from tidegate.schedule.doubling import is_power, log2
from tidegate.schedule.fit import Fit, Span


class TargetPhases:
    """The closed phases of a target stream, stored as runs of phases of equal length.

    The order of arrivals decides where phases end, so no formula can replace this record of it. A
    regular order makes one run.

    Args:
        shares: The shares of the target stream.
    """

    def __init__(self, shares: Shares) -> None:
        self._shares = shares
        self._open, self._read = 0, False
        self._starts: list[int] = []
        self._lengths: list[int] = []  # a run lasts until the next one starts

    def open(self, start: int, *, read: bool) -> None:
        """Set where the current phase starts; if that is new, the phase before it is closed.

        Args:
            start: The target step at which the current phase starts.
            read: Whether its steps are read; those before the first source model are not.
        """
        length = start - self._open if self._read else 0
        if start > self._open and (not self._lengths or self._lengths[-1] != length):
            self._starts.append(self._open)
            self._lengths.append(length)
        self._open, self._read = start, read

    def paid(self, step: int, posted: int) -> Fraction:
        """What each record of a step in a closed phase has paid; it no longer changes."""
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
