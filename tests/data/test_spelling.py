"""Spelling: a value is known by its text, whatever type holds it, by a rule with a number."""

import pickle
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.checks import InvalidValueError
from tidegate.data.columns import Column
from tidegate.data.feature_map import built_map, described_map
from tidegate.data.intake import Intake
from tidegate.data.predicted import class_codes
from tidegate.data.values import places_in, respelled, spelled
from tidegate.features import Category, Columns, Flag, HashedText, Number, Text, Time
from tidegate.sources.public_records import changed_by_readers

FOUR_PLACES = st.integers(-(10**10), 10**10).map(lambda n: n / 10**4)


@given(st.integers(-(2**53), 2**53) | FOUR_PLACES)
def test_a_number_is_spelled_alike_whatever_holds_it(number: float) -> None:
    text = spelled(number)
    forms: list[Any] = [float(number), Decimal(repr(number)), f"{number:.4f}"]
    forms += [f"{number}.0", str(number)] if isinstance(number, int) else []
    assert {spelled(each) for each in forms} == {text}
    assert respelled(text) == text


@given(st.text())
def test_respelling_twice_changes_nothing(text: str) -> None:
    assert respelled(respelled(text)) == respelled(text)


ALIKE: list[list[Any]] = [["1", "1.0"], [1, "1"], ["true", "TRUE"], ["1", "true"], [0, "false"]]


@pytest.mark.parametrize("listed", ALIKE)
def test_values_that_are_spelled_alike_are_refused(listed: list[Any]) -> None:
    with pytest.raises(InvalidValueError, match="values must differ by rule 2 of spelling"):
        places_in("values", listed)
    with pytest.raises(InvalidValueError, match=r"^column c: values must "):
        Category("c", values=listed)


def test_rule_1_keeps_texts_as_they_are() -> None:
    old = Columns([{"kind": "category", "name": "c", "values": ["1", "1.0"]}], spelling=1)
    assert np.asarray(old.transform([{"c": "1.0"}, {"c": 1.0}])).tolist() == [
        [0, 1, 0, 0],
        [1, 0, 0, 0],
    ]
    new = Columns([Category("c", values=["1.0", "UA"])])
    assert new.get_feature_names_out().tolist()[:2] == ["c=1", "c=UA"]
    assert class_codes(["1", 1, True], [0, 1], rule=1).tolist() == [-1, 1, 1]
    number = Columns([Number("n", low=0, high=1)], spelling=1)
    assert np.isnan(np.asarray(number.transform([["true"]]))).all()


def test_a_card_without_a_rule_has_rule_1() -> None:
    columns = [{"kind": "category", "name": "c", "values": ["1", "1.0"]}]
    built = built_map([{"kind": "Columns", "columns": columns}])
    assert built is not None
    assert built.transform([{"c": "1.0"}])[0].tolist() == [0, 1, 0, 0]
    (step,) = described_map(Columns([Flag("f")]))
    assert step["spelling"] == 2
    assert "spelling" not in described_map(Columns([Flag("f")], spelling=1))[0]


def test_what_an_earlier_version_pickled_keeps_rule_1() -> None:
    for made in (Columns([Flag("f")]), Flag("f"), Intake(norm=1.0)):
        state = {key: value for key, value in vars(made).items() if key != "spelling"}
        copy: Any = pickle.loads(pickle.dumps(made))
        assert copy.spelling == 2
        copy.__dict__.clear()
        copy.__setstate__(state)
        assert copy.spelling == 1


GAPS: list[tuple[Column, list[Any]]] = [
    (Number("c", low=0, high=9, gaps=["-1"]), ["-1", -1, -1.0, "-1.0"]),
    (Flag("c", gaps=["9"]), ["9", 9, 9.0, "9.0"]),
    (Category("c", hash=8, gaps=["-1.0"]), ["-1", -1, -1.0, "-1.0"]),
    (Text("c", size=8, gaps=["0"]), ["0", 0, 0.0, "0.00"]),
    (Time("c", gaps=["1900-01-01"]), ["1900-01-01", pd.Timestamp("1900-01-01")]),
]


@pytest.mark.parametrize(("column", "values"), GAPS, ids=lambda e: str(getattr(e, "kind", "")))
def test_a_gap_is_one_in_every_type(column: Column, values: list[Any]) -> None:
    for value in values:
        assert column.cells([value]).gap.tolist() == [True], value
        arrow = column.cells(pa.array([value, None]))
        assert (arrow.gap.tolist(), arrow.wrong.tolist()) == ([True, True], [False, False]), value


def test_numbers_are_texts_where_texts_are_read() -> None:
    """A file whose texts are all numbers has none, for a library that infers types."""
    intake = Intake(norm=1.0, features=HashedText(n_features=8))
    as_text: Any = intake.records(["42", "high tide", None], None)
    as_numbers: Any = intake.records(pd.Series([42.0, 1.0, None]), None)
    assert as_text.usable.tolist() == as_numbers.usable.tolist() == [True, True, False]
    assert as_text.X.toarray()[0].tolist() == as_numbers.X.toarray()[0].tolist()


@given(st.integers(-(10**14), 10**14) | FOUR_PLACES)
def test_plain_values_are_not_warned_of(number: float) -> None:
    assert not changed_by_readers(number)
    assert not changed_by_readers(str(spelled(number)))
