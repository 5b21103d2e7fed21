"""Public rules have a number: a card verifies under the rules that it states, and no others."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from tests.state.gatelife import config, opened, stream
from tests.state.test_forgery import problems
from tests.state.test_noise_on_cards import fits_of, published, rewrite
from tidegate.gate import Gate
from tidegate.learn.rules import RULES
from tidegate.release import Card
from tidegate.state.durable_run import DurableRun
from tidegate.state.verify_published import problems_of_card

GATES: dict[str, dict[str, Any]] = {
    "pure, survey and scores": {
        "schedule": {"kind": "fading", "step": 100},
        "records": {"classes": [0, 1, 2], "norm": 1.0},
        "learner": {"kind": "output", "regularization": 0.1},
        "survey": {"share": "1/10"},
    },
    "pure, a chain": {"schedule": {"kind": "sliding", "window": 500, "step": 100}},
    "gaussian, a descent": {
        "schedule": {"kind": "fading", "step": 100},
        "budget": {"epsilon": 1.0, "delta": 1e-6},
        "learner": {"kind": "gradient"},
        "survey": {"share": 0},
    },
    "gaussian, survey and scores": {
        "schedule": {"kind": "fading", "step": 100},
        "budget": {"epsilon": 1.0, "delta": 1e-6},
        "records": {"classes": [0, 1, 2], "norm": 1.0},
        "learner": {"kind": "gradient"},
        "survey": {"share": "1/10"},
    },
}


def made(folder: Path, name: str, earlier: int = 1) -> Path:
    """A state of which half was made under earlier rules."""
    sections = {"quality": {"share": "1/20", "scores": True}, **GATES[name]}
    settings = config(publish={"folder": str(folder / "out")}, **sections)
    X, y = stream(1200)
    with patch.object(DurableRun, "rules", earlier), opened(folder / "state", settings) as gate:
        gate.ingest(X[:650], y[:650])
    with Gate.open(folder / "state") as gate:
        gate.ingest(X[650:], y[650:])
    return folder / "state"


def stated(card: Card) -> Mapping[str, Any]:
    """The numbers of a card that rules decide."""
    noisy = ((card["evaluation"] or {}).get("step_before") or {}).get("noisy_counts", {})
    survey = card.get("survey", {}).get("settings", {})
    return {**card["settings"], "survey": survey.get("sensitivity"), "layout": noisy.get("layout")}


@pytest.mark.parametrize("name", GATES)
def test_a_state_with_both_rules_verifies(name: str, tmp_path: Path) -> None:
    state = made(tmp_path, name)
    assert problems(state) == []
    cards = fits_of(state)
    numbers = [card.get("rules", 1) for card in cards]
    assert set(numbers) == {1, RULES}
    assert numbers == sorted(numbers)
    for release in published(tmp_path):
        assert list(problems_of_card(release.card)) == []
    first, last = stated(cards[1]), stated(cards[-1])
    if name.startswith("pure, survey"):
        assert last["survey"] < first["survey"]
        assert last["noise_scale"] < first["noise_scale"]
    if "scores" in name:
        assert (first["layout"], last["layout"]) == (1, 2)
    if name.startswith("gaussian"):
        assert last["rate"] < first["rate"]
        assert last["steps"] > first["steps"]


def test_surveys_go_on_where_those_before_had_no_products(tmp_path: Path) -> None:
    state = made(tmp_path, "gaussian, survey and scores", earlier=2)
    assert problems(state) == []
    cards = fits_of(state)
    assert {card["rules"] for card in cards} == {2, RULES}
    for card in cards:
        later = card["rules"] == RULES
        assert ("mix" in card["transform"]) == later
        assert ("noise_scale_pairs" in card["survey"]["settings"]) == later
    for release in published(tmp_path):
        assert list(problems_of_card(release.card)) == []
    last = published(tmp_path)[-1].card
    lost = {**last, "transform": {k: v for k, v in last["transform"].items() if k != "mix"}}
    assert list(problems_of_card(lost))
    with Gate.open(state) as gate:
        first, later = (gate.store.survey("records", at) for at in (600, 1200))
        assert first is not None
        assert later is not None
        assert first.pairs.size == first.mean_pairs.size == 0
        assert later.pairs.size == later.mean_pairs.size > 0


@pytest.mark.parametrize("name", GATES)
def test_no_card_verifies_under_the_rules_of_another(name: str, tmp_path: Path) -> None:
    state = made(tmp_path, name)
    for release in published(tmp_path):
        card = release.card
        other = {**card, "rules": RULES + 1 - card["rules"]}
        differs = name.startswith("pure") or stated(card)["layout"] is not None
        assert bool(list(problems_of_card(other))) or not differs
        for beyond in (0, RULES + 1, 1.5, "2", True):
            (told,) = problems_of_card({**card, "rules": beyond})
            assert "rules must be a whole number from 1 to" in told
    if "survey" not in name:
        return
    which = len(fits_of(state)) - 1
    rewrite(state, lambda card: card.update(rules=1), which)
    assert any(
        f"fit {which}: its card says rules 1, not {RULES}" in each for each in problems(state)
    )


def test_a_card_without_a_number_has_rules_1(tmp_path: Path) -> None:
    made(tmp_path, "pure, survey and scores")
    first = published(tmp_path)[1].card
    assert first["rules"] == 1
    assert list(problems_of_card({key: first[key] for key in first if key != "rules"})) == []


def test_no_published_card_states_a_rate_that_could_swing(tmp_path: Path) -> None:
    made(tmp_path, "gaussian, a descent")
    card = published(tmp_path)[-1].card
    swinging = {**card, "settings": {**card["settings"], "rate": 10 * card["settings"]["rate"]}}
    (told,) = problems_of_card(swinging)
    assert "rate must be a number" in told


def test_a_state_never_goes_back_to_lower_rules(tmp_path: Path) -> None:
    state = made(tmp_path, "gaussian, a descent")
    which = len(fits_of(state)) - 1
    rewrite(state, lambda card: card.update(rules=1), which)
    told = f"fit {which}: its card says rules 1, after a card that says {RULES}"
    assert any(told in each for each in problems(state))
