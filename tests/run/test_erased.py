"""Records erased while a Dask cluster trains on them: the step begins again without them."""

import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("distributed", reason="needs the extra dask")

from tests.run.streams import config, models, opened, records
from tidegate.compute import Memory
from tidegate.data.records import Records
from tidegate.gate import Gate
from tidegate.run.cluster import Dask, OnCluster
from tidegate.sources import raw_batch
from tidegate.state.verification import verify

pytestmark = pytest.mark.xdist_group("cluster")


def taken(gate: Gate, given: Records) -> None:
    X = np.where(given.usable[:, None], given.X, np.nan)
    gate.take(raw_batch(X, given.y))


@pytest.mark.slow
def test_a_fit_on_a_cluster_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    passes, reached, go_on = 0, threading.Event(), threading.Event()
    fold, given = OnCluster.fold, records(1024)
    slot = int(np.flatnonzero(given.usable)[500])

    def slow(self: Any, work: Any, merge: Any) -> Any:
        nonlocal passes
        passes += 1
        if passes == 3:
            reached.set()
            assert go_on.wait(60)
        return fold(self, work, merge)

    monkeypatch.setattr(OnCluster, "fold", slow)
    with opened(tmp_path / "one", config("output")) as gate:
        gate.engine = Dask(workers=2, small=64)
        taken(gate, given)
        trained = threading.Thread(target=lambda: list(gate.advance()))
        trained.start()
        assert reached.wait(60)
        eraser = threading.Thread(target=gate.erase, kwargs={"record": slot})
        eraser.start()
        while gate.store.erasures() == 0:
            time.sleep(0.01)
        go_on.set()
        eraser.join(60)
        trained.join(60)
        found, lines = models(gate)
        assert not list(verify(gate))
    with opened(tmp_path / "two", config("output")) as other:
        other.engine = Memory()
        usable = given.usable & (np.arange(given.n) != slot)
        taken(other, replace(given, usable=usable))
        list(other.advance())
        wanted, expected = models(other)
    assert lines == expected
    assert len(found) == 1
    assert np.allclose(found[0], wanted[0], atol=1e-6)
