"""Whether a stream stops is decided by the noisy survey alone, and so is what is said about it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest

from tests.state.gatelife import config, opened
from tidegate import ApproxDP, SlidingWindowClassifier
from tidegate.checks import StoppedError
from tidegate.data.records import Records
from tidegate.learn import survey as surveys
from tidegate.learn.preparation import SURE_DEVIATIONS, most_unusable, stops
from tidegate.learn.survey import Survey
from tidegate.privacy.budget import Allowance
from tidegate.privacy.noise import NotPrivateBits, gaussian, laplace

STEP = 512
HALF = STEP // 2


def records(unusable: int) -> tuple[Any, Any]:
    slots = np.arange(2 * STEP)
    y = slots % 2
    y[:unusable] = 7
    return np.column_stack([np.cos(slots), np.sin(slots)]), y


def in_memory(_: Path, X: Any, y: Any) -> object:
    classifier = SlidingWindowClassifier(
        budget=ApproxDP(4.0, 1e-6),
        window=2 * STEP,
        step=STEP,
        classes=[0, 1],
        norm=1.5,
        not_private_seed=3,
    )
    try:
        classifier.fit(X, y)
    except StoppedError as error:
        return str(error), classifier.ledger_.worst(), len(classifier.releases_)
    return "went on", classifier.ledger_.worst(), len(classifier.releases_)


def durable(folder: Path, X: Any, y: Any) -> object:
    settings = config(
        {"kind": "sliding", "window": 2 * STEP, "step": STEP},
        budget={"epsilon": 4.0, "delta": 1e-6},
    )
    with opened(folder, settings) as gate:
        try:
            gate.ingest(X, y)
            said = "went on"
        except StoppedError as error:
            said = str(error)
        return said, gate.ledgers()["records"].worst(), len(list(gate.store.lines()))


RUNS = [in_memory, durable]


def scripted(run: Any, folder: Path, unusable: int, said: float) -> object:
    """What a run shows if the noisy number of unusable slots of its first survey is `said`."""

    def with_noise(exact: Any, kinds: list[int], *rest: Any) -> Any:
        del rest
        cells = np.zeros_like(exact)
        cells[sum(kinds[:3]) - 1] = said
        return cells

    with patch.object(surveys, "with_noise", with_noise):
        return run(folder, *records(unusable))


def neighbours(run: Any, folder: Path, said: float) -> list[object]:
    """The same noisy survey of streams that differ in one record, around one half."""
    exact = (0, HALF, HALF + 1, STEP)
    return [scripted(run, folder / f"{n}", n, said) for n in exact]


@pytest.mark.parametrize("said", [0.0, HALF + 0.0, HALF + 0.001, 2.0 * STEP])
@pytest.mark.parametrize("run", RUNS)
def test_only_the_noisy_number_decides(run: Any, said: float, tmp_path: Path) -> None:
    first, *others = neighbours(run, tmp_path, said)
    assert all(other == first for other in others)
    assert isinstance(first, tuple)
    assert (first[0] == "went on") == (said <= HALF)


def by_the_exact_number(exact: list[float]) -> Callable[[Survey], bool]:
    return lambda seen: exact[-1] > seen.slots / 2


@pytest.mark.parametrize(
    ("run", "place"), [(in_memory, "tidegate.run.executor"), (durable, "tidegate.run.executor")]
)
def test_deciding_by_the_exact_number_breaks_the_law(run: Any, place: str, tmp_path: Path) -> None:
    exact: list[float] = []
    cells_of = surveys.cells_of

    def watched(records: Records, **how: Any) -> Any:
        cells = cells_of(records, **how)
        exact.append(float(cells[2 * records.d + how["classes"]]))
        return cells

    with (
        patch.object(surveys, "cells_of", watched),
        patch(f"{place}.stops", by_the_exact_number(exact)),
    ):
        shown = neighbours(run, tmp_path, 0.0)
    assert shown[1] != shown[2]  # neighbours: HALF and HALF + 1 unusable records


def seen(unusable: float, slots: int, unit: Any = "mu", amount: float = 0.5) -> Survey:
    cells = np.zeros(2 * 3 + 2 + 2)
    cells[-2] = unusable
    return Survey(slots=slots, classes=2, allowance=Allowance(unit, amount), cells=cells)


def test_the_threshold_is_one_half_or_what_noise_hardly_reaches() -> None:
    assert most_unusable(seen(0, 4096)) == 0.5
    assert not stops(seen(2048, 4096))
    assert stops(seen(2048.01, 4096))
    short = seen(0, 8)
    assert most_unusable(short) == SURE_DEVIATIONS["mu"] * short.deviations.counts / 8 > 1
    assert not stops(seen(8, 8))


@pytest.mark.parametrize(("unit", "noise"), [("mu", gaussian), ("epsilon", laplace)])
def test_noise_alone_hardly_ever_stops_a_stream(unit: Any, noise: Any) -> None:
    """Of 1e5 draws 0.1 may exceed it; more than 6 do so with odds below 1e-10."""
    deviation = 2**0.5 if unit == "epsilon" else 1.0
    draws = noise(np.zeros(100_000), 1.0, NotPrivateBits(5)) / deviation
    assert np.count_nonzero(draws > SURE_DEVIATIONS[unit]) <= 6
