"""Gates that live through more than records: restarts, erasures, corrections, public files."""

import csv
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from tests.freeze import records
from tests.freeze.gates import Tables, answers, left_out, made_by, person, send, tables
from tests.freeze.inside import StoppedError
from tests.freeze.made import TIME, Configuration, Made
from tests.freeze.sent_gates import FADING, SLIDING, owned, plain, questions
from tidegate import Config, Gate

SLIDE: Tables = {"schedule": SLIDING}
HELD: Tables = {
    "records": {
        "classes": [0, 1],
        "norm": 1.5,
        "columns": ["a", "b", "c"],
        "label": "y",
        "dtype": "float64",
        "spelling": 2,
    },
    "quality": {"share": "0", "scores": True},
}


def opened(folder: Path, settings: Tables) -> Gate:
    return Gate.open(folder / "state", Config.of(settings), clock=lambda: TIME)


def restarted(settings: Tables, folder: Path) -> Made:
    """Every record comes to a Gate that was opened for it, some batches come twice."""
    for number, batch in enumerate(plain()):
        for _ in range(2):
            with opened(folder, settings) as gate:
                send(gate, [batch], number)
    with opened(folder, settings) as gate:
        return made_by(gate, questions())


def erased(settings: Tables, folder: Path) -> Made:
    """Records are erased, and a person is; some of them have not been learnt from yet."""
    first, *others = owned()
    with opened(folder, settings) as gate:
        send(gate, [first])
        gate.erase(record=3)
        gate.erase(record=65)
        gate.erase(person="often")
        send(gate, others, 1)
        made = made_by(gate, questions())
    return replace(made, more=answers(folder / "state"))


def corrected(settings: Tables, folder: Path) -> Made:
    """A state stops, because hardly any label is a class, and goes on with other classes."""
    wrong = {**settings, "records": {**settings["records"], "classes": [5, 6]}}
    try:
        with opened(folder, wrong) as gate:
            send(gate, plain()[:1])
    except StoppedError as error:
        said = str(error).partition(": check")[0]
    with opened(folder, settings) as gate:
        send(gate, plain(), 1)
        made = made_by(gate, questions())
    return replace(made, more={"stop": f"{said}\n", **answers(folder / "state")})


def published(settings: Tables, folder: Path) -> Made:
    """Releases are copied to a folder."""
    place = folder / "out"
    with opened(folder, {**settings, "publish": {"folder": str(place)}}) as gate:
        send(gate, plain())
        made = made_by(gate, questions())
    names = sorted(path.name for path in place.rglob("*") if not path.name.startswith("."))
    return replace(made, more={"published": "\n".join(names) + "\n"})


def held_out(settings: Tables, folder: Path) -> Made:
    """Releases are tested on public records."""
    place = folder / "public.csv"
    X, y = records.numbers(40, seed=5)
    with place.open("w", newline="", encoding="utf-8") as file:
        rows = ([*row, label] for row, label in zip(X.tolist(), y.tolist(), strict=True))
        csv.writer(file).writerows([["a", "b", "c", "y"], *rows])
    quality = {**settings["quality"], "holdout": str(place)}
    with opened(folder, {**settings, "quality": quality}) as gate:
        send(gate, plain())
        return made_by(gate, questions())


LIVES: dict[str, tuple[Callable[[Any, Path], Made], Tables]] = {
    "sliding, restarted": (restarted, tables(SLIDE)),
    "erased": (erased, tables({"schedule": FADING}, person(2))),
    "corrected": (corrected, tables(SLIDE)),
    "sliding, published": (published, tables(SLIDE)),
    "with a holdout": (held_out, tables(SLIDE, HELD)),
}

CONFIGURATIONS = [
    Configuration(
        name=f"gate {name}", make=partial(live, settings), spelled=partial(left_out, settings)
    )
    for name, (live, settings) in LIVES.items()
]
