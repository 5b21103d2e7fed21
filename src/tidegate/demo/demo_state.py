"""The demo's state: a Gate on the drifting stream, kept for inspection."""

import shutil
from pathlib import Path

from tidegate.checks import InvalidValueError
from tidegate.demo.drifting_stream import DriftingStream
from tidegate.gate.config import Config
from tidegate.gate.gate import Gate
from tidegate.gate.store import NoStateError
from tidegate.privacy import ApproxDP, Budget

STATE = Path("tidegate-demo.state")

WINDOW, STEP, BUDGET = 7168, 512, ApproxDP(1.0, 1e-6)
"""Records in the window, records between two releases, and the budget of each record."""


def config(
    stream: DriftingStream,
    *,
    window: int = WINDOW,
    step: int = STEP,
    budget: Budget = BUDGET,
    not_private_seed: int | None = None,
) -> Config:
    """The configuration of a gate on the demo's stream; the arguments are those of `Comparison`.

    >>> config(DriftingStream()).plan().schedule
    SlidingWindow(window=7168, step=512, sample=None)
    """
    given = {
        "schedule": {"kind": "sliding", "window": window, "step": step},
        "budget": {"epsilon": budget.epsilon, **({"delta": budget.delta} if budget.delta else {})},
        "records": {"classes": list(range(stream.classes)), "norm": stream.norm},
        "quality": {"share": "1/20"},
        "not_private_seed": not_private_seed,
    }
    return Config.of({name: value for name, value in given.items() if value is not None})


def fresh(folder: Path, wanted: Config) -> Gate:
    """Open a gate on a new state, in place of one that an earlier demo left there.

    Any other state is refused, and so is one that is in use.
    """
    try:
        with Gate.open(folder) as old:
            if old.config != wanted:
                raise InvalidValueError(f"{folder} is not the demo's state: name another folder")
            shutil.rmtree(folder)  # while we hold its lock
    except NoStateError:
        pass
    return Gate.open(folder, wanted)
