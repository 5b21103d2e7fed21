"""Columns of every kind, and values of all sorts for them."""

from datetime import date, datetime
from decimal import Decimal
from typing import Any

import numpy as np
from hypothesis import strategies as st

from tidegate.data.columns import Column
from tidegate.features import Category, Flag, Number, Text, Time, Vector

COLUMNS: tuple[Column, ...] = (
    Number("n", low=-2, high=7.5),
    Number("log", low=0, high=1e6, log=True, gaps=("?", " x ")),
    Category("c", values=["UA", "AA", 3, "é"], gaps=("-",)),
    Category("h", hash=5, gaps=("-",)),
    Flag("f", gaps=("?",)),
    Time("t", parts=("month", "hour", "year", "weekday"), low=1990, high=2030),
    Time("hour", parts=("hour",), gaps=("never", "2013-01-31", "2013-01-31 10:00")),
    Text("w", size=16),
    Text("wide", size=5000, words=(1, 2), characters=(2, 3), gaps=("none",)),
    Vector("v", size=3, norm=2.5),
)

COMPLETE: tuple[Column, ...] = (
    Number("n", low=-2, high=7.5, gaps=False),
    Category("c", values=["UA", "AA", 3, "é"], others=False, gaps=False),
    Category("only", values=["UA", "AA", 3, "é"], others=False, gaps=("-",)),
    Category("full", values=["UA", "AA", 3, "é"], gaps=False),
    Category("h", hash=5, gaps=False),
    Flag("f", gaps=False),
    Time("t", parts=("year", "month", "hour"), low=1990, high=2030, gaps=False),
    Text("w", size=16, gaps=False),
    Vector("v", size=3, norm=2.5, gaps=False),
)
"""Columns that are said to be without gaps or other values."""

NAMES = [each.name for each in COLUMNS]


class Odd:
    """An object that is equal to nothing and raises when compared."""

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("compared")

    __hash__ = object.__hash__


ODD = Odd()

texts = st.sampled_from(
    [
        *("", " ", "x", "?", "-", " x ", "UA", "AA", "3", "3.0", "é", "UA ", "other", "none", "NA"),
        *("yes", "No", "TRUE", "0", "1", "maybe", "nan", "-NaN", "inf", "-Infinity", "1e999"),
        *("1.5", " -2e3 ", "+7", "7.", ".5", "1_000", "0x10", "1e5", "٣", "1,5", "nan(1)"),
        *("2013-01-31", "2013-01-31T10:00:00Z", "2013-01-31 10:00", "2013-02-30", "0000-01-01"),
        *("2013-01-31T10:00:00.123456789+05:30", "9999-12-31T23:59:59Z", "2013-1-1", "24:00"),
        *("2013-01-31T24:00:00", "2013-01-31T10:00:60", "2013-01-31T10", "20130131", "\ud800"),
        *("2013-01-31T10:00:00,5", "2013-01-31T10:00Z", "2013-01-31T10:00:00+0530", "0001-01-01"),
        *("[1, 2, 3]", "[1, 2]", "[1, 2, null]", "[1e400, 2, 3]", "{}", "high tide low tide"),
    ]
) | st.text(max_size=6)

numbers = (
    st.floats()
    | st.integers()
    | st.sampled_from([10**400, -(2**63), np.float32(1.5), np.int8(3), Decimal("2.5"), True, False])
)

others: st.SearchStrategy[Any] = st.sampled_from(
    [None, ODD, b"x", (), [1.0, 2.0, 3.0], [1, 2], [1, float("inf"), 2], np.ones(3), {}, 1j]
)

times = (
    st.dates().map(lambda day: day)
    | st.datetimes()
    | st.sampled_from(
        [date(1, 1, 1), datetime(9999, 12, 31, 23, 59, 59), np.datetime64("2013-01-31T10:00:00")]
    )
)

values = texts | numbers | others | times


def tables(columns: tuple[Column, ...] = COLUMNS) -> st.SearchStrategy[list[dict[str, Any]]]:
    """Records with any values."""
    row = st.fixed_dictionaries({each.name: values for each in columns})
    return st.lists(row, min_size=1, max_size=6)
