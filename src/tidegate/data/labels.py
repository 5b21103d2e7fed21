"""Turns labels into class indices, each independently of the others."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import DataConversionWarning

from tidegate.checks import InvalidValueError, refuse, warn_caller
from tidegate.data.arrow_values import as_objects
from tidegate.data.numbers import as_numbers, is_arrow_array
from tidegate.data.spelling import NEWEST, key_of, places_in


def as_labels(y: Any, name: str = "y") -> list[Any]:
    """The label of each record, as a value that does not depend on the other labels.

    >>> as_labels([1, "a"]), as_labels(np.array([3, 4]))
    ([1, 'a'], [3, 4])
    """
    if isinstance(y, list | tuple | range):
        return list(y)
    if is_arrow_array(y):
        return as_objects(y)
    if hasattr(y, "to_arrow") and hasattr(y, "to_list"):  # polars
        return list(y.to_list())
    native = isinstance(getattr(y, "dtype", None), np.dtype | None)
    labels = np.asarray(y, None if native else object)  # pandas would turn ints into floats
    if isinstance(y, np.ma.MaskedArray):
        labels = labels.astype(object)
        labels[np.ma.getmaskarray(y)] = object()
    if labels.ndim == 2 and labels.shape[1] == 1:
        message = f"A column-vector {name} was passed when a 1d array was expected"
        warn_caller(message, DataConversionWarning)
        labels = labels[:, 0]
    if labels.ndim != 1:
        raise InvalidValueError(
            f"{name} should be a 1d array with one value per record, got shape {labels.shape}"
        )
    return list(labels if labels.dtype.kind in "mM" else labels.tolist())  # no whole numbers


def check_kind(y: Any, classes: Sequence[Any]) -> None:
    """Refuse text labels for numeric classes, and numeric labels for text classes, by dtype.

    For rule 1 of spelling, by which every record would silently be unusable. Rule 2 reads both.
    """
    kind = getattr(getattr(y, "dtype", None), "kind", None)
    texts = [isinstance(label, str) for label in classes]
    text = kind == "U" or str(getattr(y, "dtype", "")) in {"str", "string"}  # of pandas
    if (kind in {"b", "i", "u", "f"} and all(texts)) or (text and not any(texts)):
        wanted = "text" if all(texts) else "numbers"
        raise refuse("y", f"{wanted}, like the classes", shown=f"dtype {y.dtype}")


def codes_of(y: Any, classes: Sequence[Any], rule: int = NEWEST) -> NDArray[np.intp]:
    """The same as `class_codes`, but vectorised for numbers where that is equally exact.

    >>> codes_of(np.array([3.0, 5.0, np.nan]), [5, 3])
    array([ 1,  0, -1])
    """
    plain = (
        type(y) is np.ndarray and y.ndim == 1 and y.dtype.kind in "iuf" and y.dtype.itemsize <= 8
    )
    if not plain or not all(type(label) is int and abs(label) < 2**53 for label in classes):
        return class_codes(as_labels(y), classes, rule)
    labels = np.array(classes)
    order = np.argsort(labels)
    places = np.searchsorted(labels[order], y).clip(max=labels.size - 1)
    return np.where(labels[order][places] == y, order[places], -1)


def cut_codes(y: Any, cuts: Sequence[float], rule: int = NEWEST) -> NDArray[np.intp]:
    """The class of each number: how many of the cuts it is above; -1 for what is no number.

    >>> cut_codes([3.0, 15, 15.5, None, "20"], [15.0])
    array([ 0,  0,  1, -1,  1])
    """
    numbers = as_numbers([[value] for value in as_labels(y)], rule)
    values = np.asarray(numbers, np.float64).reshape(-1)
    return np.where(np.isnan(values), -1, np.searchsorted(np.asarray(cuts), values))


def cut_words(cuts: Sequence[float], classes: Sequence[Any]) -> str:
    """Which numbers each class has, in words.

    >>> cut_words([40.0], ["low", "normal"]), cut_words([1.0, 2.5], ["a", "b", "c"])
    ('up to 40: low; above: normal', 'up to 1: a; above 1, up to 2.5: b; above: c')
    """
    first, *others = (f"up to {cut:g}: {name}" for cut, name in zip(cuts, classes, strict=False))
    between = [f"above {cut:g}, {each}" for cut, each in zip(cuts, others, strict=False)]
    return "; ".join([first, *between, f"above: {classes[-1]}"])


def predicted_codes(margins: NDArray[Any]) -> NDArray[np.intp]:
    """The index of the class that each record's margins predict.

    Args:
        margins: Shape (n, K), or (n,) for two classes.

    >>> predicted_codes(np.array([0.5, -0.5])), predicted_codes(np.array([[1.0, 3.0, 2.0]]))
    (array([1, 0]), array([1]))
    """
    return (margins > 0).astype(np.intp) if margins.ndim == 1 else margins.argmax(axis=1)


def class_codes(
    labels: Sequence[Any], classes: Sequence[Any], rule: int = NEWEST
) -> NDArray[np.intp]:
    """The index of each label among the classes; -1 for a label that is not a class.

    >>> class_codes([3, 5, 4, [5], "3.0"], [5, 3])
    array([ 1,  0, -1, -1,  1])
    """
    index = places_in("classes", classes, rule)
    seen: dict[tuple[type, Any], int] = {}  # by type, because 1 and True are equal

    def code(label: Any) -> int:
        try:
            known = seen.get((type(label), label))
            if known is None:
                known = seen[type(label), label] = index.get(key_of(label, rule), -1)
        except Exception:  # a label whose lookup fails is not a class
            return -1
        return known

    return np.fromiter(map(code, labels), np.intp, len(labels))
