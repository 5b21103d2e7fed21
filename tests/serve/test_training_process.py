"""Fits in a process of their own: the same models, and nothing lost when it ends."""

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("fastapi", reason="needs the extra serve")

from tests.serve.served import config, stream
from tidegate.gate import Gate
from tidegate.serve import gate_runner
from tidegate.serve.gate_runner import GateRunner
from tidegate.serve.training_process import TrainingProcessGate
from tidegate.sources import raw_batch
from tidegate.state.verification import verify


@pytest.mark.thorough
def test_its_models_are_those_of_any_gate_and_it_survives_the_end_of_its_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gate_runner, "PATIENCE", 0.1)
    settings = config(not_private_seed=3)
    with Gate.open(tmp_path / "one", settings) as one:
        one.ingest(*stream(500))
        wanted = [release.weights for release in one.releases()]
    gate = TrainingProcessGate.open(tmp_path / "two", settings)
    with GateRunner(gate) as runner:
        runner.take(raw_batch(*stream(300)), size=1).result()
        until(lambda: runner.current.number >= 0)
        assert gate._fits is not None
        running = gate._fits._running
        assert running is not None
        os.kill(running[0].pid, signal.SIGKILL)  # the out-of-memory killer would do this
        runner.take(raw_batch(*stream(200, 300)), size=1).result()
        until(lambda: runner.current.number == 2)
        assert not runner.trouble or "restarting" in runner.trouble
    with Gate.look(tmp_path / "two") as looked:
        assert list(verify(looked)) == []
        found = [release.weights for release in looked.releases()]
    assert all(np.array_equal(*pair) for pair in zip(found, wanted, strict=True))


def test_one_that_only_reads_can_be_closed(tmp_path: Path) -> None:
    Gate.open(tmp_path / "state", config()).close()
    with TrainingProcessGate.look(tmp_path / "state") as gate:
        assert gate.store.count("records") == 0


def until(met: Callable[[], bool]) -> None:
    """Wait for what will be."""
    deadline = time.monotonic() + 60
    while not met():
        assert time.monotonic() < deadline
        time.sleep(0.02)
