"""Models from a source stream, updated on a target stream: private dynamic transfer learning."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from tidegate.checks import refuse, whole
from tidegate.schedule.binary import is_power, log2
from tidegate.schedule.cumulative import Cumulative
from tidegate.schedule.fit import Fit, Span, Stream
from tidegate.schedule.sliding import SlidingWindow


@dataclass(frozen=True, kw_only=True)
class TwoStream:
    """Base or window models of a source stream; at each target step, an update on the target.

    Each new model of the source opens a phase. i target steps into it: if i is a power of two fit
    all target steps of the phase with the source's model as prior and keep it as f_c, else fit the
    newest target step with f_c as prior. Target steps before the first source model are not read.

    With a Cumulative source of block 2 (b: base; a digit: level of an update):

        source  [b  b]                 [b  b  b  b]
        target          [0]                             prior: the first base
                        [1  1]                          prior: the first base
                              [0]                       prior: f_c
                                                    [0] prior: the second base

    Args:
        source: The schedule that makes the source's models.
        step: Target records between two releases (the paper's b0).

    >>> schedule = TwoStream(source=Cumulative(block=20), step=5)
    >>> arrivals = ["source", "target", "target", "target", "source", "target"]
    >>> for fit in schedule.fits(arrivals):
    ...     print(fit.number, fit.stream, tuple(fit.span), fit.prior)
    0 source (0, 20) None
    1 target (0, 5) 0
    2 target (0, 10) 0
    3 target (10, 15) 2
    4 source (0, 40) None
    5 target (15, 20) 4
    """

    source: Cumulative | SlidingWindow
    step: int

    def __post_init__(self) -> None:
        if not isinstance(self.source, Cumulative | SlidingWindow):
            raise refuse("source", "a Cumulative or SlidingWindow schedule", self.source)
        whole("step", self.step)

    def fits(self, arrivals: Iterable[Stream]) -> Iterator[Fit]:
        """The fits that follow from the order in which steps of the two streams complete.

        That order is public; `at` and `span` count the records of the fit's own stream.
        """
        number = 0
        source_at = target_at = phase_start = 0
        model: int | None = None
        kept: int | None = None
        numbers: dict[int, int] = {}  # of the source's present chain, from its own count to ours
        for stream in arrivals:
            if stream == "source":
                source_at += self.source.step
                for fit in self.source.due(source_at):
                    if fit.prior is None:
                        numbers.clear()
                    prior = None if fit.prior is None else numbers[fit.prior]
                    yield fit._replace(number=number, prior=prior, stream="source")
                    numbers[fit.number] = number
                    if fit.released:
                        model, phase_start = number, target_at
                    number += 1
            elif stream == "target":
                target_at += self.step
                if model is None:
                    continue
                index = (target_at - phase_start) // self.step
                if is_power(index):
                    span, prior, level = Span(phase_start, target_at), model, log2(index)
                    kept = number
                else:
                    span, prior, level = Span(target_at - self.step, target_at), kept, 0
                yield Fit(number, target_at, span, prior, "update", level, stream="target")
                number += 1
            else:
                raise refuse("stream", "source or target", stream)
