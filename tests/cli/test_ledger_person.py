"""`tidegate ledger STATE --person`: what one person has paid, for operators."""

import io
import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import pytest

from tests.cli.run import Done, tidegate
from tests.state.gatelife import config, opened
from tests.state.personlife import feed, settings


@pytest.fixture(scope="module")
def states(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("states")
    for kind in ("life", "period"):
        with opened(folder / kind, settings(kind)) as gate:
            feed(gate)
    return {kind: folder / kind for kind in ("life", "period")}


def asked(state: Path, person: bytes, *words: str) -> Done:
    lines = SimpleNamespace(buffer=io.BytesIO(person), isatty=lambda: False)
    with patch.object(sys, "stdin", lines):
        return tidegate("ledger", str(state), "--person", *words)


def row(state: Path, person: bytes) -> dict[str, Any]:
    done = asked(state, person, "--format", "json")
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_it_says_what_a_person_has_paid_and_where(states: dict[str, Path]) -> None:
    often = row(states["life"], b"often\n")
    assert often["steps"] == [{"first": 1, "last": 2}]
    assert 1 < often["paid"] <= 2 == often["contributions"]
    assert often["paid"] + often["left"] == pytest.approx(2)
    assert often["period"] is None
    told = asked(states["life"], b"often").stdout
    assert told.startswith("This person is admitted in steps 1-2, and has paid 1.")


def test_an_unknown_person_gets_an_answer_of_the_same_form(states: dict[str, Path]) -> None:
    for state in states.values():
        known, unknown = row(state, b"often"), row(state, b"somebody else")
        assert list(known) == list(unknown)
        assert {name: type(each) for name, each in known.items()} == {
            name: type(each) for name, each in unknown.items()
        }
        assert unknown["steps"] == []
        assert (unknown["paid"], unknown["left"]) == (0.0, 2.0)


def test_with_a_period_only_the_newest_one_counts(states: dict[str, Path]) -> None:
    often = row(states["period"], b"often")
    assert often["period"] == 4
    assert often["steps"][0]["first"] >= 10
    assert 0 < often["paid"] <= 2
    assert "within the newest period of 4 steps" in asked(states["period"], b"often").stdout


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (b"", "the person's id is empty"),
        (b"x" * 1025, "longer than 1024 bytes"),
        (b"one\ntwo\n", "one line"),
        (b"\xff", "UTF-8"),
    ],
)
def test_what_is_no_id_is_refused_without_quoting_it(
    given: bytes, told: str, states: dict[str, Path]
) -> None:
    done = asked(states["life"], given)
    assert done.returncode == 2
    assert told in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert "xxx" not in done.stderr


def test_it_needs_the_key_and_persons(states: dict[str, Path], tmp_path: Path) -> None:
    key = states["life"] / "person.key"
    kept = key.read_bytes()
    key.unlink()
    try:
        assert "person.key: No such file" in asked(states["life"], b"often").stderr
    finally:
        key.write_bytes(kept)
        key.chmod(0o600)
    opened(tmp_path / "records", config()).close()
    done = asked(tmp_path / "records", b"often")
    assert done.returncode == 2
    assert "records are protected, not persons" in done.stderr
    assert tidegate("ledger", str(states["life"]), "--person", "--record", "1").returncode == 2
