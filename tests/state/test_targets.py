"""A Gate that predicts a number: surveys, scores, cards, files, and forgeries of them."""

import json
import math
from fractions import Fraction
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pytest
from sklearn.base import clone

from tests.state.gatelife import TIME, TWO
from tests.state.test_forgery import problems
from tests.state.test_noise_on_cards import rewrite
from tidegate.checks import InvalidValueError
from tidegate.data.predicted import Target
from tidegate.gate import Config, Gate
from tidegate.release import Card, RegressionModel
from tidegate.release import export_formats as files
from tidegate.release.clipped_regression import ClippedRegression
from tidegate.release.markdown import to_markdown
from tidegate.run.config import ConfigError
from tidegate.state.status import public_status
from tidegate.state.verification import verify
from tidegate.state.verify_published import problems_of_card

LOW, HIGH, STEP = -60.0, 180.0, 1000
GAUSSIAN = {"epsilon": 8.0, "delta": 1e-6}
FADING = {"kind": "fading", "step": STEP, "memory": 4}


def tables(schedule: Any = None, **sections: Any) -> dict[str, Any]:
    records = {"target": [LOW, HIGH], "norm": 2.0, "columns": ["a", "b"], "label": "minutes"}
    return {
        "schedule": schedule or FADING,
        "budget": GAUSSIAN,
        "records": {**records, "dtype": "float64"},
        "quality": {"share": "1/5"},
        "not_private_seed": 3,
        **sections,
    }


def stream(n: int, start: int = 0, *, noise: float = 10.0, shift: float = 0.0) -> tuple[Any, Any]:
    """Minutes that follow from two columns; some are far outside the range, some are missing."""
    rng = np.random.default_rng(start)
    X = rng.normal(size=(n, 2)).clip(-1.4, 1.4)
    y: Any = 30 + 25 * X[:, 0] - 15 * X[:, 1] + noise * rng.normal(size=n) + shift
    y = y.astype(object)
    slots = np.arange(start, start + n)
    y[slots % 101 == 3], y[slots % 97 == 5], X[slots % 89 == 7, 0] = 1e6, None, np.nan
    return X, y


def opened(folder: Path, settings: dict[str, Any]) -> Gate:
    return Gate.open(folder, Config.of(settings), clock=lambda: TIME)


def filled(folder: Path, settings: dict[str, Any], n: int = 5 * STEP) -> Path:
    """A state with the records of the stream, taken in small and large batches."""
    with opened(folder / "state", settings) as gate:
        for name in gate.streams:
            for start in range(0, n, 700):
                gate.ingest(*stream(min(700, n - start), start), stream=name)
    return folder / "state"


