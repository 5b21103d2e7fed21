"""`Gate.run`: what `tidegate run` does, from Python, on sources that were made in Python too."""

import multiprocessing
import signal
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest

from tests.state import gatelife
from tests.state.commands import grow, make
from tests.state.file_sources import csv_source
from tests.state.gatelife import SIZES, config, opened, stream
from tidegate.checks import InvalidValueError
from tidegate.gate import Gate
from tidegate.run.config import Config
from tidegate.sources import Batches, SourceError
from tidegate.state.verification import verify

children = multiprocessing.get_context("forkserver")
children.set_forkserver_preload(["tests.state.gatelife"])


def killed(*words: Any) -> bool:
    """Whether a run was killed; it must not end in any other way but well."""
    process = children.Process(target=gatelife.run, args=words)
    process.start()
    process.join(120)
    assert process.exitcode in {0, -signal.SIGKILL}
    return bool(process.exitcode)


def hashes(folder: Path) -> list[str]:
    with Gate.look(folder) as gate:
        assert list(verify(gate)) == []
        assert sum(map(gate.store.count, gate.streams)) == sum(SIZES)
        return [release.hash for release in gate.releases()]


POINTS = ["append.commit", "append.done", "publish.commit", "publish.done"]


@pytest.mark.parametrize(
    ("point", "two", "target"),
    [
        *((point, False, False) for point in POINTS),
        ("publish.done", True, False),
        ("publish.commit", False, True),
    ],
)
def test_killed_and_resumed_it_takes_and_releases_everything_once(
    point: str, two: bool, target: bool, tmp_path: Path
) -> None:
    gatelife.run(tmp_path / "whole", two=two, target=target)
    expected = hashes(tmp_path / "whole")
    assert (tmp_path / "whole.notes").read_text().split() == expected
    kills = 0
    while killed(tmp_path / "state", f"{point}:{kills + 2}", two, target):  # later each time
        kills += 1
    assert kills > 1
    assert hashes(tmp_path / "state") == expected
    handed_out = (tmp_path / "state.notes").read_text().split()
    assert len(set(handed_out)) == len(handed_out)
    assert [each for each in expected if each in set(handed_out)] == handed_out


def pairs(n: int, size: int = 50) -> list[tuple[Any, Any]]:
    return [stream(size, start) for start in range(0, n, size)]


def test_a_loop_that_is_left_goes_on_with_the_next_run(tmp_path: Path) -> None:
    with opened(tmp_path, config()) as gate:
        source = Batches(name="mine", pairs=pairs(1500))
        for release in gate.run(source):
            if release.card["at"] == 900:
                break
        assert gate.store.count("records") == 900
        assert [release.card["at"] for release in gate.run(source)] == list(range(1000, 1501, 100))
        assert list(gate.run(source)) == []


def test_a_run_that_another_has_overtaken_takes_nothing_twice(tmp_path: Path) -> None:
    with opened(tmp_path, config()) as gate:
        source = Batches(name="mine", pairs=pairs(1500))
        first = gate.run(source)
        next(first)
        assert len(list(gate.run(source))) == 8
        with pytest.raises(InvalidValueError, match="another run has read mine since"):
            list(first)
        assert list(gate.run(source)) == []
        assert gate.store.count("records") == 1500
        assert list(verify(gate)) == []


def test_it_stops_where_it_is_told_to_and_says_how_far_it_is(tmp_path: Path) -> None:
    counted, source = Mock(), Batches(name="mine", pairs=pairs(150))
    with opened(tmp_path, config()) as gate:
        asked = Mock(side_effect=[False, False, True])
        assert list(gate.run(source, counted=counted, stop=asked)) == []
        assert [call.args[0] for call in counted.call_args_list] == [50, 100]
        assert gate.progress.complete("records")


def test_it_follows_a_source_that_grows(tmp_path: Path) -> None:
    growing, looks = pairs(700), []

    def again() -> bool:
        looks.append(gate.store.count("records"))
        growing.append(stream(100, 700))
        return len(looks) < 2

    with opened(tmp_path, config()) as gate:
        found = gate.run(Batches(name="mine", pairs=growing), again=again)
        assert [release.card["at"] for release in found] == [700, 800]
    assert looks == [700, 800]


def test_the_sources_of_the_configuration_are_read_by_default(tmp_path: Path) -> None:
    known = Config.load(make(tmp_path))
    grow(tmp_path, 0, 400)
    with Gate.open(tmp_path / "state", known, sources=known.sources()) as gate:
        assert [release.card["at"] for release in gate.run()] == [300, 400]
        grow(tmp_path, 400, 100)
        assert [release.card["at"] for release in gate.run()] == [500]
        linked = tmp_path / "linked.csv"
        linked.hardlink_to(tmp_path / "records.csv")
        with pytest.raises(InvalidValueError, match="taken under another name"):
            gate.run(csv_source("linked", linked, known.records.build()))


def test_a_state_is_not_made_before_its_sources_can_be_read(tmp_path: Path) -> None:
    known = Config.load(make(tmp_path))
    (tmp_path / "records.csv").unlink()
    with pytest.raises(SourceError):
        Gate.open(tmp_path / "state", known, sources=known.sources())
    assert not (tmp_path / "state").exists()


def test_sources_that_cannot_be_told_apart_or_placed_are_refused(tmp_path: Path) -> None:
    one, other = (Batches(name="mine", pairs=[(np.ones((1, 3)), [1])]) for _ in range(2))
    with opened(tmp_path / "one", config()) as gate:
        with pytest.raises(InvalidValueError, match="names no source"):
            gate.run()
        with pytest.raises(InvalidValueError, match="stream must be records"):
            gate.run({"target": one})
    with opened(tmp_path / "two", config(gatelife.TWO)) as gate:
        with pytest.raises(InvalidValueError, match="stream must be source or target"):
            gate.run(one)
        with pytest.raises(InvalidValueError, match="sources with different names"):
            gate.run({"source": one, "target": other})
