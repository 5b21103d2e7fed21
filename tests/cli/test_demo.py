"""The demo's command, in small: tests/demo has what it shows."""

import re
import shlex
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.cli.run import json_lines, tidegate
from tidegate.demo.demo_state import STATE, DriftingStream, config, config_for
from tidegate.gate import Config, Gate

MINE = """
[schedule]
kind = "sliding"
window = 7168
step = 512
[budget]
epsilon = 1.0
delta = 1e-6
[records]
classes = [0, 1, 2, 3, 4]
norm = 1.0
"""
SMALL = ("demo", "--records", "10240", "--plot")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the demo is run, and leaves its state and its plot."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.thorough
def test_the_first_screen_makes_the_idea_plain_and_the_last_line_shows_its_own_state() -> None:
    done = tidegate(*SMALL, "demo.png")
    assert (done.returncode, done.stderr) == (0, "")
    for words in (
        "epsilon = 1",
        "simple composition",
        "fading",
        "sliding",
        "continual",
        "naive",
        "never adds up",
        "░░░▒▒▓◆",
    ):
        assert words in " ".join(done.stdout.split())
    assert "demo.png" in done.stdout
    assert Path("demo.png").stat().st_size > 1000
    assert max(map(len, done.stdout.splitlines())) <= 100
    command = shlex.split(done.stdout.splitlines()[-1].partition("page: ")[2])
    assert command == ["tidegate", "serve", "--demo", str(STATE)]
    with Gate.look(STATE) as gate:
        assert gate.store.count("records") == 10_240
        assert len(list(gate.releases())) == 20
    assert tidegate("verify", str(STATE)).returncode == 0


@pytest.mark.thorough
def test_it_can_keep_quiet_and_replaces_the_state_of_an_earlier_demo() -> None:
    with Gate.open(STATE, config(DriftingStream())) as gate:
        gate.ingest(*DriftingStream().batch(0, 10))
        done = tidegate(*SMALL, "demo.png")
        assert (done.returncode, "is in use by process" in done.stderr) == (2, True)
    assert tidegate(*SMALL, "demo.png", "--quiet") == (0, "", "")
    assert Path("demo.png").stat().st_size > 1000
    with Gate.look(STATE) as gate:
        assert gate.store.count("records") == 10_240


@pytest.mark.thorough
def test_it_knows_the_state_that_the_demo_of_an_earlier_version_left() -> None:
    now = config(DriftingStream()).settled()
    measured = "[survey]\nshare = 0\n[quality]\nshare = '1/20'\nscores = false"
    before = Config.parse(MINE.replace("norm = 1.0", "norm = 1.5") + measured).settled()
    Gate.open(STATE, before).close()
    assert config_for(STATE) == before  # so it can still be served
    assert tidegate(*SMALL, "demo.png", "--quiet") == (0, "", "")
    assert config_for(STATE) == config_for(Path("elsewhere")).settled() == now


def test_it_knows_a_state_whose_labels_are_spelled_by_the_first_rule() -> None:
    now = config(DriftingStream()).settled()
    before = replace(now, records=replace(now.records, spelling=1))
    Gate.open(STATE, before).close()
    assert config_for(STATE) == before


def test_it_replaces_nothing_else(folder: Path) -> None:
    Gate.open(STATE, Config.parse(MINE)).close()
    done = tidegate(*SMALL, "demo.png")
    assert (done.returncode, "is not the demo's" in done.stderr) == (2, True)
    assert (STATE / "state.db").exists()
    (folder / "other").mkdir()
    (folder / "other" / "letter.txt").touch()
    done = tidegate(*SMALL, "demo.png", "--state", "other")
    assert (done.returncode, "holds other files" in done.stderr) == (2, True)
    assert (folder / "other" / "letter.txt").exists()


@pytest.mark.thorough
def test_a_line_of_json_for_every_step() -> None:
    rows = json_lines(*SMALL, "demo.svg")
    assert [row["at"] for row in rows] == list(range(512, 10_241, 512))
    assert all(row["worst_share"] <= 1 for row in rows)
    assert len(rows[-1]["accuracy"]) == 6
    assert [span[0] for span in sorted(rows[-1]["chain"])] == [6656, 7680, 9728]
    assert rows[-1]["emphasis"][-2:] == [[9216, 9728, "7/10"], [9728, 10240, "1"]]


@pytest.fixture
def without_matplotlib(monkeypatch: pytest.MonkeyPatch) -> None:
    """As after a plain install, without the extra for plots."""
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)


@pytest.mark.thorough
@pytest.mark.usefixtures("without_matplotlib")
def test_a_plain_install_gets_the_summary_and_a_line_about_the_plot() -> None:
    done = tidegate("demo", "--records", "10240")
    assert (done.returncode, done.stderr) == (0, "")
    assert "Mean accuracy on fresh records" in done.stdout
    took, following = done.stdout.splitlines()[-2:]
    assert re.search(r"No plot: matplotlib is not installed: .*\.\[plot\]", took)
    assert following.endswith(f"serve --demo {STATE}")
    assert not Path("tidegate-demo.png").exists()
    quiet = tidegate("demo", "--records", "10240", "--quiet")
    assert (quiet.returncode, quiet.stdout) == (0, "")
    assert re.fullmatch(r"tidegate: matplotlib is not installed: .*\n", quiet.stderr)


@pytest.mark.usefixtures("without_matplotlib")
def test_a_plot_that_was_asked_for_and_cannot_be_drawn_is_refused_before_the_run() -> None:
    done = tidegate(*SMALL, "demo.png")
    assert (done.returncode, done.stdout) == (2, "")
    assert re.fullmatch(r"tidegate: matplotlib is not installed: .*\n", done.stderr)
    assert not STATE.exists()
