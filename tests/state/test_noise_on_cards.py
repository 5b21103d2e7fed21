"""An insider who states too little noise on a card, and redoes every checksum and hash."""

import json
import shutil
import sqlite3
import tarfile
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.cli.run import tidegate
from tests.state.gatelife import TWO, config, opened, stream
from tests.state.states.make import HERE, PUBLISHED
from tests.state.test_forgery import problems, seal
from tidegate.checks import InvalidValueError
from tidegate.gate import Gate
from tidegate.learn.gradient import GradientPerturbation
from tidegate.learn.learner import LEARNERS, Task, Terms
from tidegate.learn.loss import Softmax
from tidegate.learn.score_kinds import headline
from tidegate.learn.scores import Scores
from tidegate.privacy.budget import Allowance
from tidegate.release import FIRST, Card, StoredRelease, canonical
from tidegate.release import seal as chained
from tidegate.state import publish_folder, verify_published
from tidegate.state.damage import BEGINNING, HISTORY, after
from tidegate.state.database import SqliteDatabase
from tidegate.state.layout import sums_of
from tidegate.state.quality import scores_on_card
from tidegate.state.store import FIT, STEP, PlannedWeights, covered, with_fits
from tidegate.state.verify_cards import Recomputed
from tidegate.state.verify_published import problems_of_card

GAUSSIAN = {"epsilon": 1.0, "delta": 1e-6}
GATES: dict[str, dict[str, Any]] = {
    "a chain, output": {"schedule": {"kind": "sliding", "window": 700, "step": 100}},
    "a sample, output": {
        "schedule": {"kind": "sliding", "window": 300, "step": 100, "sample": 50},
        "learner": {"regularization": 0.1},
    },
    "two streams, output": {"schedule": TWO},
    "fading, output": {"schedule": {"kind": "fading", "step": 100, "forget": "1/2"}},
    "a chain, gradient": {"schedule": None, "budget": GAUSSIAN, "learner": {"kind": "gradient"}},
    "fading, gradient": {
        "schedule": {"kind": "fading", "step": 100},
        "budget": GAUSSIAN,
        "learner": {"kind": "gradient", "lead": 0.4},
    },
    "growing, gradient": {
        "schedule": {"kind": "growing", "block": 200, "step": 100},
        "budget": GAUSSIAN,
        "learner": {"kind": "gradient"},
    },
    "lambda chosen by the learner": {"schedule": None, "learner": {"kind": "output"}},
    "fading, persons": {
        "schedule": {"kind": "fading", "step": 100},
        "budget": {"epsilon": 8.0, "delta": 1e-6},  # enough to tell how many persons there are
        "learner": {},
        "survey": {"share": "1/2"},
        "person": {"id": "p", "contributions": 4, "typical": "3/2"},
    },
}


