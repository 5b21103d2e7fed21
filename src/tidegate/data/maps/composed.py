"""Feature maps composed of scikit-learn's parts, and which parts learn nothing from a record."""

from collections.abc import Iterator, Mapping
from copy import deepcopy
from inspect import signature
from math import isfinite
from typing import Any

import numpy as np
from sklearn import config_context
from sklearn.compose import ColumnTransformer
from sklearn.feature_extraction import FeatureHasher
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.frozen import FrozenEstimator
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
from tidegate.data.feature_map import FeatureMap, Step, described_map, known
from tidegate.data.maps.one_record import NeverFitted, OneByOne
from tidegate.data.maps.record_map import RecordMap
from tidegate.data.rows import Rows
from tidegate.data.values import as_texts

TEXTS = (FeatureHasher, HashingVectorizer)

TABLES = (ColumnTransformer, OneHotEncoder, OrdinalEncoder)
"""What is for tables, as `Columns` is, which reads a gap or an odd value of any column."""

NARROW = 256
"""Up to so many features are stored as dense rows, which a survey can centre."""


def record_map(features: Any) -> FeatureMap | None:
    """The feature map that maps each record by itself as the given object does.

    Maps of `tidegate.features` and the user's own are returned as they are. A transformer of
    scikit-learn becomes a `ComposedMap`; if it learns from records, it is refused.

    >>> from sklearn.preprocessing import Normalizer
    >>> record_map(Normalizer()).transform([[3.0, 4.0], ["x", 1.0]])
    array([[0.6, 0.8],
           [nan, nan]])
    """
    if features is None or isinstance(features, ComposedMap):
        return features
    check_stateless(features)
    if all(family(part) is None for part in _steps(features)):
        whole: FeatureMap = features
        return whole
    return ComposedMap(features)


def plain_copy(features: Any) -> Any:
    """A copy of a feature map that returns arrays, whatever `set_output` said."""
    copy = deepcopy(features)
    for part in _parts(copy):
        if hasattr(part, "set_output") and not isinstance(part, COMPOSITES):
            part.set_output(transform="default")
    return copy


class ComposedMap:
    """Maps records as a transformer of scikit-learn does, each record by itself.

    The transformer is copied and fitted on a made-up record with the columns of the first batch,
    never on records. Parts of the user's own are not fitted.

    Args:
        given: A transformer, or a `Pipeline` or `FeatureUnion` of some.

    Attributes:
        given: The transformer.
    """

    def __init__(self, given: Any) -> None:
        check_stateless(given)
        if tables := [part for part in _parts(given) if isinstance(part, TABLES)]:
            raise InvalidValueError(
                f"features must be maps of numbers or texts, got {type(tables[0]).__name__}: give "
                "tidegate.features.Columns instead, which says what each column of a table is"
            )
        self.given = given

    def transform(self, X: Any) -> Rows:
        """The features of each record, one row each; what cannot be mapped becomes NaN."""
        batch = self._batch(X)
        with config_context(transform_output="default"), np.errstate(all="ignore"):
            if not hasattr(self, "_one_by_one"):
                self._one_by_one = OneByOne.fitted(_trusting(self.given), batch)
            rows = self._one_by_one.rows(batch)
        if isinstance(rows, np.ndarray) or rows.shape[1] > NARROW:
            return rows
        return np.asarray(rows.toarray())

    def get_feature_names_out(self, input_features: object = None) -> Any:  # noqa: ARG002
        """The names of the features, as scikit-learn names them after the first batch."""
        return self._one_by_one.part.get_feature_names_out()

    def _batch(self, X: Any) -> Any:
        """A batch as scikit-learn takes it."""
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


def _trusting(given: Any) -> Any:
    """A copy of a transformer that returns arrays, and does not fit the user's own parts."""
    copy = plain_copy(given)
    parts = {name: part for name, part in copy.get_params().items() if _is_users(part)}
    outer = [name for name in parts if not any(name.startswith(f"{each}__") for each in parts)]
    copy.set_params(**{name: NeverFitted(parts[name]) for name in outer})
    return copy


def _is_users(part: Any) -> bool:
    """Whether this is a transformer of the user's own."""
    own = isinstance(part, RecordMap) or type(part) in known().values()
    return hasattr(part, "transform") and family(part) is None and not own


def _steps(features: Any) -> Iterator[Any]:
    """The parts of nested pipelines; a union counts as one."""
    if isinstance(features, Pipeline):
        for part in inside(features):
            yield from _steps(part)
    else:
        yield features


