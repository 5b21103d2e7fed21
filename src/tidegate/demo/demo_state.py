"""The demo's stream, whose classes first stand still and then move, and a Gate on it."""

import math
import shutil
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from tidegate.checks import InvalidValueError
from tidegate.gate import Gate
from tidegate.privacy import ApproxDP, Budget
from tidegate.run.config import Config
from tidegate.schedule import SlidingWindow
from tidegate.state.store import NoStateError

Floats = NDArray[np.float64]
Labels = NDArray[np.intp]

ARRIVING, FRESH = 0, 1
"""Which records to draw: those of the stream, or test records of the same distribution."""


STATE = Path("tidegate-demo.state")

WINDOW, STEP, BUDGET = 3584, 512, ApproxDP(1.0, 1e-6)
"""Records that a model is trained on, records between two releases, the budget of each record."""

FORGET = Fraction(3, 10)
"""The fraction of its weight that a step loses when the next one arrives."""

EARLIER_SCHEDULE = SlidingWindow(window=7168, step=512)
"""The schedule of the demo in earlier versions."""


# --- the stream


@dataclass(frozen=True, kw_only=True)
class DriftingStream:
    """Classes on a ring that starts to turn, so that class 0 moves to where class 1 was.

    Two columns hold the position on the ring; the others are noise. All records follow from a
    public seed, through raw bits that are the same in all versions of numpy.

    Args:
        records: How many records there are.
        classes: How many classes are on the ring.
        columns: How many numbers a record has.
        still: The fraction of the records that arrive before the ring starts to turn.
        turns: How many turns the ring makes until the last record.
        seed: A public number.

    >>> stream = DriftingStream()
    >>> X, y = stream.batch(0, 512)
    >>> X.shape, y[:8]
    ((512, 24), array([2, 3, 3, 0, 3, 1, 4, 2]))
    >>> stream.angle(20_000), round(stream.angle(stream.records) / (2 * math.pi), 2)
    (0.0, 0.6)
    """

    records: int = 80_384
    classes: int = 5
    columns: int = 24
    still: float = 0.25
    turns: float = 0.6
    seed: int = 1

    norm = 1.5
    """A public bound that scales down few records: ring and noise have a length of about 1 each."""

    def angle(self, at: int) -> float:
        """How far the ring has turned when `at` records have arrived, in radians."""
        moved = max(0.0, at / self.records - self.still) / (1 - self.still)
        return 2 * math.pi * self.turns * moved

    def batch(self, start: int, size: int) -> tuple[Floats, Labels]:
        """Draw `size` records from slot `start` on, with the ring as it is at their end.

        Use batches of one size only: each batch is drawn independently.
        """
        return self._draw(ARRIVING, start, size, self.angle(start + size))

    def fresh(self, at: int, size: int) -> tuple[Floats, Labels]:
        """Draw test records, which are not in the stream, with the ring as it is at this time."""
        return self._draw(FRESH, at, size, self.angle(at))

    def _draw(self, kind: int, at: int, size: int, angle: float) -> tuple[Floats, Labels]:
        source = np.random.PCG64(np.random.SeedSequence([self.seed, kind, at]))
        bits = source.random_raw(size * (self.columns + 1)).reshape(size, -1) >> np.uint64(32)
        labels = (bits[:, 0] * np.uint64(self.classes) >> np.uint64(32)).astype(np.intp)
        X = ndtri((bits[:, 1:] + 0.5) * 2.0**-32) / math.sqrt(self.columns)
        place = angle + 2 * math.pi * labels / self.classes
        X[:, 0] += np.cos(place)
        X[:, 1] += np.sin(place)
        return X, labels


# --- its state


def config(
    stream: DriftingStream,
    *,
    window: int = WINDOW,
    step: int = STEP,
    budget: Budget = BUDGET,
    not_private_seed: int | None = None,
) -> Config:
    """The configuration of a gate on the demo's stream; the arguments are those of `Comparison`.

    >>> schedule = config(DriftingStream()).plan().schedule
    >>> schedule.kind, schedule.step, schedule.largest
    ('fading', 512, 3584)
    """
    given = {
        "schedule": {
            "kind": "fading",
            "step": step,
            "forget": str(FORGET),
            "memory": window // step,
        },
        "budget": {"epsilon": budget.epsilon, **({"delta": budget.delta} if budget.delta else {})},
        "records": {"classes": list(range(stream.classes)), "norm": stream.norm},
        "quality": {"share": "1/20"},
        "not_private_seed": not_private_seed,
    }
    return Config.of({name: value for name, value in given.items() if value is not None})


def config_for(folder: Path) -> Config:
    """The configuration for a folder; the state of an earlier version's demo keeps its own."""
    wanted = config(DriftingStream())
    try:
        with Gate.look(folder) as old:
            return old.config if _is_a_demo(old.config, wanted) else wanted
    except NoStateError:
        return wanted


def fresh(folder: Path, wanted: Config) -> Gate:
    """Open a gate on a new state, in place of one that an earlier demo left there.

    Any other state is refused, and so is one that is in use.
    """
    try:
        with Gate.open(folder) as old:
            if not _is_a_demo(old.config, wanted):
                raise InvalidValueError(f"{folder} is not the demo's state: name another folder")
            shutil.rmtree(folder)  # while we hold its lock
    except NoStateError:
        pass
    return Gate.open(folder, wanted)


def _is_a_demo(found: Config, wanted: Config) -> bool:
    """Whether a state is a demo's; earlier versions measured less and spelled labels otherwise."""
    records = replace(wanted.records, spelling=found.records.spelling)
    same_records = found == replace(
        wanted,
        records=records,
        schedule=found.schedule,
        survey=found.survey,
        quality=found.quality,
    )
    return same_records and found.plan().schedule in (wanted.plan().schedule, EARLIER_SCHEDULE)
