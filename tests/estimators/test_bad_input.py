"""Whatever comes in: a record keeps its slot, or the batch is refused as if it had never come."""

import datetime
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pandas
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import sparse

from tests.estimators.estimators import (
    CLASSIFIERS,
    STREAMS,
    StreamEstimator,
    all_faces,
    batch_for,
    classifier,
    private_histogram,
    private_mean,
    same,
    state,
    weights,
)
from tidegate import (
    GrowingRegressor,
    PrivateClassifier,
    PrivateHistogram,
    PrivateMean,
    PureDP,
    SlidingWindowClassifier,
    TwoStreamClassifier,
)
from tidegate.checks import InvalidValueError
from tidegate.data.intake import CategoryIntake, Intake
from tidegate.data.predicted import Classes, class_codes, codes_of
from tidegate.data.records import Records
from tidegate.data.values import as_labels
from tidegate.features import AppendIntercept, HashedText
from tidegate.learn import GradientPerturbation, OutputPerturbation
from tidegate.learn.learner import Task, Terms, Weights
from tidegate.privacy.noise import Bits

SECRET = 31337.25
"""An entry of a record: no error may quote it."""

INTAKE = Intake(norm=5.0, predicted=Classes([0, 1]))


class Missing:
    """What cannot be looked at."""

    def __repr__(self) -> str:
        return "missing"

    def __array__(self, dtype: object = None, copy: object = None) -> Any:
        raise RuntimeError("no array")


MISSING = Missing()

# What a record may hold, and what is read of it: None where it cannot be used.
ENTRIES: list[tuple[Any, float | None]] = [
    (2, 2.0),
    (2.5, 2.5),
    (True, 1.0),
    (np.True_, 1.0),
    (np.float32(0.1), float(np.float32(0.1))),
    (np.float16(0.5), 0.5),
    (np.int8(-3), -3.0),
    (np.array(1.5), 1.5),
    (np.longdouble(1.5), 1.5),
    ("2.5", 2.5),
    (b"2.5", 2.5),
    (Decimal("1.25"), 1.25),
    (Fraction(1, 2), 0.5),
    (2**60 + 1, float(2**60)),
    (2**70, float(2**70)),
    (10**400, None),
    (-0.0, 0.0),
    (float("nan"), None),
    (float("inf"), None),
    (-np.inf, None),
    ("inf", None),
    ("tide", None),
    ("", None),
    (None, None),
    (1 + 2j, None),
    (np.complex64(1), 1.0),
    ("True", 1.0),
    ("false", 0.0),
    ("tRUE", None),
    (datetime.date(2024, 2, 29), None),
    (np.datetime64("2024-02-29"), None),
    (np.timedelta64(3, "s"), None),
    ([1.0], None),
    ({"foo": "bar"}, None),
    (np.array([1.0, 2.0]), None),
    (MISSING, None),
]
LABELS: list[tuple[Any, int]] = [
    (0, 0),
    (1, 1),
    (1.0, 1),
    (True, 1),
    (np.int64(1), 1),
    (np.float32(1), 1),
    ("1", 1),
    ("1.0", 1),
    ("0.00", 0),
    ("TRUE", 1),
    ("01", -1),
    ("1e0", -1),
    (b"1", 1),
    (1 + 0j, 1),
    (1j, -1),
    (2, -1),
    (0.5, -1),
    (None, -1),
    (float("nan"), -1),
    (2**53 + 1, -1),
    ([1], -1),
    ({}, -1),
    (MISSING, -1),
]


def rowwise(intake: Intake, rows: list[Any], labels: list[Any]) -> list[Records]:
    return [intake.records([row], [label]) for row, label in zip(rows, labels, strict=True)]


def stacked(parts: list[Records]) -> tuple[list[Any], list[int], list[bool]]:
    return (
        [row.tolist() for part in parts for row in part.X],
        [int(code) for part in parts for code in part.y],
        [bool(use) for part in parts for use in part.usable],
    )


@pytest.mark.parametrize(("entry", "number"), ENTRIES, ids=lambda value: repr(value)[:30])
def test_entries(entry: Any, number: float | None) -> None:
    records = INTAKE.records([[entry, 0.0]], [0])
    assert records.usable.tolist() == [number is not None]
    expected = 0.0 if number is None else np.clip(number, -5, 5)
    assert np.allclose(records.X, [[expected, 0]], rtol=1e-12)


