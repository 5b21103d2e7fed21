"""Experiments: a method on a source, run in parallel, with each finished run saved to disk."""

import json
import multiprocessing
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from threadpoolctl import threadpool_limits

from tidegate.compare import Curve, Method, measure
from tidegate_lab.paper.sources import Source

RUNS = "runs.jsonl"
"""The file in a folder that holds all runs, one per line."""


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """A method on a source, identified by a key of all its settings."""

    source: Source
    method: Method

    @property
    def key(self) -> str:
        """The same for the same settings, in every process and at any time."""
        return f"{self.source!r} {self.method!r}"

    def run(self, seed: int) -> "Run":
        """Run it once."""
        curve = measure(self.method, self.source.stream(seed), [seed])
        measures = {
            name: [None if np.isnan(each) else each for each in runs[0].tolist()]
            for name, runs in curve.measures.items()
        }
        return Run(self.key, seed, curve.at, curve.runs[0].tolist(), measures)


class Run(NamedTuple):
    """The result of one run: the accuracy of each release, and its other measures.

    Runs saved before these were measured have None.
    """

    key: str
    seed: int
    at: Sequence[int]
    scores: Sequence[float]
    measures: Mapping[str, Sequence[float | None]] | None = None


Job = tuple[Experiment, int]
"""An experiment and the seed of a run."""


def in_processes(jobs: Sequence[Job], workers: int | None = None) -> Iterator[Run]:
    """Run jobs on this machine, in any order, in one single-threaded process per worker.

    By default there is one worker per core.
    """
    spawned = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, spawned, threadpool_limits, (1,)) as pool:
        work = [pool.submit(experiment.run, seed) for experiment, seed in jobs]
        try:
            for done in as_completed(work):
                yield done.result()
        finally:  # a caller that stops early does not wait for the rest
            pool.shutdown(wait=False, cancel_futures=True)


def on_cluster(jobs: Sequence[Job], cluster: Any) -> Iterator[Run]:
    """Run jobs on a cluster, in any order; jobs of a lost worker are run by another.

    Every worker must have the data sets, at the same paths. The cluster is closed at the end.
    """
    import distributed  # noqa: PLC0415 (an extra)

    if not jobs:
        return
    with cluster, cluster.explained():
        cluster.check_workers()
        client = cluster.client()
        work = [client.submit(experiment.run, seed, pure=False) for experiment, seed in jobs]
        for future in distributed.as_completed(work, loop=client.loop):
            yield future.result()
            future.release()


class Notebook:
    """Saves runs in a folder, which is created if necessary; a saved run is not run again."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._path = folder / RUNS
        self._runs: dict[tuple[str, int], Run] = {}
        if self._path.exists():
            text = self._path.read_text(encoding="utf-8")
            whole = text[: text.rfind("\n") + 1]
            if whole != text:  # an incomplete line is run again
                self._path.write_text(whole, encoding="utf-8")
            for run in (Run(**json.loads(line)) for line in whole.splitlines()):
                self._runs[run.key, run.seed] = run

    def missing(self, wanted: Iterable[tuple[Experiment, int]]) -> list[Job]:
        """The jobs still to run, the first of each experiment first.

        Args:
            wanted: Experiments, each with its number of runs.
        """
        jobs = {
            (seed, experiment.key): (experiment, seed)
            for experiment, runs in wanted
            for seed in range(runs)
            if (experiment.key, seed) not in self._runs
        }
        return [jobs[each] for each in sorted(jobs, key=lambda each: each[0])]

    def keep(self, runs: Iterable[Run]) -> Iterator[Run]:
        """Save runs as they arrive, each before the next one."""
        for run in runs:
            with self._path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(run._asdict()) + "\n")
            self._runs[run.key, run.seed] = run
            yield run

    def curve(self, experiment: Experiment, runs: int) -> Curve:
        """The curve of an experiment whose runs are all saved, with what all of them measured."""
        saved = [self._runs[experiment.key, seed] for seed in range(runs)]
        measures = [run.measures or {} for run in saved]
        names = [name for name in measures[0] if all(name in each for each in measures)]
        return Curve(
            private=experiment.method.private,
            at=tuple(saved[0].at),
            runs=np.array([run.scores for run in saved]),
            measures={name: np.array([m[name] for m in measures], np.float64) for name in names},
        )
