"""What a card says follows from public numbers, but for what is noisy or private already."""

from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.state.gatelife import TWO, config, opened, stream
from tests.state.test_forgery import problems
from tidegate.gate import Gate
from tidegate.learn.score_kinds import headline
from tidegate.learn.scores import Scores
from tidegate.privacy.budget import down
from tidegate.release import Card
from tidegate.state.quality import scores_on_card

GAUSSIAN: dict[str, Any] = {"budget": {"epsilon": 1.0, "delta": 1e-6}, "learner": {}}
SURVEY: dict[str, Any] = {"survey": {"share": "1/20"}}  # a pure budget has none by default
GATES: dict[str, dict[str, Any]] = {
    "a chain": {},
    "a chain, lambda chosen by the learner": {"learner": {"kind": "output"}},
    "a chain, surveyed": SURVEY,
    "two streams": {"schedule": TWO},
    "two streams, surveyed": {"schedule": TWO, **SURVEY},
    "fading": {"schedule": {"kind": "fading", "step": 100}},
    "fading, gradient": {"schedule": {"kind": "fading", "step": 100}, **GAUSSIAN},
    "growing, gradient": {"schedule": {"kind": "growing", "block": 200, "step": 100}, **GAUSSIAN},
    "persons, gradient": {
        "schedule": {"kind": "fading", "step": 100},
        "budget": {"epsilon": 8.0, "delta": 1e-6},
        "learner": {},
        "survey": {"share": "1/2"},
        "person": {"id": "p", "contributions": 4},
    },
}
SCORES: dict[str, Any] = {"share": "1/20"}
ACCURACY: dict[str, Any] = {"share": "1/20", "scores": False}
NOTHING: dict[str, Any] = {"quality": {"share": 0}, "survey": {"share": 0}}

NOISY = {"history_sha256", "refit"}
"""The history covers the private models, surveys and scores before the fit; the fit pays for its
refit."""


def other(n: int) -> tuple[Any, Any]:
    """As many records with nothing in common: long, of one class, and half of them unusable."""
    X = 1e6 * np.ones((n, 3))
    X[::2] = np.nan
    return X, np.zeros(n)