@pytest.mark.parametrize(("label", "code"), LABELS, ids=lambda value: repr(value)[:30])
def test_labels(label: Any, code: int) -> None:
    records = INTAKE.records([[1.0]], [label])
    assert (records.usable.tolist(), records.y.tolist()) == ([code >= 0], [max(code, 0)])


entries = st.sampled_from([entry for entry, _ in ENTRIES])
batches = st.lists(
    st.tuples(
        st.lists(entries, min_size=3, max_size=3),
        st.sampled_from([label for label, _ in LABELS]),
    ),
    min_size=1,
    max_size=6,
)


@given(batches, st.sampled_from(["lists", "tuples", "objects"]))
@example([([[1.0], [2.0], [3.0]], 1), ([1.0, 2.0, 3.0], 1)], "lists")
@example([([1.0, True, 2], 1), ([1.0, "x", 2], "a")], "lists")
def test_each_record_is_cleaned_by_itself(batch: list[tuple[list[Any], Any]], kind: str) -> None:
    """Whatever stands beside it, and whatever dtype the whole would get."""
    rows, labels = [row for row, _ in batch], [label for _, label in batch]
    X: Any = [tuple(row) for row in rows] if kind == "tuples" else rows
    y: Any = labels
    if kind == "objects":
        X, y = np.empty((len(rows), 3), object), np.empty(len(rows), object)
        for i, row in enumerate(rows):
            y[i] = labels[i]
            for j, entry in enumerate(row):
                X[i, j] = entry
    assert stacked([INTAKE.records(X, y)]) == stacked(rowwise(INTAKE, rows, labels))


def dense(records: Records) -> Any:
    rows: Any = records.X
    return rows.toarray() if sparse.issparse(rows) else rows


finite = st.floats(width=32) | st.sampled_from([1e30, -1e-30, 0.0, np.nan, np.inf])


@given(st.lists(st.lists(finite, min_size=2, max_size=2), min_size=1, max_size=8), st.booleans())
def test_each_row_of_an_array_is_cleaned_by_itself(rows: list[list[float]], narrow: bool) -> None:
    X = np.array(rows, np.float32 if narrow else np.float64)
    y = [0] * len(rows)
    whole = INTAKE.records(X, y)
    assert whole.X.dtype == X.dtype
    for container in (np.asarray, np.asfortranarray, sparse.csr_array, sparse.coo_array):
        intake = INTAKE.after(INTAKE.records(container(X[:1]), [0]))
        together = intake.records(container(X), y)
        alone = [intake.records(container(X[i : i + 1]), [0]) for i in range(len(X))]
        assert np.array_equal(dense(together), np.vstack([dense(part) for part in alone]))
        assert together.usable.tolist() == whole.usable.tolist()


@given(st.lists(st.sampled_from([label for label, _ in LABELS])))
def test_codes_against_looking_each_label_up(labels: list[Any]) -> None:
    known = {repr(label): code for label, code in LABELS}
    assert class_codes(labels, [0, 1]).tolist() == [known[repr(label)] for label in labels]


@given(
    st.lists(st.integers(-3, 3) | st.sampled_from([2**53 - 1, 2**53 + 1]), min_size=1, unique=True),
    st.lists(st.integers(-4, 4) | st.sampled_from([0.5, np.nan, np.inf, 2.0**53])),
    st.sampled_from([np.int8, np.int64, np.uint64, np.float32, np.float64]),
)
def test_an_array_of_labels_is_looked_up_as_its_labels_are(
    classes: list[int], labels: list[float], dtype: Any
) -> None:
    with np.errstate(invalid="ignore"):
        y = np.array(labels, np.float64).astype(dtype)
    assert codes_of(y, classes).tolist() == class_codes(as_labels(y), classes).tolist()


X, Y = batch_for(None, records=12)


def masked() -> Any:
    values = np.ma.MaskedArray(X.copy(), mask=np.zeros(X.shape))
    values[3, 1] = np.ma.masked
    return values


def with_nan(container: Any) -> Any:
    values = X.copy()
    values[3, 1] = np.nan
    return container(values)


def doubled(values: Any) -> Any:
    """A sparse matrix that stores each entry as two halves."""
    rows, columns = np.indices(values.shape).reshape(2, -1)
    halves = np.concatenate([values.ravel() / 2] * 2)
    places = (np.concatenate([rows, rows]), np.concatenate([columns, columns]))
    return sparse.coo_array((halves, places), values.shape)


