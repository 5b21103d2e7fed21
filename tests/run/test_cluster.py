"""Fits on a Dask cluster: as in memory, also when a worker or the scheduler is killed."""

import operator
import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError
from dataclasses import dataclass, field, replace
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.base import clone

pytest.importorskip("distributed", reason="needs the extra dask")

import psutil

from tests.lab.test_panels import RIGHT, WRONG
from tests.run.streams import batches, config, models, opened, records, weights
from tests.run.test_engines import agree
from tidegate import ApproxDP, ContinualClassifier
from tidegate.checks import ComputeError, InvalidValueError
from tidegate.compute import Memory
from tidegate.data.records import Records, total
from tidegate.data.rows import entries_of
from tidegate.gate import Gate
from tidegate.learn import GradientPerturbation, Logistic
from tidegate.learn.gradient import clipped_sum, descend
from tidegate.learn.learner import Task, Terms, Weights
from tidegate.learn.objective import CHUNK, Objective, _slopes
from tidegate.learn.refit import Exact
from tidegate.privacy.budget import Allowance
from tidegate.run.cluster import MERGE_WIDTH, VERSION, Dask, OnCluster, Resident
from tidegate.run.config import ConfigError
from tidegate.run.engine import Run, Then, equal_sizes, same, shared_out
from tidegate_lab.paper.experiment import in_processes, on_cluster

pytestmark = pytest.mark.xdist_group("cluster")  # it is started once


@pytest.fixture(scope="module")
def cluster() -> Iterator[Dask]:
    engine = Dask(workers=2, small=64)
    yield engine
    engine.close()


def pids(engine: Dask) -> list[int]:
    return list(engine.client().run(os.getpid).values())


def kill_a_worker(engine: Dask) -> None:
    os.kill(pids(engine)[0], signal.SIGKILL)


class Lent:
    """An engine that a gate does not close."""

    def __init__(self, engine: Dask) -> None:
        self.parts = engine.parts

    def close(self) -> None:
        pass


@pytest.mark.thorough
@pytest.mark.parametrize("learner", [pytest.param("output", marks=pytest.mark.slow), "gradient"])
def test_a_stream_on_a_cluster_is_the_stream_in_memory(
    cluster: Dask, tmp_path: Path, learner: str
) -> None:
    told = config(learner, sample=600 if learner == "gradient" else None)
    one = weights(tmp_path / "memory", told, Memory())
    agree(one, weights(tmp_path / "dask", told, Lent(cluster)), learner)


@pytest.mark.thorough
def test_surveys_and_transforms_on_a_cluster_are_those_in_memory(cluster: Dask) -> None:
    """Bit for bit, because all sums of a survey are exact; models agree up to roundings."""
    given = records(600)
    clf = ContinualClassifier(
        budget=ApproxDP(2.0, 1e-6),
        block=150,
        step=150,
        classes=[0, 1],
        norm=1.0,
        not_private_seed=5,
    )
    one = clone(clf).fit(given.X, given.y).releases_
    other = clone(clf).set_params(compute=cluster).fit(given.X, given.y).releases_
    assert len(one) == len(other) == 4
    for mine, theirs in zip(one, other, strict=True):
        assert mine.transform is not None
        assert theirs.transform is not None
        assert mine.transform.on_card() == theirs.transform.on_card()
        np.testing.assert_allclose(mine.weights, theirs.weights, atol=2e-3)


@pytest.mark.thorough
def test_sums_are_computed_elsewhere_and_parts_stay_there(cluster: Dask) -> None:
    whole = records(3000, dtype=np.float64)
    parts = cluster.parts([whole], whole.form)
    assert len(parts.sizes) == 2
    w = np.ones(whole.d)
    work = partial(_slopes, loss=Logistic(), w=w)
    np.testing.assert_allclose(total(parts, work), work(whole), atol=1e-10)
    held = vars(parts)["_held"][:]
    assert np.array_equal(total(parts, work), total(parts, work))
    assert vars(parts)["_held"] == held
    used = parts.fold(_pid, lambda one, other: one | other)
    assert used == set(pids(cluster))
    assert os.getpid() not in used


def _pid(records: Records) -> set[int]:
    del records
    return {os.getpid()}


@pytest.mark.thorough
@pytest.mark.parametrize("kind", [np.asarray, csr_array])
def test_a_part_has_its_size_and_is_whole_after_it_was_moved(cluster: Dask, kind: Any) -> None:
    whole = records(3000)
    whole = Records(kind(whole.X), whole.y, whole.usable)
    parts = cluster.parts([whole], whole.form).map(partial(Exact.of, bits=20))
    total(parts, partial(clipped_sum, w=np.ones(whole.d), loss=Logistic(), clip=1.0, bits=20))
    held, client = vars(parts)["_held"][0], cluster.client()
    for worker in client.nthreads():
        aligned, size = client.submit(_state, held, workers=[worker], pure=False).result()
        assert aligned
        assert size >= 0.9 * parts.sizes[0] * whole.d * 8


