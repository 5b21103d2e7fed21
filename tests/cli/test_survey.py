"""`tidegate survey`: what it advises, in words and as JSON."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.cli.run import tidegate

STEP = 2000


@pytest.fixture(scope="module")
def state(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Two steps: the range of a column is far too wide, another column is always missing."""
    folder = tmp_path_factory.mktemp("surveyed")
    rng = np.random.default_rng(0)
    with (folder / "in.jsonl").open("w") as file:
        for slot in range(2 * STEP):
            ill = slot % 2
            record: dict[str, Any] = {"age": rng.normal(40 + 20 * ill, 10), "out": ill}
            record |= {"pressure": rng.normal(130, 15), "dose": None, "half": (None, 7)[ill]}
            file.write(json.dumps(record) + "\n")
    ranges = {"age": 110, "pressure": 3000, "dose": 10, "half": 10}
    columns = "".join(
        f"[[columns]]\nname = '{name}'\nkind = 'number'\nlow = 0\nhigh = {high}\n"
        for name, high in ranges.items()
    )
    (folder / "gate.toml").write_text(
        f"[schedule]\nkind = 'fading'\nstep = {STEP}\n[budget]\nepsilon = 300.0\ndelta = 1e-6\n"
        f"[records]\nclasses = [0, 1]\nlabel = 'out'\n{columns}"
        f"[source]\ntype = 'jsonl'\npath = '{folder / 'in.jsonl'}'\n"
    )
    done = tidegate("run", str(folder / "gate.toml"), "--quiet")
    assert done.returncode == 0, done.stderr
    return str(folder / "gate.state")


def test_ranges_and_empty_columns_are_named(state: str) -> None:
    done = tidegate("survey", state, COLUMNS="300")
    assert done.returncode == 0, done.stderr
    lines = [line for line in done.stdout.splitlines() if line.startswith(("range:", "never"))]
    (empty,) = [line for line in lines if line.startswith("never present: ")]
    assert empty.startswith("never present: dose: never present, as far as the noise tells (")
    assert "check that its name is that in the records" in empty
    (wide,) = [line for line in lines if " pressure: " in line]
    assert wide.startswith("range: pressure: almost all values lie within ")
    assert "0 to 3,000 is at least" in wide
    assert not any(" dose: almost" in line or " age: " in line for line in lines)


def test_json_has_the_same_advice_for_the_newest_step(state: str) -> None:
    done = tidegate("survey", state, "--format", "json")
    first, newest = map(json.loads, done.stdout.splitlines())
    assert first["advice"] is first["features"] is None
    advice = {each["column"]: each for each in newest["advice"]}
    assert advice["dose"]["what"] == "never present"
    assert advice["dose"]["gaps"]["value"] == pytest.approx(
        1, abs=6 * advice["dose"]["gaps"]["deviation"]
    )
    wide = advice["pressure"]
    assert wide["what"] == "range"
    assert wide["declared"] == [0, 3000]
    assert 3 <= wide["times_too_wide"] <= 3000 / 90
    assert wide["used"][0] < 130 < wide["used"][1]
    assert set(advice) <= {"dose", "pressure", "half"}
    text = tidegate("survey", state, COLUMNS="300").stdout
    for each in newest["advice"]:
        assert f"{each['what']}: {each['text']}" in text


def test_a_norm_that_is_too_large_is_in_json_too(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    rows = [f"{rng.normal():.3f},{slot % 2}" for slot in range(STEP)]
    (tmp_path / "in.csv").write_text("a,y\n" + "\n".join(rows) + "\n")
    (tmp_path / "gate.toml").write_text(
        f"[schedule]\nkind = 'fading'\nstep = {STEP}\n[budget]\nepsilon = 300.0\ndelta = 1e-6\n"
        "[records]\nclasses = [0, 1]\nlabel = 'y'\ncolumns = ['a']\nnorm = 100.0\n"
        f"[source]\ntype = 'csv'\npath = '{tmp_path / 'in.csv'}'\n"
    )
    assert tidegate("run", str(tmp_path / "gate.toml"), "--quiet").returncode == 0
    state = str(tmp_path / "gate.state")
    row = json.loads(tidegate("survey", state, "--format", "json").stdout)
    (advice,) = row["advice"]
    assert (advice["what"], advice["declared"]) == ("norm", 100.0)
    assert advice["times_too_wide"] >= 3
    assert f"norm: {advice['text']}" in tidegate("survey", state, COLUMNS="300").stdout
