"""The numbers of the meter: the name of each, its words, its bar, and what measures it."""

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from tests.house import commands, imports, source
from tests.house.source import Count, Modules

PROJECT = Path(__file__).parents[2]


@dataclass(frozen=True, kw_only=True)
class Number:
    """A number that the meter measures.

    Attributes:
        name: What it is called in `tests/house.json`.
        words: What it is, in 48 characters or fewer.
        bar: What it shall become; None if it just must not get worse.
        sign: 1 if less is better, -1 if more is.
    """

    name: str
    words: str
    bar: float | None = None
    sign: int = 1

    def worse(self, value: float, than: float) -> bool:
        """Whether a value is worse than another."""
        return self.sign * value > self.sign * than

    def best(self, *values: float) -> float:
        """The best of some values."""
        return min(values, key=lambda value: self.sign * value)


# --- read off the source


@dataclass(frozen=True)
class Sum:
    """Adds up a count over all modules."""

    count: Count

    def __call__(self, modules: Modules) -> int:
        """The sum."""
        return source.total(modules, self.count)


SOURCE: Mapping[Number, Sum | Callable[[Modules], float]] = {
    Number(name="code_lines", words="lines of code", bar=24_500): Sum(source.code_lines),
    Number(name="all_lines", words="all lines", bar=39_500): Sum(source.all_lines),
    Number(
        name="none_per_1000", words="comparisons with None in 1,000 lines of code", bar=15
    ): source.none_per_1000,
    Number(name="isinstance_calls", words="calls of isinstance", bar=443): Sum(
        source.isinstance_calls
    ),
    Number(name="boolean_parameters", words="boolean parameters"): Sum(source.boolean_parameters),
    Number(
        name="import_chain", words="longest import chain, in modules", bar=22
    ): imports.chain_length,
    Number(name="deferred_imports", words="tidegate imports inside functions", bar=8): Sum(
        imports.deferred_imports
    ),
    Number(
        name="local_percent", words="% of modules that at most one other imports", bar=50, sign=-1
    ): imports.local_percent,
    Number(name="long_modules", words="modules above 450 lines", bar=0): Sum(source.is_too_long),
    Number(
        name="repeated_modules", words="modules called like another", bar=0
    ): source.repeated_modules,
    Number(name="place_classes", words="classes called Place", bar=1): Sum(source.place_classes),
    Number(name="canonical_functions", words="functions called canonical", bar=1): Sum(
        source.canonical_functions
    ),
}
"""See the docstring of each function."""

PER_MODULE: Mapping[str, Count] = {
    **{each.name: sum_.count for each, sum_ in SOURCE.items() if isinstance(sum_, Sum)},
    "none_per_1000": source.none_comparisons,
}
"""What is counted in each module, for numbers that are made of such counts."""


def by_module(name: str, modules: Modules) -> Counter[str]:
    """What each module adds to a number; nothing if the number is not made of counts."""
    if name not in PER_MODULE:
        return Counter()
    return Counter({each.name: PER_MODULE[name](each) for each in modules})


# --- measured by running a scenario

Found = Mapping[str, Any]

RELEASE: Mapping[Number, Callable[[Found], int]] = {
    Number(
        name="release_modules", words="modules called from CSV to a first release", bar=60
    ): lambda found: len({*found["opening"], *found["running"]}),
    Number(name="running_modules", words="the same without opening the state"): lambda found: len(
        found["running"]
    ),
    Number(
        name="settings_built", words="settings built for an opened state", bar=1
    ): lambda found: max(found["settings"]),
    Number(name="release_queries", words="queries of a first release", bar=25): lambda found: sum(
        found["queries"].values()
    ),
    Number(name="opening_queries", words="queries of creating and opening a state"): lambda found: (
        sum(found["opening_queries"].values())
    ),
}
"""See `scenarios.release`."""

PREDICTION: Mapping[Number, Callable[[Found], int]] = {
    Number(
        name="prediction_modules", words="modules called for a prediction over HTTP", bar=15
    ): lambda found: len(found["modules"]),
    Number(name="prediction_calls", words="calls of functions for it", bar=60): lambda found: int(
        found["calls"]
    ),
    Number(name="prediction_functions", words="functions called for it"): lambda found: len(
        found["functions"]
    ),
}
"""See `scenarios.prediction`."""

SCENARIOS = {"release": RELEASE, "prediction": PREDICTION}

RATCHET: Sequence[Number] = (*SOURCE, *RELEASE, *PREDICTION)
"""The numbers that are stored."""

# --- printed, but not stored

LARGEST = Number(name="largest_module", words="lines of the largest module", bar=450)

SECONDS: Mapping[Number, Callable[[], float]] = {
    Number(
        name="status_seconds", words="CPU s of tidegate status", bar=1.0
    ): commands.status_seconds,
    Number(name="help_seconds", words="CPU s of tidegate --help", bar=0.3): commands.help_seconds,
}

NUMBERS: Sequence[Number] = (*RATCHET, LARGEST, *SECONDS)

Values = Mapping[str, float]


@lru_cache(64)
def of_source(root: Path = source.ROOT) -> Values:
    """The numbers that are read off the source."""
    modules = source.modules_of(root)
    values = {each.name: measure(modules) for each, measure in SOURCE.items()}
    return {**values, LARGEST.name: source.largest_module(modules)}


def of_scenario(scenario: str) -> Values:
    """The numbers of a first release, or of a prediction."""
    found = recorded(scenario)
    return {each.name: measure(found) for each, measure in SCENARIOS[scenario].items()}


def of_commands() -> Values:
    """CPU seconds."""
    return {each.name: round(measure(), 2) for each, measure in SECONDS.items()}


@lru_cache(2)
def recorded(scenario: str) -> Found:
    """What a scenario records, in an interpreter of its own; see `scenarios`."""
    asked = [sys.executable, "-m", "tests.house.scenarios", scenario]
    done = subprocess.run(asked, cwd=PROJECT, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"the scenario {scenario} failed:\n{done.stderr}")
    found: Found = json.loads(done.stdout.splitlines()[-1])
    return found
