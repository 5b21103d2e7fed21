"""This checkout beside another: the same work in alternating runs, and the ratio of medians.

    python -m tidegate_lab.bench.beside CHECKOUT [--runs 10] [NAME ...]

CHECKOUT is a folder with another version, such as one that `git worktree add FOLDER COMMIT` made.
Each run is a process of its own and uses public names only, so any two versions can be compared.
"""

import json
import os
import subprocess
import sys
from argparse import ArgumentParser
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from fractions import Fraction
from itertools import islice
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

import numpy as np

HERE = Path(__file__).parents[3]

SEED = 7
STEP, COLUMNS = 1024, 20

CONFIG = """
not_private_seed = 7
[schedule]
kind = "fading"
step = {step}
[budget]
epsilon = 1.0
delta = 1e-6
[records]
classes = [0, 1]
norm = 5.0
columns = [{columns}]
label = "y"
[learner]
kind = "auto"
loss = "auto"
[source]
type = "csv"
path = "{path}"
"""

Times = dict[str, float]


def records(n: int, d: int = COLUMNS) -> tuple[Any, Any]:
    """Records of two classes."""
    random = np.random.default_rng(SEED)
    x = random.normal(size=(n, d))
    return x, (x[:, 0] + random.normal(size=n) > 0).astype(int)


@contextmanager
def timed(times: Times, name: str) -> Iterator[None]:
    """Note how many seconds something takes."""
    begun = perf_counter()
    yield
    times[name] = perf_counter() - begun


def written(folder: Path, *, step: int, n: int) -> Path:
    """A configuration and its CSV file."""
    x, y = records(n)
    names = [f"x{i}" for i in range(COLUMNS)]
    path = folder / "records.csv"
    lines = (",".join(map("{:.4f}".format, row)) for row in x.tolist())
    path.write_text("\n".join([",".join([*names, "y"]), *map("{},{}".format, lines, y), ""]))
    columns = ", ".join(f'"{name}"' for name in names)
    toml = folder / "tidegate.toml"
    toml.write_text(CONFIG.format(step=step, columns=columns, path=path.as_posix()))
    return toml


def command(times: Times, name: str, *words: str) -> None:
    """Time a command."""
    asked = [sys.executable, "-m", "tidegate", *words]
    with timed(times, name):
        subprocess.run(asked, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def plans(folder: Path) -> Times:  # noqa: ARG001
    """Plan and charge 20,000 steps."""
    from tidegate import ApproxDP, Plan  # noqa: PLC0415
    from tidegate.schedule import Fading, SlidingWindow  # noqa: PLC0415

    times: Times = {}
    fading = Fading(step=1, forget=Fraction(1, 5), memory=10)
    for name, schedule in {"fading": fading, "sliding": SlidingWindow(window=30, step=1)}.items():
        plan = Plan(schedule=schedule, budget=ApproxDP(1.0, 1e-6))
        with timed(times, f"plan 20,000 steps, {name}"):
            for _ in islice(plan.charge(plan.ledger(), 20_000), 10**7):
                pass
    return times


def gates(folder: Path) -> Times:
    """Records into a Gate, steps, and commands on its state."""
    from tidegate import Gate  # noqa: PLC0415

    times: Times = {}
    waits = written(folder, step=2**20, n=4)
    x, y = records(200_000)
    with Gate.open(folder / "waiting", waits) as gate, timed(times, "ingest 200,000 records"):
        for start in range(0, len(x), 10_000):
            gate.ingest(x[start : start + 10_000], y[start : start + 10_000])
    toml = written(folder, step=STEP, n=40 * STEP)
    state = str(folder / "state")
    command(times, "run 40 steps from CSV", "run", str(toml), "--state", state)
    with timed(times, "open a state of 40 steps"):
        Gate.open(state).close()
    command(times, "status", "status", state)
    command(times, "verify", "verify", state)
    command(times, "predict a file", "predict", state, str(folder / "records.csv"))
    command(times, "export", "export", state, str(folder / "model.safetensors"))
    command(times, "help", "--help")
    return times


def estimators(folder: Path) -> Times:  # noqa: ARG001
    """Estimators and the certified minimiser."""
    from tidegate import ApproxDP, FadingClassifier, PureDP, SlidingWindowClassifier  # noqa: PLC0415
    from tidegate.learn import minimize  # noqa: PLC0415

    times: Times = {}
    x, y = records(40 * STEP, 50)
    fading = FadingClassifier(budget=ApproxDP(1.0, 1e-6), step=STEP, classes=[0, 1], norm=10.0)
    with timed(times, "fading estimator, 40 steps of 50 columns"):
        fading.partial_fit(x, y)
    sliding = SlidingWindowClassifier(
        budget=PureDP(1.0), window=7 * STEP, step=STEP, classes=[0, 1], norm=10.0
    )
    with timed(times, "sliding estimator, pure, 40 steps"):
        sliding.partial_fit(x, y)
    with timed(times, "minimize, 40,960 x 50"):
        minimize("logistic", x / 10, 2 * y - 1, regularization=0.01)
    return times


WORK: dict[str, Callable[[Path], Times]] = {
    "plans": plans,
    "gates": gates,
    "estimators": estimators,
}


def run(checkout: Path, name: str) -> Times:
    """Do some work once, with the package of a checkout."""
    given = {**os.environ, "PYTHONPATH": str(checkout / "src"), "OPENBLAS_NUM_THREADS": "1"}
    asked = [sys.executable, __file__, "--work", name]
    done = subprocess.run(asked, env=given, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{name} failed in {checkout}:\n{done.stderr}")
    times: Times = json.loads(done.stdout.splitlines()[-1])
    return times


def main(arguments: list[str]) -> None:
    """Compare two checkouts."""
    parser = ArgumentParser(prog="python -m tidegate_lab.bench.beside", description=__doc__)
    parser.add_argument("checkout", type=Path)
    parser.add_argument("names", nargs="*", choices=[*WORK, []], metavar="NAME")
    parser.add_argument("--runs", type=int, default=10)
    given = parser.parse_intermixed_args(arguments)
    print(f"{'seconds, medians':<44}{'other':>9}{'this':>9}{'ratio':>8}")
    for name in given.names or WORK:
        found = [[run(path, name) for path in (given.checkout, HERE)] for _ in range(given.runs)]
        for row in found[0][0]:
            other, this = (median(pair[i][row] for pair in found) for i in (0, 1))
            print(f"{row:<44}{other:>9.3f}{this:>9.3f}{this / other:>8.2f}", flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--work"]:
        with TemporaryDirectory() as place:
            print(json.dumps(WORK[sys.argv[2]](Path(place))))
    else:
        main(sys.argv[1:])
