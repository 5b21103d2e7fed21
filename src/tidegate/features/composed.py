"""Feature maps composed of scikit-learn's parts, none of which learns from a record."""

from copy import deepcopy
from typing import Any

import numpy as np
from scipy.sparse import issparse
from sklearn import config_context
from sklearn.compose import ColumnTransformer
from sklearn.feature_extraction import FeatureHasher
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.impute import MissingIndicator, SimpleImputer
from sklearn.pipeline import FeatureUnion, Pipeline
from sklearn.preprocessing import (
    Binarizer,
    FunctionTransformer,
    Normalizer,
    OneHotEncoder,
    OrdinalEncoder,
    PolynomialFeatures,
)

from tidegate.checks import InvalidValueError, refuse
from tidegate.features.feature_map import MAPS, FeatureMap, RecordMap
from tidegate.features.made_up import made_up
from tidegate.features.numbers import as_numbers
from tidegate.features.one_record import (
    Alone,
    Elementwise,
    Entries,
    Numbers,
    OneByOne,
    RowByRow,
    Texts,
)
from tidegate.features.rows import Rows
from tidegate.features.stateless import COMPOSITES, check_stateless, family, inside

LEAVES: dict[type, type[OneByOne]] = {
    Binarizer: Numbers,  # it compares, and
    PolynomialFeatures: Numbers,  # this multiplies, which rounds alike in every batch
    Normalizer: RowByRow,
    MissingIndicator: Entries,
    OneHotEncoder: Entries,
    OrdinalEncoder: Entries,
    SimpleImputer: Entries,
}
"""How a transformer is applied; any other is called with one record at a time."""

TEXTS = (FeatureHasher, HashingVectorizer)

NARROW = 256
"""Up to so many features are stored as dense rows, which a survey can centre."""


def record_map(features: Any) -> FeatureMap | None:
    """The feature map that maps each record by itself as the given object does.

    Maps of `tidegate.features` and the user's own are returned as they are. A transformer of
    scikit-learn becomes a `ComposedMap`; if it learns from records, it is refused.

    >>> from sklearn.preprocessing import OneHotEncoder
    >>> encoder = OneHotEncoder(categories=[["AA", "UA"]], handle_unknown="ignore")
    >>> record_map(encoder).transform([["UA"], ["AA"], ["XX"]])
    array([[0., 1.],
           [1., 0.],
           [0., 0.]])
    """
    if features is None or isinstance(features, ComposedMap):
        return features
    check_stateless(features)
    if all(family(part) is None for part in _leaves(features)):
        whole: FeatureMap = features
        return whole
    return ComposedMap(features)


def plain_copy(features: Any) -> Any:
    """A copy of a feature map that returns arrays, whatever `set_output` said."""
    copy = deepcopy(features)
    for part in filter(_own, _leaves(copy)):
        _arrays(part)
    return copy


class ComposedMap:
    """Maps records as a transformer of scikit-learn does, each record by itself.

    The transformer is copied and fitted on a made-up record with the columns of the first batch,
    never on records. See `tidegate.features.one_record` for how its parts are applied.

    Args:
        given: A `ColumnTransformer`, `FeatureUnion`, `Pipeline` or one transformer.

    Attributes:
        given: The transformer.
    """

    def __init__(self, given: Any) -> None:
        check_stateless(given)
        self.given = given
        self._fitted: Any = None
        self._made_up: Any = None

    def transform(self, X: Any) -> Rows:
        """The features of each record, one row each; what cannot be mapped becomes NaN."""
        batch = self._batch(X)
        with config_context(transform_output="default"), np.errstate(all="ignore"):
            if self._fitted is None:
                self._made_up = made_up(batch)
                self._fitted = _call(rebuilt(self.given).fit, self._made_up)
            try:
                rows = self._fitted.transform(batch)
            except Exception:
                # Its text may quote a record: say what is wrong with the columns, or nothing.
                _call(self._fitted.transform, made_up(batch))
                raise InvalidValueError(
                    "features cannot map this batch of records: a transformer failed on a value; "
                    "try it on made-up records"
                ) from None
        if not issparse(rows):
            return np.asarray(as_numbers(rows), np.float64)
        return rows.toarray() if rows.shape[1] <= NARROW else rows

    def get_feature_names_out(self, input_features: object = None) -> Any:  # noqa: ARG002
        """The names of the features, as scikit-learn names them after the first batch."""
        fitted = _arrays(deepcopy(self.given)).fit(self._made_up)
        return fitted.get_feature_names_out()

    def _batch(self, X: Any) -> Any:
        """A batch as scikit-learn can select columns of it."""
        if hasattr(X, "column_names") and hasattr(X, "to_pandas"):
            return X.to_pandas()
        if not isinstance(X, list | tuple) or _takes_texts(self.given):
            return X
        rows = [row if isinstance(row, list | tuple) else np.atleast_1d(row).tolist() for row in X]
        if len(set(map(len, rows))) != 1:
            raise refuse("X", "two-dimensional", shown="rows of different lengths, or none")
        table = np.empty((len(rows), len(rows[0])), object)
        for i, row in enumerate(rows):
            table[i] = row
        return table


