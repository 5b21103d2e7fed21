"""Cards say what happened, and the chain of hashes holds them."""

import json
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from fractions import Fraction

import numpy as np
import pandas
import pytest
from sklearn.base import clone, is_classifier
from sklearn.frozen import FrozenEstimator
from sklearn.inspection import partial_dependence, permutation_importance
from sklearn.metrics import get_scorer
from sklearn.utils.validation import check_is_fitted

from tests.state.released import TIME, WINDOW, made
from tidegate import Plan, PureDP
from tidegate.checks import InvalidValueError
from tidegate.data.predicted import Classes
from tidegate.features import AppendIntercept
from tidegate.learn import OutputPerturbation, Softmax
from tidegate.learn.learner import Task
from tidegate.privacy import Paper
from tidegate.privacy.meaning import meaning
from tidegate.release import FIRST, About, canonical, make_card, release_hash, seal, to_markdown
from tidegate.schedule import SlidingWindow


def about() -> About:
    return About(
        plan=Plan(schedule=WINDOW, budget=PureDP(1.0)),
        task=Task(loss=Softmax(3), norm=1.5, regularization=0.1),
        learner=OutputPerturbation(),
        predicted=Classes(range(3)),
    )


def test_an_auditor_can_recompute_the_plan_from_the_cards() -> None:
    _, chain, _ = made(["ebb", "flood", "slack"], AppendIntercept(0.5))
    first = chain[0].card
    known = {**first["schedule"]}
    assert (known.pop("kind"), first["allocation"]) == ("SlidingWindow", {"kind": "Paper"})
    plan = Plan(
        schedule=SlidingWindow(**known),
        budget=PureDP(first["budget"]["epsilon"]),
        allocation=Paper(),
    )
    released = [line for line in plan.lines(until=300) if line.fit.released]
    assert len(released) == len(chain)
    for line, release in zip(released, chain, strict=True):
        card = release.card
        assert (card["start"], card["stop"]) == line.fit.span
        assert (card["at"], card["prior"], card["level"]) == line.fit[1:2] + line.fit[3:4] + (0,)
        assert Fraction(card["share"]) == line.share
        assert Fraction(card["share_rounded_down"]) <= line.share
        assert Fraction(card["epsilon"]) <= line.share


def test_released_weights_lie_on_the_lattice_of_the_card() -> None:
    for release in made([0, 1, 2])[1]:
        steps = release.weights / release.card["settings"]["lattice"]
        assert np.array_equal(steps, np.rint(steps))


def test_the_card_of_gradient_perturbation_has_its_noise() -> None:
    _, chain, _ = made([0, 1, 2], delta=1e-6)
    card = chain[0].card
    settings = card["settings"]
    assert "epsilon" not in card
    slots = card["stop"] - card["start"]
    assert Fraction(settings["sensitivity"]) >= 2 * Fraction(settings["clip"]) / slots
    assert 2.0**-17.01 < settings["lattice"] / settings["noise_scale"] < 2.0**-15.99
    spent = settings["sensitivity"] * settings["steps"] ** 0.5 / settings["noise_scale"]
    assert card["mu"] * (1 - 1e-12) < spent < card["mu"] * (1 + 1e-12)


@pytest.mark.parametrize("delta", [None, 1e-6])
def test_a_card_promises_what_its_budget_means(delta: float | None) -> None:
    _, chain, _ = made([0, 1], delta=delta)
    promise = to_markdown(chain[0].card).partition("All that is ever released")[2].splitlines()[0]
    assert meaning(1.0, delta or 0.0) in promise
    assert ("no set of outcomes becomes more than" in promise) == (delta is None)


def test_a_seed_is_told_in_words() -> None:
    _, chain, _ = made([0, 1])
    assert chain[0].card["warning"] == "NOT PRIVATE: made with a seed"
    assert "**NOT PRIVATE: made with a seed**" in to_markdown(chain[0].card)


