"""`python -m tests.freeze` tells what changed, and writes nothing unless it is asked to."""

import json
import sys
from pathlib import Path

import pytest

from tests.freeze import __main__ as command
from tests.freeze import catalogue

NAME = "PrivateMean sliding"
OTHER = "PrivateHistogram multiresolution"


def run(*words: str) -> int:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["freeze", *words])
        return command.main()


def test_only_write_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    right = catalogue.FROZEN.read_text(encoding="utf-8")
    wrong = {**json.loads(right), f"{NAME}: weights": "0", f"{NAME}: gone": "0"}
    copy = tmp_path / "frozen.json"
    for module in (catalogue, command):
        monkeypatch.setattr(module, "FROZEN", copy)
    catalogue.write_frozen(wrong)
    before = copy.read_bytes()
    show = ("--show", str(tmp_path / "parts"))
    assert run(*show, NAME, OTHER) == 1
    said = capsys.readouterr().out
    assert said.startswith(f"{NAME}: gone, weights changed; as they are now: {tmp_path}/parts/")
    assert OTHER not in said
    assert copy.read_bytes() == before
    assert (tmp_path / "parts" / NAME / "weights.txt").read_text().startswith('["float64", [3]')
    assert run(*show, "--write", NAME, OTHER) == 0
    assert "name what changed in CHANGELOG.md" in capsys.readouterr().out
    assert copy.read_text(encoding="utf-8") == right
    assert run(*show, NAME, OTHER) == 0


def test_an_unknown_name_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        run("nothing of the kind")
    assert "no such configuration: nothing of the kind" in capsys.readouterr().err
