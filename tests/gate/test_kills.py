"""`tidegate run` killed at any time, on sources that grow: it ends as if nothing had happened."""

import os
import random
from contextlib import suppress
from pathlib import Path

import pytest

from tests.gate.commands import command, grow, hashes, killed, make, started
from tidegate.gate.export import newest_published
from tidegate.gate.export import verify as verify_folder
from tidegate.gate.gate import Gate
from tidegate.gate.store import NoStateError
from tidegate.gate.verify import verify

RECORDS = 1500


def undisturbed(folder: Path, *, two: bool, kind: str) -> list[str]:
    folder.mkdir()
    config = make(folder, two=two, kind=kind)
    for name in ("source", "target") if two else ("records",):
        grow(folder, 0, RECORDS, name=name, kind=kind)
    assert command("run", config, "--quiet", errors=folder / "errors").code == 0
    return hashes(folder)


def disturbed(folder: Path, *, two: bool, kind: str, kills: int, longest: float) -> list[str]:
    """Kill a run again and again while its source grows; two sources are there from the start."""
    folder.mkdir()
    config, rng = make(folder, two=two, kind=kind), random.Random(os.getpid())
    for name in ("source", "target") if two else ():
        grow(folder, 0, RECORDS, name=name, kind=kind)
    done, happened, piece = RECORDS if two else 0, 0, max(1, RECORDS // kills)
    while happened < kills:
        if done < RECORDS:
            grow(folder, done, min(piece, RECORDS - done), kind=kind)
            done = min(done + piece, RECORDS)
        follow = () if two else ("--follow",)
        child = started("run", config, "--quiet", *follow, errors=folder / "errors")
        if killed(child, rng.uniform(0.0, longest)):
            happened += 1
            check(folder)
        elif done == RECORDS:
            break
    assert happened > 3
    if done < RECORDS:
        grow(folder, done, RECORDS - done, kind=kind)
    assert command("run", config, "--quiet", errors=folder / "errors").code == 0
    check(folder)
    assert newest_published(folder / "out") == len(hashes(folder)) - 1
    return hashes(folder)


def check(folder: Path) -> None:
    """What is there is sound, in the state and in the folder that releases are published to."""
    newest = newest_published(folder / "out")  # until it is named, a release is not out
    assert newest is None or list(verify_folder(folder / "out", newest)) == []
    with suppress(NoStateError), Gate.look(folder / "gate.state") as gate:
        assert list(verify(gate)) == []


CASES = [(False, "csv"), (False, "parquet"), (True, "csv")]


@pytest.mark.parametrize(("two", "kind"), CASES)
def test_tens_of_kills(two: bool, kind: str, tmp_path: Path) -> None:
    found = disturbed(tmp_path / "killed", two=two, kind=kind, kills=15, longest=0.25)
    assert found == undisturbed(tmp_path / "whole", two=two, kind=kind)


@pytest.mark.slow
@pytest.mark.parametrize(("two", "kind"), CASES)
def test_hundreds_of_kills(two: bool, kind: str, tmp_path: Path) -> None:
    expected = undisturbed(tmp_path / "whole", two=two, kind=kind)
    for life in range(10):
        found = disturbed(tmp_path / f"{life}", two=two, kind=kind, kills=30, longest=0.4)
        assert found == expected
