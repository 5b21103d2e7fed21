"""`tidegate run` killed at any time, on sources that grow: it ends as if nothing had happened."""

import os
import random
import time
from contextlib import suppress
from pathlib import Path

import pytest

from tests.state.commands import command, grow, hashes, killed, make, started
from tidegate.gate import Gate
from tidegate.state.publish_folder import newest_published
from tidegate.state.store import NoStateError
from tidegate.state.verification import verify
from tidegate.state.verify_published import verify as verify_folder

RECORDS = 1500


def undisturbed(folder: Path, *, two: bool, kind: str) -> list[str]:
    folder.mkdir()
    config = make(folder, two=two, kind=kind)
    for name in ("source", "target") if two else ("records",):
        grow(folder, 0, RECORDS, name=name, kind=kind)
    assert command("run", config, "--quiet", errors=folder / "errors").code == 0
    return hashes(folder)


def disturbed(folder: Path, *, two: bool, kind: str, kills: int, longest: float) -> int:
    """Kill a run again and again while its source grows, and say how often that came in time.

    Two sources are there from the start, so that such a run may end before it is killed.
    """
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
    if done < RECORDS:
        grow(folder, done, RECORDS - done, kind=kind)
    assert command("run", config, "--quiet", errors=folder / "errors").code == 0
    check(folder)
    assert newest_published(folder / "out") == len(hashes(folder)) - 1
    return happened


def check(folder: Path) -> None:
    """What is there is sound, in the state and in the folder that releases are published to."""
    newest = newest_published(folder / "out")  # until it is named, a release is not out
    assert newest is None or list(verify_folder(folder / "out", newest)) == []
    with suppress(NoStateError), Gate.look(folder / "gate.state") as gate:
        assert list(verify(gate)) == []


CASES = [(False, "csv"), (False, "parquet"), (True, "csv")]


def survives(folder: Path, *, two: bool, kind: str, kills: int, each: int) -> None:
    """Whether so many kills, `each` in one life at the most, make no difference."""
    expected = undisturbed(folder / "whole", two=two, kind=kind)
    began = time.monotonic()  # of a second run: the first one also waits for the server of forks
    assert undisturbed(folder / "again", two=two, kind=kind) == expected
    longest = time.monotonic() - began if two else 0.3
    for life in range(4 * kills):
        some = min(each, kills)
        came = disturbed(folder / f"{life}", two=two, kind=kind, kills=some, longest=longest)
        kills -= came
        if came < some:  # it ended first: what was measured was a machine with more to do
            longest /= 2
        assert hashes(folder / f"{life}") == expected
        if kills <= 0:
            return
    pytest.fail("too few kills came in time")


@pytest.mark.thorough
@pytest.mark.parametrize(("two", "kind"), CASES)
def test_a_few_kills(two: bool, kind: str, tmp_path: Path) -> None:
    survives(tmp_path, two=two, kind=kind, kills=4, each=4)


@pytest.mark.slow
@pytest.mark.parametrize(("two", "kind"), CASES)
def test_hundreds_of_kills(two: bool, kind: str, tmp_path: Path) -> None:
    survives(tmp_path, two=two, kind=kind, kills=300, each=30)
