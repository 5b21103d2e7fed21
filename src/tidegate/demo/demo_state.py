"""The demo's state: a Gate on the stream that drifts, kept so that it can be looked at."""

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
"""Records in the window, records between two releases, and what any record may lose."""


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
    return Config.of({name: told for name, told in given.items() if told is not None})


def fresh(folder: Path, wanted: Config) -> Gate:
    """A gate on a new state, in place of one that an earlier demo has left there.

    Any other state is refused, and so is one that somebody has open.
    """
    try:
        with Gate.open(folder) as old:
            if old.config != wanted:
                raise InvalidValueError(f"{folder} is not the demo's: name another folder")
            shutil.rmtree(folder)  # while it is ours alone
    except NoStateError:
        pass
    return Gate.open(folder, wanted)