ARRAYS: dict[str, tuple[Any, int]] = {
    "float64": (X, 0),
    "float32": (X.astype(np.float32), 0),
    "float16": (X.astype(np.float16), 0),
    "integers": (X.astype(np.int64), 0),
    "unsigned": (X.astype(np.uint8, casting="unsafe"), 0),
    "bools": (X > 0, 0),
    "objects": (X.astype(object), 0),
    "text": (X.astype(str), 0),
    "big-endian": (X.astype(">f8"), 0),
    "big-endian float32": (X.astype(">f4"), 0),
    "Fortran": (np.asfortranarray(X), 0),
    "reversed": (X[::-1], 0),
    "strided": (np.repeat(X, 2, axis=0)[::2], 0),
    "matrix": (sparse.csr_matrix(X).todense(), 0),
    "lists": (X.tolist(), 0),
    "list of arrays": (list(X), 0),
    "masked": (masked(), 1),
    "NaN": (with_nan(np.asarray), 1),
    "NaN in Fortran order": (with_nan(np.asfortranarray), 1),
    "csr": (sparse.csr_array(X), 0),
    "csr matrix": (sparse.csr_matrix(X), 0),
    "csc": (sparse.csc_array(X), 0),
    "coo": (sparse.coo_array(X), 0),
    "coo with duplicates": (doubled(X), 0),
    "csr with NaN": (with_nan(sparse.csr_array), 1),
    "csc with NaN": (with_nan(sparse.csc_array), 1),
    "coo with duplicate NaN": (with_nan(doubled), 1),
    "sparse bools": (sparse.csr_array(X > 0), 0),
    "zero rows": (np.zeros_like(X), 0),
    "norms far above R": (X * 1e200, 0),
    "denormal": (X * 1e-310, 0),
    "complex": (X.astype(complex), 0),
    "one complex entry": (np.where(np.arange(36).reshape(12, 3) == 10, 1j, X), 1),
    "long double": (X.astype(np.longdouble), 0),
    "sparse complex": (sparse.csr_array(X.astype(complex)), 0),
    "sparse with a complex entry": (
        sparse.csr_array(np.where(np.arange(36).reshape(12, 3) == 10, 1j, X)),
        1,
    ),
    "dates": (X.astype("M8[s]"), 12),
    "durations": (X.astype("m8[s]"), 12),
    "one text entry": ([[*row[:2], "x"] if i == 3 else list(row) for i, row in enumerate(X)], 1),
}


@pytest.mark.parametrize("name", ARRAYS)
@pytest.mark.parametrize(
    "estimator",
    [*map(classifier, CLASSIFIERS), private_mean()],
    ids=lambda estimator: type(estimator).__name__,
)
def test_usable_arrays(estimator: StreamEstimator, name: str) -> None:
    """They are taken in, read-only as they may be, and are not kept: the caller may change them."""
    given_X, unusable = ARRAYS[name]
    estimator.fit(given_X, Y)
    assert estimator.quarantined_ == unusable
    assert estimator.n_features_in_ == 3
    assert np.isfinite(weights(estimator)[-1]).all()
    if unusable == 0 and hasattr(estimator, "predict"):
        assert estimator.predict(given_X).shape == (12,)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_no_overflow_where_the_stream_is_float32(dtype: type) -> None:
    intake = INTAKE.after(INTAKE.records(np.ones((1, 2), np.float32), [0]))
    huge = np.array([[1e300, 0], [3.0, 4.0000001]], np.float64)
    with np.errstate(over="ignore"):
        records = intake.records(huge.astype(dtype), [0, 1])
    assert records.X.dtype == np.float32
    assert records.usable.tolist() == [dtype == np.float64, True]
    exact = [sum(Fraction(float(value)) ** 2 for value in row) for row in records.X]
    assert max(exact) <= 25


