"""A loss, a learner and a feature map that the package has never heard of, each in a few lines."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from tests.cli.run import tidegate
from tidegate import ApproxDP, SlidingWindowClassifier
from tidegate.checks import InvalidValueError, positive
from tidegate.data.feature_map import Graph
from tidegate.data.maps import MAPS
from tidegate.data.records import Parts, Records
from tidegate.data.rows import Rows
from tidegate.features import RecordMap
from tidegate.gate import Gate
from tidegate.kinds import parameter
from tidegate.learn import Logistic, minimize
from tidegate.learn.learner import LEARNERS, Task, Terms, Unit, Weights
from tidegate.learn.loss import LOSSES, Floats, Indices
from tidegate.privacy.noise import Bits, gaussian
from tidegate.release import to_markdown
from tidegate.release.export_formats import export, load
from tidegate.run.config import Config, ConfigError, example
from tidegate.state.verification import verify


@dataclass(frozen=True)
class Halved(Logistic):
    """Half of the logistic loss."""

    kind: ClassVar[str] = "halved"
    about: ClassVar[str] = "half a loss"
    automatic: ClassVar[bool] = False

    def value(self, margins: Floats, y: Indices) -> Floats:
        return super().value(margins, y) / 2

    def residual(self, margins: Floats, y: Indices) -> Floats:
        return super().residual(margins, y) / 2


@dataclass(frozen=True, kw_only=True)
class Fixed:
    """Learns nothing: noise around a public number."""

    kind: ClassVar[str] = "fixed"
    about: ClassVar[str] = "a public number and noise"
    budgets: ClassVar[tuple[Unit, ...]] = ("mu",)
    automatic: ClassVar[tuple[Unit, ...]] = ()
    descends: ClassVar[bool] = False
    default_regularization: ClassVar[float | None] = 0.25

    height: float = parameter("the number", positive, default=2.0)

    def check(self, task: Task, unit: str) -> None:
        assert isinstance(task.loss, Halved)
        assert unit == "mu"

    def check_size(self, task: Task, largest: int | None) -> None:
        """Any size will do."""

    def settings(self, task: Task, terms: Terms, *, n: int, d: int) -> Mapping[str, float]:
        del task, d
        return {"height": self.height, "noise_scale": 1 / terms.allowance.amount, "slots": n}

    def fit(self, task: Task, terms: Terms, records: Parts[Records], bits: Bits) -> Weights:
        center = np.full(task.loss.shape(records.d), self.height)
        return gaussian(center, 1e-3 / terms.allowance.amount, bits)


@dataclass(eq=False, repr=False)
class Stretched(RecordMap):
    """Every number times a factor."""

    kind: ClassVar[str] = "stretched"
    about: ClassVar[str] = "larger numbers"

    factor: float = parameter("the factor", positive, default=3.0)

    def _map(self, rows: Rows) -> Rows:
        return rows * self.factor

    def onnx(self, graph: Graph, rows: str) -> str:
        return graph.op("Mul", rows, self.factor)


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(LOSSES, Halved.kind, Halved)
    monkeypatch.setitem(LEARNERS, Fixed.kind, Fixed)
    monkeypatch.setitem(MAPS, Stretched.__name__, Stretched)


def config(learner: str = 'kind = "fixed"') -> Config:
    return Config.parse(f"""
        not_private_seed = 1
        [schedule]
        kind = "sliding"
        window = 40
        step = 20
        [budget]
        epsilon = 1.0
        delta = 1e-6
        [records]
        classes = ["no", "yes"]
        norm = 9.0
        columns = ["a", "b"]
        label = "y"
        [[features]]
        map = "stretched"
        [quality]
        share = 0
        scores = false
        [survey]
        share = 0
        [learner]
        {learner}
        loss = "halved"
    """)


X = np.array([[1.0, 1.0], [-1.0, -1.0]] * 30)
Y = np.array(["yes", "no"] * 30)


def test_a_gate_a_card_and_predictions(tmp_path: Path) -> None:
    made = config()
    with Gate.open(tmp_path / "state", made) as gate:
        gate.ingest(X, Y)
        releases = list(gate.releases())
        assert list(verify(gate)) == []
        assert Config.from_json(gate.store.config()) == made.settled()
    assert json.loads(made.to_json())["learner"] == {
        "kind": "fixed",
        "loss": "halved",
        "regularization": 0.25,
        "height": 2.0,
    }
    assert json.loads(made.to_json())["features"] == [{"map": "stretched", "factor": 3.0}]
    card = releases[-1].card
    assert card["learner"] == {"kind": "Fixed", "height": 2.0}
    assert card["loss"] == {"kind": "Halved"}
    assert card["features"] == [{"kind": "Stretched", "factor": 3.0}]
    assert card["settings"].keys() == {"height", "noise_scale", "slots"}
    assert "| height " in to_markdown(card)
    assert releases[-1].model().predict(X[:4]).tolist() == Y[:4].tolist()
    for ending in ("npz", "onnx", "joblib"):
        export(releases[-1], tmp_path / f"model.{ending}")
    assert load(tmp_path / "model.npz").predict(X[:4]).tolist() == Y[:4].tolist()
    file = tmp_path / "new.csv"
    file.write_text("a,b\n1,1\n-1,-1\n")
    done = tidegate("predict", str(tmp_path / "state"), str(file), "--format", "json")
    assert [json.loads(line)["label"] for line in done.stdout.splitlines()] == ["yes", "no"]


def test_what_cannot_serve_is_refused_by_what_it_says_of_itself() -> None:
    text = config().to_json()
    pure = json.loads(text)
    del pure["budget"]["delta"], pure["learner"]["regularization"]
    with pytest.raises(
        ConfigError, match=r"learner\.kind must be output for a budget without a del"
    ):
        Config.of(pure)
    with pytest.raises(
        ConfigError, match=r"learner\.height must be a finite number above 0, got 0"
    ):
        config('kind = "fixed"\nheight = 0')
    with pytest.raises(ConfigError, match="height is not a key of gradient: it has steps, rate"):
        config('kind = "gradient"\nheight = 1')
    three = json.loads(text)
    three["records"]["classes"] = [0, 1, 2]
    with pytest.raises(ConfigError, match="loss must be softmax for 3 classes, got 'halved'"):
        Config.of(three)


def test_estimators_and_the_solver_know_them() -> None:
    clf = SlidingWindowClassifier(
        budget=ApproxDP(1.0, 1e-6),
        window=40,
        step=20,
        classes=["no", "yes"],
        norm=9.0,
        loss="halved",
        learner=Fixed(height=1.0),
        features=Stretched(),
        survey=0,
        not_private_seed=1,
    ).partial_fit(X, Y)
    assert clf.score(X, Y) == 1
    half = minimize("halved", X, Y, regularization=0.1)
    whole = minimize("logistic", X, Y, regularization=0.2)
    np.testing.assert_allclose(half.weights, whole.weights, atol=1e-6)


def test_an_example_names_them() -> None:
    text = example("sliding").replace("\n# ", " ")
    for each in ('"stretched" (larger numbers)', '"fixed" (a public number and noise)'):
        assert each in text
    assert '"halved" (half a loss)' in text


def test_what_is_not_registered_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    for registry, name in ((LOSSES, "halved"), (LEARNERS, "fixed"), (MAPS, "Stretched")):
        monkeypatch.delitem(registry, name)
    with pytest.raises(ConfigError) as refused:
        config()
    assert [line.split(" must be one of")[0] for line in refused.value.mistakes] == [
        "features[0].map",
        "learner.kind",
        "learner.loss",
    ]
    classifier: Any = SlidingWindowClassifier
    with pytest.raises(InvalidValueError, match="loss must be one of auto, logistic"):
        classifier(
            budget=ApproxDP(1.0, 1e-6), window=40, step=20, classes=[0, 1], norm=1.0, loss="halved"
        ).partial_fit(X, Y)
