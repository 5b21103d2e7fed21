"""Experiments: a method on a source, run side by side, each run kept on disk once it is done."""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from joblib import Parallel, delayed, parallel_config

from tidegate.study.curve import Curve, measure
from tidegate.study.method import Method
from tidegate.study.sources import Source

RUNS = "runs.jsonl"
"""The file of a folder that keeps all runs, a line each."""


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """A method on a source; it is known by its settings, which its key spells out."""

    source: Source
    method: Method

    @property
    def key(self) -> str:
        """The same for the same settings, also in another process and another year."""
        return f"{self.source!r} {self.method!r}"

    def run(self, seed: int) -> "Run":
        """One run."""
        curve = measure(self.method, self.source.stream, [seed])
        return Run(self.key, seed, curve.at, tuple(curve.runs[0].tolist()))


class Run(NamedTuple):
    """What one run gave: the accuracy of each release."""

    key: str
    seed: int
    at: tuple[int, ...]
    scores: tuple[float, ...]


class Notebook:
    """The runs of a folder; what is in it is not run again.

    Args:
        folder: Where to keep them; made if need be.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._path = folder / RUNS
        self._runs: dict[tuple[str, int], Run] = {}
        if self._path.exists():
            text = self._path.read_text(encoding="utf-8")
            whole = text[: text.rfind("\n") + 1]
            if whole != text:  # what was cut off in the middle is run again
                self._path.write_text(whole, encoding="utf-8")
            for line in whole.splitlines():
                self._keep(_read(line))

    def missing(self, wanted: Iterable[tuple[Experiment, int]]) -> list[tuple[Experiment, int]]:
        """What is still to be run: experiments and seeds, the first run of each first.

        Args:
            wanted: Experiments, and how many runs of each.
        """
        jobs = {
            (seed, experiment.key): (experiment, seed)
            for experiment, runs in wanted
            for seed in range(runs)
            if (experiment.key, seed) not in self._runs
        }
        return [jobs[each] for each in sorted(jobs, key=lambda each: each[0])]

    def run(self, jobs: Sequence[tuple[Experiment, int]], workers: int = 2) -> Iterator[Run]:
        """Carry out what is missing, in any order.

        Args:
            jobs: Experiments and seeds.
            workers: How many processes; each computes with one thread.
        """
        with parallel_config("loky", n_jobs=workers, inner_max_num_threads=1):
            work = (delayed(experiment.run)(seed) for experiment, seed in jobs)
            for run in Parallel(return_as="generator_unordered")(work):
                with self._path.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(run._asdict()) + "\n")
                self._keep(run)
                yield run

    def curve(self, experiment: Experiment, runs: int) -> Curve:
        """The curve of an experiment whose runs are all there."""
        found = [self._runs[experiment.key, seed] for seed in range(runs)]
        return Curve(
            method=experiment.method.name,
            private=experiment.method.private,
            at=found[0].at,
            runs=np.array([run.scores for run in found]),
        )

    def _keep(self, run: Run) -> None:
        self._runs[run.key, run.seed] = run


def _read(line: str) -> Run:
    row = json.loads(line)
    return Run(row["key"], row["seed"], tuple(row["at"]), tuple(row["scores"]))