@pytest.fixture(scope="module")
def state(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("target")
    return filled(folder, tables(publish={"folder": str(folder / "out")}))


def newest(state: Path) -> Any:
    with Gate.look(state) as gate:
        return gate.store.newest()


def test_a_run_learns_is_scored_and_verifies(state: Path) -> None:
    with Gate.look(state) as gate:
        assert list(verify(gate)) == []
        assert gate.store.quarantined("records") == sum(
            1 for i in range(5 * STEP) if i % 97 == 5 or i % 89 == 7
        )
        reasons = {each.reason for each in gate.store.quarantine("records")}
        assert reasons == {"a value or the target is missing or not a finite number"}
        view = gate.ledger_view()
        view.read()
        status = public_status(gate, view)
    last, scores = status["quality"][-1], status["scores"]
    assert 8 < last["mae"] < 20
    assert scores["mae"]["value"] == pytest.approx(last["mae"], abs=1e-4)
    assert scores["rmse"]["value"] < scores["constant_rmse"]["value"]
    assert scores["target"] == [LOW, HIGH]
    assert len(status["surveys"][-1]["parts"]) == Target.parts
    assert "classes" not in status["surveys"][-1]


def test_private_scores_agree_with_a_public_holdout(tmp_path: Path) -> None:
    X, y = stream(3000, 10**6)
    rows = "\n".join(f"{a},{b},{t}" for (a, b), t in zip(X, y, strict=True))
    (tmp_path / "public.csv").write_text(f"a,b,minutes\n{rows}\n")
    quality = {"share": "1/5", "holdout": str(tmp_path / "public.csv")}
    state = filled(tmp_path, tables(quality=quality))
    with Gate.look(state) as gate:
        assert list(verify(gate)) == []
        cards = [release.card for release in gate.releases()]
    before, after = cards[-2]["evaluation"]["holdout"], cards[-1]["evaluation"]["step_before"]
    assert before["scores"]["mae"]["value"] == pytest.approx(before["mae"], abs=1e-4)
    # Both are of one release; records differ, so also by what sampling adds: 0.3 minutes each.
    assert abs(before["mae"] - after["mae"]) < 6 * math.hypot(after["deviation"], 0.5)
    predicted = files_model(state).predict(X[:50][np.isfinite(X[:50]).all(axis=1)])
    assert ((predicted >= LOW) & (predicted <= HIGH)).all()


def files_model(state: Path) -> RegressionModel:
    model = newest(state).model()
    assert isinstance(model, RegressionModel)
    return model


def test_drift_of_targets_and_errors_is_seen(tmp_path: Path) -> None:
    """From the fifth step on, all flights are 60 minutes later."""
    settings = tables(survey={"share": "1/5"})
    with opened(tmp_path / "state", settings) as gate:
        for number in range(6):
            gate.ingest(*stream(STEP, number * STEP, shift=60.0 if number >= 4 else 0.0))
        view = gate.ledger_view()
        view.read()
        steps = view.measured.newest()
    assert [each.alarm for each in steps] == [False] * 4 + [True] + [steps[5].alarm]
    assert steps[4].drift is not None
    assert steps[4].drift.what in {"targets", "errors"}


@pytest.mark.parametrize(
    ("schedule", "budget"),
    [
        ({"kind": "sliding", "window": 600, "step": 200}, GAUSSIAN),
        ({"kind": "sliding", "window": 600, "step": 200}, {"epsilon": 4.0}),
        ({"kind": "growing", "block": 400, "step": 200}, GAUSSIAN),
        ({"kind": "continual", "block": 400, "step": 200}, {"epsilon": 4.0}),
        (TWO, GAUSSIAN),
        (TWO, {"epsilon": 4.0}),
    ],
    ids=str,
)
def test_every_schedule_and_budget_verifies(schedule: Any, budget: Any, tmp_path: Path) -> None:
    out = tmp_path / "out"
    settings = tables(
        schedule, budget=budget, survey={"share": "1/10"}, publish={"folder": str(out)}
    )
    state = filled(tmp_path, settings, 1700)
    assert problems(state) == []
    with Gate.look(state) as gate:
        for _, card in gate.store.cards():
            assert list(problems_of_card(card)) == []
            assert "classes" not in card
            assert card["loss"]["kind"] == (
                "HuberError" if "delta" not in budget else "SquaredError"
            )


def test_persons_are_protected(tmp_path: Path) -> None:
    person = {"id": "p", "contributions": 4, "typical": "3/2"}
    with opened(tmp_path / "state", tables(person=person)) as gate:
        for start in range(0, 3000, 500):
            X, y = stream(500, start)
            gate.ingest(X, y, persons=[slot // 2 for slot in range(start, start + 500)])
        assert list(verify(gate)) == []
        steps = [step for step in gate.store.steps() if step.evaluation is not None]
        assert steps
        for step in steps:
            assert step.evaluation is not None
            assert step.evaluation.scores is not None
            assert step.evaluation.scores["persons"] is True


# --- cards and forgeries


def test_cards_say_what_is_predicted(state: Path) -> None:
    card = newest(state).card
    text = to_markdown(card)
    assert "a number from -60 to 180" in text
    assert "0 to 30 " in text
    assert "MAE " in text
    assert "| classes" not in text
    assert json.loads(json.dumps(card, allow_nan=False)) == card


def scored(card: Card) -> Card:
    found: Card = card["evaluation"]["step_before"]
    return found


PERFECT = {"value": 1.0, "deviation": 0.0}
FORGERIES: dict[str, Any] = {
    "a smaller error": lambda card: scored(card).update(mae=scored(card)["mae"] / 2),
    "a smaller deviation": lambda card: scored(card).update(deviation=0.01),
    "a better R^2": lambda card: scored(card)["scores"].update(r2=PERFECT),
    "scores of another range": lambda card: scored(card)["noisy_counts"].update(target=[0.0, 1.0]),
    "scores of another share": lambda card: scored(card)["noisy_counts"].update(amount=99.0),
    "scores of classes": lambda card: scored(card)["noisy_counts"].update(layout=1),
    "less noise": lambda card: card["settings"].update(noise_scale=1e-6),
}


@pytest.mark.parametrize("forgery", FORGERIES)
def test_a_forged_card_is_found_alone(forgery: str, state: Path) -> None:
    card = json.loads(json.dumps(newest(state).card))
    assert list(problems_of_card(card)) == []
    FORGERIES[forgery](card)
    assert list(problems_of_card(card))


@pytest.mark.parametrize("forgery", ["a smaller error", "a better R^2", "less noise"])
def test_a_forged_card_is_found_though_every_sum_was_redone(forgery: str, tmp_path: Path) -> None:
    state = filled(tmp_path, tables(publish={"folder": str(tmp_path / "out")}), 2 * STEP)
    rewrite(state, dict, 1)
    assert problems(state) == []
    rewrite(state, FORGERIES[forgery], 1)
    assert problems(state)


# --- restarts


def test_a_restart_at_any_batch_changes_nothing(tmp_path: Path) -> None:
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    with opened(whole, tables()) as gate:
        gate.ingest(*stream(2500))
        expected = [release.hash for release in gate.releases()]
    for start in range(0, 2500, 410):
        X, y = stream(2500)
        with opened(parts, tables()) as gate:
            gate.ingest(X[start : start + 410], y[start : start + 410])
    with Gate.look(parts) as gate:
        assert [release.hash for release in gate.releases()] == expected


def test_the_settings_of_a_state_are_fixed(state: Path) -> None:
    for change in ({"target": [LOW, 181.0]}, {"target": None, "classes": [0, 1]}):
        records = {**tables()["records"], **change}
        given = {key: value for key, value in records.items() if value is not None}
        settings = Config.of(tables(records=given, publish={"folder": str(state.parent / "out")}))
        with pytest.raises(InvalidValueError, match=r"records\.target"):
            Gate.open(state, settings)


# --- files


X = np.array([[0.3, -0.2], [1.4, 1.4], [50.0, -3.0], [0.0, 0.0]])


@pytest.mark.parametrize("ending", ["npz", "safetensors"])
def test_a_loaded_file_predicts_bit_for_bit(ending: str, state: Path, tmp_path: Path) -> None:
    files.export(newest(state), tmp_path / f"model.{ending}")
    loaded = files.load(tmp_path / f"model.{ending}")
    assert np.array_equal(loaded.predict(X), files_model(state).predict(X))


def test_a_scikit_learn_pipeline_predicts_the_same(state: Path, tmp_path: Path) -> None:
    files.export(newest(state), tmp_path / "model.joblib")
    pipeline = joblib.load(tmp_path / "model.joblib")
    far = np.vstack([X, [[1e6, 1e6], [-1e6, 1e6]]])
    np.testing.assert_allclose(pipeline.predict(far), files_model(state).predict(far), rtol=1e-12)
    assert type(pipeline[-1]).__name__ == "ClippedRegression"
    assert clone(pipeline[-1]).get_params() == {"low": LOW, "high": HIGH}


def test_onnx_runtime_predicts_the_same(state: Path, tmp_path: Path) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnx")
    files.export(newest(state), tmp_path / "model.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "model.onnx")
    (output,) = session.get_outputs()
    assert (output.name, output.type, output.shape) == ("prediction", "tensor(double)", ["n"])
    far = np.vstack([X, [[1e6, 1e6], [-1e6, 1e6]]])
    (found,) = session.run(None, {"records": far})
    np.testing.assert_allclose(found, files_model(state).predict(far), rtol=1e-9)
    (odd,) = session.run(None, {"records": np.array([[np.nan, 0.0]])})
    assert np.isnan(odd).all()


def test_predictions_stay_in_the_range() -> None:
    target = Target(LOW, HIGH)
    model = RegressionModel(weights=np.array([5.0, 0.0]), target=target, norm=2.0)
    pipeline_ends = ClippedRegression.of(model.weights, target)
    rows = np.array([[2.0, 0.0], [-2.0, 0.0], [0.1, 0.0]])
    assert model.predict(rows).tolist() == [HIGH, LOW, 120.0]
    assert pipeline_ends.predict(rows).tolist() == [HIGH, LOW, 120.0]


# --- configuration


@pytest.mark.parametrize(
    "given",
    [[5, 1], [1], [1, 2, 3], "x", [0, math.nan], [0, math.inf], [1, 1], [True, 2], [-1e308, 1e308]],
    ids=str,
)
def test_bad_ranges_are_refused_in_one_line(given: Any) -> None:
    records = {**tables()["records"], "target": given}
    with pytest.raises(ConfigError, match=r"^records\.target must be two finite numbers") as error:
        Config.of(tables(records=records))
    assert len(error.value.mistakes) == 1


@pytest.mark.parametrize(
    ("sections", "message"),
    [
        ({"learner": {"loss": "logistic"}}, "learner.loss must be one of auto, squared, huber"),
        (
            {"learner": {"kind": "output", "loss": "squared"}},
            "learner.loss must be one with bounded gradients",
        ),
        ({"quality": {"scores": False}}, "quality.scores must not be false with records.target"),
        (
            {"records": {"norm": 1.0}},
            "records.classes is missing: add it, or target to predict a number",
        ),
        (
            {"records": {"norm": 1.0, "classes": [0, 1], "target": [0, 1]}},
            "records.target must not be given with records.classes",
        ),
    ],
)
def test_what_does_not_go_together_is_refused(sections: Any, message: str) -> None:
    with pytest.raises(ConfigError) as error:
        Config.of(tables(**sections))
    assert error.value.mistakes[0].startswith(message)
    assert len(error.value.mistakes) == 1


@pytest.mark.parametrize(("loss", "unit"), [("auto", "mu"), ("huber", "mu"), ("auto", "epsilon")])
def test_the_configuration_survives_json(loss: str, unit: str) -> None:
    budget = GAUSSIAN if unit == "mu" else {"epsilon": 1.0}
    config = Config.of(tables(budget=budget, learner={"loss": loss}))
    assert Config.from_json(config.to_json()) == config.settled()
    assert config.records.predicted == Target(LOW, HIGH)
    assert config.task().predicts_target
    assert json.loads(config.privacy_json())["records"]["target"] == [LOW, HIGH]
    assert config.plan().reserve == Fraction(1, 5)
