"""Every key with odd values: taken, or refused in lines that name it and are not long."""

import datetime
from copy import deepcopy
from typing import Any

import numpy as np
import pytest

from tidegate.checks import fraction, written
from tidegate.data.maps.encoded import per_channel
from tidegate.data.maps.fourier import RandomFourier
from tidegate.privacy.person import typical_slots
from tidegate.run.config import Config, ConfigError
from tidegate.run.config.keys import MAX_MISTAKES
from tidegate.run.config.sections import ALL, keys_of, sections

HUGE = 1 << 400_000
"""More digits than Python writes; TOML has such numbers as 0xFF..., which are read in no time."""

ODD: list[Any] = [
    -1,
    0,
    2**53 + 1,
    HUGE,
    -HUGE,
    [HUGE, 1],
    float("nan"),
    -float("inf"),
    1e308,
    1e-300,
    5e-324,
    True,
    "",
    "\0",
    "1/0",
    "9" * 5000,
    "1e9999999",
    "\ud800",
    "x" * 100_000,
    [],
    [[]],
    [{}],
    [float("nan"), 1],
    [1, "x", None],
    {},
    {"a": 1},
    datetime.date(1979, 5, 27),
]

SETTINGS: dict[str, Any] = {
    "schedule": {"kind": "sliding", "window": 300, "step": 100},
    "budget": {"epsilon": 1.0},
    "records": {"classes": [0, 1], "norm": 1.0, "columns": ["a", "b"], "label": "y"},
}

KIND = {"features": "map", "source": "type"}
"""The key that names the kind of a section's table, if it is not `kind`."""


def with_key(section: str, kind: str, key: str, value: Any) -> dict[str, Any]:
    """The settings with one more key, in a table of a kind."""
    given = deepcopy(SETTINGS)
    named = {} if kind == ALL else {KIND.get(section, "kind"): kind}
    if section in {"columns", "features"}:
        return {**given, section: [{"name": "a", **named, key: value}]}
    if section == "schedule.source":
        return {**given, "schedule": {"kind": "twostream", "source": {**named, key: value}}}
    return {**given, section: {**given.get(section, {}), **named, key: value}}


def attempt(given: dict[str, Any]) -> None:
    """Read settings: no error but a ConfigError, with lines that are not long."""
    refused: list[ConfigError] = []
    try:
        Config.of(given)
    except ConfigError as error:
        refused.append(error)
    assert all(len(str(error)) < 10_000 for error in refused)
    assert all(mistake.strip() for error in refused for mistake in error.mistakes)


@pytest.mark.thorough
@pytest.mark.parametrize("section", sections())
def test_every_key_takes_or_refuses_every_value(section: str) -> None:
    for kind, table in sections()[section].items():
        for key in keys_of({kind: table}):
            for value in ODD:
                attempt(with_key(section, kind, key.name, value))


@pytest.mark.parametrize("section", ["not_private_seed", *sections()])
def test_every_section_takes_or_refuses_every_value(section: str) -> None:
    for value in ODD:
        attempt({**SETTINGS, section: value})


@pytest.mark.parametrize("place", ["schedule.forget", "survey.share", "person.typical"])
def test_a_whole_number_of_too_many_digits_is_named_by_its_key(place: str) -> None:
    section, key = place.split(".")
    kind = "fading" if section == "schedule" else ALL
    with pytest.raises(ConfigError, match=rf"{place} must be .*, got a number of too many digits"):
        Config.of(with_key(section, kind, key, HUGE))


def test_cuts_are_no_larger_than_a_float() -> None:
    with pytest.raises(ConfigError, match=r"records\.cuts must be a list of one or more numbers"):
        Config.of(with_key("records", ALL, "cuts", [0, HUGE]))


def test_checks_of_single_values_refuse_them_too() -> None:
    assert written(HUGE) == ""
    for check in (lambda v: fraction("forget", v), typical_slots, lambda v: per_channel("m", [v])):
        with pytest.raises(ValueError, match="must be a"):
            check(HUGE)


def test_the_largest_gamma_maps_without_a_warning() -> None:
    rows = np.array([[0.0, 0.0], [1.0, -1.0]])
    features = RandomFourier(n_components=4, gamma=1e308, seed=1).transform(rows)
    assert np.isfinite(features).all()
    np.testing.assert_allclose(features[0], [0.5] * 4 + [0.0] * 4, atol=1e-15)


@pytest.mark.parametrize("kind", ["output", "gradient"])
@pytest.mark.parametrize("pull", [1e308, 1e151, 1e-50, 1e-100, 1e-300, 5e-324])
@pytest.mark.parametrize("norm", [1e-18, 1.0, 1e18])
def test_an_absurd_regularization_is_taken_or_named(kind: str, pull: float, norm: float) -> None:
    given = with_key("learner", kind, "regularization", pull)
    given["records"]["norm"] = norm
    if kind == "gradient":
        given["budget"]["delta"] = 1e-6
    if kind == "output" or pull > 1:
        with pytest.raises(ConfigError, match=r"learner\.regularization must be at (least|most) "):
            Config.of(given)
    else:
        Config.of(given)


def test_many_mistakes_are_counted_and_long_names_are_cut() -> None:
    with pytest.raises(ConfigError) as refused:
        Config.of({**SETTINGS, **{f"table{i}": {} for i in range(9_999)}})
    assert len(refused.value.mistakes) == 9_999
    lines = str(refused.value).splitlines()
    assert len(lines) == MAX_MISTAKES + 1
    assert lines[-1] == f"{9_999 - MAX_MISTAKES:,} more mistakes follow"
    with pytest.raises(ConfigError) as refused:
        Config.of({**SETTINGS, "x" * 100_000: 1})
    assert str(refused.value).startswith(f"{'x' * 60}… is not a known key")
