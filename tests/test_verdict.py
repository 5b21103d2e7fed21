"""Whether a model beats a constant, and what is too noisy to tell."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cli.run import json_lines, tidegate
from tests.state.gatelife import config, opened
from tidegate.gate import Gate
from tidegate.learn.score_kinds import measures_of as of_scores
from tidegate.learn.scores import score
from tidegate.privacy.budget import Allowance
from tidegate.privacy.noise import NotPrivateBits
from tidegate.release.verdict import (
    BETTER,
    NO_BETTER,
    NOT_COMPARED,
    TOO_NOISY,
    WORSE,
    accuracy_alone,
    verdict,
    verdict_words,
)
from tidegate.state.status import public_status


def scores(model: float, constant: float, noise: float, **more: Any) -> dict[str, Any]:
    return {
        "records": 10**6,
        "log_loss": {"value": model, "deviation": noise},
        "constant_log_loss": {"value": constant, "deviation": 0.0},
        **more,
    }


@pytest.mark.parametrize(
    ("model", "noise", "answer"),
    [
        (0.50, 0.01, BETTER),
        (0.75, 0.01, NO_BETTER),
        (0.69, 0.001, NO_BETTER),
        (0.68, 0.02, TOO_NOISY),
        (0.50, 0.20, TOO_NOISY),
        (0.75, 0.20, TOO_NOISY),
    ],
)
def test_a_model_beside_a_constant(model: float, noise: float, answer: str) -> None:
    found = verdict(scores(model, 0.69, noise))
    assert found is not None
    assert found["than_constant"] == answer
    assert verdict_words(found).startswith(answer)


def test_a_model_beside_the_release_before() -> None:
    now, good, bad = (scores(loss, 0.69, 0.005) for loss in (0.6, 0.5, 0.7))
    for before, answer in ((good, WORSE), (bad, BETTER), (now, TOO_NOISY)):
        found = verdict(now, before)
        assert found is not None
        assert found["than_before"] == answer
    few = {"records": 100}  # so few that a difference may be one of records
    found = verdict(now | few, good | few)
    assert found is not None
    assert found["than_before"] == TOO_NOISY


def test_what_is_compared() -> None:
    accuracy = {
        "records": 4096,
        "accuracy": {"value": 0.9, "deviation": 0.01},
        "majority": {"value": 0.5, "deviation": 0.01},
        "log_loss": None,
    }
    rmse = {
        "records": 4096,
        "rmse": {"value": 30.0, "deviation": 0.1},
        "constant_rmse": {"value": 29.9, "deviation": 0.1},
    }
    assert verdict(accuracy) == {
        "measure": "accuracy", "than_constant": BETTER, "than_before": None,
    }  # fmt: skip
    assert (verdict(rmse) or {})["than_constant"] == NO_BETTER
    assert (verdict({"records": 9}) or {})["than_constant"] == TOO_NOISY
    assert verdict(None) is None
    assert verdict_words(None) == ""


@given(st.floats(0, 5), st.floats(0, 5), st.floats(0, 1))
def test_no_answer_is_sure_within_its_noise(model: float, constant: float, noise: float) -> None:
    found = verdict(scores(model, constant, noise))
    assert found is not None
    if abs(model - constant) <= 2 * noise:
        assert found["than_constant"] != BETTER
    if model < constant - 2 * noise:
        assert found["than_constant"] == BETTER


@pytest.mark.parametrize("classes", [2, 5])
@pytest.mark.parametrize("slots", [1024, 4096])
def test_the_majority_of_equal_classes_is_not_inflated(classes: int, slots: int) -> None:
    """The mean of 40 is within six of its own deviations of the truth, and a half of one noise.

    The largest noisy share itself would be above the truth by .56 (two classes) to 1.16 (five)
    deviations of the noise on average.
    """
    y, usable = np.arange(slots) % classes, np.ones(slots, bool)
    margins = np.zeros(slots) if classes == 2 else np.zeros((slots, classes))
    found = [
        of_scores(
            score(
                margins,
                y,
                usable,
                classes=classes,
                allowance=Allowance("mu", 0.06),
                bits=NotPrivateBits(seed),
            )
        ).majority
        for seed in range(40)
    ]
    values = [each.value for each in found if each is not None]
    noise = float(np.mean([each.deviation for each in found if each is not None]))
    assert abs(np.mean(values) - 1 / classes) < 0.35 * noise
    assert all(
        abs(each.value - 1 / classes) < 5 * each.deviation for each in found if each is not None
    )


def made(folder: Path, *, epsilon: float, label: str, scores: bool = True) -> Path:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(6000, 2)) / 4
    y = (X[:, 0] > 0).astype(int) if label == "learnable" else rng.integers(2, size=6000)
    settings = config(
        schedule={"kind": "fading", "step": 2000, "forget": "1/2"},
        budget={"epsilon": epsilon, "delta": 1e-6},
        learner={"kind": "gradient"},
        survey={"share": "1/20"},
        quality={"share": "1/10", "scores": scores},
    )
    with opened(folder / "state", settings) as gate:
        gate.ingest(X, y)
    return folder / "state"


@pytest.mark.parametrize(
    ("epsilon", "label", "answer"),
    [(50.0, "learnable", BETTER), (50.0, "random", NO_BETTER), (0.01, "random", TOO_NOISY)],
)
def test_status_releases_and_page_say_so(
    epsilon: float, label: str, answer: str, tmp_path: Path
) -> None:
    state = made(tmp_path, epsilon=epsilon, label=label)
    rows = json_lines("releases", str(state))
    assert rows[0]["verdict"] is None
    assert rows[-1]["verdict"]["than_constant"] == answer
    words = rows[-1]["verdict"]["words"]
    shown = " ".join(tidegate("status", str(state)).stdout.split())
    assert f"It is {words}" in shown
    assert (
        json.loads(tidegate("status", str(state), "--format", "json").stdout)["scores"]["verdict"][
            "words"
        ]
        == words
    )
    with Gate.look(state) as gate:
        view = gate.ledger_view()
        view.read()
        point = public_status(gate, view)["quality"][-1]
    assert point["verdict"]["words"] == words
    if answer == TOO_NOISY:  # no number where the words say that there is none
        assert rows[-1]["accuracy_before"] is None
        assert point["accuracy"] is None
        assert rows[-1]["scores_before"]["accuracy"] is None
        assert all(each["accuracy"] is None for row in rows for each in row["tried"])
    else:
        assert 0 <= rows[-1]["accuracy_before"] <= 1


def test_without_scores_the_release_before_is_all_there_is_to_compare_with(tmp_path: Path) -> None:
    state = made(tmp_path, epsilon=50.0, label="learnable", scores=False)
    rows = json_lines("releases", str(state))
    assert [row["verdict"] and row["verdict"]["than_before"] for row in rows] == [
        None,
        None,
        TOO_NOISY,
    ]
    assert {row["verdict"]["than_constant"] for row in rows[1:]} == {NOT_COMPARED}
    words = rows[-1]["verdict"]["words"]
    assert words.startswith("not compared with a constant, for which scores are needed, ")
    shown = " ".join(tidegate("status", str(state)).stdout.split())
    assert f"The newest release that was tested is {words}." in shown
    told = json.loads(tidegate("status", str(state), "--format", "json").stdout)
    assert told["scores"] is None
    assert told["verdict"]["words"] == words
    with Gate.look(state) as gate:
        view = gate.ledger_view()
        view.read()
        point = public_status(gate, view)["quality"][-1]
    assert point["verdict"]["words"] == words, "which the page shows"


def test_an_accuracy_that_fell_is_worse() -> None:
    good, bad = accuracy_alone(0.9, 0.01, 4096), accuracy_alone(0.6, 0.01, 4096)
    for now, before, answer in (
        (bad, good, WORSE),
        (good, None, None),
        (accuracy_alone(0.9, 0.4, 10), bad, TOO_NOISY),
    ):
        found = verdict(now, before)
        assert found is not None
        assert found["than_before"] == answer
        assert found["than_constant"] == NOT_COMPARED
