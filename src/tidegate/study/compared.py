"""What a comparison measured: a result for each contender."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tidegate.study.comparison import Contender
from tidegate.study.curve import Curve
from tidegate.study.study_stream import StudyStream
from tidegate.study.trial import Trial, best_attempt

Floats = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Result:
    """A contender and what its runs measured.

    Attributes:
        contender: The contender.
        trial: What its runs measured.
        admitted: The share of the records that its models learn from, of those with a person;
            None if records are protected, and for baselines, which leave nobody out.
    """

    contender: Contender
    trial: Trial
    admitted: float | None = None

    @property
    def curve(self) -> Curve:
        """Its measures over time."""
        return self.trial.curve

    @property
    def seconds(self) -> float:
        """How long a run trained: the median of the runs."""
        return float(np.median(self.trial.seconds))

    def _newest(self, times: Sequence[int]) -> Any:
        """The number of its newest release at each of the times."""
        return np.searchsorted(self.curve.at, times, side="right") - 1

    def at(self, times: Sequence[int]) -> Floats:
        """What ranks it, of its newest release at each of the times: the median of the runs."""
        return np.asarray(self.curve.median[self._newest(times)])

    def scores(self, times: Sequence[int]) -> Floats:
        """What ranks it: accuracy or RMSE in each run at each time, shape (runs, times)."""
        return np.asarray(self.curve.runs[:, self._newest(times)])

    def gains(self, times: Sequence[int]) -> Floats:
        """The same with its sign such that more is better."""
        return np.asarray(self.curve.gains[:, self._newest(times)])

    def measure(self, name: str, times: Sequence[int]) -> float:
        """The mean of another measure over all runs and times; NaN if it is not defined."""
        values = self.curve.measures.get(name)
        if values is None:
            return math.nan
        chosen = values[:, self._newest(times)]
        chosen = chosen[~np.isnan(chosen)]
        return float(chosen.mean()) if chosen.size else math.nan


def results(
    contenders: Sequence[Contender],
    stream: StudyStream,
    runs: int,
    tick: Callable[[], None] = lambda: None,
    step: int | None = None,
) -> Iterator[Result]:
    """Run each contender `runs` times, with new noise; call `tick` after each run of a setting.

    With a `step`, its newest release is tested every `step` records; see `attempt`.
    """
    for contender in contenders:
        once = range(1) if contender.runs_once else range(runs)
        trial = best_attempt(contender.methods, stream, once, tick, step)
        yield Result(contender=contender, trial=trial, admitted=contender.admitted(stream))


def common_times(compared: Sequence[Result], step: int) -> list[int]:
    """The times, a step apart, at which all contenders have a model that could be tested."""
    since = max(result.curve.at[0] for result in compared)
    times = range(-(-since // step) * step, max(max(r.curve.at) for r in compared) + 1, step)
    tested = [~np.isnan(result.scores(times)).any(axis=0) for result in compared]
    return [time for time, each in zip(times, np.all(tested, axis=0), strict=True) if each]
