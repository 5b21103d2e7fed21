"""The demo's state: a Gate on the drifting stream, kept for inspection."""

import shutil
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

from tidegate.checks import InvalidValueError
from tidegate.demo.drifting_stream import DriftingStream
from tidegate.gate import Gate
from tidegate.privacy import ApproxDP, Budget
from tidegate.run.config import Config
from tidegate.schedule import SlidingWindow
from tidegate.state.store import NoStateError

STATE = Path("tidegate-demo.state")

WINDOW, STEP, BUDGET = 3584, 512, ApproxDP(1.0, 1e-6)
"""Records that a model is trained on, records between two releases, the budget of each record."""

FORGET = Fraction(3, 10)
"""The fraction of its weight that a step loses when the next one arrives."""

EARLIER_SCHEDULE = SlidingWindow(window=7168, step=512)
"""The schedule of the demo in earlier versions."""


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
