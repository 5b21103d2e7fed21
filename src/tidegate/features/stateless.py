"""Says which transformers learn nothing from records; all others of scikit-learn are refused.

The list is closed: what is not on it is taken for a learner.
"""

from collections.abc import Callable, Iterator
from typing import Any

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

COMPOSITES = (ColumnTransformer, FeatureUnion, Pipeline)
"""What holds other transformers, and learns nothing itself."""

WORDS = ("passthrough", "drop", None)
"""What scikit-learn allows in place of a transformer."""


def _categories(part: Any) -> bool:
    listed = not isinstance(part.categories, str)
    return listed and part.min_frequency is None and part.max_categories is None


STATELESS: dict[type, Callable[[Any], bool]] = {
    Binarizer: lambda _: True,
    FeatureHasher: lambda _: True,
    FrozenEstimator: lambda _: True,
    FunctionTransformer: lambda _: True,
    HashingVectorizer: lambda part: part.input == "content",
    MissingIndicator: lambda part: part.features == "all",
    Normalizer: lambda _: True,
    OneHotEncoder: lambda part: (
        _categories(part) and part.handle_unknown == "ignore" and part.drop is None
    ),
    OrdinalEncoder: lambda part: _categories(part) and part.handle_unknown == "use_encoded_value",
    PolynomialFeatures: lambda _: True,
    SimpleImputer: lambda part: (
        part.strategy == "constant" and part.fill_value is not None and not part.add_indicator
    ),
}
"""The transformers of scikit-learn that learn nothing, each with a check of its parameters."""

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
    """The transformers that a composite holds, and words in place of one."""
    if isinstance(composite, ColumnTransformer):
        yield from (part for _, part, _ in composite.transformers)
        yield composite.remainder
    elif isinstance(composite, FeatureUnion):
        yield from (part for _, part in composite.transformer_list)
    else:
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
    if kind is not None and not (kind in STATELESS and STATELESS[kind](features)):
        advice = ADVICE.get(kind.__name__, OTHERWISE)
        raise InvalidValueError(
            "features must be maps that learn nothing from records, got "
            f"{type(features).__name__}: {advice}"
        )
    if kind is None and not hasattr(features, "transform"):
        raise InvalidValueError(
            f"features must be maps with a transform method, got {type(features).__name__}"
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
        if step is not None and step not in WORDS:
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
