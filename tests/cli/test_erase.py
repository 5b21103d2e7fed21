"""`tidegate erase`: by the number of a record, or by an id on standard input."""

import io
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest

from tests.cli.run import Done, tidegate
from tests.state.gatelife import TWO, config, opened, stream
from tidegate.gate import Gate
from tidegate.schedule import Span
from tidegate.sources import raw_batch
from tidegate.state.erasure import has_content


@pytest.fixture
def state(tmp_path: Path) -> Iterator[str]:
    """A state of 90 records of 30 persons."""
    settings = config(person={"id": "who", "contributions": 2})
    with opened(tmp_path / "state", settings) as gate:
        gate.take(raw_batch(*stream(90), [f"pé-{slot % 30}" for slot in range(90)]))
    yield str(tmp_path / "state")
    with Gate.look(tmp_path / "state") as gate:
        assert not list(gate.store.verify())


def fed(data: bytes, *words: str) -> Done:
    """Run the command with something on its standard input."""
    with patch.object(sys, "stdin", io.TextIOWrapper(io.BytesIO(data))):
        return tidegate(*words)


def usable(state: str) -> list[int]:
    with Gate.look(state) as gate:
        read = gate.store.read("records", Span(0, 90))
        gone = [line.slot for line in gate.store.quarantine("records") if line.reason == "erased"]
        assert not has_content(read, np.array(gone, np.intp))
        return gone


@pytest.mark.parametrize("end", [b"", b"\n", b"\r\n"])
def test_a_person_by_an_id_on_standard_input(state: str, end: bytes) -> None:
    done = fed("pé-4".encode() + end, "erase", state, "--person")
    assert done.returncode == 0, done.stderr
    assert "3 slots were erased" in done.stdout
    assert "pé-4" not in done.stdout + done.stderr
    assert usable(state) == [4, 34, 64]
    receipt = json.loads(done.stdout.partition("Receipt: ")[2])
    assert (receipt["erasure"], receipt["kind"]) == (1, "person")
    checked = tidegate("verify", state, "--includes", receipt["hash"])
    assert checked.returncode == 0
    assert "no person has paid more than 2 contributions," in checked.stdout
    assert f"It includes erasure 1, which has the hash {receipt['hash']}." in checked.stdout
    other = tidegate("verify", state, "--includes", "0" * 64)
    assert (other.returncode, "and no erasure" in other.stdout) == (1, True)


def test_a_record_by_its_number(state: str) -> None:
    done = tidegate("erase", state, "--record", "89", "--format", "json")
    assert done.returncode == 0, done.stderr
    assert set(json.loads(done.stdout)) == {"erasure", "time", "kind", "hash"}
    assert usable(state) == [89]
    again = tidegate("erase", state, "--record", "89")
    assert "0 slots were erased" in again.stdout


WRONG = [
    ((), b"", "--person or --record"),
    (("--person", "--record", "1"), b"a", "--person or --record"),
    (("--person", "--stream", "records"), b"a", "--stream goes with --record"),
    (("--record", "90"), b"", "from 0 to 89"),
    (("--record", "-1"), b"", "from 0"),
    (("--record", "1", "--stream", "target"), b"", "stream"),
    (("--person",), b"", "the person's id is empty"),
    (("--person",), b"\n", "the person's id is empty"),
    (("--person",), b"x" * 2**20, "longer than 1024 bytes"),
    (("--person",), b"x" * 2**21, "longer than 1024 bytes"),
    (("--person",), b"a\nb\n", "one line"),
    (("--person",), b"\xff", "UTF-8"),
]


@pytest.mark.parametrize(("words", "data", "what"), WRONG)
def test_what_cannot_be_meant_is_one_line(
    state: str, words: tuple[str, ...], data: bytes, what: str
) -> None:
    done = fed(data, "erase", state, *words)
    assert done.returncode == 2
    assert what in done.stderr
    assert len(done.stderr.splitlines()[-1]) < 300
    assert usable(state) == []


def test_a_state_that_is_open_points_to_the_service(state: str) -> None:
    with Gate.open(state):
        done = tidegate("erase", state, "--record", "1")
    assert done.returncode == 2
    assert "in use by process" in done.stderr
    assert "POST /v1/erasures" in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert usable(state) == []


def test_no_state(tmp_path: Path) -> None:
    done = tidegate("erase", str(tmp_path / "nowhere"), "--record", "1")
    assert done.returncode == 2
    assert "holds no state" in done.stderr


def test_one_of_two_streams_and_no_persons(tmp_path: Path) -> None:
    with opened(tmp_path / "two", config(TWO)) as gate:
        gate.take(raw_batch(*stream(20)), stream="target")
    two = str(tmp_path / "two")
    assert "source or target" in tidegate("erase", two, "--record", "1").stderr
    done = tidegate("erase", two, "--record", "1", "--stream", "target")
    assert done.returncode == 0, done.stderr
    assert "protected, not persons" in fed(b"a", "erase", two, "--person").stderr


@pytest.mark.parametrize("command", ["erase", "ledger"])
def test_an_id_on_the_command_line_is_refused_and_not_quoted(command: str, state: str) -> None:
    done = tidegate(command, state, "--person", "patient-7")
    assert done.returncode == 2
    assert "--person reads the id from standard input" in done.stderr
    assert "patient-7" not in done.stderr
