"""The demo's command, in small: tests/demo has what it shows."""

from pathlib import Path

from tests.cli.run import json_lines, tidegate

SMALL = ("demo", "--records", "10240", "--plot")


def test_the_first_screen_makes_the_idea_plain(tmp_path: Path) -> None:
    done = tidegate(*SMALL, str(tmp_path / "demo.png"))
    assert (done.returncode, done.stderr) == (0, "")
    for words in ("epsilon = 1", "simple composition", "sliding", "naive", "never add up", "◆"):
        assert words in " ".join(done.stdout.split())
    assert str(tmp_path / "demo.png") in done.stdout
    assert (tmp_path / "demo.png").stat().st_size > 1000
    assert max(map(len, done.stdout.splitlines()[:-1])) <= 100


def test_it_can_keep_quiet(tmp_path: Path) -> None:
    assert tidegate(*SMALL, str(tmp_path / "demo.png"), "--quiet") == (0, "", "")
    assert (tmp_path / "demo.png").stat().st_size > 1000


def test_a_line_of_json_for_every_step(tmp_path: Path) -> None:
    rows = json_lines(*SMALL, str(tmp_path / "demo.svg"))
    assert [row["at"] for row in rows] == list(range(512, 10_241, 512))
    assert all(row["worst_share"] <= 1 for row in rows)
    assert len(rows[-1]["accuracy"]) == 4
