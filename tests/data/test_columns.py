"""The laws of columns: each record by itself, bounded exactly, read alike whatever holds it."""

import json
import pickle
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from typing import Any, cast

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray
from scipy.sparse import issparse
from sklearn.base import clone

from tests.data.tables import COLUMNS, COMPLETE, NAMES, tables, texts, values
from tidegate.checks import InvalidValueError
from tidegate.data.columns import KINDS, Column, Table, column_of
from tidegate.data.columns.column import Cells
from tidegate.data.columns.table import WIDEST, as_table, columns_in
from tidegate.data.feature_map import built_map, described_map
from tidegate.data.intake import Intake
from tidegate.features import Category, Columns, Flag, Number, Text, Time, Vector

every_column = pytest.mark.parametrize(
    "column",
    [*COLUMNS, *COMPLETE],
    ids=[*(each.name for each in COLUMNS), *(f"{each.name} complete" for each in COMPLETE)],
)
DENSE = tuple(each for each in COLUMNS if each.width <= WIDEST)


def dense(rows: Any) -> NDArray[Any]:
    return np.asarray(rows.toarray() if issparse(rows) else rows)


def bits(rows: Any) -> bytes:
    made = dense(rows)
    return np.where(np.isnan(made), np.nan, made).tobytes()


def features(column: Column, given: Any) -> NDArray[Any]:
    return dense(Columns([column]).transform({column.name: given}))


def test_every_kind_is_here() -> None:
    assert {type(each) for each in COLUMNS} == set(KINDS.values())


# --- each record by itself


def alone(made: Any, rows: list[dict[str, Any]]) -> bool:
    """Whether each record has the same features in the batch, by itself, and among copies."""
    whole = dense(made.transform(rows))
    for place, row in enumerate(rows):
        others = [dense(made.transform(batch)) for batch in ([row], [*rows[::-1], row, *rows])]
        for batch in others:
            own = batch[0] if len(batch) == 1 else batch[len(rows)]
            if own.shape != whole[place].shape or bits(own) != bits(whole[place]):
                return False
    return True


@pytest.mark.thorough
@given(tables())
@settings(max_examples=60)
def test_features_depend_on_their_own_record_alone(rows: list[dict[str, Any]]) -> None:
    assert alone(Columns(COLUMNS), rows)
    assert alone(Columns(DENSE), rows)


class CodesOfTheBatch(Columns):
    """Planted: categories are numbered as they come."""

    def transform(self, X: Any) -> Any:
        codes = pd.factorize(pd.Series([str(row["c"]) for row in X]))[0]
        return np.eye(9)[np.minimum(codes, 8)]


class WidthOfTheBatch(Columns):
    """Planted: as many columns as the batch has categories."""

    def transform(self, X: Any) -> Any:
        found = sorted({str(row["c"]) for row in X})
        return np.array([[str(row["c"]) == each for each in found] for row in X], float)


class RangeOfTheBatch(Columns):
    """Planted: numbers are scaled by the largest that is there."""

    def transform(self, X: Any) -> Any:
        lengths = np.array([float(len(str(row["c"]))) for row in X])
        return (lengths / max(lengths.max(), 1.0))[:, None]


@pytest.mark.parametrize("mistake", [CodesOfTheBatch, WidthOfTheBatch, RangeOfTheBatch])
def test_a_map_that_reads_the_batch_is_caught(mistake: type[Columns]) -> None:
    rows = [dict.fromkeys(NAMES, value) for value in ("UA", "AA long", "B")]
    assert not alone(mistake(COLUMNS), rows)
    assert alone(Columns(COLUMNS), rows)


# --- one value has one meaning, whatever holds it


def same_cells(column: Column, one: Cells, other: Cells) -> None:
    assert one.gap.tolist() == other.gap.tolist()
    assert one.wrong.tolist() == other.wrong.tolist()
    kept = ~(one.gap | one.wrong)
    outs = [np.zeros((kept.size, column.width), np.float32) for _ in range(2)]
    for cells, out in zip((one, other), outs, strict=True):
        column.encode(cells, out)
        sparse = dense(column.sparse(cells))
        assert np.array_equal(sparse[~one.wrong], out[~one.wrong])
    assert outs[0][~one.wrong].tobytes() == outs[1][~one.wrong].tobytes()


def one_by_one(column: Column, given: list[Any]) -> Cells:
    cells = [column.cells([value]) for value in given]
    return Cells(
        np.concatenate([each.values for each in cells]),
        np.concatenate([each.gap for each in cells]),
        np.concatenate([each.wrong for each in cells]),
    )


