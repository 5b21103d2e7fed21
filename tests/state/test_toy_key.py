"""A configuration key is declared in one place, and all that reads keys knows it."""

import json
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest

from reference.settings import settings_page
from tidegate.checks import whole, word
from tidegate.kinds import CHANGEABLE
from tidegate.run.config import ConfigError, differences, sections
from tidegate.run.config.config import Config
from tidegate.run.config.keys import key, table
from tidegate.run.config.tables import QualityTable


@dataclass(frozen=True, kw_only=True)
class Toys(QualityTable):
    """[quality], with three more keys."""

    bells: int = key(partial(whole, most=9), "how many bells ring", default=1)
    drums: int | None = key(
        whole, "how many drums there are", default=None, new=lambda _: 2, earlier=7
    )
    colour: str = key(word, "of the toys", default="red", life=CHANGEABLE)


@dataclass(frozen=True, kw_only=True)
class ToyConfig(Config):
    """A configuration with such a section."""

    quality: Toys = key(table(Toys), "how good models are", default=Toys())


@pytest.fixture(autouse=True)
def _declared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sections, "QualityTable", Toys)


def toys(**quality: Any) -> Any:
    """A configuration, of a type that no checker knows."""
    return ToyConfig.of(tables(**quality))


def tables(**quality: Any) -> dict[str, Any]:
    return {
        "schedule": {"kind": "sliding", "window": 70, "step": 10},
        "budget": {"epsilon": 1.0},
        "records": {"classes": [0, 1], "norm": 1.0},
        "quality": quality,
    }


def test_it_is_read_and_checked() -> None:
    made = toys(bells=3)
    assert (made.quality.bells, made.quality.drums, made.settled().quality.drums) == (3, None, 2)
    with pytest.raises(ConfigError, match=r"quality\.bells must be a whole number from 1 to 9"):
        ToyConfig.of(tables(bells=10))
    with pytest.raises(ConfigError, match=r"quality\.bels .* did you mean quality\.bells\?"):
        ToyConfig.of(tables(bels=3))


def test_a_state_keeps_it_unless_it_may_change() -> None:
    made = toys(bells=3, colour="blue")
    kept = json.loads(made.to_json())["quality"]
    assert (kept["bells"], kept["drums"], kept["colour"]) == (3, 2, "blue")
    fixed = json.loads(made.privacy_json())["quality"]
    assert (fixed["bells"], fixed["drums"], fixed.get("colour")) == (3, 2, None)
    other = ToyConfig.of(tables(bells=4, drums=2, colour="red"))
    assert differences(made.privacy_json(), other.privacy_json()) == [
        "quality.bells: 3 before, now 4"
    ]


def test_an_earlier_state_and_a_key_that_is_left_out() -> None:
    text = ToyConfig.of(tables()).to_json()
    earlier = json.loads(text)
    del earlier["quality"]["drums"]
    state: Any = ToyConfig.from_json(json.dumps(earlier))
    assert state.quality.drums == 7
    assert toys().settled(state).quality.drums == 7
    assert toys(drums=5).settled(state).quality.drums == 5


def test_the_reference_has_it() -> None:
    page = settings_page()
    assert "| `bells` | a whole number from 1 to 9 | `1` | How many bells ring. | all |" in page
    assert {"bells", "drums", "colour"} <= {
        each.name for each in sections.keys_of(sections.sections()["quality"])
    }