def _state(resident: Resident) -> tuple[bool, int]:
    return entries_of(resident.part.rows).flags.aligned, sys.getsizeof(resident)


def test_what_travels_shows_no_value_to_who_logs_it() -> None:
    secret = np.full((2, 2), 0.12345)
    told, some = partial(np.add, secret), Records(secret, np.zeros(2, np.intp), secret[0] > 0)
    for each in (Then(same, told), Then(told, same), Run((some,)), Resident(some)):
        assert "0.12345" in repr(vars(each))
        assert "0.12345" not in repr(each)


@pytest.mark.thorough
def test_results_are_merged_in_a_tree(cluster: Dask) -> None:
    whole = records(40 * CHUNK)
    parts = cluster.parts([whole], whole.form)
    assert isinstance(parts, OnCluster)
    many = replace(parts, runs=shared_out([whole], equal_sizes(whole.n, CHUNK)))
    assert many.fold(_none, _deeper) <= 2 * MERGE_WIDTH
    assert many.fold(_count, operator.add) == whole.n
    first = tuple(whole.X[::CHUNK, 0])
    assert many.fold(_first, operator.add) == first  # in order


def _first(records: Records) -> tuple[float, ...]:
    return (records.X[0, 0],)


def _none(records: Records) -> int:
    del records
    return 0


def _deeper(one: int, other: int) -> int:
    return 1 + max(one, other)


@dataclass(frozen=True)
class Elsewhere:
    """A piece that only this process can load."""

    records: Records
    place: Path = Path("nowhere")
    pid: int = field(default_factory=os.getpid)

    @property
    def n(self) -> int:
        return self.records.n

    def ahead(self) -> None:
        pass

    def load(self) -> Records:
        assert os.getpid() == self.pid, "a worker was sent where to find what it cannot read"
        return self.records


@pytest.mark.thorough
def test_a_worker_that_cannot_read_the_files_gets_the_records(cluster: Dask) -> None:
    whole = records(1000)
    parts = cluster.parts([Elsewhere(whole), Elsewhere(whole)], whole.form)
    assert parts.fold(_count, lambda one, other: one + other) == 2000


def _count(records: Records) -> int:
    return records.n


@pytest.mark.thorough
def test_a_worker_killed_in_mid_fit_changes_nothing(cluster: Dask) -> None:
    whole = records(3000)
    task = Task(loss=Logistic(), norm=1.0, regularization=0.01)
    terms = Terms(allowance=Allowance("mu", 1.0))
    descent = GradientPerturbation(steps=6).descent_of(task, terms, whole.n, whole.d)

    def fit(at: int) -> Weights:
        seen = iter(range(100))

        def perturb(S: Weights, sigma: float) -> Weights:
            del sigma
            if next(seen) == at:
                kill_a_worker(cluster)
            return S

        parts = cluster.parts([whole], whole.form)
        return descend(task, terms, parts, descent, perturb).weights

    undisturbed, before = fit(-1), pids(cluster)
    assert np.array_equal(fit(2), undisturbed)
    assert pids(cluster) != before


def test_a_persons_slots_may_lie_on_many_workers(cluster: Dask) -> None:
    whole = records(2048)
    near = ContinualClassifier(
        budget=ApproxDP(4.0, 1e-6), block=1024, step=1024, classes=[0, 1], norm=1.0,
        learner=GradientPerturbation(steps=3), contributions=2, not_private_seed=1,
    )  # fmt: skip
    far = clone(near.set_params(compute=cluster))
    near.set_params(compute=None)
    for each in (near, far):
        each.fit(whole.X, whole.y, persons=np.arange(2048) % 300)
    assert len(near.releases_) == len(far.releases_) == 2
    for mine, theirs in zip(near.releases_, far.releases_, strict=True):
        np.testing.assert_allclose(mine.weights, theirs.weights, rtol=1e-9)


def test_estimators_compute_where_they_are_told(cluster: Dask) -> None:
    whole = records(2048)
    near = ContinualClassifier(
        budget=ApproxDP(4.0, 1e-6), block=1024, step=1024, classes=[0, 1], norm=1.0,
        learner=GradientPerturbation(steps=3), not_private_seed=1,
    )  # fmt: skip
    far = clone(near.set_params(compute=cluster))
    assert far.compute is cluster
    near.set_params(compute=None)
    made = (each.fit(whole.X, whole.y).releases_ for each in (near, far))
    for one, other in zip(*made, strict=True):
        np.testing.assert_allclose(one.weights, other.weights, atol=2e-3)
    assert pickle.loads(pickle.dumps(far)).predict(whole.X).shape == (2048,)
    with pytest.raises(InvalidValueError, match="compute must be None or an engine"):
        clone(near).set_params(compute="gpu").fit(whole.X, whole.y)


