"""The configurations of estimators."""

from fractions import Fraction
from functools import partial
from typing import Any

from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer

from tests.freeze import records
from tests.freeze.estimators import Records, Settings, estimator
from tests.freeze.made import SEED
from tidegate import ApproxDP, PureDP
from tidegate.features import (
    AppendIntercept,
    Category,
    Columns,
    Flag,
    HashedText,
    NormClip,
    Number,
    RandomFourier,
    RandomProjection,
    Text,
    Time,
)
from tidegate.learn import GradientPerturbation, OutputPerturbation
from tidegate.schedule import (
    Basic,
    Continual,
    Cumulative,
    Fading,
    Growing,
    Independent,
    MultiResolution,
    SlidingWindow,
    TwoStream,
)

DESCENT = GradientPerturbation(steps=None, rate=None, clip=None, spread=None, lead=None)
OUTPUT = OutputPerturbation(slack=2.0**-10)

ANY: Settings = {
    "budget": ApproxDP(64.0, 1e-6),
    "contributions": None,
    "period": None,
    "typical": 1,
    "not_private_seed": SEED,
}
LINEAR: Settings = {
    **ANY,
    "norm": 1.5,
    "regularization": 0.0,
    "learner": DESCENT,
    "features": None,
    "survey": Fraction(1, 20),
}
CLASSES: Settings = {**LINEAR, "classes": [0, 1], "loss": "logistic"}
NUMBER: Settings = {**LINEAR, "target": (0.0, 8.0), "loss": "squared"}
SUMMARY: Settings = {**ANY, "regularization": 1.0, "allocation": "paper"}
PURE: Settings = {
    "budget": PureDP(64.0),
    "learner": OUTPUT,
    "regularization": 0.1,
    "survey": Fraction(0),
}
WHERE: Settings = {"compute": None}
ALLOCATED: Settings = {"allocation": "paper", **WHERE}
SLIDING: Settings = {"window": 150, "step": 50, "sample": None, "refit": False, **ALLOCATED}
CONTINUAL: Settings = {"block": 80, "step": 40, "sample": None, **ALLOCATED}
FADING: Settings = {
    "step": 60,
    "forget": Fraction(1, 2),
    "memory": 3,
    "first": 1,
    "linger": Fraction(1, 4),
}
GROWING: Settings = {"block": 80, "step": 40, "growth": Fraction(1, 4)}
PERSONS: Settings = {"contributions": 2}

FADED = Fading(step=60, forget=Fraction(1, 2), memory=3, first=1, linger=Fraction(1, 4))
GROWN = Growing(block=80, step=40, growth=Fraction(1, 4))
SLID = SlidingWindow(window=150, step=50, sample=None, refit=None)
CONTINUED = Continual(block=80, step=40, sample=None)


def plain() -> Records:
    return Records(*records.with_gaps(290), questions=asked())


def asked(d: int = 3) -> Any:
    return records.numbers(20, d, seed=9)[0]


def not_exported() -> Records:
    """The same, for maps of scikit-learn's, which a card only names."""
    return Records(*records.numbers(290))


def valued() -> Records:
    return Records(*records.targets(250), questions=asked())


def named() -> Records:
    return Records(*records.three(250), questions=asked())


def sparse() -> Records:
    return Records(*records.sparse(260), questions=asked(8))


def small() -> Records:
    X, y = records.with_gaps(290)
    return Records(X.astype("float32"), y, questions=asked().astype("float32"))


def owned() -> Records:
    return Records(*records.with_gaps(310), records.people(310), questions=asked())


def two(*, protected: bool = False, target: bool = False) -> Records:
    X, y = records.targets(330) if target else records.with_gaps(330)
    persons = records.people(330) if protected else None
    stream = [("source", "target")[number % 110 > 63] for number in range(330)]
    return Records(X, y, persons, stream, questions=asked())


def said() -> Records:
    X, y = records.texts(240)
    return Records(X, y, questions=X[:15])


def tabled() -> Records:
    rows = records.visits(240)
    return Records(rows, [each["y"] for each in rows], questions=rows[10:30])


def averaged() -> Records:
    return Records(records.with_gaps(290)[0])


def counted() -> Records:
    return Records(records.three(250)[1])


COLUMNS = Columns(
    [
        Number("age", low=0, high=100, log=False, gaps=()),
        Number("cost", low=1, high=256, log=True, gaps=()),
        Category("ward", values=["A", "B", "é"], hash=None, others=None, gaps=()),
        Flag("smoker", gaps=()),
        Time("seen", parts=("hour", "weekday", "month", "year"), low=2000, high=2030, gaps=()),
        Text(
            "note", size=16, words=(1, 1), characters=(), encoder=None, tokenizer=None, length=256
        ),
    ],
    spelling=2,
)
TEXT = HashedText(n_features=64, words=(1, 2), characters=(3, 4))
WORDS = make_pipeline(TEXT, AppendIntercept(value=0.5))
BENT = make_pipeline(RandomFourier(n_components=6, gamma=0.5, seed=3), NormClip(norm=1.0))
NORMAL = make_pipeline(Normalizer(norm="l2", copy=True), AppendIntercept(value=0.5))
CAST = make_pipeline(RandomProjection(n_components=2, seed=3), AppendIntercept(value=1.0))
SOURCE = Cumulative(block=90, sample=None)
TWO: Settings = {"source": SOURCE, "step": 60, **ALLOCATED}
REFITTED = SlidingWindow(window=150, step=50, sample=None, refit=True)
SAMPLED = SlidingWindow(window=150, step=50, sample=40, refit=None)
HUBER: Settings = {"loss": "huber"}
SOFTMAX: Settings = {"loss": "softmax", "classes": ["low", "mid", "high"]}
HISTOGRAM: Settings = {**SUMMARY, "categories": ["low", "mid", "high"]}
MEAN: Settings = {**SUMMARY, "norm": 1.5}