def in_arrow(given: list[Any]) -> pa.Array | None:
    try:
        return pa.array(given, from_pandas=False)
    except Exception:
        return None


@pytest.mark.thorough
@every_column
@given(data=st.data())
@settings(max_examples=150)
def test_arrays_of_texts_are_read_as_each_text_is(column: Column, data: st.DataObject) -> None:
    given = data.draw(st.lists(texts | st.none(), min_size=1, max_size=8))
    array = in_arrow(given)
    if array is not None and array.type != pa.null():
        same_cells(column, one_by_one(column, given), column.cells(array))
        same_cells(column, one_by_one(column, given), column.cells(array.dictionary_encode()))


@every_column
@given(data=st.data())
@settings(max_examples=80)
def test_arrays_of_any_type_are_read_as_each_value_is(column: Column, data: st.DataObject) -> None:
    kinds: list[tuple[pa.DataType, st.SearchStrategy[Any]]] = [
        (pa.float64(), st.floats()),
        (pa.float32(), st.floats(width=32)),
        (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
        (pa.uint8(), st.integers(0, 255)),
        (pa.bool_(), st.booleans()),
        (pa.timestamp("us"), st.datetimes()),
        (pa.date32(), st.dates()),
        (pa.list_(pa.float64(), 3), st.lists(st.floats(), min_size=3, max_size=3)),
        (pa.list_(pa.int32()), st.lists(st.integers(-9, 9), min_size=2, max_size=4)),
    ]
    kind, some = data.draw(st.sampled_from(kinds))
    given = data.draw(st.lists(some | st.none(), min_size=1, max_size=6))
    array = pa.array(given, kind)
    same_cells(column, one_by_one(column, array.to_pylist()), column.cells(array))
    same_cells(column, column.cells(array), column.cells(array.slice(0)))


@every_column
@given(data=st.data())
@settings(max_examples=80)
def test_objects_in_pandas_are_read_as_each_is(column: Column, data: st.DataObject) -> None:
    odd = st.sampled_from([b"1", bytearray(b"1"), Decimal("NaN"), Decimal("sNaN"), pd.NaT, pd.NA])
    given = data.draw(st.lists(texts | odd | st.just(np.nan) | st.just(1), min_size=1, max_size=4))
    frame = pd.DataFrame({column.name: pd.Series(given, dtype=object)})
    table = as_table(frame, [column.name])
    same_cells(column, one_by_one(column, given), column.cells(table.columns[column.name]))


@every_column
def test_one_value_that_is_no_object_affects_its_own_record_alone(column: Column) -> None:
    """A text that is not UTF-8, and a time that Python cannot hold: Parquet files allow both."""
    data = [pa.py_buffer(np.array([0, 1, 2], np.int32).tobytes()), pa.py_buffer(b"\xff1")]
    broken = pa.Array.from_buffers(pa.string(), 2, [None, *data])
    for array in (broken, broken.dictionary_encode()):
        same_cells(column, column.cells(broken.slice(1)), column.cells(array).part(slice(1, 2)))
    for unit in ("s", "us", "ns"):
        times = pa.array([2**62, 0]).cast(pa.timestamp(unit))
        same_cells(column, column.cells(times.slice(1)), column.cells(times).part(slice(1, 2)))


@pytest.mark.parametrize("number", [3, -(10**15), 2**53 + 1, 10**18, 2**63 - 1])
def test_a_category_is_the_same_if_pandas_makes_floats_of_numbers(number: int) -> None:
    """It does so if another record has none."""
    column = Category("c", values=[number])
    whole, gap = pd.DataFrame({"c": [number, 7]}), pd.DataFrame({"c": [number, None]})
    assert whole.dtypes["c"] != gap.dtypes["c"]
    assert features(column, whole["c"])[0].tolist() == [1, 0, 0]
    assert features(column, gap["c"])[0].tolist() == [1, 0, 0]


def test_all_kinds_of_tables_give_the_same_features() -> None:
    columns = Columns(
        [
            Number("age", low=0, high=80),
            Category("sex", values=["f", "m"]),
            Flag("smoker"),
            Time("when", parts=["hour"]),
        ]
    )
    rows: list[dict[str, Any]] = [
        {"age": 20.0, "sex": "m", "smoker": True, "when": pd.Timestamp("2020-01-01 06:00")},
        {"age": None, "sex": None, "smoker": None, "when": None},
        {"age": 60.0, "sex": "x", "smoker": False, "when": pd.Timestamp("2020-01-01 18:00")},
    ]
    frame = pd.DataFrame(rows)
    arrow = pa.Table.from_pylist(rows)
    expected = columns.transform(rows)
    batches = {
        "frame": frame,
        "more columns in another order": frame[frame.columns[::-1]].assign(extra=1),
        "categorical": frame.astype({"sex": "category"}),
        "nullable": frame.convert_dtypes(),
        "arrow": arrow,
        "chunked": pa.concat_tables([arrow.slice(0, 1), arrow.slice(1)]),
        "dict": {name: [row[name] for row in rows] for name in rows[0]},
        "lists": [list(row.values()) for row in rows],
        "objects": frame.astype(object).to_numpy(),
        "table": Table({name: [row[name] for row in rows] for name in rows[0]}, 3),
    }
    for name, batch in batches.items():
        assert bits(columns.transform(batch)) == bits(expected), name


# --- bounded, exactly


def squared_norm(row: NDArray[Any]) -> Fraction:
    return sum((Fraction(float(each)) ** 2 for each in row if each), Fraction(0))


@every_column
@given(data=st.data())
@settings(max_examples=60)
def test_no_value_of_a_column_is_longer_than_its_bound(column: Column, data: st.DataObject) -> None:
    given = data.draw(st.lists(values, min_size=1, max_size=6))
    for row in features(column, given):
        assert np.isnan(row).any() or squared_norm(row) <= column.squared_norm


@every_column
@given(data=st.data())
@settings(max_examples=60)
def test_no_packed_numbers_become_features_beyond_the_bound(
    column: Column, data: st.DataObject
) -> None:
    """Whoever can write to a state can write any numbers there."""
    shape = (3, min(column.packed_width, 40))
    packed = np.zeros((3, column.packed_width), np.float32)
    packed[:, -shape[1] :] = data.draw(arrays(np.float32, shape, elements=st.floats(width=32)))
    out = np.zeros((3, column.width), np.float32)
    column.unpack(packed, out)
    assert np.isfinite(out).all()
    for row in out:
        assert squared_norm(row) <= column.squared_norm


@given(tables(DENSE))
@settings(max_examples=40)
def test_packing_loses_nothing(rows: list[dict[str, Any]]) -> None:
    columns = Columns(DENSE)
    packed, made = columns.pack(rows), columns.transform(rows)
    wrong = np.isnan(made).any(axis=1)
    assert packed.shape == (len(rows), columns.packed_width)
    assert np.isnan(packed[wrong]).all()
    assert bits(columns.unpack(packed[~wrong])) == bits(made[~wrong])


def test_every_time_of_a_day_is_within_the_bound() -> None:
    seconds = np.arange("2013-06-01", "2013-06-02", dtype="datetime64[s]")
    column = Time("t", parts=["hour"])
    cells = column.cells(pa.array(seconds))
    out = np.zeros((seconds.size, column.width), np.float32)
    column.encode(cells, out)
    exact = (out.astype(np.float64) ** 2).sum(axis=1)  # squares of float32 are exact in float64
    assert exact.max() <= 1
    assert exact.min() > 1 - 1e-5


@given(tables(DENSE))
@settings(max_examples=40)
def test_clipping_leaves_every_row_as_it_is(rows: list[dict[str, Any]]) -> None:
    columns = Columns(DENSE)
    made = columns.transform(rows)
    kept = Intake(norm=columns.norm, features=columns).records(rows, None)
    usable = ~np.isnan(made).any(axis=1)
    assert kept.usable.tolist() == usable.tolist()
    assert bits(kept.X[usable]) == bits(made[usable])
    for row in kept.X:
        assert squared_norm(row) <= Fraction(columns.norm) ** 2


def test_the_norm_follows_from_the_columns() -> None:
    columns = Columns(COLUMNS)
    assert sum(each.squared_norm for each in COLUMNS) == 13
    assert Fraction(columns.norm) ** 2 > 13
    assert columns.norm < 13**0.5 * (1 + 2**-19)


# --- gaps and others


def test_a_gap_is_a_value() -> None:
    for column in COLUMNS:
        for gap in ("", None, float("nan"), *column.gap_texts):
            row = features(column, [gap])[0]
            assert row[-1] == 1, (column.name, gap)
            assert np.count_nonzero(row) == 1
            assert column.names[-1].endswith("missing")


@pytest.mark.parametrize("text", ["NA", "n/a", "NULL", "None", "nan"])
def test_usual_words_for_nothing_are_gaps_unless_they_can_be_a_category(text: str) -> None:
    for column in COLUMNS:
        is_value = isinstance(column, Category | Text) and text not in column.gap_texts
        assert features(column, [text])[0][-1] == (not is_value), column.name


def test_what_contradicts_its_kind_cannot_be_used() -> None:
    wrong = {"n": "x", "c": [1], "f": "maybe", "t": "2013-02-30", "w": [3], "v": [1, 2]}
    for column in COLUMNS:
        if column.name in wrong:
            assert np.isnan(features(column, [wrong[column.name]])).all()


COMPLETE_ROW = {
    "n": "1.5", "c": "UA", "only": "AA", "full": "zzz", "h": "x", "f": "no",
    "t": "2013-01-31 10:00", "w": "high tide", "v": [1, 2, 2],
}  # fmt: skip


def test_a_column_without_gaps_has_no_feature_for_them() -> None:
    row = Columns(COMPLETE).transform([COMPLETE_ROW])
    assert np.isfinite(row).all()
    assert row.shape == (1, sum(each.width for each in COMPLETE))
    for column in COMPLETE:
        usual = replace(column, gaps=())
        if isinstance(usual, Category):
            usual = replace(usual, others=None)
        assert column.squared_norm == usual.squared_norm
        kept = [each for each in usual.names if each in column.names]
        assert tuple(kept) == column.names
        assert [each for each in usual.names if each not in kept] == [
            f"{column.name} {word}"
            for word, key in (("other", "others"), ("missing", "gaps"))
            if key in column.without
        ]
        given = [COMPLETE_ROW[column.name]]
        places = [usual.names.index(each) for each in kept]
        assert bits(features(column, given)) == bits(features(usual, given)[:, places])


@pytest.mark.parametrize("rule", [1, 2])
@pytest.mark.parametrize("gap", ["", None, float("nan"), pd.NA])
def test_a_gap_in_a_column_without_gaps_makes_its_own_record_unusable(gap: Any, rule: int) -> None:
    for column in COMPLETE:
        both = Columns(COMPLETE, rule)
        rows = both.transform([COMPLETE_ROW, {**COMPLETE_ROW, column.name: gap}, COMPLETE_ROW])
        lost = column.gaps is False
        assert np.isnan(rows).any(axis=1).tolist() == [False, lost, False], column.name
        assert bits(rows[[0, 2]]) == bits(both.transform([COMPLETE_ROW] * 2))
        assert both.bad([{**COMPLETE_ROW, column.name: gap}])[column.name].tolist() == [lost]


@pytest.mark.parametrize("held", [list, pa.array, pd.Series])
def test_a_value_that_is_not_listed_is_unusable_without_others(held: Any) -> None:
    column = Category("c", values=["a", "1"], others=False)
    rows = features(column, held(["a", "zzz", "", "1.0", "true", "2"]))
    assert column.names == ("c=a", "c=1", "c missing")
    assert np.isnan(rows).any(axis=1).tolist() == [False, True, False, False, False, True]
    assert rows[[0, 2, 3, 4]].argmax(axis=1).tolist() == [0, 2, 1, 1]


def test_only_what_is_said_is_on_a_card() -> None:
    assert "gaps" not in Flag("f").described()
    assert "others" not in Category("c", values=["a"]).described()
    assert Category("c", values=["a"], others=cast(Any, True)) == Category("c", values=["a"])
    assert Flag("f", gaps=False).described() == {"kind": "flag", "name": "f", "gaps": False}
    known = Category("c", values=["a"], others=False, gaps=False)
    assert known.described()["others"] is known.described()["gaps"] is False
    assert known.explained == "category, 1 values, no gaps, no others"
    assert known.shown == "c (gaps = false, others = false)"


def test_a_column_that_an_earlier_version_pickled_may_have_gaps() -> None:
    for column in COLUMNS:
        state = {**column.__dict__}
        state.pop("others", None)
        old = object.__new__(type(column))
        old.__setstate__(state)
        assert (old.without, old.width) == ((), column.width)


@given(tables(COMPLETE))
@settings(max_examples=40)
def test_records_of_complete_columns_are_read_by_themselves(rows: list[dict[str, Any]]) -> None:
    both = [*rows, COMPLETE_ROW]
    assert alone(Columns(COMPLETE), both)
    assert bits(Columns(COMPLETE).transform(both)[-1:]) == bits(
        Columns(COMPLETE).transform([COMPLETE_ROW])
    )


def test_a_category_that_is_not_listed_is_other() -> None:
    column = Category("c", values=["a", "b"])
    assert features(column, ["b", "zzz", "a"]).argmax(axis=1).tolist() == [1, 2, 0]


# --- cards, copies, names


@every_column
def test_a_column_survives_its_card(column: Column) -> None:
    assert column_of(json.loads(json.dumps(column.described()))) == column


def test_a_map_survives_its_card_and_copies() -> None:
    columns = Columns(COLUMNS)
    steps = json.loads(json.dumps(described_map(columns)))
    row = [dict.fromkeys(NAMES, "2013-01-31")]
    built = built_map(steps)
    assert built is not None
    assert columns_in(steps) is not None
    assert columns_in([{"kind": "AppendIntercept", "value": 1.0}]) is None
    for copy in (built, clone(columns), pickle.loads(pickle.dumps(columns))):
        assert bits(copy.transform(row)) == bits(columns.transform(row))


def test_names_are_as_many_as_features() -> None:
    for column in COLUMNS:
        assert len(column.names) == column.width
        assert all(name.startswith(column.name) for name in column.names)
    assert len(Columns(DENSE).get_feature_names_out()) == Columns(DENSE).width


def test_features_have_names_in_pandas() -> None:
    columns = Columns([Number("age", low=0, high=80)]).set_output(transform="pandas")
    made = columns.fit().transform(pd.DataFrame({"age": [20]}))
    assert list(made.columns) == ["age", "age missing"]


# --- one clear line


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Number("a", low=1, high=1), "column a: low must be below high, got 1 and 1"),
        (lambda: Number("a", low=cast(Any, "0"), high=1), "column a: low must be a number above"),
        (lambda: Number("a", low=0, high=float("inf")), "column a: high must be a number above"),
        (lambda: Number("", low=0, high=1), "name must be the name of a column"),
        (lambda: Category("a"), "column a: values or hash must be given, got neither"),
        (lambda: Category("a", values=["x"], hash=4), "values or hash must be given, got both"),
        (lambda: Category("a", values=["x", "x"]), "a list without repeats, got 'x' twice"),
        (lambda: Category("a", values=[3, "3"]), "a list without repeats, got '3' twice"),
        (lambda: Category("a", values=range(5)), "a list of different texts or whole numbers"),
        (
            lambda: Category("a", values=[str(i) for i in range(10**6)]),
            "a list of at most 10,000 values .use hash = 1024 instead., got 1,000,000",
        ),
        (lambda: Category("a", hash=1), "hash must be a whole number from 2"),
        (lambda: Time("a", parts=["minute"]), "a list of some of hour, weekday, month, year"),
        (lambda: Time("a", parts=["year"]), "low and high must be years"),
        (lambda: Time("a", low=1, high=2), 'add "year" to parts'),
        (lambda: Text("a", words=(), characters=()), "words or characters must be given"),
        (lambda: Vector("a", size=0, norm=1.0), "size must be a whole number from 1"),
        (lambda: Vector("a", size=2, norm=-1.0), "norm must be a number above"),
        (lambda: Flag("a", gaps="x"), "gaps must be a list of different texts"),
        (lambda: Flag("a", gaps=cast(Any, True)), "gaps must be a list of .* or false for a col"),
        (lambda: Category("a", values=["x"], others=cast(Any, "no")), "others must be true or fal"),
        (lambda: Category("a", hash=4, others=False), "a: others = false needs values: with hash"),
        (lambda: Columns([]).transform([]), "columns must be a list of columns"),
        (lambda: Columns([Flag("a"), Flag("a")]).norm, "column a is named 2 times"),
        (lambda: Columns([{"kind": "money", "name": "a"}]).norm, "one of number, category"),
        (lambda: Columns([Flag("a")]).transform(pd.DataFrame({"b": [1]})), "X lacks the column a"),
        (lambda: Columns([Flag("a")]).transform([[1, 2]]), "X has 2 features, but 1 were expected"),
        (lambda: Columns([Flag("a")]).transform("a"), "X must be a table with the columns a"),
    ],
)
def test_a_mistake_gets_one_clear_line(make: Any, message: str) -> None:
    with pytest.raises(InvalidValueError, match=message) as caught:
        make()
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 250
