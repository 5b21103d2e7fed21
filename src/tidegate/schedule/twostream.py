"""The TwoStream schedule: private dynamic transfer learning from a source to a target stream."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import ClassVar

from tidegate.checks import refuse, whole
from tidegate.schedule.doubling import is_power, log2
from tidegate.schedule.fit import (
    TENDS_TO_ONE,
    Arrived,
    Certificate,
    Fit,
    Levels,
    Span,
    Steps,
    Stream,
)
from tidegate.schedule.protocol import Charged, Schedule, parameter, sources


@dataclass(frozen=True)
class Target(Charged):
    """The shares of the target stream of a TwoStream.

    A phase lasts until the next source model, so it can have any number of levels.
    """

    def raw_share(self, fit: Fit, levels: Levels) -> Fraction:
        """The raw share of the update's level."""
        return levels.raw_share(fit.level)

    def certificate(self, levels: Levels) -> Certificate:  # noqa: ARG002 (the same for all)
        """A record is in at most one update of each level."""
        return TENDS_TO_ONE


@dataclass(frozen=True, kw_only=True)
class TwoStream:
    """Models of a source stream, updated on a target stream at each target step.

    Each new source model opens a phase. At target step i of a phase: if i is a power of two, fit
    all target steps of the phase with the source model as prior and keep the result as f_c.
    Otherwise fit the newest target step with f_c as prior. Target steps before the first source
    model are never read.

    With a Cumulative source of block 2 (b: base; a digit: level of an update):

        source  [b  b]                 [b  b  b  b]
        target          [0]                             prior: the first base
                        [1  1]                          prior: the first base
                              [0]                       prior: f_c
                                                    [0] prior: the second base

    Args:
        source: The schedule that makes the source's models.
        step: Target records between two releases (the paper's b0).

    >>> from tidegate.schedule import Cumulative
    >>> schedule = TwoStream(source=Cumulative(block=20), step=5)
    >>> arrivals = ["source", "target", "target", "target", "source", "target"]
    >>> for fit in schedule.fits(arrivals):
    ...     print(fit.number, fit.stream, tuple(fit.span), fit.prior)
    0 source (0, 1) None
    1 target (0, 1) 0
    2 target (0, 2) 0
    3 target (2, 3) 2
    4 source (0, 2) None
    5 target (3, 4) 4
    """

    source: Schedule
    step: int = parameter("target records between two models", 256)

    kind: ClassVar[str] = "twostream"
    about: ClassVar[str] = (
        "models of a source stream, refined on the newest records of a target stream"
    )

    def __post_init__(self) -> None:
        if type(self.source) not in sources().values():
            names = " or ".join(each.__name__ for each in sources().values())
            raise refuse("source", f"a {names} schedule", self.source)
        if not self.source.allocated:
            raise refuse("source", "a chain of models: leave refit out", self.source)
        object.__setattr__(self, "step", whole("step", self.step))

    @property
    def largest(self) -> None:
        """None: a phase of the target has no limit, it lasts until the next source model."""
        return

    @cached_property
    def steps(self) -> dict[str, Steps]:
        """The mapping between steps and records, for each stream."""
        return {"source": self.source.steps, "target": Steps(self.step)}

    def arrive(self, so_far: Arrived, stream: Stream) -> tuple[Arrived, list[Fit]]:
        """The state after one more step of a stream, and the fits that are due.

        `at` and `span` of a fit count the steps of its own stream.
        """
        if stream == "source":
            return self._source_step(so_far)
        if stream == "target":
            return self._target_step(so_far)
        raise refuse("stream", "source or target", stream)

    def fits(self, arrivals: Iterable[Stream]) -> Iterator[Fit]:
        """All fits, given the public order in which the steps of the streams complete."""
        so_far = Arrived()
        for stream in arrivals:
            so_far, fits = self.arrive(so_far, stream)
            yield from fits

    def _source_step(self, so_far: Arrived) -> tuple[Arrived, list[Fit]]:
        now = so_far.source + 1
        model, phase_start, chain = so_far.model, so_far.phase_start, so_far.chain
        fits: list[Fit] = []
        for own in self.source.due(now):
            number = so_far.fits + len(fits)
            prior = None if own.prior is None else chain[own.level + 1]
            start = None if own.start is None else so_far.model
            fits.append(own._replace(number=number, prior=prior, start=start, stream="source"))
            chain = {**chain, own.level: number}
            if own.released:
                model, phase_start = number, so_far.target
        after = replace(
            so_far,
            source=now,
            fits=so_far.fits + len(fits),
            model=model,
            phase_start=phase_start,
            chain=chain,
        )
        return after, fits

    def _target_step(self, so_far: Arrived) -> tuple[Arrived, list[Fit]]:
        now = so_far.target + 1
        if so_far.model is None:
            return replace(so_far, target=now, phase_start=now), []
        number, index = so_far.fits, now - so_far.phase_start
        start, level, prior, kept = now - 1, 0, so_far.kept, so_far.kept
        if is_power(index):
            start, level, prior, kept = so_far.phase_start, log2(index), so_far.model, number
        fit = Fit(number, now, Span(start, now), prior, "update", level, stream="target")
        return replace(so_far, target=now, fits=number + 1, kept=kept), [fit]
