"""Releases of regressions: their cards, models, files and what an auditor recomputes."""

from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tidegate import ApproxDP, FadingRegressor, Plan, PureDP, SlidingWindowRegressor
from tidegate.checks import InvalidValueError
from tidegate.learn import GradientPerturbation, OutputPerturbation, Target
from tidegate.learn.learner import Task
from tidegate.learn.loss import target_loss_of
from tidegate.release import (
    FIRST,
    About,
    RegressionModel,
    StoredRelease,
    make_card,
    seal,
    to_markdown,
)
from tidegate.release import export_formats as files
from tidegate.schedule import Fading, SlidingWindow
from tidegate.state.verify_published import problems_of_card

TIME = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
RANGE = (-60.0, 180.0)
CASES: dict[str, Any] = {
    "sliding, pure": (SlidingWindow(window=90, step=30), PureDP(1.0)),
    "sliding": (SlidingWindow(window=90, step=30), ApproxDP(1.0, 1e-6)),
    "fading": (Fading(step=30), ApproxDP(1.0, 1e-6)),
}


def made(case: str) -> tuple[Any, list[StoredRelease], Any]:
    schedule, budget = CASES[case]
    survey = Fraction(1, 20) if budget.unit == "mu" else Fraction(0)
    common: dict[str, Any] = {
        "budget": budget,
        "step": 30,
        "target": RANGE,
        "norm": 1.5,
        "regularization": 0.1,
        "not_private_seed": 7,
    }
    model: Any = (
        FadingRegressor(**common)
        if case == "fading"
        else SlidingWindowRegressor(window=90, **common)
    )
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 4))
    model.partial_fit(X, 40 * X[:, 0])
    about = About(
        plan=Plan(schedule=schedule, budget=budget, survey=survey),
        task=Task(loss=target_loss_of("auto", budget.unit), norm=1.5, regularization=0.1),
        learner=GradientPerturbation() if budget.unit == "mu" else OutputPerturbation(),
        predicted=Target(*RANGE),
    )
    chain: list[StoredRelease] = []
    for release in model.releases_:
        card = make_card(release, about, time=TIME)
        chain.append(seal(card, release.weights, chain[-1].hash if chain else FIRST))
    return model, chain, X


@pytest.mark.parametrize("case", CASES)
def test_a_card_states_the_target_and_no_classes(case: str) -> None:
    model, chain, X = made(case)
    for each in chain:
        assert each.card["target"] == [-60.0, 180.0]
        assert "classes" not in each.card
    predicted = chain[-1].model()
    assert isinstance(predicted, RegressionModel)
    assert np.array_equal(predicted.predict(X), model.predict(X))
    with pytest.raises(InvalidValueError, match="the release must be one that predicts classes"):
        chain[-1].classifier()
    text = to_markdown(chain[-1].card)
    assert "a number from -60 to 180" in text
    assert "| classes" not in text


@pytest.mark.parametrize("case", CASES)
def test_an_auditor_recomputes_the_settings_of_a_card(case: str) -> None:
    _, chain, _ = made(case)
    for each in chain:
        assert list(problems_of_card(each.card)) == []
        settings = {
            **each.card["settings"],
            "noise_scale": each.card["settings"]["noise_scale"] / 2,
        }
        assert list(problems_of_card({**each.card, "settings": settings}))


@pytest.mark.parametrize("case", CASES)
def test_a_loss_goes_with_what_is_predicted(case: str) -> None:
    card = made(case)[1][-1].card
    of_classes = {"classes": [0, 1], **{k: v for k, v in card.items() if k != "target"}}
    of_target = {**card, "loss": {"kind": "Logistic"}}
    for forged in (of_classes, of_target):
        told = list(problems_of_card(forged))
        assert told == [
            "its settings cannot be recomputed: its loss is not one for what it predicts"
        ]


@pytest.mark.parametrize("ending", ["npz", "safetensors"])
def test_a_file_predicts_as_the_release_does(ending: str, tmp_path: Path) -> None:
    model, chain, X = made("fading")
    files.export(chain[-1], tmp_path / f"release.{ending}")
    loaded = files.load(tmp_path / f"release.{ending}")
    assert np.array_equal(loaded.predict(X), model.predict(X))


def test_a_survey_in_words_names_parts_of_the_range() -> None:
    card = made("fading")[1][-1].card
    survey = {
        "start": 270, "stop": 300, "share": "1/20", "classes": [0.125] * 8, "unusable": 0.0,
        "deviation": 0.1,
    }  # fmt: skip
    text = to_markdown({**card, "survey": survey})
    assert "-60 to -30 12.5 %" in text
    assert "150 to 180 12.5 %" in text


@pytest.mark.parametrize("case", CASES)
def test_an_estimator_states_the_same_card(case: str) -> None:
    model, chain, _ = made(case)
    own = model.releases_[-1].card
    assert own["target"] == chain[-1].card["target"]
    assert list(problems_of_card(own)) == []
