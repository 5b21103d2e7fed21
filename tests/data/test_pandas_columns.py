"""Columns of pandas: the type that it infers from all values does not change how one is read."""

import datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidegate.data.columns import Column
from tidegate.features import Category, Columns, Flag, Number, Text, Time, Vector

MORNING = datetime.datetime(2020, 1, 1, 5)
VALUES: list[Any] = [
    *("UA", "1", "", None, float("nan"), 3, 3.0, True, 2.5, 2**53 + 1, 2**60 + 1, 2**64, 2**70),
    *(1e300, float("inf"), 1 + 2j, 3 + 0j, complex("nan"), Decimal(3), Decimal("NaN"), b"1"),
    *((1, 2), [1.0, 2.0], MORNING.date(), MORNING, MORNING.replace(tzinfo=datetime.UTC)),
    *(datetime.datetime(1, 1, 1), datetime.datetime(9999, 12, 31), pd.Timestamp(MORNING), pd.NaT),
    *(pd.NA, np.datetime64("2020-01-01"), np.float32(0.1), np.int8(3), np.bool_(True)),
    *(datetime.timedelta(1), pd.Period("2020-01"), pd.Interval(0, 1)),
]
KINDS: list[Column] = [
    *(Number("c", low=0, high=10), Category("c", values=["UA", "3", "true"])),
    *(Category("c", hash=64), Flag("c"), Time("c"), Text("c", size=8)),
    Vector("c", size=2, norm=1.0),
]


def rows(column: Column, values: list[Any]) -> list[bytes]:
    frame = pd.DataFrame({"c": pd.Series(values)})
    made = Columns([column]).transform(frame)
    return [np.where(np.isnan(row), np.float32(np.nan), row).tobytes() for row in made]


@pytest.mark.parametrize("column", KINDS, ids=lambda each: each.kind)
@given(places=st.lists(st.sampled_from(range(len(VALUES))), min_size=2, max_size=4))
@settings(max_examples=60, deadline=None)
def test_an_inferred_type_does_not_change_a_value(column: Column, places: list[int]) -> None:
    batch = [VALUES[place] for place in places]
    try:
        pd.Series(batch)
    except Exception:
        return  # pandas cannot hold them together
    assert rows(column, batch) == [rows(column, [value])[0] for value in batch]


def test_a_complex_number_does_not_change_a_real_one() -> None:
    """Beside it, pandas makes every number complex, and a gap, too."""
    number = KINDS[0]
    assert rows(number, [3.0, None, 1 + 2j])[:2] == rows(number, [3.0, None])


def test_periods_in_a_categorical_are_no_numbers() -> None:
    periods = pd.Series([pd.Period("2020-01")])
    for series in (periods, periods.astype("category"), periods.astype(object)):
        made = Columns([KINDS[0]]).transform(pd.DataFrame({"c": series}))
        assert np.isnan(made).all()