def grown(folder: Path, made: Any, settings: dict[str, Any]) -> Path:
    """A state that has completed all steps of so many records."""
    with opened(folder, config(**settings)) as gate:
        for name in gate.streams:
            persons = [slot // 2 for slot in range(900)] if "person" in settings else None
            gate.ingest(*made(900), stream=name, persons=persons)
    return folder


def cards(folder: Path, made: Any, settings: dict[str, Any]) -> list[Card]:
    """The public part of the cards of all fits, those that are not released too."""
    state = grown(folder, made, settings)
    assert problems(state) == []  # so each transform follows from the noisy surveys
    with Gate.look(state) as gate:
        return [public(card, stream, gate) for stream, card in gate.store.cards()]


def public(card: Card, stream: str, gate: Gate) -> Card:
    """A card without the values that are noisy and paid for; every other value stays."""
    kept = {key: value for key, value in card.items() if key not in NOISY}
    if "prior_norm" in card["settings"]:  # all of these follow from a private model, the prior
        kept["settings"] = without(
            card["settings"], "prior_norm", "sensitivity", "tolerance", "noise_scale", "lattice"
        )
    if card["evaluation"] is not None:
        measured = card["evaluation"]["step_before"]
        check_paid(gate, "quality", stream, measured)
        kept["evaluation"] = {**card["evaluation"], "step_before": public_measured(measured)}
    if "survey" in card:
        check_paid(gate, "survey", stream, card["survey"])
        kept["survey"] = public_survey(card["survey"])
        mixed = {"mix"} & card["transform"].keys()
        kept["transform"] = without(card["transform"], "center", "scale", *mixed)
    return kept


def public_survey(survey: Card) -> Card:
    """A survey without its noisy counts and, of persons, their noisy total."""
    kept = without(survey, "classes", "unusable")
    if "total" not in survey:
        return kept
    scale = survey["settings"]["noise_scale_counts"]
    assert survey["deviation"] == pytest.approx(scale / survey["total"])
    assert 1 <= survey["total"] <= survey["stop"] - survey["start"]
    return without(kept, "total", "deviation")


def check_paid(gate: Gate, kind: str, stream: str, measured: Card) -> None:
    """Each record of the step has one charge of this kind, of the share on the card."""
    view = gate.ledger_view()
    view.catch_up()
    for record in (measured["start"], measured["stop"] - 1):
        shares = [
            row["share"]
            for row in view.paid(record)
            if (row["kind"], row["stream"]) == (kind, stream)
        ]
        assert shares == [down(Fraction(measured["share"]))]
        assert shares[0] > 0


def public_measured(measured: Card) -> Card:
    """An evaluation without its noisy counts and what follows from them alone."""
    if "noisy_counts" not in measured:
        return without(measured, "accuracy")
    noisy = measured["noisy_counts"]
    accuracy = headline(Scores.of_json(noisy))
    assert (measured["accuracy"], measured["deviation"]) == (accuracy.value, accuracy.deviation)
    assert measured["scores"] == scores_on_card(noisy)["scores"]
    kept = without(measured, "accuracy", "deviation", "scores")
    return {**kept, "noisy_counts": without(noisy, "cells", "counts")}


def without(values: Card, *names: str) -> Card:
    """The values but those of these names, which must be there."""
    assert values.keys() >= set(names)
    return {name: value for name, value in values.items() if name not in names}


@pytest.mark.parametrize("quality", [SCORES, ACCURACY], ids=["scores", "accuracy"])
@pytest.mark.parametrize("name", GATES)
def test_cards_of_quite_different_records_differ_only_where_they_are_noisy(
    name: str, quality: dict[str, Any], tmp_path: Path
) -> None:
    settings = GATES[name] | {"quality": quality}
    one = cards(tmp_path / "one", stream, settings)
    two = cards(tmp_path / "two", other, settings)
    assert one == two
    assert len(one) > 5
    surveyed = "gradient" in name or "surveyed" in name
    assert all(("survey" in card, "transform" in card) == (surveyed, surveyed) for card in one)
    counted = ["noisy_counts" in card["evaluation"]["step_before"] for card in one[-2:]]
    assert counted == [quality is SCORES] * 2


@pytest.mark.parametrize("name", GATES)
def test_nothing_is_measured_that_is_not_paid(name: str, tmp_path: Path) -> None:
    for card in cards(tmp_path / "state", stream, GATES[name] | NOTHING):
        assert card["evaluation"] is None
        assert not {"survey", "transform"} & card.keys()


def measured(state: Path) -> list[float]:
    """All numbers of all surveys and evaluations of a state, as they were released."""
    found: list[float] = []
    with Gate.look(state) as gate:
        for step in gate.store.steps():
            survey = gate.store.survey(step.stream, step.span.stop)
            found += [] if survey is None else survey.cells.tolist()
            if step.evaluation is not None:
                noisy = step.evaluation.scores
                numbers = [] if noisy is None else [*noisy["cells"], *noisy["counts"]]
                found += numbers or [step.evaluation.value]
    return found


@pytest.mark.parametrize("quality", [SCORES, ACCURACY], ids=["scores", "accuracy"])
@pytest.mark.parametrize("name", ["two streams, surveyed", "growing, gradient"])
def test_every_measured_number_is_noisy(name: str, quality: Any, tmp_path: Path) -> None:
    """Other noise on the same records changes all of them; the seeds are fixed, so this is sure."""
    settings = GATES[name] | {"quality": quality}
    one = measured(grown(tmp_path / "one", stream, settings))
    two = measured(grown(tmp_path / "two", stream, settings | {"not_private_seed": 8}))
    assert len(one) == len(two) > 50
    assert not np.equal(one, two).any()
