"""`tidegate check`: what it prints, for people and for programs."""

import json
from pathlib import Path

import pytest

from tests.cli.run import json_lines, tidegate
from tests.gate.gate_files import HEADER, TWO, config_text, write_csv


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "gate.toml").write_text(config_text())
    write_csv(tmp_path / "records.csv", 650)
    return tmp_path


def check(folder: Path, *words: str) -> str:
    done = tidegate("check", str(folder / "gate.toml"), str(folder / "records.csv"), *words)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


@pytest.mark.parametrize("form", ["table", "json"])
def test_private_records_do_not_change_what_is_printed(folder: Path, form: str) -> None:
    before = check(folder, "--format", form)
    (folder / "records.csv").write_text(HEADER + "patient 4711\n" * 650)
    assert check(folder, "--format", form) == before
    assert "voids the guarantee" in before
    assert not any(word in before for word in ["Usable", "Classes:", "quantiles"])


def test_nothing_is_kept(folder: Path) -> None:
    before = sorted(folder.iterdir())
    check(folder, "--public")
    assert sorted(folder.iterdir()) == before


def test_public_records_are_described(folder: Path) -> None:
    text = check(folder, "--public")
    assert "If they are not, choose no setting by what follows" in text
    assert "Usable: " in text
    assert "Classes: 0 " in text
    assert "Norms (quantiles): 0% " in text
    assert "release 4 models; 50 wait" in text
    (row,) = json_lines("check", str(folder / "gate.toml"), str(folder / "records.csv"), "--public")
    assert f"Usable: {row['found']['usable']:,} of 650" in text
    assert row["why_not_found"] is None
    assert set(row) >= {"file", "type", "records", "columns", "unusable_if", "plan", "found"}


def test_unknown_labels_are_shown(folder: Path) -> None:
    (folder / "records.csv").write_text(HEADER + "1,2,3,9\n")
    assert "labels that are no class: 9.0 1." in check(folder, "--public")


def test_many_columns_take_few_lines(folder: Path) -> None:
    names = [f"p{number}" for number in range(784)]
    text = config_text().replace('["a", "b", "c"]', json.dumps(names))
    (folder / "gate.toml").write_text(text)
    (folder / "records.csv").write_text(",".join([*names, "y", "[red]"]) + "\n")
    told = check(folder)
    assert "p0 ... p783 (784 columns)" in told
    assert "[red]" in told
    assert len(told.splitlines()) < 30
    assert len(json.loads(check(folder, "--format", "json"))["columns"]) == 786


def test_two_streams_and_json_lines_are_described(folder: Path) -> None:
    (folder / "gate.toml").write_text(config_text(schedule=TWO))
    (folder / "records.jsonl").write_text("{}\n")
    done = tidegate("check", str(folder / "gate.toml"), str(folder / "records.jsonl"))
    assert "steps of 200 source records and 100 target records" in done.stdout
    assert "Which keys the lines have is not checked" in done.stdout


def test_refusals_are_one_line(folder: Path) -> None:
    done = tidegate("check", str(folder / "gate.toml"), str(folder / "none.csv"))
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1
