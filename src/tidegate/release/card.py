"""Cards: what a release is, what it cost and how it was made; and the hashes that bind releases."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from datetime import UTC, datetime
from fractions import Fraction
from functools import lru_cache
from importlib.metadata import version
from platform import python_version
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tidegate.checks import InvalidValueError, Later, between, exact, refuse
from tidegate.data.feature_map import FeatureMap, built_map, described_map, takes_text
from tidegate.data.predicted import NOTHING, Predicted, Target, predicted_on_card, with_predicted
from tidegate.data.values import NEWEST, a_rule
from tidegate.learn.refit import Fold
from tidegate.learn.rules import RULES
from tidegate.learn.transform import Prepared, Transform, prepared_by, prepared_on_card
from tidegate.privacy import Budget
from tidegate.privacy.budget import down
from tidegate.privacy.person import EACH_RECORD, Person, Protects
from tidegate.schedule.fit import RecordFit
from tidegate.schedule.plan import Plan, TwoStreamPlan

if TYPE_CHECKING:
    from tidegate.release import model as models
    from tidegate.release.model import Model, RegressionModel
else:
    models = Later("tidegate.release.model")

Card = dict[str, Any]
"""Everything about a release except its weights, as a JSON object."""

NEIGHBOURS = "streams of one length that differ in the content of one record"
NOT_PRIVATE = "NOT PRIVATE: made with a seed"
PACKAGES = ("tidegate", "numpy", "python-flint", "scikit-learn")


@dataclass(frozen=True, kw_only=True, eq=False)
class Release:
    """An immutable published model.

    Attributes:
        number: Its place among the releases, counted from 0.
        fit: The fit that made it.
        share: What a record of the fit's span paid for it, if its slot weight is 1.
        budget: The budget of each record, of which the share is a part.
        weights: The model, read-only; shape (d, K), or (d,) for two classes. With a transform it
            has one more row, for the constant column.
        transform: How the model centres and scales features; None if there are no surveys.
        fold: What its refit changed, which the weights contain.
        settings: The public numbers of the fit, as its learner reports them.
        private: False if the noise came from a seed.
        about: The public settings of its run.
        time: When it was made, with a time zone.
        rules: The number of the public rules that it follows; see `tidegate.learn.rules`.
    """

    number: int
    fit: RecordFit
    share: Fraction
    budget: Budget
    weights: NDArray[np.float64]
    settings: Mapping[str, float]
    private: bool
    transform: Transform | None = None
    fold: Fold = Fold()
    about: "About | None" = None
    time: datetime | None = None
    rules: int = RULES

    @property
    def card(self) -> Card:
        """The whole card: what the release is, what it cost and how it was made."""
        if not (self.about and self.time):
            raise InvalidValueError("this release does not know its run: use make_card")
        return make_card(self, self.about, time=self.time)

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Make the weights read-only again after a copy or a load."""
        state["weights"].flags.writeable = False
        self.__dict__.update(state)

    def entries(self) -> Card:
        """The entries of the card about this release; `make_card` adds those about its run."""
        fit, descends = self.fit, "rate" in self.settings  # only a descent starts somewhere
        return {
            "release": self.number,
            "fit": fit.number,
            "at": fit.at,
            "start": fit.span.start,
            "stop": fit.span.stop,
            "sample": fit.sample,
            "stream": fit.stream,
            "prior": fit.prior,
            **({"started_from": fit.start} if fit.start is not None and descends else {}),
            "level": fit.level,
            "emphasis": [[*span, str(part)] for span, part in fit.slot_weights],
            "share": str(self.share),
            "share_rounded_down": down(self.share),
            self.budget.unit: self.budget.of_share(self.share),
            "budget": {"epsilon": self.budget.epsilon, "delta": self.budget.delta},
            "neighbours": NEIGHBOURS,
            "rules": self.rules,
            "settings": dict(self.settings),
            **prepared_by(self.transform).entries(),
            **({} if self.fold == Fold() else {"refit": self.fold._asdict()}),
            "shape": list(self.weights.shape),
            "private": self.private,
            "warning": None if self.private else NOT_PRIVATE,
        }


