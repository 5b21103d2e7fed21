"""What a card says follows from public numbers, but for what is noisy or private already."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.gate.gatelife import TWO, config, opened, stream
from tidegate.release import Card

GAUSSIAN: dict[str, Any] = {"budget": {"epsilon": 1.0, "delta": 1e-6}, "learner": {}}
GATES: dict[str, dict[str, Any]] = {
    "a chain": {},
    "a chain, lambda chosen by the learner": {"learner": {"kind": "output"}},
    "two streams": {"schedule": TWO},
    "fading": {"schedule": {"kind": "fading", "step": 100}},
    "fading, gradient": {"schedule": {"kind": "fading", "step": 100}, **GAUSSIAN},
    "growing, gradient": {"schedule": {"kind": "growing", "block": 200, "step": 100}, **GAUSSIAN},
}

NOISY = {"history_sha256"}
"""It covers the private models and accuracies before the fit."""


def other(n: int) -> tuple[Any, Any]:
    """As many records with nothing in common: long, of one class, and half of them unusable."""
    X = 1e6 * np.ones((n, 3))
    X[::2] = np.nan
    return X, np.zeros(n)


def cards(folder: Path, made: Any, **settings: Any) -> list[Card]:
    """The cards of all fits, those that are not released too."""
    with opened(folder, config(**settings, quality={"share": "1/20"})) as gate:
        for name in gate.streams:
            gate.ingest(*made(900), stream=name)
        return [public(card) for _, card in gate.store.cards()]


def public(card: Card) -> Card:
    """A card without the values that are noisy."""
    measured = dict((card["evaluation"] or {}).get("step_before", {}))
    measured.pop("accuracy", None)
    kept = {key: value for key, value in card.items() if key not in NOISY}
    return {**kept, "evaluation": measured}


@pytest.mark.parametrize("name", GATES)
def test_cards_of_quite_different_records_differ_only_where_they_are_noisy(
    name: str, tmp_path: Path
) -> None:
    one = cards(tmp_path / "one", stream, **GATES[name])
    two = cards(tmp_path / "two", other, **GATES[name])
    assert one == two
    assert len(one) > 5