def tables() -> dict[str, tuple[Any, Any, int]]:
    """Tables with their labels, and how many of their records are unusable."""
    pandas = pytest.importorskip("pandas")
    arrow = pytest.importorskip("pyarrow")
    plain = pandas.DataFrame(X, columns=["a", "b", "c"])
    labels = pandas.Series(Y)
    holes = plain.astype("Float64")
    holes.iloc[3, 1] = pandas.NA
    words = plain.astype({"b": object})
    words.iloc[3, 1] = "tide"
    some = labels.astype("Int64")
    some[5] = pandas.NA
    category = plain.assign(c=pandas.Categorical(np.arange(12) % 3))
    table = arrow.table({"a": X[:, 0], "b": X[:, 1], "c": X[:, 2]})
    null = arrow.array([None if i == 3 else float(v) for i, v in enumerate(X[:, 1])])
    text = arrow.array(["tide" if i == 3 else "1.5" for i in range(12)])
    days = arrow.array([datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC)] * 12)
    return {
        "frame": (plain, labels, 0),
        "frame of float32": (plain.astype(np.float32), labels, 0),
        "nullable": (plain.astype("Float64"), labels.astype("Int64"), 0),
        "nullable with NA": (holes, labels, 1),
        "labels with NA": (plain, some, 1),
        "both": (holes, some, 2),
        "text in a column": (words, labels, 1),
        "text column": (plain.assign(c="tide"), labels, 12),
        "numbers as text": (plain.astype(str), labels, 0),
        "categories": (category, labels.astype("category"), 0),
        "bools": (plain > 0, labels.astype(bool), 0),
        "dates in a column": (plain.assign(c=pandas.Timestamp("2024-01-01")), labels, 12),
        "labels in a frame's column": (plain, plain.assign(y=Y)["y"], 0),
        "arrow": (table, arrow.chunked_array([Y[:5], Y[5:]]), 0),
        "arrow batch": (table.to_batches()[0], arrow.array(Y), 0),
        "arrow with null": (table.set_column(1, "b", null), arrow.array(Y), 1),
        "arrow with text": (table.set_column(1, "b", text), arrow.array(Y), 1),
        "arrow with dates": (table.set_column(1, "b", days), arrow.array(Y), 12),
        "arrow labels with null": (table, arrow.array([None, *Y[1:].tolist()]), 1),
    }


@pytest.mark.filterwarnings("ignore:X does not have valid feature names")
def test_tables() -> None:
    for name, (table, labels, unusable) in tables().items():
        estimator = classifier(SlidingWindowClassifier).partial_fit(table, labels)
        assert estimator.quarantined_ == unusable, name
        assert estimator.n_features_in_ == 3
        if unusable == 0:
            assert estimator.predict(table).shape == (12,)
        slots = range(table.num_rows if hasattr(table, "num_rows") else len(table))
        intake = estimator._begun.intake
        take = getattr(table, "iloc", None)
        if take is not None:
            alone = [intake.records(take[i : i + 1], labels.iloc[i : i + 1]) for i in slots]
        else:
            alone = [intake.records(table.slice(i, 1), labels.slice(i, 1)) for i in slots]
        assert stacked(alone) == stacked([intake.records(table, labels)]), name


def test_large_labels_beside_missing_ones() -> None:
    """As floats, which hold NA, two of these labels would be the same: rule 2 refuses them."""
    pandas = pytest.importorskip("pandas")
    arrow = pytest.importorskip("pyarrow")
    classes = [2**53, 2**53 + 1]
    with pytest.raises(InvalidValueError, match="classes must differ by rule 2 of spelling"):
        classifier(SlidingWindowClassifier, classes=classes).fit(X, Y)
    for y in (
        pandas.Series([2**53 + 1, None], dtype="Int64"),
        arrow.array([2**53 + 1, None]),
        [2**53 + 1, 0.5],
        np.ma.MaskedArray([2**53 + 1, 2**53], mask=[False, True]),
    ):
        intake = Intake(norm=1.0, predicted=Classes(classes), spelling=1)
        records = intake.records([[1.0], [1.0]], y)
        assert (records.y[0], records.usable.tolist()) == (1, [True, False])