def _parts(features: Any) -> Iterator[Any]:
    """A transformer and all within it."""
    yield features
    for part in inside(features):
        yield from _parts(part)


def _takes_texts(features: Any) -> bool:
    """Whether a record is one text, or whatever else is hashed."""
    first = next(each for each in _parts(features) if not isinstance(each, COMPOSITES))
    return isinstance(first, TEXTS) or bool(getattr(first, "takes_text", False))


COMPOSITES = (ColumnTransformer, FeatureUnion, Pipeline)
"""What holds other transformers, and learns nothing itself."""

WORDS = ("passthrough", "drop", None)
"""What scikit-learn allows in place of a transformer."""


LISTED = {"min_frequency": None, "max_categories": None}
"""What encoders must leave out, to know nothing but their listed categories."""

STATELESS: dict[type, dict[str, Any]] = {
    Binarizer: {},
    FeatureHasher: {},
    FrozenEstimator: {},
    FunctionTransformer: {},
    HashingVectorizer: {"input": "content"},
    MissingIndicator: {"features": "all"},
    Normalizer: {},
    OneHotEncoder: {"handle_unknown": "ignore", "drop": None, **LISTED},
    OrdinalEncoder: {"handle_unknown": "use_encoded_value", **LISTED},
    PolynomialFeatures: {},
    SimpleImputer: {"strategy": "constant", "add_indicator": False},
}
"""The transformers of scikit-learn that learn nothing, with the parameters that they must have."""

GIVEN = {OneHotEncoder: "categories", OrdinalEncoder: "categories", SimpleImputer: "fill_value"}
"""Parameters that must be given, because their defaults are learnt from records."""

FROZEN = "if it was fitted on public records, wrap it in sklearn.frozen.FrozenEstimator"
SCALES = f"a survey centres and scales privately (a budget with a delta has one); {FROZEN}"
HASHES = "use tidegate.features.HashedText"
PROJECTS = f"use tidegate.features.RandomProjection; {FROZEN}"

ADVICE = {
    "OneHotEncoder": "give categories=, a public list for each column, and "
    'handle_unknown="ignore"; leave drop, min_frequency and max_categories out',
    "OrdinalEncoder": "give categories=, a public list for each column, and "
    'handle_unknown="use_encoded_value"; leave min_frequency and max_categories out',
    "SimpleImputer": 'use strategy="constant" with a fill_value, without add_indicator',
    "MissingIndicator": 'use features="all"',
    "HashingVectorizer": 'use input="content"',
    "KBinsDiscretizer": f"use a FunctionTransformer with public edges; {FROZEN}",
    "TargetEncoder": "use OneHotEncoder with public categories",
    **dict.fromkeys(("CountVectorizer", "DictVectorizer", "TfidfTransformer"), HASHES),
    "TfidfVectorizer": HASHES,
    **dict.fromkeys(("MaxAbsScaler", "MinMaxScaler", "PowerTransformer"), SCALES),
    **dict.fromkeys(("QuantileTransformer", "RobustScaler", "StandardScaler"), SCALES),
    **dict.fromkeys(("GaussianRandomProjection", "PCA", "TruncatedSVD"), PROJECTS),
    "SparseRandomProjection": PROJECTS,
    "Nystroem": "use tidegate.features.RandomFourier",
    "RBFSampler": "use tidegate.features.RandomFourier",
}
"""What to use instead of a transformer that learns."""

OTHERWISE = f"use a map of tidegate.features; {FROZEN}"


def family(part: Any) -> type | None:
    """The class of scikit-learn that a transformer is or derives from; None if there is none.

    >>> family(Normalizer()).__name__, family(object())
    ('Normalizer', None)
    """
    for each in type(part).__mro__:
        package, _, module = each.__module__.partition(".")
        if package == "sklearn" and module != "base" and not module.startswith("utils"):
            return each
    return None


def inside(composite: Any) -> Iterator[Any]:
    """The transformers that a composite holds, and words in place of one; none for others."""
    if isinstance(composite, ColumnTransformer):
        yield from (part for _, part, _ in composite.transformers)
        yield composite.remainder
    elif isinstance(composite, FeatureUnion):
        yield from (part for _, part in composite.transformer_list)
    elif isinstance(composite, Pipeline):
        yield from (part for _, part in composite.steps)