def test_the_table_lines_up() -> None:
    _, chain, _ = made(["a|b", "c"])
    table = [line for line in to_markdown(chain[0].card).splitlines() if line.startswith("|")]
    assert len({len(line) for line in table}) == 1
    assert all(line.replace("\\|", "").count("|") == 3 for line in table)


def test_cards_are_plain_json_in_utc() -> None:
    clf, chain, _ = made([0, 1, 2])
    card = chain[0].card
    assert json.loads(canonical(card)) == card
    release = clf.releases_[0]
    there = TIME.astimezone(timezone(timedelta(hours=9)))
    assert make_card(release, about(), time=there)["time"] == "2026-01-02T03:04:05+00:00"
    with pytest.raises(InvalidValueError, match="time must be a datetime with a time zone"):
        make_card(release, about(), time=datetime(2026, 1, 2))
    with pytest.raises(InvalidValueError, match="a card holds what JSON cannot"):
        make_card(release, about(), time=TIME, evaluation={"accuracy": float("nan")})


def test_the_hash_holds_card_weights_and_what_came_before() -> None:
    _, chain, _ = made([0, 1])
    release = chain[1]
    card, weights, previous = release.card, release.weights, release.previous
    assert previous == chain[0].hash
    assert release.intact
    changed = weights.copy()
    changed.flat[0] = np.nextafter(changed.flat[0], 1)
    others = {
        release_hash({**card, "share": "1/1000"}, weights, previous),
        release_hash(card, changed, previous),
        release_hash(card, weights, FIRST),
    }
    assert len(others | {release.hash}) == 4
    assert release_hash(card, weights.astype(">f8"), previous) == release.hash


def test_a_model_refuses_what_it_cannot_predict_without_quoting_it() -> None:
    model = made([0, 1])[1][0].model()
    with pytest.raises(InvalidValueError, match="cannot be predicted"):
        model.predict([[np.nan, 0.0, 0.0, 0.0]])
    with pytest.raises(InvalidValueError, match="3 features, but 4"):
        model.predict([[1.0, 2.0, 3.0]])


def test_a_model_is_a_fitted_classifier_to_scikit_learn() -> None:
    clf, chain, X = made([0, 1])
    y = clf.predict(X)
    model = seal({**chain[-1].card, "columns": list("abcd")}, chain[-1].weights).model()
    check_is_fitted(model)
    assert is_classifier(model)
    assert model.classes_ is model.classes
    assert model.n_features_in_ == 4
    assert list(model.feature_names_in_) == list("abcd")
    assert model.fit(X, 1 - y) is model
    assert list(model.predict(X)) == list(y)
    assert list(clone(model).predict(X)) == list(y)
    assert model.score(X, y) == get_scorer("accuracy")(model, X, y) == 1
    assert get_scorer("neg_log_loss")(model, X, y) < 0
    assert get_scorer("roc_auc")(model, X, y) == 1
    assert permutation_importance(model, X, y, n_repeats=2).importances.shape == (4, 2)
    assert partial_dependence(model, X, [0]).average.shape[0] == 1
    assert set(FrozenEstimator(model).fit(X, y).predict(X)) <= {0, 1}
    frame = pandas.DataFrame(X, columns=list("abcd"))
    assert list(model.predict(frame)) == list(y)
    with pytest.raises(ValueError, match=r"(?s)The feature names should match.*same order"):
        model.predict(frame[list("badc")])


def test_a_model_whose_columns_have_no_names() -> None:
    _, chain, _ = made([0, 1])
    plain, mapped = chain[-1].model(), chain[-1].model(features=AppendIntercept())
    assert plain.n_features_in_ == 4
    assert not hasattr(plain, "feature_names_in_")
    assert not hasattr(mapped, "n_features_in_")
    texts = {**chain[-1].card, "columns": ["title"], "features": [{"kind": "HashedText"}]}
    assert not hasattr(seal(texts, chain[-1].weights).model(), "feature_names_in_")


def test_a_release_that_does_not_know_its_run_has_no_card() -> None:
    clf, _, _ = made([0, 1])
    with pytest.raises(InvalidValueError, match="use make_card"):
        _ = replace(clf.releases_[0], about=None).card