@pytest.mark.slow
def test_the_command_line_computes_where_the_configuration_says(tmp_path: Path) -> None:
    whole = records(70_000)  # more than any engine keeps in memory
    rows = np.column_stack([whole.X, whole.y])
    header = "a,b,c,d,e,y"
    np.savetxt(tmp_path / "records.csv", rows, delimiter=",", header=header, comments="")
    found = {}
    for engine in ("memory", "disk", "dask"):
        (tmp_path / f"{engine}.toml").write_text(f"""
            not_private_seed = 3
            [schedule]
            kind = "independent"
            step = 70000
            [budget]
            epsilon = 1.0
            [records]
            classes = [0, 1]
            norm = 1.0
            columns = ["a", "b", "c", "d", "e"]
            label = "y"
            [source]
            type = "csv"
            path = "records.csv"
            [compute]
            engine = "{engine}"
            """)
        command = [sys.executable, "-m", "tidegate", "run", f"{engine}.toml"]
        subprocess.run(command, cwd=tmp_path, check=True)
        with Gate.look(tmp_path / f"{engine}.state") as gate:
            found[engine] = models(gate)[0]
    for engine in ("disk", "dask"):
        np.testing.assert_allclose(found[engine], found["memory"], atol=1e-5)


def test_nobody_else_can_use_a_local_cluster(cluster: Dask) -> None:
    client = cluster.client()
    assert client.scheduler.address.startswith("tls://127.0.0.1:")
    assert client.security.require_encryption
    for pid in pids(cluster):
        sockets = psutil.Process(pid).net_connections()
        assert {each.laddr.ip for each in sockets if each.status == "LISTEN"} == {"127.0.0.1"}


def test_a_local_cluster_writes_no_record_to_a_disk(cluster: Dask) -> None:
    """A worker spills what it holds when it comes near its limit: it has none."""
    workers = cluster.client().scheduler_info()["workers"].values()
    assert {each["memory_limit"] for each in workers} == {0}


def test_what_is_told_wrongly_is_refused() -> None:
    with pytest.raises(InvalidValueError, match="workers must be left out if there is a scheduler"):
        Dask(workers=2, scheduler="tcp://127.0.0.1:1")
    far = ("tcp://10.1.2.3:8786", "far.example:8786", "tcp://127.0.0.1:1@far.example:8786")
    unfinished = ("tls://", "localhost", "tls://far.example", "tcp://[::1:1", "TLS://far.example:1")
    for address in (*far, *unfinished):
        with pytest.raises(InvalidValueError, match="scheduler must be tls://host:port"):
            Dask(scheduler=address)
    for address in ("tls://far.example:8786", "127.0.0.1:8786", "tcp://[::1]:1"):
        assert Dask(scheduler=address).scheduler == address
    with pytest.raises(ConfigError, match=r"compute\.workers is a key of dask, not of disk"):
        config("output", compute='engine = "disk"\nworkers = 2')
    told = config("output", compute='engine = "dask"\nworkers = 2').compute.build()
    assert isinstance(told, Dask)
    assert pickle.loads(pickle.dumps(told)).workers == 2


