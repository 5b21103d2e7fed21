"""CPU seconds of two commands, the best of three runs: they depend on the machine."""

import resource
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

RUNS = 3


def tidegate(*arguments: str) -> float:
    """The CPU seconds, of user and system, that a command took."""
    before = _spent()
    asked = [sys.executable, "-m", "tidegate", *arguments]
    subprocess.run(asked, stdout=subprocess.DEVNULL, check=True)
    return _spent() - before


def _spent() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def help_seconds() -> float:
    """CPU seconds of `tidegate --help`: the best of three runs."""
    return min(tidegate("--help") for _ in range(RUNS))


def status_seconds() -> float:
    """CPU seconds of `tidegate status` on the state that `tidegate demo` leaves: the best of three.

    It makes that state first, which takes a minute or two.
    """
    with TemporaryDirectory() as folder:
        state, plot = Path(folder) / "state", Path(folder) / "plot.svg"
        tidegate("demo", "--quiet", "--state", str(state), "--plot", str(plot))
        return min(tidegate("status", str(state)) for _ in range(RUNS))
