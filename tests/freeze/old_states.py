"""States that earlier versions made, of every layout: opened, and run on with fixed bits."""

import json
from contextlib import chdir
from functools import partial
from pathlib import Path

from tests.freeze.gates import made_by
from tests.freeze.made import Configuration, Made
from tests.freeze.records import numbers
from tests.state.states.make import FIRST, MORE, STATE, grow, names
from tests.state.states.make import run as run_on
from tests.state.test_upgrade import LAYOUTS, restored
from tidegate import Gate

SAMPLED = {(2, "sliding")}


def _reopened(layout: int, name: str, folder: Path) -> Made:
    settings = restored(folder, layout, name)
    with chdir(folder):
        with Gate.open(STATE, settings) as gate:
            before = [release.text for release in gate.releases()]
        grow(folder, FIRST, FIRST + MORE)
        run_on(folder, settings)
        with Gate.look(STATE) as gate:
            made = made_by(gate, numbers(20, 2, seed=9)[0])
    hashes = [json.loads(text)["hash"] for text in before]
    return Made(**{**vars(made), "more": {"hashes before": "\n".join(hashes) + "\n"}})


CONFIGURATIONS = [
    Configuration(
        name=f"layout {layout} {name}",
        make=partial(_reopened, layout, name),
        sampled=(layout, name) in SAMPLED,
        postgres=name == "postgres",
    )
    for layout in LAYOUTS
    for name in names(layout)
]
