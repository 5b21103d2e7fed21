"""An engine that computes the sums of a fit on a Dask cluster."""

import os
import re
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import contextmanager, suppress
from copy import deepcopy
from dataclasses import dataclass, field, replace
from functools import reduce
from importlib.metadata import version
from operator import attrgetter
from pathlib import Path
from typing import Any, Generic, Self

import dask
from distributed import Client, KilledWorker, LocalCluster, Security
from scipy import sparse

from tidegate.checks import ComputeError, optional, refuse
from tidegate.data.records import Cut, Part, Parts, Piece, Records, Result
from tidegate.data.rows import Rows
from tidegate.run.engine import MAX_IN_MEMORY_SLOTS, Memory, Run, Then, part_sizes, same, shared_out

VERSION = version("tidegate")

MAX_PART_BYTES = 2**30
"""Most bytes of dense rows in a part."""

MERGE_WIDTH = 8
"""Number of results merged at a time."""

WORKER_TIMEOUT = 60
"""Seconds to wait for the first worker of a scheduler."""

CLUSTER_ERRORS = (CancelledError, KilledWorker, OSError)
"""Errors raised if a scheduler is gone, or if every worker that tried a part has died."""

ADDRESS = re.compile(r"((?P<scheme>tcp|tls)://)?(?P<host>[\w.-]+|\[[\da-f:]+\]):\d{1,5}")
LOOPBACK = {"127.0.0.1", "[::1]", "localhost"}


class Dask:
    """Spreads the records of a fit over the workers of a Dask cluster until the fit ends.

    A worker receives the paths and checksums of its records, or the records themselves if it cannot
    read the files. Each pass returns one sum. If a worker is lost, others load and sum its parts. A
    local cluster starts with the first fit, with one thread per worker, and stops with `close`; its
    workers talk to each other under certificates that nobody else has, and write no record to disk.

    Args:
        workers: Number of processes on this machine; one per core by default.
        scheduler: The address of an existing cluster, instead of one on this machine.
        small: Fits of up to this many slots are made here, in memory.
    """

    def __init__(
        self,
        workers: int | None = None,
        scheduler: str | None = None,
        *,
        small: int = MAX_IN_MEMORY_SLOTS,
    ) -> None:
        if workers is not None and scheduler is not None:
            raise refuse("workers", "left out if there is a scheduler", workers)
        address = ADDRESS.fullmatch(scheduler or "")
        if scheduler is not None and (
            # its answers are unpickled here: whoever can change them in transit controls the Gate
            not address or (address["scheme"] != "tls" and address["host"] not in LOOPBACK)
        ):
            allowed = "tls://host:port, or tcp://host:port if it is on this machine"
            raise refuse("scheduler", allowed, scheduler)
        self.workers = optional("workers", workers)
        self.scheduler = scheduler
        self.small = small
        self._running: tuple[Any, ...] = ()  # the client, and the cluster if it is local

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *ended: object) -> None:
        self.close()

    def __deepcopy__(self, memo: object) -> Self:
        """The engine itself: copies of an estimator share the cluster."""
        return self

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_running": ()}

    def parts(self, pieces: Sequence[Piece], form: Rows) -> Parts[Records]:
        """See `Engine`."""
        n = sum(piece.n for piece in pieces)
        if n <= self.small:
            return Memory().parts(pieces, form)
        places = [piece.place for piece in pieces if piece.place]
        with self.explained():
            if not self.check_workers(places):
                pieces = [piece.load() for piece in pieces]
            threads = sum(self.client().nthreads().values())
        size = form.dtype.itemsize * max(1, form.shape[1])
        # not by bytes for sparse rows: these depend on the records
        most = MAX_IN_MEMORY_SLOTS if sparse.issparse(form) else MAX_PART_BYTES // size
        sizes = part_sizes(n, threads, most)
        runs = shared_out(pieces, sizes)
        return OnCluster(engine=self, runs=runs, make=same, sizes=sizes, form=form)

    def client(self) -> Any:
        """The client of the cluster, which is started if necessary."""
        if not self._running:
            if not self.scheduler:
                cluster = _local(self.workers or dask.system.CPU_COUNT)
                self._running = (Client(cluster, set_as_default=False), cluster)
            else:
                security = Security()  # from Dask's configuration
                secure = bool(security.get_connection_args("client")["ssl_context"])
                if self.scheduler.startswith("tls:") and not secure:
                    missing = "needs certificates, but Dask's configuration names none"
                    raise ComputeError(f"{self.scheduler} {missing}: see TLS in docs/scale.md")
                self._running = (Client(self.scheduler, security=security, set_as_default=False),)
        return self._running[0]

    def check_workers(self, places: Sequence[Path] = ()) -> bool:
        """Whether all workers can read some files; refuse workers of another version.

        The guarantee depends on what workers compute. A worker that cannot unpickle its task dies,
        and the client waits for ever.
        """
        client = self.client()
        client.wait_for_workers(1, timeout=WORKER_TIMEOUT)
        answers = client.run(_checked, places, on_error="return").values()
        checks = [each for each in answers if not isinstance(each, OSError)]  # else it is lost
        versions = {each[0] if isinstance(each, tuple) else "none" for each in checks}
        if versions - {VERSION}:
            theirs = f"the workers of {self.scheduler} have Tidegate {', '.join(sorted(versions))}"
            raise ComputeError(f"{theirs}, but this is {VERSION}: install {VERSION} there")
        return all(readable for _, readable in checks)

    @contextmanager
    def explained(self) -> Iterator[None]:
        """Raise a one-line error if the cluster is lost; the next fit starts or finds it again."""
        try:
            yield
        except CLUSTER_ERRORS as error:
            self.close()
            where = self.scheduler or "on this machine"
            what = str(error).splitlines()[0] if str(error) else type(error).__name__
            first = "check that its scheduler is running, then " if self.scheduler else ""
            raise ComputeError(
                f"the cluster {where} is lost ({what}): nothing is charged; {first}run again"
            ) from error

    def close(self) -> None:
        """See `Engine`."""
        running, self._running = self._running, ()
        for each in running:
            with suppress(*CLUSTER_ERRORS):
                each.close(timeout=5)