def check_stateless(features: Any) -> None:
    """Refuse a transformer that learns from records, or holds one that does.

    A transformer of the user's own is trusted: nobody else knows what it does.

    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import KBinsDiscretizer
    >>> check_stateless(make_pipeline(Normalizer(), KBinsDiscretizer()))  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    tidegate.checks.InvalidValueError: features must be maps that learn nothing from records, ...
    """
    if isinstance(features, COMPOSITES):
        if isinstance(features, ColumnTransformer):
            _check_columns(features)
        for part in inside(features):
            if not isinstance(part, str | None) or part not in WORDS:
                check_stateless(part)
        return
    kind = family(features)
    if kind and not _learns_nothing(kind, features):
        advice = ADVICE.get(kind.__name__, OTHERWISE)
        raise InvalidValueError(
            "features must be maps that learn nothing from records, got "
            f"{type(features).__name__}: {advice}"
        )
    if not kind and not hasattr(features, "transform"):
        raise InvalidValueError(
            f"features must be maps with a transform method, got {type(features).__name__}"
        )


def _learns_nothing(kind: type, part: Any) -> bool:
    """Whether a transformer of this class is on the list, with the parameters it must have."""
    given = [getattr(part, GIVEN[kind])] if kind in GIVEN else []
    return (
        kind in STATELESS
        and all(getattr(part, name) == value for name, value in STATELESS[kind].items())
        and not any(value is None or str(value) == "auto" for value in given)
    )


def check_pipeline(pipeline: Pipeline) -> None:
    """Refuse a pipeline in which a step before the private model learns from records.

    What such a step learns, a mean or a list of categories, is not private, and no budget covers
    it. Most steps that learn can be left out: a survey centres and scales privately.

    Args:
        pipeline: A pipeline that ends in an estimator of Tidegate.

    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from tidegate import ApproxDP, PrivateClassifier
    >>> model = PrivateClassifier(budget=ApproxDP(1.0, 1e-6), classes=[0, 1], norm=3.0)
    >>> check_pipeline(make_pipeline(Normalizer(), model))
    >>> check_pipeline(make_pipeline(StandardScaler(), model))  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    tidegate.checks.InvalidValueError: step standardscaler learns from records: features must be ...
    """
    if not isinstance(pipeline, Pipeline):
        raise refuse("pipeline", "a Pipeline of scikit-learn", shown=type(pipeline).__name__)
    for name, step in pipeline.steps[:-1]:
        if step not in WORDS:
            try:
                check_stateless(step)
            except InvalidValueError as error:
                raise InvalidValueError(f"step {name} learns from records: {error}") from None


def _check_columns(features: ColumnTransformer) -> None:
    """Refuse columns chosen by a function: by their dtype, one record could change the choice."""
    for name, _, columns in features.transformers:
        if callable(columns):
            raise InvalidValueError(
                f"features must name the columns of {name!r}, got a function that chooses them: "
                "the dtypes it may look at depend on records"
            )


def first_map(features: Any) -> Any:
    """The map that reads records as they arrive: the first step of a pipeline, or the map."""
    return features.steps[0][1] if isinstance(features, Pipeline) else features


def transformed(features: Any, X: Any, spelling: int) -> Any:
    """What a user's map makes of records: arrays, whatever `sklearn.set_config` says."""
    if getattr(first_map(features), "takes_text", False):
        X = as_texts(X, spelling)
    with config_context(transform_output="default"):
        return features.transform(X)


def described(features: Any) -> list[Step]:
    """The steps of a map that does not describe itself, for a card; see `described_map`."""
    if isinstance(features, ComposedMap):
        return described_map(features.given)
    if isinstance(features, Pipeline):
        return [step for _, part in features.steps for step in described_map(part)]
    parameters = features.get_params(deep=False) if hasattr(features, "get_params") else {}
    names = [*parameters] if family(features) is None else _changed(features, parameters)
    return [{"kind": type(features).__name__, **{name: _plain(parameters[name]) for name in names}}]


def _changed(features: Any, parameters: Mapping[str, Any]) -> list[str]:
    """The parameters of a transformer of scikit-learn's that are not as by default."""
    defaults = signature(type(features).__init__).parameters
    return [name for name, value in parameters.items() if value is not defaults[name].default]


def _plain(value: Any) -> Any:
    """A parameter as a card can hold it: maps are described, functions and classes are named."""
    value = value.tolist() if hasattr(value, "tolist") else value
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if isinstance(value, Mapping):
        return {str(key): _plain(each) for key, each in value.items()}
    if hasattr(value, "transform"):
        return described_map(value)
    if isinstance(value, str | int | None) or (isinstance(value, float) and isfinite(value)):
        return value
    return getattr(value, "__name__", str(value))
