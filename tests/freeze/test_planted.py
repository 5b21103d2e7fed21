"""Planted mistakes: the freeze must name the configuration, and the parts that they move."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.freeze.catalogue import CONFIGURATIONS, changed, complaint, computed, frozen_values
from tests.freeze.inside import EXPORTS, StoredRelease
from tidegate.privacy import Ledger, Paid
from tidegate.privacy.noise import NotPrivateBits, Words
from tidegate.release import Release, card, onnx_release
from tidegate.release.model import Model
from tidegate.schedule.plan import Plan

NAME = "SlidingWindowClassifier"
FILES = ["npz", "onnx", "safetensors"]

Patch = pytest.MonkeyPatch


def another_draw(patch: Patch) -> None:
    """One bit of one draw of all is another."""
    words, calls = NotPrivateBits.words, iter(range(10**9))

    def moved(self: NotPrivateBits, count: int) -> Words:
        drawn = words(self, count)
        return drawn ^ np.uint64(1 << 62) if next(calls) == 40 else drawn

    patch.setattr(NotPrivateBits, "words", moved)


def another_key(patch: Patch) -> None:
    """Cards have one key more."""
    entries = Release.entries
    patch.setattr(Release, "entries", lambda self: {**entries(self), "more": None})


def another_value(patch: Patch) -> None:
    """A key of cards has another value."""
    patch.setattr(card, "NEIGHBOURS", f"{card.NEIGHBOURS}.")


def another_charge(patch: Patch) -> None:
    """The ledger says that the first record has paid less."""
    paid = Ledger.paid
    patch.setattr(Ledger, "paid", lambda self, record: paid(self, record) / (1 if record else 2))


def another_worst(patch: Patch) -> None:
    """The ledger names another most-charged record."""
    worst = Ledger.worst

    def later(self: Ledger) -> Paid:
        found = worst(self)
        return found._replace(record=found.record + 1)

    patch.setattr(Ledger, "worst", later)


def another_certificate(patch: Patch) -> None:
    """The plan says that the first model comes earlier."""
    patch.setattr(Plan, "first", 149)


def another_graph(patch: Patch) -> None:
    """ONNX files have another format."""
    patch.setattr(onnx_release, "IR", 9)


def another_precision(kind: str, patch: Patch) -> None:
    """The weights in a file are rounded."""
    write = EXPORTS[kind]

    def rounded(release: StoredRelease) -> bytes:
        return write(replace(release, weights=release.weights.astype(np.float32)))

    patch.setitem(EXPORTS, kind, rounded)


def another_prediction(patch: Patch) -> None:
    """Predictions are off by one in ten million."""
    margins = Model.margins
    patch.setattr(Model, "margins", lambda self, X: margins(self, X) * (1 + 1e-7))


MISTAKES: dict[str, tuple[Callable[[Patch], Any], list[str]]] = {
    "a draw of noise": (another_draw, ["cards", "weights"]),  # of the first release
    "a new key of a card": (another_key, ["cards", *FILES]),
    "a value on a card": (another_value, ["cards", "md", *FILES]),
    "what a record has paid": (another_charge, ["ledger"]),
    "the most-charged record": (another_worst, ["ledger", "plan"]),
    "when the first model comes": (another_certificate, ["certificate"]),
    "the format of a file": (another_graph, ["onnx"]),
    "weights in safetensors": (partial(another_precision, "safetensors"), ["safetensors"]),
    "weights in npz": (partial(another_precision, "npz"), ["npz"]),
    "a prediction of a release": (another_prediction, ["joblib"]),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_named(mistake: str, monkeypatch: Patch, tmp_path: Path) -> None:
    plant, expected = MISTAKES[mistake]
    plant(monkeypatch)
    differ = changed(NAME, computed(CONFIGURATIONS[NAME]), frozen_values())
    assert differ == expected
    said = complaint(NAME, differ, tmp_path)
    assert said.startswith(f"{NAME}: {', '.join(expected)} changed; ")
    assert "\n" not in said


def test_a_part_that_is_gone_or_new_is_named() -> None:
    parts, values = computed(CONFIGURATIONS[NAME]), frozen_values()
    weights = parts.pop("weights")
    assert changed(NAME, parts, values) == ["weights"]
    assert changed(NAME, {**parts, "weights": weights, "new": weights}, values) == ["new"]