def test_texts_in_columns() -> None:
    pandas = pytest.importorskip("pandas")
    arrow = pytest.importorskip("pyarrow")
    texts = ["high tide", None, "low tide"] * 4
    for column in (pandas.Series(texts), arrow.array(texts), arrow.chunked_array([texts, texts])):
        estimator = classifier(SlidingWindowClassifier, features=HashedText(n_features=16))
        estimator.partial_fit(column, [0, 0, 1] * (len(column) // 3))
        assert estimator.quarantined_ == len(column) // 3
        assert estimator.predict(column.dropna() if hasattr(column, "dropna") else ["tide"]).size


def test_columns_of_a_frame_keep_their_order() -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(X, columns=["a", "b", "c"])
    estimator = classifier(SlidingWindowClassifier).partial_fit(frame, Y)
    before = state(estimator)
    with pytest.raises(ValueError, match="feature names"):
        estimator.partial_fit(frame[["b", "a", "c"]], Y)
    assert repr(state(estimator)) == repr(before)


@pytest.mark.parametrize(
    ("batch", "unusable"),
    [
        (["mild", "severe", "none", None, 3, float("nan"), ["mild"], "mild"], 5),
        (np.array(["mild", "severe", "other"] * 4), 4),
        (np.array(["mild", "severe", None] * 4, object), 4),
        (np.ma.MaskedArray(["mild", "severe"] * 4, mask=[True, *[False] * 7]), 1),
        (("mild",) * 8, 0),
    ],
)
def test_categories(batch: Any, unusable: int) -> None:
    estimator = private_histogram().partial_fit(batch)
    assert estimator.quarantined_ == unusable
    whole = CategoryIntake(["mild", "severe"]).records(batch)
    alone = [
        CategoryIntake(["mild", "severe"]).records(batch[i : i + 1]) for i in range(len(batch))
    ]
    assert [int(part.y[0]) for part in alone] == whole.y.tolist()
    assert [bool(part.usable[0]) for part in alone] == whole.usable.tolist()


BAD = X.copy()
BAD[0, 0] = SECRET
REFUSED: dict[str, tuple[Any, Any]] = {
    "one dimension": (BAD[:, 0], Y),
    "three dimensions": (BAD[None], Y),
    "a number": (SECRET, Y),
    "None": (None, Y),
    "text": (f"tide {SECRET}", Y),
    "list of numbers": (BAD[0].tolist(), Y[:3]),
    "list of text": ([f"tide {SECRET}"] * 12, Y),
    "ragged lists": ([[SECRET, 1.0, 2.0], [1.0]], Y[:2]),
    "records": (np.zeros(12, [("a", float), ("b", float)]), Y),
    "objects of one dimension": (np.array([[SECRET, 1.0], [1.0]], object), Y[:2]),
    "no records": (np.zeros((0, 3)), Y[:0]),
    "no records in a list": ([], []),
    "no features": (np.zeros((12, 0)), Y),
}
REFUSED_WITH_LABELS: dict[str, tuple[Any, Any]] = {
    "fewer labels": (BAD, Y[:-1]),
    "more labels": (BAD, [*Y, 1]),
    "no labels": (BAD, None),
    "labels in a table": (BAD, np.column_stack([Y, Y])),
    "one label": (BAD, 1),
    "sparse labels": (BAD, sparse.csr_array(Y[:, None])),
}
OTHER_FORM: dict[str, tuple[Any, Any]] = {
    "fewer columns": (BAD[:, :2], Y),
    "more columns": (np.hstack([BAD, BAD]), Y),
    "fewer sparse columns": (sparse.csr_array(BAD[:, :2]), Y),
    "fewer columns in lists": (BAD[:, :2].tolist(), Y),
}


def refuses(estimator: StreamEstimator, X: Any, y: Any, method: str = "partial_fit") -> None:
    """A batch is refused in one line that quotes no record, and leaves no trace."""
    before = state(estimator)
    with pytest.raises(ValueError) as refusal:  # noqa: PT011 (the text is checked below)
        getattr(estimator, method)(X, y)
    message = str(refusal.value)
    assert "\n" not in message
    assert str(SECRET) not in message
    assert str(int(SECRET)) not in message
    assert state(estimator) == before


@pytest.mark.parametrize("name", REFUSED | REFUSED_WITH_LABELS)
@pytest.mark.parametrize("kind", CLASSIFIERS)
def test_refused_at_the_start(kind: type, name: str) -> None:
    """Nothing is learnt of a first batch that is refused, and the next one starts the stream."""
    estimator, untouched = classifier(kind), classifier(kind)
    refuses(estimator, *(REFUSED | REFUSED_WITH_LABELS)[name], method="fit")
    assert same(estimator.fit(X, Y), untouched.fit(X, Y))


@pytest.mark.parametrize("name", REFUSED | REFUSED_WITH_LABELS | OTHER_FORM)
@pytest.mark.parametrize("kind", STREAMS)
def test_refused_in_mid_stream(kind: type, name: str) -> None:
    estimator, untouched = classifier(kind).fit(X, Y), classifier(kind).fit(X, Y)
    refuses(estimator, *(REFUSED | REFUSED_WITH_LABELS | OTHER_FORM)[name])
    assert same(estimator.partial_fit(X, Y), untouched.partial_fit(X, Y))


@pytest.mark.parametrize("name", REFUSED | REFUSED_WITH_LABELS | OTHER_FORM)
def test_refused_in_a_sparse_stream(name: str) -> None:
    estimator = classifier(SlidingWindowClassifier).fit(sparse.csr_array(X), Y)
    refuses(estimator, *(REFUSED | REFUSED_WITH_LABELS | OTHER_FORM)[name])


@pytest.mark.parametrize("kind", CLASSIFIERS)
@pytest.mark.parametrize("name", REFUSED)
def test_a_refused_refit_keeps_the_stream(kind: type, name: str) -> None:
    refuses(classifier(kind).fit(X, Y), *REFUSED[name], method="fit")


@pytest.mark.parametrize("name", REFUSED | OTHER_FORM)
def test_refused_by_the_mean(name: str) -> None:
    if name in REFUSED:
        refuses(private_mean(), *REFUSED[name])
    estimator, untouched = private_mean().fit(X), private_mean().fit(X)
    refuses(estimator, (REFUSED | OTHER_FORM)[name][0], None)
    assert same(estimator.partial_fit(X), untouched.partial_fit(X))


@pytest.mark.parametrize("batch", [None, SECRET, "mild", np.zeros((4, 2)), [], np.zeros((2, 2, 2))])
def test_refused_by_the_histogram(batch: Any) -> None:
    refuses(private_histogram(), batch, None)
    words, _ = batch_for(private_histogram())
    estimator, untouched = private_histogram().fit(words), private_histogram().fit(words)
    refuses(estimator, batch, None)
    assert same(estimator.partial_fit(words), untouched.partial_fit(words))


@pytest.mark.parametrize("kind", CLASSIFIERS)
def test_refused_by_predict(kind: type) -> None:
    estimator = classifier(kind).fit(X, Y)
    for name, (batch, _) in (REFUSED | OTHER_FORM).items():
        before = state(estimator)
        with pytest.raises(ValueError) as refusal:  # noqa: PT011 (the text is checked below)
            estimator.predict(batch)
        assert "\n" not in str(refusal.value), name
        assert str(SECRET) not in str(refusal.value), name
        assert state(estimator) == before
    for name in ("NaN", "masked", "csr with NaN", "one text entry"):
        with pytest.raises(ValueError, match="cannot be predicted"):
            estimator.predict(ARRAYS[name][0])


def test_every_record_unusable_or_of_one_class() -> None:
    for kind in CLASSIFIERS:
        silent = classifier(kind).fit(X * np.nan, Y)
        assert silent.quarantined_ == 12
        assert np.abs(weights(silent)[-1]).max() < 1  # nothing but the little noise
        one = classifier(kind).fit(np.ones((12, 2)), np.ones(12))
        assert one.predict(np.ones((1, 2))).tolist() == [1]


BAD_PARAMETERS: dict[str, list[Any]] = {
    "budget": [None, 1.0, "PureDP"],
    "classes": [None, 5, "ab", [1], [1, 1], [[1, 2], [3, 4]], {1, 2}, {1: 2}, [1.0, np.nan], []],
    "categories": [None, "ab", ["a"], ["a", "a"]],
    "norm": [None, 0, -1.0, np.nan, np.inf, "1", 1j],
    "regularization": [-1.0, np.nan, "1", np.inf],
    "loss": ["hinge", None, ["auto"]],
    "learner": ["output", 3, {"steps": 8}, GradientPerturbation],
    "allocation": ["even", None, ["paper"]],
    "features": ["text", 3],
    "not_private_seed": [-1, 1.5, "7", True],
    "step": [0, 1.5, None, -3],
    "window": [0, 7, 4, "8"],
    "block": [0, 3, 12],
    "target": [None, 5, "ab", (1, 1), (2, 1), (0, np.inf), (np.nan, 1), ("0", "1"), (1, 2, 3)],
    "forget": [None, 2.0, "x"],
    "growth": [None, 0, 2],
    "schedule": [None, "sliding", SlidingWindowClassifier],
    "source": [None, 5],
}


@pytest.mark.parametrize("estimator", all_faces(), ids=lambda estimator: type(estimator).__name__)
def test_bad_parameters(estimator: StreamEstimator) -> None:
    """They are refused in one line before any record is looked at; a stream that runs goes on."""
    batch = batch_for(estimator)
    running = estimator.fit(*batch)
    for name in set(BAD_PARAMETERS) & set(estimator.get_params(deep=False)):
        good = getattr(estimator, name)
        for value in BAD_PARAMETERS[name]:
            if value == 12 and isinstance(estimator, GrowingRegressor):
                continue  # it takes any whole number of steps
            running.set_params(**{name: value})
            refuses(running, *batch, method="fit")
            with pytest.raises(ValueError, match=r"^[^\n]* must be [^\n]*, got [^\n]*$"):
                type(estimator)(**running.get_params(deep=False)).fit(*batch)
        running.set_params(**{name: good})


@pytest.mark.parametrize("kind", CLASSIFIERS)
def test_a_lambda_that_takes_too_many_passes_is_refused(kind: type) -> None:
    """From public numbers: the records are not looked at."""
    estimator = classifier(kind, norm=30.0, regularization=1e-6)
    for batch in (np.zeros((50, 2)), np.full((50, 2), np.nan)):
        with pytest.raises(ValueError, match=r"^regularization must be at least [^\n]* passes"):
            estimator.fit(batch, np.arange(50) % 2)
    assert not hasattr(estimator, "releases_")


def test_bad_stream() -> None:
    estimator = classifier(TwoStreamClassifier)
    for stream in ("sauce", None, ["source"]):
        with pytest.raises(ValueError, match="stream must be source or target"):
            estimator.partial_fit(X, Y, stream=stream)
    for names in (["source"] * 11, "target", [["source"]] * 12, [*["target"] * 11, "sauce"]):
        with pytest.raises(ValueError, match=r"^stream (must|should) be [^\n]*$"):
            estimator.fit(X, Y, stream=names)
    assert not hasattr(estimator, "releases_")


@pytest.mark.parametrize("container", [np.array, sparse.csr_array])
@pytest.mark.parametrize("features", [None, AppendIntercept()])
@pytest.mark.parametrize("kind", [*STREAMS, PrivateMean])
def test_the_caller_may_change_its_arrays(kind: type, features: Any, container: Any) -> None:
    """A step is half full when the arrays change: the fit that reads them comes later."""
    more = {} if kind is PrivateMean else {"features": features}
    make = private_mean if kind is PrivateMean else lambda **more: classifier(kind, **more)
    estimator, untouched = make(**more), make(**more)
    given_X, given_y = container(X[:7]), Y[:7].copy()
    estimator.partial_fit(given_X, given_y)
    entries = given_X.data if sparse.issparse(given_X) else given_X
    entries[:] = SECRET
    if sparse.issparse(given_X):
        given_X.indices[:] = 0
        given_X.indptr[:] = 0
    given_y[:] = 1 - given_y
    untouched.partial_fit(container(X[:7]), Y[:7])
    assert same(estimator.partial_fit(X[7:], Y[7:]), untouched.partial_fit(X[7:], Y[7:]))


class Interrupted(OutputPerturbation):
    """Is interrupted in one of its fits, before or after the work."""

    def __init__(self, at: int, *, late: bool) -> None:
        super().__init__()
        self.__dict__.update(calls=0, at=at, late=late)

    def fit(self, task: Task, terms: Terms, records: Any, bits: Bits) -> Weights:
        self.__dict__["calls"] += 1
        now = self.__dict__["calls"] == self.__dict__["at"]
        if now and not self.__dict__["late"]:
            raise KeyboardInterrupt
        made = super().fit(task, terms, records, bits)
        if now:
            raise KeyboardInterrupt
        return made


@settings(max_examples=25)
@given(st.integers(1, 9), st.booleans(), st.sampled_from(STREAMS), st.integers(1, 19))
def test_an_interrupted_step_is_made_once(at: int, late: bool, kind: type, cut: int) -> None:
    """Whichever fit is interrupted: the next batch completes its step, and each record is charged
    and read as if nothing had happened."""
    X, y = batch_for(None, records=20)
    learner = Interrupted(at, late=late)
    exact: dict[str, Any] = {"budget": PureDP(1e12), "regularization": 0.1}
    calm, estimator = classifier(kind, **exact), classifier(kind, learner=learner, **exact)
    streams = [{"stream": "source"}, {"stream": "target"}] if kind is TwoStreamClassifier else [{}]
    for where in streams:
        for part in (slice(None, cut), slice(cut, None)):
            calm.partial_fit(X[part], y[part], **where)
            try:
                estimator.partial_fit(X[part], y[part], **where)
            except KeyboardInterrupt:
                interrupted = state(estimator)
                with pytest.raises(ValueError, match="must be"):
                    estimator.partial_fit(X[0], y[0], **where)
                assert state(estimator) == interrupted
        learner.__dict__["at"] = 0
        for each in (calm, estimator):  # completes what the interruption has left
            each.partial_fit(X[:4], y[:4], **where)
    assert [release.fit for release in estimator.releases_] == [
        release.fit for release in calm.releases_
    ]
    assert state(estimator)[1:-1] == state(calm)[1:-1]
    # Nothing was lost or doubled: almost without noise the models are those of the calm stream.
    for mine, theirs in zip(weights(estimator), weights(calm), strict=True):
        assert np.allclose(mine, theirs, rtol=0, atol=1e-2)


def test_an_interrupted_fit_can_be_repeated() -> None:
    estimator = classifier(PrivateClassifier, learner=Interrupted(1, late=True))
    with pytest.raises(KeyboardInterrupt):
        estimator.fit(X, Y)
    assert not weights(estimator)
    estimator.set_params(learner=None).fit(X, Y)
    assert len(weights(estimator)) == 1
    assert estimator.ledger_.worst().share == 1


@pytest.mark.parametrize(
    "weights", [None, "ab", [1.0], [1.0, np.nan], [[1, 0]], [1j, 0], {"mild": 1}]
)
def test_bad_queries(weights: Any) -> None:
    estimator = private_histogram().fit(batch_for(private_histogram())[0])
    with pytest.raises(ValueError, match=r"^weights must be (2 numbers|finite), got [^\n]*$"):
        estimator.query(weights)


def test_a_query_before_the_first_release() -> None:
    with pytest.raises(ValueError, match="not fitted yet"):
        private_histogram().query([0, 1])
    estimator = private_histogram().partial_fit(["mild"] * 3)
    with pytest.raises(ValueError, match="not fitted yet"):
        _ = estimator.histogram_
    assert isinstance(estimator, PrivateHistogram)


@pytest.mark.parametrize(
    ("classes", "y"),
    [
        (["0", "1"], np.arange(4) % 2),
        ([0, 1], np.array(["0", "1", "0", "1"])),
        ([0, 1], pandas.Series(["0", "1", "0", "1"], dtype="str")),
        ([0, 1], pandas.Series(["0", "1", "0", "1"], dtype="string")),
    ],
)
def test_labels_of_another_kind_than_the_classes_are_read(
    classes: list[Any], y: NDArray[Any]
) -> None:
    """One record can change the dtype of all; by rule 1 the batch is refused as it was before."""
    faced = PrivateClassifier(budget=PureDP(1.0), classes=classes, norm=1.0)
    assert faced.fit(np.eye(4), y).quarantined_ == 0
    with pytest.raises(InvalidValueError, match=r"y must be .*, like the classes, got dtype"):
        Intake(norm=1.0, predicted=Classes(classes), spelling=1).records(np.eye(4), y)


@pytest.mark.parametrize("first", ["hello", ["a", "b"], np.zeros(3), None])
def test_the_first_record_of_a_list_decides_nothing(first: Any) -> None:
    faced = SlidingWindowClassifier(
        budget=PureDP(1.0),
        window=4,
        step=2,
        classes=[0, 1],
        norm=1.0,
        features=HashedText(n_features=16),
    )
    faced.partial_fit([first, "x", "y", "z"], [0, 1, 0, 1])
    faced.partial_fit(["u", "v"], [0, 1])
    assert not hasattr(faced, "n_features_in_")
    assert len(faced.releases_) == 2


@pytest.mark.parametrize("frame", [pandas.DataFrame, pa.Table.from_arrays])
def test_a_frame_with_two_columns_of_one_name_is_refused(frame: Any) -> None:
    X, y = batch_for(face := classifier(SlidingWindowClassifier))
    if frame is pandas.DataFrame:
        named = frame(X, columns=["a", "b", "a"])
    else:
        named = frame(list(map(pa.array, X.T)), ["a", "b", "a"])
    with pytest.raises(InvalidValueError, match=r"^X has the column 'a' twice: name each once$"):
        face.partial_fit(named, y)
    with pytest.raises(InvalidValueError, match="the column 'a' twice"):
        classifier(SlidingWindowClassifier).fit(X, y).predict(named)


@pytest.mark.parametrize(
    "y", [[0, 1, None, 1], [0, 1, np.nan, 1], pandas.array([0, 1, None, 1], dtype="Int64")]
)
def test_a_score_needs_a_label_for_each_record(y: Any) -> None:
    face = classifier(PrivateClassifier).fit(np.eye(4), [0, 1, 0, 1])
    with pytest.raises(InvalidValueError, match="leave out records that have no label"):
        face.score(np.eye(4), y)
