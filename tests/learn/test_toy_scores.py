"""A measure is one place in the code: a toy of a few lines is shown wherever measures are."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

from tests.cli.run import json_lines, tidegate
from tests.learn.toy_scores import TOYS
from tidegate.compare.contenders import Linear
from tidegate.compare.labelled import Labelled
from tidegate.compare.yardstick import ByClass, ByError
from tidegate.gate import Config, Gate
from tidegate.learn import Target
from tidegate.learn.measures.measure import REGISTRY, Score, register
from tidegate.release.markdown import to_markdown
from tidegate.serve.measure_metrics import measured
from tidegate.serve.page.page import add_page
from tidegate.state.status import public_status

STEP = 2000
PREDICTED: dict[str, Any] = {"classes": {"classes": [0, 1]}, "target": {"target": [-1.0, 1.0]}}


def config(kind: str) -> Config:
    return Config.of(
        {
            "schedule": {"kind": "fading", "step": STEP, "memory": 2},
            "budget": {"epsilon": 4.0, "delta": 1e-6},
            "records": {**PREDICTED[kind], "norm": 1.0, "columns": ["a", "b"], "label": "y"},
            "not_private_seed": 1,
        }
    )


@pytest.fixture(params=list(TOYS))
def toy(request: pytest.FixtureRequest) -> Iterator[Score]:
    """A toy in the registry, and nowhere else."""
    kind = TOYS[request.param]
    with patch.dict(REGISTRY, {each: dict(REGISTRY[each]) for each in REGISTRY}):
        register(kind)
        yield kind()


@pytest.fixture
def state(toy: Score, tmp_path: Path) -> str:
    rng = np.random.default_rng(1)
    X = rng.normal(0, 0.3, (3 * STEP, 2)).clip(-0.7, 0.7)
    y = (X[:, 0] > 0).astype(int) if toy.kind == "classes" else X[:, 0]
    with Gate.open(tmp_path / "state", config(toy.kind)) as gate:
        gate.ingest(X, y)
        list(gate.advance())
    return str(tmp_path / "state")


def test_a_toy_is_shown_wherever_measures_are(toy: Score, state: str) -> None:
    with Gate.look(Path(state)) as gate:
        card = gate.store.release(1).card
        view = gate.ledger_view()
        view.catch_up()
        status = public_status(gate, view)
    stated = card["evaluation"]["step_before"]["scores"][toy.name]
    assert stated["deviation"] > 0
    text = f"{toy.label} {toy.shown(stated)}"
    assert text in to_markdown(card)
    newest = status["scores"][toy.name]
    assert status["quality"][-1]["scores"][toy.name] == newest
    metrics = {each.name: each for each in measured(status)}
    family = metrics[f"tidegate_{toy.name}"]
    assert family.documentation == toy.about
    assert [sample.value for sample in family.samples] == [newest["value"]]
    shown = f"{toy.label} {toy.shown(newest)}"
    assert shown in " ".join(tidegate("status", state).stdout.split())
    assert json_lines("status", state)[0]["scores"][toy.name] == newest
    assert json_lines("releases", state)[1]["scores_before"][toy.name] == stated
    assert toy.shown(stated) in " ".join(tidegate("releases", state, COLUMNS="400").stdout.split())
    assert tidegate("verify", state).returncode == 0


def test_the_page_is_told_of_a_toy(toy: Score) -> None:
    app = FastAPI(openapi_url=None)
    add_page(app)
    script = TestClient(app).get("/page/glossary.js").text
    told = json.loads(script.partition("MEASURES = ")[2].rpartition(";")[0])[toy.kind]
    assert [each["form"] for each in told if each["name"] == toy.name] == [toy.form.page]


def test_comparisons_measure_a_toy(toy: Score) -> None:
    rng = np.random.default_rng(0)
    X, codes = rng.normal(size=(50, 1)), rng.integers(0, 2, 50)
    by: Any = ByClass(2) if toy.kind == "classes" else ByError(Target(-1, 1))
    found = by.measured(Linear(np.ones(1)), Labelled(X=X, y=codes))
    assert toy.name in by.names
    assert np.isfinite(found[toy.name])
    assert toy.name in [each.name for each in by.wording("y").measures]
