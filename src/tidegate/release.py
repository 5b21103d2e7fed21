"""Releases: published models, each with the card that says what it is and what it cost."""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from datetime import UTC, datetime
from fractions import Fraction
from importlib.metadata import version
from math import sqrt
from platform import python_version
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.pipeline import Pipeline, make_pipeline

from tidegate import features as maps
from tidegate.checks import InvalidValueError, refuse
from tidegate.features.feature_map import FeatureMap
from tidegate.learn.gradient import deviation
from tidegate.learn.intake import featurize
from tidegate.learn.learner import Task
from tidegate.plan import Plan, TwoStreamPlan
from tidegate.privacy import Budget
from tidegate.privacy.meaning import meaning
from tidegate.privacy.meaning import name as privacy_name
from tidegate.privacy.noise import lattice
from tidegate.privacy.rounding import down, up
from tidegate.schedule import Fit

Card = dict[str, Any]
"""All there is to know about a release but its weights, as JSON has it."""

FIRST = "0" * 64
"""What stands for the hash of the release before the first."""

NEIGHBOURS = "streams of one length that differ in the content of one record"
NOT_PRIVATE = "NOT PRIVATE: made with a seed"
MAPS = (
    "AppendIntercept",
    "HashedText",
    "NormClip",
    "RandomFourier",
    "RandomProjection",
    "Scattering",
)
PACKAGES = ("tidegate", "numpy", "python-flint", "scikit-learn")