def fold_of(card: Card) -> Fold:
    """The fold that a card states; without one it changes nothing.

    >>> fold_of({"refit": {"temperature": 0.5, "shift": -1.0}})
    Fold(temperature=0.5, shift=-1.0)
    """
    stated = card.get("refit", {})
    return Fold(*(between(name, stated.get(name, 0.0), -16.0, 16.0) for name in Fold._fields))


class Content:
    """Hides the content of a record whose place everybody may know."""

    def entries(self) -> Card:
        """What a card says about it: nothing, unless more is hidden."""
        return {}


CONTENT = Content()


@dataclass(frozen=True, kw_only=True)
class About:
    """The public settings of a run, fixed before the first record.

    Attributes:
        plan: Which records each fit reads when, and its share.
        task: The loss, if there is one, the norm and the regularization.
        learner: How fits are made private.
        predicted: What is predicted; classes are in the order of the weights' columns.
        features: The feature map that is applied to every record, if any, or its description.
        dtype: The dtype of the stored features.
        columns: The names of the columns that features are made of, if they have names.
        label: The name of the column of labels.
        spelling: The rule by which values are read, see `tidegate.data.values`.
        hidden: What is hidden about a record.
    """

    plan: Plan | TwoStreamPlan
    task: Any
    learner: Any
    predicted: Predicted = NOTHING
    features: FeatureMap | list[Any] | None = None
    dtype: str = "float64"
    columns: tuple[str, ...] | None = None
    label: str | None = None
    spelling: int = NEWEST
    hidden: Content = CONTENT

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Take what an earlier version has pickled."""
        self.__dict__.update(with_predicted(state))

    def entries(self) -> Card:
        """The entries of a card that are the same for all releases."""
        return {
            "schedule": described(self.plan.schedule),
            "allocation": described(self.plan.allocation),
            "learner": described(self.learner),
            "loss": described(getattr(self.task, "loss", None)),
            "norm": self.task.norm,
            "regularization": self.task.regularization,
            **self.predicted.entries(),
            "features": described_map(self.features),
            "dtype": self.dtype,
            "columns": self.columns,
            "label": self.label,
            **({} if self.spelling == 1 else {"spelling": self.spelling}),
            **self.plan.protects.entries(),
            **self.hidden.entries(),
        }


def protects_of(card: Card) -> Protects:
    """Who is protected, according to a card: records, unless it says otherwise."""
    stated = card.get("protects")
    if not stated:
        return EACH_RECORD
    return Person(
        contributions=stated["contributions"],
        typical=exact(stated["typical"]),
        period=stated["period"],
    )


def make_card(
    release: Release,
    about: About,
    *,
    time: datetime,
    evaluation: Mapping[str, Any] | None = None,
    survey: Mapping[str, Any] | None = None,
) -> Card:
    """The whole card of a release.

    Args:
        release: The release.
        about: The public settings of its run.
        time: When it was made, with a time zone.
        evaluation: How accurate it is, as far as that is public; None if it was not evaluated.
        survey: The survey of its step; None if there was none.
    """
    if not time.tzinfo:
        raise refuse("time", "a datetime with a time zone, such as datetime.now(UTC)", time)
    packages = {package: installed(package) for package in PACKAGES}
    card = {
        **release.entries(),
        **about.entries(),
        "evaluation": evaluation,
        **({"survey": survey} if survey else {}),
        "versions": {**packages, "python": python_version()},
        "time": time.astimezone(UTC).isoformat(timespec="seconds"),
    }
    plain: Card = json.loads(canonical(card))  # so that it equals a card that is read back
    return plain


installed = lru_cache(version)
"""The version of a package that is installed."""


def described(thing: Any) -> Any:
    """A frozen dataclass as a dict of its kind and its fields; fractions become text.

    >>> from tidegate.schedule import SlidingWindow
    >>> described(SlidingWindow(window=70, step=10))
    {'kind': 'SlidingWindow', 'window': 70, 'step': 10, 'sample': None, 'refit': None}
    """
    if not is_dataclass(thing):
        return str(thing) if isinstance(thing, Fraction) else thing
    values = {field.name: described(getattr(thing, field.name)) for field in fields(thing)}
    return {"kind": type(thing).__name__, **values}


def canonical(value: object) -> str:
    """The canonical JSON text of a value: sorted keys, no spaces, no NaN.

    >>> canonical({"b": 1.0, "a": ["é", None]})
    '{"a":["é",null],"b":1.0}'
    """
    try:
        return json.dumps(
            value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
        )
    except (TypeError, ValueError) as error:
        allowed = "use text, finite numbers, true, false, None, lists and dicts only"
        raise InvalidValueError(f"a card holds what JSON cannot: {error}; {allowed}") from None


FIRST = "0" * 64
"""The previous hash of the first release, which has none before it."""


def release_hash(card: Card, weights: NDArray[np.float64], previous: str = FIRST) -> str:
    """The SHA-256 of a card, its weights and the hash of the release before, in this order.

    The card is canonical JSON in UTF-8, the weights are little-endian float64 row by row, and the
    previous hash is 64 characters. The card contains the shape of the weights, so two different
    releases never hash the same bytes.

    >>> release_hash({"shape": [1]}, np.array([0.5]))[:16]
    'b2538fe9688fd2df'
    """
    digest = hashlib.sha256(canonical(card).encode())
    digest.update(np.ascontiguousarray(weights, "<f8").tobytes())
    digest.update(previous.encode())
    return digest.hexdigest()


@dataclass(frozen=True, kw_only=True, eq=False)
class StoredRelease:
    """A release as it is stored and published.

    Attributes:
        card: Its card.
        weights: The model; shape (d, K), or (d,) for two classes.
        previous: The hash of the release before, `FIRST` if there is none.
        hash: The `release_hash` of these three.
    """

    card: Card
    weights: NDArray[np.float64]
    previous: str
    hash: str

    @property
    def number(self) -> int:
        """Its place among the releases, counted from 0."""
        return int(self.card["release"])

    @property
    def text(self) -> str:
        """Everything in the release except its weights, as JSON."""
        return canonical({"card": self.card, "previous": self.previous, "hash": self.hash})

    @property
    def intact(self) -> bool:
        """Whether the hash and the shape match the card and the weights."""
        shape = list(self.weights.shape)
        same = self.hash == release_hash(self.card, self.weights, self.previous)
        return same and self.card.get("shape") == shape

    @property
    def prepared(self) -> Prepared:
        """What the release does to clipped rows."""
        return prepared_on_card(self.card)

    @property
    def transform(self) -> Transform | None:
        """How the release centres and scales features; None if it does not."""
        return self.prepared.stated

    @property
    def predicted(self) -> Predicted:
        """What the release predicts."""
        return predicted_on_card(self.card)

    @property
    def target(self) -> Target | None:
        """The range of what the release predicts; None if it predicts classes."""
        return Target.of_card(self.card)

    def model(self, features: FeatureMap | None = None) -> "Model | RegressionModel":
        """The model of the release: a `Model`, or a `RegressionModel` if it predicts a target.

        Args:
            features: The feature map, needed only if the card does not describe it in full.
        """
        card, target = self.card, self.target
        common: dict[str, Any] = {
            "weights": self.weights,
            "norm": card["norm"],
            "transform": self.transform,
            "features": built_map(card["features"]) if features is None else features,
            "columns": named_columns(card),
            "card": card,
            "spelling": a_rule("spelling", card.get("spelling", 1)),
        }
        if target is not None:
            return models.RegressionModel(target=target, **common)
        return models.Model(classes=np.asarray(card["classes"]), **common)

    def classifier(self, features: FeatureMap | None = None) -> "Model":
        """The model of a release that predicts classes; refuse one that predicts a target.

        Args:
            features: The feature map, needed only if the card does not describe it in full.
        """
        model = self.model(features)
        if not isinstance(model, models.Model):
            raise refuse("the release", "one that predicts classes", shown="one with a target")
        return model


def named_columns(card: Card) -> list[str] | None:
    """The names of the columns that a release takes; None if records are texts or have no names."""
    return None if takes_text(card["features"]) else card.get("columns")


def seal(card: Card, weights: NDArray[np.float64], previous: str = FIRST) -> StoredRelease:
    """Make the stored release that follows the one with the hash `previous`."""
    return StoredRelease(
        card=card, weights=weights, previous=previous, hash=release_hash(card, weights, previous)
    )