CONFIGURATIONS = [
    estimator("", "PrivateClassifier", {**CLASSES, **WHERE}, Independent(step=290), plain),
    estimator(
        "pure",
        "PrivateClassifier",
        {**CLASSES, **WHERE, **PURE, **HUBER},
        Independent(step=290),
        plain,
    ),
    estimator(
        "texts",
        "PrivateClassifier",
        {**CLASSES, **WHERE, "features": WORDS},
        Independent(step=240),
        said,
    ),
    estimator("", "PrivateRegressor", {**NUMBER, **WHERE}, Independent(step=250), valued),
    estimator("", "ContinualClassifier", {**CLASSES, **CONTINUAL}, CONTINUED, plain),
    estimator(
        "tapered softmax",
        "ContinualClassifier",
        {**CLASSES, **CONTINUAL, **SOFTMAX, "allocation": "tapered"},
        CONTINUED,
        named,
    ),
    estimator(
        "pure", "ContinualRegressor", {**NUMBER, **CONTINUAL, **PURE, **HUBER}, CONTINUED, valued
    ),
    estimator("", "SlidingWindowClassifier", {**CLASSES, **SLIDING}, SLID, plain),
    estimator(
        "float32",
        "SlidingWindowClassifier",
        {**CLASSES, **SLIDING, "survey": Fraction(0)},
        SLID,
        small,
    ),
    estimator(
        "refitted",
        "SlidingWindowClassifier",
        {**CLASSES, **SLIDING, "refit": True},
        REFITTED,
        plain,
    ),
    estimator(
        "sampled",
        "SlidingWindowClassifier",
        {**CLASSES, **SLIDING, **PURE, "sample": 40},
        SAMPLED,
        plain,
    ),
    estimator("sparse", "SlidingWindowClassifier", {**CLASSES, **SLIDING}, SLID, sparse),
    estimator(
        "fourier", "SlidingWindowClassifier", {**CLASSES, **SLIDING, "features": BENT}, SLID, plain
    ),
    estimator(
        "normalized",
        "SlidingWindowClassifier",
        {**CLASSES, **SLIDING, "features": NORMAL},
        SLID,
        not_exported,
    ),
    estimator(
        "columns",
        "SlidingWindowClassifier",
        {**CLASSES, **SLIDING, "classes": ["well", "ill"], "norm": None, "features": COLUMNS},
        SLID,
        tabled,
        sampled=True,
    ),
    estimator(
        "projected", "SlidingWindowRegressor", {**NUMBER, **SLIDING, "features": CAST}, SLID, valued
    ),
    estimator("", "GrowingClassifier", {**CLASSES, **GROWING}, GROWN, plain),
    estimator("", "GrowingRegressor", {**NUMBER, **GROWING, **HUBER}, GROWN, valued, sampled=True),
    estimator("", "FadingClassifier", {**CLASSES, **FADING}, FADED, plain),
    estimator("persons", "FadingClassifier", {**CLASSES, **FADING, **PERSONS}, FADED, owned),
    estimator(
        "persons for a period",
        "FadingClassifier",
        {**CLASSES, **FADING, **PERSONS, "period": 4},
        FADED,
        owned,
    ),
    estimator("", "FadingRegressor", {**NUMBER, **FADING}, FADED, valued),
    estimator(
        "", "TwoStreamClassifier", {**CLASSES, **TWO}, TwoStream(source=SOURCE, step=60), two
    ),
    estimator(
        "persons",
        "TwoStreamClassifier",
        {**CLASSES, **TWO, **PERSONS},
        TwoStream(source=SOURCE, step=60),
        partial(two, protected=True),
    ),
    estimator(
        "pure",
        "TwoStreamRegressor",
        {**NUMBER, **TWO, "source": SLID, **PURE, **HUBER},
        TwoStream(source=SLID, step=60),
        partial(two, target=True),
    ),
    estimator("sliding", "PrivateMean", {**MEAN, "schedule": SLID}, SLID, averaged, sampled=True),
    estimator(
        "basic, pure",
        "PrivateMean",
        {**MEAN, "schedule": Basic(block=80, step=40), "budget": PureDP(64.0)},
        Basic(block=80, step=40),
        averaged,
    ),
    estimator(
        "persons",
        "PrivateMean",
        {**MEAN, "schedule": FADED, **PERSONS},
        FADED,
        lambda: Records(records.with_gaps(310)[0], persons=records.people(310)),
    ),
    estimator(
        "multiresolution",
        "PrivateHistogram",
        {**HISTOGRAM, "schedule": MultiResolution(block=40, sample=None)},
        MultiResolution(block=40, sample=None),
        counted,
    ),
    estimator(
        "cumulative, pure",
        "PrivateHistogram",
        {**HISTOGRAM, "schedule": SOURCE, "budget": PureDP(64.0)},
        SOURCE,
        counted,
    ),
]