@dataclass(frozen=True, kw_only=True, eq=False)
class Release:
    """An immutable published model.

    Attributes:
        number: Its place among the releases.
        fit: The fit that made it.
        share: What the records of the fit's span have paid for it, those that count for 1.
        budget: What the share is a share of.
        weights: The model, read-only; shape (d, K), or (d,) for two classes.
        settings: The public numbers of the fit: noise scale, tolerance, steps ...
        private: False if the noise came from a seed.
    """

    number: int
    fit: Fit
    share: Fraction
    budget: Budget
    weights: NDArray[np.float64]
    settings: Mapping[str, float]
    private: bool

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Weights that were copied or saved and loaded are read-only again."""
        state["weights"].flags.writeable = False
        self.__dict__.update(state)

    def card(self) -> Card:
        """What the release is and what it cost; `make_card` adds what its run is."""
        fit = self.fit
        return {
            "release": self.number,
            "fit": fit.number,
            "at": fit.at,
            "start": fit.span.start,
            "stop": fit.span.stop,
            "sample": fit.sample,
            "stream": fit.stream,
            "prior": fit.prior,
            "level": fit.level,
            "emphasis": [[*span, str(part)] for span, part in fit.slot_weights],
            "share": str(self.share),
            "share_rounded_down": down(self.share),
            self.budget.unit: self.budget.of_share(self.share),
            "budget": {"epsilon": self.budget.epsilon, "delta": self.budget.delta},
            "neighbours": NEIGHBOURS,
            "settings": {**self.settings, **self._noise()},
            "shape": list(self.weights.shape),
            "private": self.private,
            "warning": None if self.private else NOT_PRIVATE,
        }

    def _noise(self) -> dict[str, float]:
        """How far one record moves what is noised, and the lattice this is rounded to."""
        known = self.settings
        if "clip" in known:  # gradient perturbation: what is noised is a mean of clipped gradients
            slots = self.fit.counted
            amount = self.budget.of_share(self.share)
            sigma = deviation(known["clip"], int(known["steps"]), amount)
            sensitivity = up(2 * Fraction(known["clip"]) / slots)
            return {"sensitivity": sensitivity, "lattice": lattice(sigma) / slots}
        if "sensitivity" in known:  # output perturbation: it is the weights themselves
            spread = 1.0 if self.budget.unit == "mu" else sqrt(self.weights.size + 1)
            return {"lattice": lattice(known["noise_scale"] * spread)}
        return {}


@dataclass(frozen=True, kw_only=True)
class About:
    """What is public about all the models of a run, fixed before the first record.

    Attributes:
        plan: Which records are read when, and for which share.
        task: What is learnt: loss, norm and regularization.
        learner: How it is made private.
        classes: All labels, in the order of the weights' columns.
        features: The map that every record goes through first.
        dtype: Of the stored features.
        columns: The names of the columns that a record is made of, if it came by names.
        label: The name of the column of labels.
    """

    plan: Plan | TwoStreamPlan
    task: Task
    learner: Any
    classes: Iterable[Any]
    features: FeatureMap | None = None
    dtype: str = "float64"
    columns: tuple[str, ...] | None = None
    label: str | None = None

    def card(self) -> Card:
        """The part of a card that is the same for all releases."""
        return {
            "schedule": described(self.plan.schedule),
            "allocation": described(self.plan.allocation),
            "learner": described(self.learner),
            "loss": described(self.task.loss),
            "norm": self.task.norm,
            "regularization": self.task.regularization,
            "classes": np.asarray(list(self.classes)).tolist(),
            "features": described_map(self.features),
            "dtype": self.dtype,
            "columns": self.columns,
            "label": self.label,
        }


def make_card(
    release: Release, about: About, *, time: datetime, evaluation: Mapping[str, Any] | None = None
) -> Card:
    """The whole card of a release.

    Args:
        release: What was made.
        about: What is public about the run that made it.
        time: When, with its time zone.
        evaluation: How good it is, as far as that may be told; None if it was not evaluated.
    """
    if time.tzinfo is None:
        raise refuse("time", "with a time zone", time)
    packages = {package: version(package) for package in PACKAGES}
    card = {
        **release.card(),
        **about.card(),
        "evaluation": evaluation,
        "versions": {**packages, "python": python_version()},
        "time": time.astimezone(UTC).isoformat(timespec="seconds"),
    }
    plain: Card = json.loads(canonical(card))  # so that a card read back is equal to this one
    return plain


def described(thing: Any) -> Any:
    """A frozen dataclass as its kind and its fields; fractions as text, other values as they are.

    >>> from tidegate.schedule import SlidingWindow
    >>> described(SlidingWindow(window=70, step=10))
    {'kind': 'SlidingWindow', 'window': 70, 'step': 10, 'sample': None}
    """
    if not is_dataclass(thing):
        return str(thing) if isinstance(thing, Fraction) else thing
    known = {field.name: described(getattr(thing, field.name)) for field in fields(thing)}
    return {"kind": type(thing).__name__, **known}


def described_map(features: Any) -> list[Card]:
    """The steps of a feature map in their order, each with its kind and parameters.

    >>> described_map(make_pipeline(maps.AppendIntercept(0.5), maps.NormClip()))
    [{'kind': 'AppendIntercept', 'value': 0.5}, {'kind': 'NormClip', 'norm': 1.0}]
    """
    if features is None:
        return []
    if isinstance(features, Pipeline):
        return [step for _, part in features.steps for step in described_map(part)]
    known = features.get_params(deep=False) if hasattr(features, "get_params") else {}
    return [{"kind": type(features).__name__, **known}]


def built_map(steps: Sequence[Card]) -> FeatureMap | None:
    """The feature map that a card describes, made of the maps of `tidegate.features`.

    >>> built_map([{"kind": "AppendIntercept", "value": 0.5}]).transform([[2.0]])
    array([[2. , 0.5]])
    """
    if not steps:
        return None
    parts = []
    for step in steps:
        known = {key: tuple(v) if isinstance(v, list) else v for key, v in step.items()}
        kind = known.pop("kind")
        if kind not in MAPS:
            raise refuse("features", f"given: the card only names the map {kind}", None)
        parts.append(getattr(maps, kind)(**known))
    made: FeatureMap = make_pipeline(*parts)
    return made


def canonical(value: object) -> str:
    """The one JSON text of a value: sorted keys, no spaces, no NaN.

    >>> canonical({"b": 1.0, "a": ["é", None]})
    '{"a":["é",null],"b":1.0}'
    """
    try:
        return json.dumps(
            value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
        )
    except (TypeError, ValueError) as error:
        raise InvalidValueError(f"a card holds what JSON cannot: {error}") from None


def release_hash(card: Card, weights: NDArray[np.float64], previous: str = FIRST) -> str:
    """What binds a card, its weights and all releases before: SHA-256 over the three in turn.

    The card as canonical JSON in UTF-8, the weights as little-endian float64 in rows, the hash
    before as 64 characters. The card has the weights' shape, so no two releases share a text.

    >>> release_hash({"shape": [1]}, np.array([0.5]))[:16]
    'b2538fe9688fd2df'
    """
    digest = hashlib.sha256(canonical(card).encode())
    digest.update(np.ascontiguousarray(weights, "<f8").tobytes())
    digest.update(previous.encode())
    return digest.hexdigest()


@dataclass(frozen=True, kw_only=True, eq=False)
class StoredRelease:
    """A release as it is kept and handed out: nothing else is needed to predict with it.

    Attributes:
        card: What it is.
        weights: The model; shape (d, K), or (d,) for two classes.
        previous: The hash of the release before, `FIRST` if there is none.
        hash: What `release_hash` says of the three.
    """

    card: Card
    weights: NDArray[np.float64]
    previous: str
    hash: str

    @property
    def number(self) -> int:
        """Its place among the releases."""
        return int(self.card["release"])

    @property
    def intact(self) -> bool:
        """Whether the hash is that of what is here."""
        shape = list(self.weights.shape)
        same = self.hash == release_hash(self.card, self.weights, self.previous)
        return same and self.card.get("shape") == shape

    def model(self, features: FeatureMap | None = None) -> "Model":
        """What predicts.

        Args:
            features: The feature map, where the card only names it.
        """
        card = self.card
        return Model(
            weights=self.weights,
            classes=np.asarray(card["classes"]),
            norm=card["norm"],
            features=built_map(card["features"]) if features is None else features,
        )


def seal(card: Card, weights: NDArray[np.float64], previous: str = FIRST) -> StoredRelease:
    """A release with its place in the chain."""
    return StoredRelease(
        card=card, weights=weights, previous=previous, hash=release_hash(card, weights, previous)
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class Model:
    """A linear classifier that predicts, and knows nothing of how it came to be.

    Attributes:
        weights: Shape (d, K), or (d,) for two classes.
        classes: The labels, in the order of the weights' columns.
        norm: What the features of every record are clipped to.
        features: The map that every record goes through first.

    >>> model = Model(weights=np.array([1.0, -2.0]), classes=np.array(["no", "yes"]), norm=5.0)
    >>> model.predict([[3.0, 1.0], [0.0, 4.0]]), model.predict_proba([[3.0, 1.0]]).round(3)
    (array(['yes', 'no'], dtype='<U3'), array([[0.269, 0.731]]))
    """

    weights: NDArray[np.float64]
    classes: NDArray[Any]
    norm: float
    features: FeatureMap | None = None

    def decision_function(self, X: Any) -> NDArray[np.float64]:
        """The margins of each record, shape (n, K), or (n,) for two classes.

        Args:
            X: Records as the fit took them: what `features` takes, if given.
        """
        width = self.weights.shape[0]
        rows = featurize(X, norm=self.norm, features=self.features, width=width)
        margins = np.asarray(rows @ self.weights)
        if not np.isfinite(margins).all():
            raise InvalidValueError("X contains NaN, infinity or text: these cannot be predicted")
        return margins

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """The probability of each class, shape (n, K).

        Args:
            X: Records as the fit took them.
        """
        margins = self.decision_function(X)
        if margins.ndim == 1:
            margins = np.column_stack([np.zeros_like(margins), margins])
        shares = np.exp(margins - margins.max(axis=1, keepdims=True))
        probabilities: NDArray[np.float64] = shares / shares.sum(axis=1, keepdims=True)
        return probabilities

    def predict(self, X: Any) -> NDArray[Any]:
        """The class of each record, shape (n,).

        Args:
            X: Records as the fit took them.
        """
        margins = self.decision_function(X)
        codes = (margins > 0).astype(np.intp) if margins.ndim == 1 else margins.argmax(axis=1)
        labels: NDArray[Any] = self.classes[codes]
        return labels


def to_markdown(card: Card) -> str:
    """A card for people: the guarantee, what an auditor can check, then all there is."""
    epsilon, delta = card["budget"]["epsilon"], card["budget"]["delta"]
    unit = "mu" if "mu" in card else "epsilon"
    title = [f"# Release {card['release']}", ""]
    if card["warning"]:
        title += [
            f"**{card['warning']}**: what is said below is true of no release of its run.",
            "",
        ]
    title += [
        "All that is ever released about a record of the stream, this model included, is "
        f"{privacy_name(epsilon, delta)}. {meaning(epsilon, delta)}",
        "From this card, without any record, an auditor can recompute the plan, the share of every "
        "fit, that no record's shares add up to more than 1, the noise that this share demands and "
        "the hash that binds this card, its weights and all releases before.",
    ]
    rows = {
        "records read": f"{card['start']} to {card['stop'] - 1}, when {card['at']} had arrived",
        "sample": card["sample"] or "all of them",
        "stream": card["stream"],
        "fit": f"{card['fit']}, level {card['level']}",
        "prior": "none" if card["prior"] is None else f"the model of fit {card['prior']}",
        "schedule": _words(card.get("schedule")),
        "allocation": _words(card.get("allocation")),
        "share": f"{card['share']} (about {card['share_rounded_down']:.6g})",
        "emphasis": _slot_weights(card.get("emphasis", [])),
        unit: f"{card[unit]:.6g} for this fit",
        "budget": f"epsilon {epsilon:g}, delta {delta:g}, for ever",
        "neighbours": card["neighbours"],
        "learner": _words(card.get("learner")),
        **{key.replace("_", " "): f"{value:.6g}" for key, value in card["settings"].items()},
        "loss": _words(card.get("loss")),
        "norm": card.get("norm"),
        "regularization": card.get("regularization"),
        "classes": ", ".join(map(str, card.get("classes", []))),
        "features": ", then ".join(str(_words(step)) for step in card.get("features", []))
        or "as they came",
        "dtype": card.get("dtype"),
        "columns": ", ".join(card.get("columns") or []) or None,
        "label": card.get("label"),
        "weights": " x ".join(map(str, card["shape"])),
        "evaluation": _words(card.get("evaluation")),
        "versions": _words(card.get("versions")),
        "time": card.get("time"),
        "private": "yes" if card["private"] else card["warning"],
    }
    return (
        "\n".join(title)
        + "\n\n"
        + _table({k: str(v) for k, v in rows.items() if v is not None})
        + "\n"
    )


def _slot_weights(slot_weights: Sequence[Sequence[Any]]) -> str:
    """What the records of a fit count for, in words."""
    if not slot_weights:
        return "all records count for 1"
    parts = f"records count for {slot_weights[0][2]} in the oldest to 1 in the newest"
    return f"{parts} of {len(slot_weights)} blocks; one that counts for w pays w^2 times the share"


def _words(known: Mapping[str, Any] | None) -> str | None:
    """A described thing in one line.

    >>> _words({"kind": "SlidingWindow", "window": 70, "step": 10, "sample": None})
    'SlidingWindow (window 70, step 10)'
    """
    if known is None:
        return None
    parts = [
        f"{key} {_words(value) if isinstance(value, Mapping) else value}"
        for key, value in known.items()
        if key != "kind" and value is not None
    ]
    inside = ", ".join(parts)
    if "kind" not in known:
        return inside
    return f"{known['kind']} ({inside})" if inside else str(known["kind"])


def _table(rows: Mapping[str, str]) -> str:
    """A Markdown table of two columns that line up as plain text too."""
    safe = {key: text.replace("\n", " ").replace("|", "\\|") for key, text in rows.items()}
    left, right = max(map(len, safe)), max(map(len, safe.values()))
    lines = [
        f"| {'what':<{left}} | {'value':<{right}} |",
        f"|{'-' * (left + 2)}|{'-' * (right + 2)}|",
    ]
    lines += [f"| {key:<{left}} | {text:<{right}} |" for key, text in safe.items()]
    return "\n".join(lines)