def _local(workers: int) -> Any:
    """A cluster that only this process can use; Dask's web pages, always on, are left empty."""
    routes: dict[str, Any] = {
        f"distributed.{part}.http.routes": [] for part in ("scheduler", "worker")
    }
    with dask.config.set(routes):
        return LocalCluster(
            n_workers=workers,
            threads_per_worker=1,
            memory_limit=0,  # otherwise records that do not fit are written to disk
            host="127.0.0.1",
            dashboard_address="127.0.0.1:0",
            worker_dashboard_address="127.0.0.1:0",
            security=True,
            silence_logs=50,
        )


@dataclass(frozen=True, kw_only=True)
class OnCluster(Cut, Generic[Part]):
    """Parts on the workers of a cluster, from the first pass on.

    A worker loads the run of each of its parts, applies `make` to it, and keeps the result.
    """

    engine: Dask
    runs: tuple[Run, ...]
    make: Callable[[Records], Part]
    _held: list[Any] = field(default_factory=list, init=False, repr=False, compare=False)

    def map(self, make: Callable[[Part], Any]) -> Parts[Any]:
        """See `Parts`: once, on the workers."""
        return replace(self, make=Then(self.make, make))

    def fold(
        self, work: Callable[[Part], Result], merge: Callable[[Result, Result], Result]
    ) -> Result:
        """See `Parts`; results are merged on the workers until few are left."""
        with self.engine.explained():
            client = self.engine.client()
            if not self._held:
                with dask.config.set({"distributed.admin.large-graph-warning-threshold": "1PB"}):
                    self._held.extend(self._load(client))
            on_part = Then(attrgetter("part"), work)
            futures: list[Any] = client.map(on_part, self._held, pure=False)
            while len(futures) > MERGE_WIDTH:
                groups = [futures[i : i + MERGE_WIDTH] for i in range(0, len(futures), MERGE_WIDTH)]
                futures = [client.submit(reduce, merge, group, pure=False) for group in groups]
            results: list[Result] = client.gather(futures)
        return reduce(merge, results)

    def _load(self, client: Any) -> Iterator[Any]:
        """Load each part on a worker; a lost part is loaded again, on any worker."""
        workers = list(client.nthreads())  # empty if all were lost: Dask waits for new ones
        for number, run in enumerate(self.runs):
            at = number * len(workers) // len(self.runs)
            near = {"workers": workers[at : at + 1], "allow_other_workers": True} if workers else {}
            yield client.submit(_loaded, run, self.make, pure=False, **near)


def _checked(places: Sequence[Path]) -> tuple[str, bool]:
    return VERSION, all(os.access(place, os.R_OK) for place in places)


def _loaded(run: Run, make: Callable[[Records], Any]) -> "Resident":
    records = run.load()
    return Resident(make(records if records.y.flags.owndata else records.copy()))  # copy a view


class Resident:
    """A part on a worker that reports its size, because Dask moves objects that seem small.

    If it is moved nevertheless, it is copied: arrays in a message are not aligned, and a pass over
    such arrays takes six times as long.
    """

    def __init__(self, part: Any) -> None:
        self.part = part

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(deepcopy(state))

    def __sizeof__(self) -> int:
        arrays = self.part if isinstance(self.part, tuple) else vars(self.part).values()
        return sum(map(_bytes, arrays))


def _bytes(array: Any) -> int:
    if sparse.issparse(array):
        return int(array.data.nbytes + array.indices.nbytes + array.indptr.nbytes)
    return 0 if array is None else int(array.nbytes)