def made(folder: Path, name: str, *, scores: bool = True) -> Path:
    """A state that has published releases and private accuracies."""
    quality = {"share": "1/20", "scores": scores}
    settings = config(**GATES[name], quality=quality, publish={"folder": str(folder / "out")})
    with opened(folder / "state", settings) as gate:
        for part in gate.streams:
            persons = [slot // 2 for slot in range(900)] if "person" in GATES[name] else None
            gate.ingest(*stream(900), stream=part, persons=persons)
    return folder / "state"


def rewrite(state: Path, edit: Callable[[Card], object], which: int) -> None:
    """Edit the card of a fit; redo history, cards, hashes, sums, the seal and the files."""
    database = SqliteDatabase(state, writes=True)
    database.connect()
    with closing(database):
        database.begin()
        planned, history, previous = PlannedWeights(database), BEGINNING, FIRST
        steps = database.execute(f"SELECT {STEP} FROM steps ORDER BY number").fetchall()
        names = FIT.split(", ")
        for step, fits in list(with_fits(database, steps)):
            for row in fits:
                values = dict(zip(names, row, strict=True))
                card = json.loads(values["card"])
                if values["number"] == which:
                    edit(card)
                card[HISTORY] = history
                (data,) = database.execute(
                    "SELECT weights FROM fits WHERE number = ?", (values["number"],)
                ).fetchone()
                if values["release"] is not None:
                    weights = np.frombuffer(data, "<f8").reshape(json.loads(values["shape"]))
                    release = chained(card, weights, previous)
                    values |= {"previous": previous, "hash": release.hash}
                    previous = release.hash
                values["card"] = canonical(card)
                history = after(history, list(values.values()))
                database.execute(
                    "UPDATE fits SET card = ?, previous = ?, hash = ? WHERE number = ?",
                    (
                        planned.left_out(values["card"]),
                        values["previous"],
                        values["hash"],
                        values["number"],
                    ),
                )
            history = after(history, covered(step))
            database.execute("UPDATE steps SET history = ? WHERE number = ?", (history, step[0]))
        database.execute("DELETE FROM published")
        database.execute("UPDATE state SET sums = ?", (sums_of(database).text(),))
        database.commit()
    seal(state)
    shutil.rmtree(state.parent / "out")
    with Gate.open(state):
        pass  # publishes the forged releases


def fits_of(state: Path) -> list[Card]:
    with Gate.look(state) as gate:
        return [card for _, card in gate.store.cards()]


@pytest.mark.thorough
@pytest.mark.parametrize(
    "name",
    [pytest.param(each, marks=pytest.mark.slow if "persons" in each else ()) for each in GATES],
)
def test_too_little_noise_is_found_though_every_sum_was_redone(name: str, tmp_path: Path) -> None:
    state = made(tmp_path, name)
    assert problems(state) == []
    rewrite(state, dict, 0)
    assert problems(state) == []  # what is redone is what was there
    kept = tmp_path / "kept"
    shutil.copytree(state, kept)
    cards = fits_of(state)
    for which in (0, len(cards) - 1):
        for key, value in cards[which]["settings"].items():
            shutil.rmtree(state)
            shutil.copytree(kept, state)

            def edit(card: Card, key: str = key, value: float = value) -> None:
                card["settings"][key] = value + 1 if isinstance(value, int) else value * 0.999

            rewrite(state, edit, which)
            (told,) = problems(state)
            assert told.startswith(f"fit {which}: its card says settings.{key} ")
            alone = list(verify_published.verify(tmp_path / "out"))
            # a card alone does not show which of these the learner would choose
            chosen = key in ("steps", "rate", "clip", "tolerance")
            assert alone or chosen or which not in released(state), key
    assert tidegate("verify", str(state)).returncode == 1


def released(state: Path) -> set[int]:
    with Gate.look(state) as gate:
        return {release.card["fit"] for release in gate.releases()}


def published(folder: Path) -> list[StoredRelease]:
    return list(publish_folder.published_releases(folder / "out"))


@pytest.mark.parametrize("name", GATES)
def test_a_published_card_alone_shows_too_little_noise(name: str, tmp_path: Path) -> None:
    made(tmp_path, name)
    for release in published(tmp_path):
        card = release.card
        assert list(problems_of_card(card)) == []
        for key in ("noise_scale", "sensitivity", "lattice"):
            less = {**card["settings"], key: card["settings"][key] * 0.999}
            (told,) = problems_of_card({**card, "settings": less})
            assert told.startswith(f"its card says settings.{key} ")
        more = {**card["settings"], "luck": 1.0}
        assert any("settings.luck" in told for told in problems_of_card({**card, "settings": more}))
        (told,) = problems_of_card({**card, "learner": {"kind": "Luck"}})
        assert told == "its settings cannot be recomputed: this version has no Luck"
        (told,) = problems_of_card({key: card[key] for key in card if key != "settings"})
        assert "cannot be recomputed" in told
        unit = "mu" if "mu" in card else "epsilon"
        assert any(f"says {unit} " in told for told in problems_of_card({**card, unit: 0.01}))
        if (measured := (card["evaluation"] or {}).get("step_before")) is not None:
            worse = {"step_before": {**measured, "deviation": measured["deviation"] / 2}}
            (told,) = problems_of_card({**card, "evaluation": worse})
            assert told.startswith("its card says evaluation.step_before.deviation ")
    assert tidegate("verify", str(tmp_path / "out")).returncode == 0


def test_settings_that_explain_less_noise_must_explain_it(tmp_path: Path) -> None:
    """From a card alone, a smaller clip is possible; but then sensitivity and noise follow it."""
    made(tmp_path, "fading, gradient")
    card = published(tmp_path)[-1].card
    smaller = {**card["settings"], "clip": card["settings"]["clip"] / 2}
    told = list(problems_of_card({**card, "settings": smaller}))
    assert [each.split()[3] for each in told] == [
        "settings.noise_scale",
        "settings.sensitivity",
        "settings.lattice",
    ]


@pytest.mark.thorough
def test_the_total_of_a_survey_of_persons_is_checked(tmp_path: Path) -> None:
    """It is an estimate, so all that is said in units of it must follow from it."""
    made(tmp_path, "fading, persons")
    for release in published(tmp_path):
        card, survey = release.card, release.card["survey"]
        assert 1 < survey["total"] < 100  # the noise does not hide that there are about 50
        for change in (
            {"total": None},
            {"total": survey["total"] * 1.001},
            {"total": 101.0, "deviation": survey["deviation"] * survey["total"] / 101},
            {"total": 0.5, "deviation": survey["deviation"] * survey["total"] / 0.5},
            {"deviation": survey["deviation"] * 0.999},
            {"deviation": survey["deviation"] * survey["total"] / 100},
        ):
            assert list(problems_of_card({**card, "survey": {**survey, **change}})) != []
        without = {key: value for key, value in survey.items() if key != "total"}
        assert list(problems_of_card({**card, "survey": without})) != []


def test_a_survey_of_records_has_no_total(tmp_path: Path) -> None:
    made(tmp_path, "fading, gradient")
    card = published(tmp_path)[-1].card
    assert "total" not in card["survey"]
    (told,) = problems_of_card({**card, "survey": {**card["survey"], "total": 100.0}})
    assert told == "its card says survey.total 100.0, not None"


@pytest.mark.parametrize("name", ["fading, persons", "fading, gradient"])
def test_scores_count_what_is_protected(name: str, tmp_path: Path) -> None:
    """Scores of persons that pass for scores of records, or the other way round, are found."""
    state = made(tmp_path, name)

    def turned(noisy: Mapping[str, Any]) -> dict[str, Any]:
        kept = {key: value for key, value in noisy.items() if key != "persons"}
        return kept if "persons" in noisy else {**kept, "persons": True}

    with Gate.look(state) as gate:
        recomputed = Recomputed(gate.store, gate.about, gate.form)
        (*_, last) = gate.store.steps()
        assert last.evaluation is not None
        assert last.evaluation.scores is not None
        recomputed.headline(last.evaluation, last.span.size)
        wrong = replace(last.evaluation, scores=turned(last.evaluation.scores))
        with pytest.raises(InvalidValueError, match="not for this step, this share or this plan"):
            recomputed.headline(wrong, last.span.size)
    card = published(tmp_path)[-1].card
    measured = card["evaluation"]["step_before"]
    noisy = turned(measured["noisy_counts"])
    accuracy = headline(Scores.of_json(noisy))
    numbers = {"accuracy": accuracy.value, "deviation": accuracy.deviation}
    other = {"step_before": {**measured, **numbers, **scores_on_card(noisy)}}
    (told,) = problems_of_card({**card, "evaluation": other})
    assert told.startswith("its card says evaluation.step_before.noisy_counts.persons ")


@pytest.mark.parametrize("scores", [True, False])
def test_a_deviation_that_was_altered_is_found(scores: bool, tmp_path: Path) -> None:
    """Of a private accuracy too, with scores or alone, and though its card says the same."""
    state = made(tmp_path, "fading, gradient", scores=scores)
    with closing(sqlite3.connect(state / "state.db")) as connection:
        connection.execute("UPDATE steps SET deviation = deviation / 2 WHERE number = 5")
        connection.commit()

    def edit(card: Card) -> None:
        card["evaluation"]["step_before"]["deviation"] /= 2

    rewrite(state, edit, 4)
    (told,) = problems(state)
    assert told.startswith("the step of records at 500: its accuracy and deviation are ")


@pytest.mark.parametrize("norm", [-1.0, "much"])
def test_a_norm_that_is_none_is_told(norm: object, tmp_path: Path) -> None:
    state = made(tmp_path, "a chain, output")
    with closing(sqlite3.connect(state / "state.db")) as connection:
        connection.execute("UPDATE dropped SET norm = ?", (norm,))
        connection.commit()
    assert any("its settings cannot be recomputed" in told for told in problems(state))


@pytest.mark.parametrize("kind", LEARNERS)
def test_of_a_prior_only_the_norm_matters(kind: str) -> None:
    """The store keeps no more of a model that it drops."""
    task = Task(loss=Softmax(3), norm=1.0, regularization=0.01)
    learner = LEARNERS[kind]()
    terms = Terms(allowance=Allowance("mu", 0.1), behind=1000)
    prior = np.linspace(-1e8, 1e8, 60).reshape(20, 3)  # large, so that the tolerance feels it
    whole = learner.settings(task, replace(terms, prior=prior), n=10**6, d=20)
    short = np.array([np.linalg.norm(prior)])
    assert whole == pytest.approx(
        dict(learner.settings(task, replace(terms, prior=short), n=10**6, d=20)), rel=1e-12
    )
    moved = learner.settings(task, replace(terms, prior=2 * prior), n=10**6, d=20)
    assert (moved == whole) == isinstance(learner, GradientPerturbation)


@pytest.mark.parametrize("state", sorted(HERE.glob("*.tar.gz")), ids=lambda path: path.stem)
def test_cards_of_every_version_can_be_recomputed(state: Path, tmp_path: Path) -> None:
    with tarfile.open(state) as archive:
        archive.extractall(tmp_path, filter="data")
    cards = [json.loads(path.read_text())["card"] for path in (tmp_path / PUBLISHED).glob("*.json")]
    assert len(cards) >= 2
    assert [told for card in cards for told in problems_of_card(card)] == []