def rebuilt(part: Any, *, last: bool = True) -> Any:
    """A transformer that does the same with each record by itself; not fitted.

    Args:
        part: The transformer.
        last: Whether its results are features, not the input of another transformer.
    """
    if isinstance(part, ColumnTransformer):
        return ColumnTransformer(
            [(name, _inner(each, last), columns) for name, each, columns in part.transformers],
            remainder=_inner(part.remainder, last),
            sparse_threshold=part.sparse_threshold,
            transformer_weights=part.transformer_weights,
        )
    if isinstance(part, FeatureUnion):
        parts = [(name, _inner(each, last)) for name, each in part.transformer_list]
        return FeatureUnion(parts, transformer_weights=part.transformer_weights)
    if isinstance(part, Pipeline):
        steps = [(name, each) for name, each in part.steps if each not in (None, "passthrough")]
        final = [last and place == len(steps) for place in range(1, len(steps) + 1)]
        made = [(name, rebuilt(each, last=f)) for (name, each), f in zip(steps, final, strict=True)]
        return Pipeline(made or [("all", Numbers(None))])
    if _own(part):
        return _arrays(deepcopy(part))
    return _leaf(part)


def _inner(part: Any, last: bool) -> Any:
    """A part of a composite, or the word in its place.

    If the composite's results are features, so are the part's: anything but a number becomes NaN.
    Among sparse columns, scikit-learn would refuse the whole batch for one text.
    """
    if isinstance(part, str):
        return Numbers(None) if part == "passthrough" else part
    made = rebuilt(part, last=last)
    return Pipeline([("part", made), ("numbers", Numbers(None))]) if last else made


def _leaf(part: Any) -> OneByOne:
    """The class of `one_record` that applies a part of scikit-learn's or of the user's."""
    kind: Any = type(part)  # one that derives from a class below may do anything
    if kind is FunctionTransformer and _elementwise(part):
        return Numbers(None) if part.func is None else Elementwise(part)
    if kind is HashingVectorizer and not any(
        map(callable, (part.analyzer, part.preprocessor, part.tokenizer, part.strip_accents))
    ):
        return Texts(part)
    return LEAVES.get(kind, Alone)(part)


def _elementwise(part: FunctionTransformer) -> bool:
    one = isinstance(part.func, np.ufunc) and (part.func.nin, part.func.nout) == (1, 1)
    return (part.func is None or one) and not part.kw_args and not part.validate


def _arrays(part: Any) -> Any:
    """The same map, which returns arrays from now on."""
    return part.set_output(transform="default") if hasattr(part, "set_output") else part


def _own(part: Any) -> bool:
    """Whether this is a map of Tidegate, which maps each record by itself."""
    return isinstance(part, RecordMap) or type(part) in MAPS.values()


def _leaves(features: Any) -> list[Any]:
    """The parts that are no pipelines; a composite that holds others counts as a part."""
    if isinstance(features, Pipeline):
        return [leaf for part in inside(features) for leaf in _leaves(part)]
    return [features]


def _takes_texts(part: Any) -> bool:
    """Whether a record is one text, or whatever else is hashed."""
    if isinstance(part, COMPOSITES):
        first = next(inside(part), None)
        return not isinstance(part, ColumnTransformer) and _takes_texts(first)
    return isinstance(part, TEXTS) or bool(getattr(part, "takes_text", False))


def _call(method: Any, record: Any) -> Any:
    """Call a method with a made-up record, whose errors may be shown."""
    try:
        return method(record)
    except InvalidValueError:
        raise
    except Exception as error:
        line = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise InvalidValueError(f"features cannot map these columns: {line}") from None