def test_workers_of_another_version_are_refused(
    cluster: Dask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that lacks the program would end at the first part, and the fit wait for ever."""
    whole, known = records(3000), VERSION
    assert cluster.check_workers([tmp_path])
    assert not cluster.check_workers([tmp_path / "absent"])
    with monkeypatch.context() as patch:
        patch.setattr("tidegate.run.cluster.VERSION", "9.9")
        with pytest.raises(ComputeError, match=f"have Tidegate {known}, but this is 9.9: install"):
            cluster.parts([whole], whole.form)
    (tmp_path / "unknown_there.py").write_text("def checked(places): return 'none', True")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr("tidegate.run.cluster._checked", import_module("unknown_there").checked)
    with pytest.raises(ComputeError, match=f"have Tidegate none, but this is {known}: install"):
        cluster.parts([whole], whole.form)


def test_a_part_is_for_any_worker_where_all_are_lost() -> None:
    whole, client = records(100), Mock()
    runs = (Run((whole,)), Run((whole,)))
    parts = OnCluster(engine=Dask(), runs=runs, make=same, sizes=(100, 100), form=whole.form)
    for known, expected in {(): [None, None], ("a", "b"): [["a"], ["b"]]}.items():
        client.reset_mock()
        client.nthreads.return_value = dict.fromkeys(known, 1)
        assert len(list(parts._load(client))) == 2
        told = [call.kwargs for call in client.submit.call_args_list]
        assert [each.get("workers") for each in told] == expected
        assert all(each.get("allow_other_workers", False) == bool(known) for each in told)


@pytest.mark.parametrize("error", [CancelledError("gone"), OSError(5, "gone")])
def test_a_cluster_that_is_lost_is_begun_or_found_anew(error: Exception) -> None:
    engine, client = Dask(workers=1), Mock()
    engine._running = (client,)

    def fail() -> None:
        with engine.explained():
            raise error

    with pytest.raises(ComputeError, match=r"on this machine is lost .*gone\): nothing is charged"):
        fail()
    client.close.assert_called_once()
    assert not engine._running


def test_a_scheduler_that_needs_certificates_says_so() -> None:
    with pytest.raises(ComputeError, match=r"needs certificates.*docs/scale.md"):
        Dask(scheduler="tls://127.0.0.1:1").client()


class External:
    """A scheduler and its worker, as processes of their own."""

    def __init__(self, folder: Path, port: int) -> None:
        self.address = f"tcp://127.0.0.1:{port}"
        options = ["--no-dashboard", "--host", "127.0.0.1"]
        self.scheduler = self._start("scheduler", "--port", str(port), *options)
        local = ["--local-directory", str(folder), "--nthreads", "1", "--no-dashboard"]
        self.worker = self._start("worker", self.address, *local)

    def _start(self, *what: str) -> "subprocess.Popen[bytes]":
        command = [sys.executable, "-m", "dask", *what]
        return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def kill(self) -> None:
        for process in (self.scheduler, self.worker):
            process.kill()
            process.wait()


@pytest.fixture
def begin(tmp_path: Path) -> Iterator[Callable[[int], External]]:
    begun: list[External] = []

    def start(port: int) -> External:
        begun.append(External(tmp_path / "workers", port))
        return begun[-1]

    yield start
    for each in begun:
        each.kill()


def ingest(gate: Gate, given: list[tuple[Any, Any]]) -> None:
    for X, y in given:
        gate.ingest(X, y)


@pytest.mark.slow
def test_a_scheduler_killed_in_mid_fit_costs_nothing(
    tmp_path: Path, begin: Callable[[int], External], monkeypatch: pytest.MonkeyPatch
) -> None:
    port = 20_000 + os.getpid() % 10_000
    outside = begin(port)
    told = config("output")
    undisturbed = weights(tmp_path / "memory", told, Memory())
    exact, calls = Objective.gradient, []

    def gradient(self: Objective, w: Weights, *, draft: bool = False) -> Weights:
        calls.append(w)
        if len(calls) == 4:
            outside.scheduler.kill()
        return exact(self, w, draft=draft)

    given = list(batches(records()))
    with opened(tmp_path / "dask", told) as gate:
        gate.engine = Dask(scheduler=outside.address, small=64)
        with monkeypatch.context() as patch:
            patch.setattr(Objective, "gradient", gradient)
            with pytest.raises(ComputeError, match=r"^the cluster tcp://.* is lost .*: nothing is"):
                ingest(gate, given)
        paid, taken = models(gate), gate.store.count("records")
    again = begin(port)
    with opened(tmp_path / "dask", told) as gate:
        assert models(gate)[1] == paid[1]
        gate.engine = Dask(scheduler=again.address, small=64)
        ingest(gate, given[taken // 700 :])
        agree(undisturbed, models(gate), "output")


@pytest.mark.thorough
def test_a_scheduler_that_is_not_there_is_named_in_one_line() -> None:
    import dask  # noqa: PLC0415

    whole = records(1000)
    with dask.config.set({"distributed.comm.timeouts.connect": "1s"}):
        engine = Dask(scheduler="tcp://127.0.0.1:9", small=64)
        with pytest.raises(
            ComputeError, match=r"^the cluster tcp://127\.0\.0\.1:9 is lost"
        ) as info:
            engine.parts([whole], whole.form)
    assert "\n" not in str(info.value)
    assert "check that its scheduler is running" in str(info.value)


@pytest.mark.slow
def test_a_study_on_a_cluster_is_the_study_at_home() -> None:
    jobs = [(RIGHT, 0), (WRONG, 0), (RIGHT, 1)]
    there = on_cluster(jobs, Dask(workers=1))
    assert sorted(there) == sorted(in_processes(jobs, workers=1))
    assert list(on_cluster([], Dask(workers=1))) == []

    class Checked(Dask):
        def check_workers(self, places: Sequence[Path] = ()) -> bool:
            raise ComputeError(f"of another version, {places}")

    with pytest.raises(ComputeError, match="of another version"):
        list(on_cluster(jobs, Checked()))
