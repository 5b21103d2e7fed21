"""A Gate that protects persons, killed at every failpoint: nobody is charged or admitted twice."""

import multiprocessing
import signal
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from tests.state import personlife
from tests.state.gatelife import opened
from tests.state.personlife import KINDS, ledger, settings
from tests.state.postgres_server import needs_postgres, server
from tidegate.checks import StoreError
from tidegate.failpoints import NAMES, PERSONS
from tidegate.gate import Gate
from tidegate.state.protected import FILE
from tidegate.state.store import NoStateError
from tidegate.state.verification import verify

# children come from a process that has everything imported and no threads: quick and safe
children = multiprocessing.get_context("forkserver")
children.set_forkserver_preload(["tests.state.personlife"])

LIVES = [kind if kind == "life" else pytest.param(kind, marks=pytest.mark.slow) for kind in KINDS]
POINTS = [each for each in (*NAMES, *PERSONS) if each not in {"sweep.unlink", "create.done"}]


def killed(folder: Path, *more: Any) -> bool:
    child = children.Process(target=personlife.live, args=(folder, *more))
    child.start()
    child.join(120)
    assert child.exitcode in {0, -signal.SIGKILL}
    return bool(child.exitcode)


def content(folder: Path) -> tuple[Any, ...]:
    """All that is public, and who is admitted where."""
    with Gate.look(folder) as gate:
        assert list(verify(gate)) == []
        return (
            [release.hash for release in gate.releases()],
            [(step.stream, step.span) for step in gate.store.steps()],
            ledger(gate),
        )


@cache
def expected(kind: str) -> Any:
    """What an undisturbed life ends with."""
    with TemporaryDirectory() as temporary:
        folder = Path(temporary) / "state"
        with_key(folder)
        personlife.live(folder, "", kind)
        return content(folder)


def with_key(folder: Path) -> None:
    """Give a state its key before it is created, so that two states release the same."""
    folder.mkdir()
    (folder / FILE).write_text("ab" * 32)
    (folder / FILE).chmod(0o600)


@pytest.fixture(
    params=["sqlite", pytest.param("postgres", marks=[needs_postgres, pytest.mark.slow])]
)
def store(request: pytest.FixtureRequest) -> dict[str, str]:
    return {} if request.param == "sqlite" else {"database": server().url}


@pytest.mark.thorough
@pytest.mark.parametrize("kind", LIVES)
@pytest.mark.parametrize("name", POINTS)
def test_killed_at_every_failpoint(
    name: str, kind: str, store: dict[str, str], tmp_path: Path
) -> None:
    """What was admitted before a kill stays; what was not is admitted once."""
    folder, kills = tmp_path / "state", 0
    if not name.startswith("key."):
        with_key(folder)
    before: dict[str, list[tuple[int, int]]] = {}
    for passed in (1, 3):
        if not killed(folder, f"{name}:{passed}", kind, store):
            break
        kills += 1
        try:
            with Gate.look(folder) as gate:
                assert list(verify(gate)) == []
                now = ledger(gate)
        except NoStateError:
            continue
        if kind != "period":
            assert all(_covers(now.get(person, []), steps) for person, steps in before.items())
        before = now
    assert kills
    assert not killed(folder, "", kind, store)
    same = slice(1 if name.startswith("key.") else 0, None)  # cards cover the key
    assert content(folder)[same] == expected(kind)[same]


def _covers(now: list[tuple[int, int]], before: list[tuple[int, int]]) -> bool:
    steps = {step for some in now for step in range(*some)}
    return all(step in steps for some in before for step in range(*some))


def test_a_key_of_an_interrupted_creation_is_used(tmp_path: Path) -> None:
    folder = tmp_path / "state"
    assert killed(folder, "create.commit", "life")
    key = (folder / FILE).read_text()
    assert not killed(folder, "", "life")
    assert (folder / FILE).read_text() == key


def test_a_wrong_key_is_refused_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "state"
    opened(folder, settings()).close()
    path = folder / FILE
    right = path.read_text()
    assert path.stat().st_mode & 0o777 == 0o600
    assert len(bytes.fromhex(right)) == 32
    for wrong, told in [
        ("00" * 32, "is not the key that this state was created with"),
        ("00" * 31, "must hold 64 hexadecimal digits"),
        ("text", "must hold 64 hexadecimal digits"),
    ]:
        path.write_text(wrong)
        with pytest.raises(StoreError, match=told) as error:
            opened(folder, settings())
        assert wrong not in str(error.value)
    path.write_text(right)
    path.chmod(0o640)
    with pytest.raises(StoreError, match="can be read or written by others"):
        opened(folder, settings())
    path.unlink()
    with pytest.raises(StoreError, match=r"person\.key: No such file"):
        opened(folder, settings())
    person = {"id": "who", "contributions": 2, "key": "PERSONS_KEY"}
    with pytest.raises(StoreError, match="environment variable PERSONS_KEY is not set"):
        opened(folder, settings(person=person))
    monkeypatch.setenv("PERSONS_KEY", "00" * 32)
    with pytest.raises(StoreError, match="PERSONS_KEY is not the key"):
        opened(folder, settings(person=person))
    monkeypatch.setenv("PERSONS_KEY", right)
    opened(folder, settings(person=person)).close()


def test_a_new_state_takes_its_key_from_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    person = {"id": "who", "contributions": 2, "key": "PERSONS_KEY"}
    with pytest.raises(StoreError, match="PERSONS_KEY is not set"):
        opened(tmp_path / "state", settings(person=person))
    monkeypatch.setenv("PERSONS_KEY", "ab" * 32)
    opened(tmp_path / "state", settings(person=person)).close()
    assert not (tmp_path / "state" / FILE).exists()
    for there, told in [("ab" * 32, 0), (None, 0), ("cd" * 32, 1)]:
        monkeypatch.setenv("PERSONS_KEY", there) if there else monkeypatch.delenv("PERSONS_KEY")
        with Gate.look(tmp_path / "state") as gate:
            assert len(list(verify(gate))) == told
