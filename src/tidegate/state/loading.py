"""Load a release in Python: from a published folder, or from an exported file."""

import io
import os
from pathlib import Path
from typing import Any

import joblib
import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline

from tidegate.checks import InvalidValueError, positive, refuse, whole
from tidegate.data.feature_map import FeatureMap
from tidegate.data.maps import CenterScale, NormClip
from tidegate.data.predicted import Target
from tidegate.data.rows import NO_MIX
from tidegate.learn.transform import Transform
from tidegate.release import Model, RegressionModel, export_formats
from tidegate.release.card import StoredRelease, named_columns
from tidegate.release.clipped_regression import ClippedRegression
from tidegate.state.opening import holds_state
from tidegate.state.publish_folder import published_in, read_published
from tidegate.whole_file import read_whole

CARDS = (".json", ".md")
JOBLIB = ".joblib"


def load(
    path: Path | str,
    release: int | None = None,
    *,
    features: FeatureMap | None = None,
    trust: bool = False,
) -> Model | RegressionModel:
    """Load a release: a model that predicts, with its card.

    The model has `predict`, `card`, `coef_`, `intercept_` and `weights_by_name()`; one that
    predicts classes has `classes` and `predict_proba`, too. Loading and predicting cost no budget.
    A folder or file from a stranger is safe to load, except for .joblib files, which execute code.
    A hash in the file reveals damage; `tidegate verify` also checks what a card states.

    Args:
        path: A folder that a gate publishes to, or an exported .safetensors, .npz, .onnx or .joblib
            file. Reading .onnx files needs the extra `onnx`.
        release: The number of the release; by default the newest of the folder.
        features: The feature map, needed only if it is not one of Tidegate's: the card of such a
            release does not describe it in full.
        trust: Also load a .joblib file, which executes code that the file holds. Set it only for
            files that you made.

    >>> from tempfile import TemporaryDirectory
    >>> from tidegate import Config, Gate, load
    >>> def publishing(folder):
    ...     return Config.of({
    ...         "schedule": {"kind": "fading", "step": 500},
    ...         "budget": {"epsilon": 8.0, "delta": 1e-6},
    ...         "records": {"classes": ["no", "yes"], "norm": 3.0},
    ...         "publish": {"folder": folder},
    ...     })
    >>> X = np.random.default_rng(0).uniform(-1, 1, size=(1000, 2))
    >>> with TemporaryDirectory() as folder:
    ...     with Gate.open(f"{folder}/state", publishing(f"{folder}/published")) as gate:
    ...         made = gate.ingest(X, np.where(X[:, 0] > 0, "yes", "no"))
    ...     model = load(f"{folder}/published")
    >>> model.predict([[0.9, 0.0]]), model.card["release"]
    (array(['yes'], dtype='<U3'), 1)
    """
    path = _path(path)
    if path.suffix != JOBLIB or path.is_dir():
        return checked_model(path, load_release(path, release), features)
    if not trust:
        raise InvalidValueError(
            f"{path} is a joblib file, and loading one executes code that it holds: if you made it "
            "yourself, add trust=True; else ask for the .safetensors file"
        )
    model = _from_joblib(path)
    _check_number(path, (model.card or {}).get("release"), release)
    return model


def load_release(path: Path | str, release: int | None = None) -> StoredRelease:
    """Load a release from a published folder, or from a file that cannot execute code.

    Args:
        path: A folder that a gate publishes to, or an exported .safetensors, .npz or .onnx file.
        release: The number of the release; by default the newest of the folder.
    """
    path = _path(path)
    if release is not None:
        whole("release", release, least=0)
    if not os.path.lexists(path):
        raise InvalidValueError(
            f"{path} does not exist: give a folder of published releases, or an exported file"
        )
    try:
        if path.is_dir():
            return _in_folder(path, release)
        if path.suffix in CARDS:
            raise InvalidValueError(
                f"{path} is a card, which holds no model: load the .safetensors file of the release"
            )
        found = export_formats.load_release(path)
    except OSError as error:
        why = error.strerror or "it is not a regular file"
        raise InvalidValueError(
            f"{error.filename or path} cannot be read: {why}; check the path"
        ) from None
    _check_number(path, found.card.get("release"), release)
    return found


def _path(path: Any) -> Path:
    if not isinstance(path, str | os.PathLike):
        raise refuse("path", "a folder or a file", path)
    return Path(path)


def _in_folder(folder: Path, number: int | None) -> StoredRelease:
    if not published_in(folder):
        if holds_state(folder):
            raise InvalidValueError(
                f"{folder} is a state, which holds raw records: write a release to a file with "
                f"tidegate export {folder} model.safetensors, and load that"
            )
        raise InvalidValueError(
            f"{folder} holds no releases: give a folder that a gate publishes to, or a file"
        )
    return read_published(folder, number)


def _check_number(path: Path, found: object, wanted: int | None) -> None:
    if wanted not in (None, found):
        raise InvalidValueError(
            f"{path} holds release {found}, not {wanted}: leave release out for a file"
        )


def checked_model(
    path: Path, release: StoredRelease, features: FeatureMap | None = None
) -> Model | RegressionModel:
    """The model of a release whose card may state anything; refuse one that cannot predict.

    Args:
        path: Where it came from.
        release: The release.
        features: The feature map, if the card only names it.
    """
    try:
        whole("release", release.card.get("release"), least=0)
        model = release.model(features)
        sound = _sound(model) and (features is not None or _named(model))
    except InvalidValueError:
        raise
    except Exception:  # a card that is no card can raise anything
        sound = False
    if not sound:
        raise InvalidValueError(f"{path} holds no model that can predict: do not use it")
    return model


def _sound(model: Model | RegressionModel) -> bool:
    """Whether the parts of a model fit together."""
    weights, width = model.weights, model.width
    positive("norm", model.norm)
    if weights.dtype != np.float64 or not np.isfinite(weights).all() or width < 1:
        return False
    if not model.prepared.suits(width):
        return False
    if isinstance(model, RegressionModel):
        return weights.ndim == 1
    margins = 2 if weights.ndim == 1 else weights.shape[1]
    return weights.ndim <= 2 and _distinct(model) and margins == model.classes.size


def _distinct(model: Model) -> bool:
    """Whether the classes are distinct texts, or distinct numbers."""
    classes = model.classes
    if classes.ndim != 1 or classes.dtype.kind not in "biufU":
        return False
    stated: list[Any] = classes.tolist() if model.card is None else model.card["classes"]
    kinds = {type(each) for each in stated}
    return len(set(stated)) == classes.size and (len(kinds) == 1 or kinds <= {int, float})


def _named(model: Model | RegressionModel) -> bool:
    """Whether the feature map of a card makes as many features as there are weights."""
    found = model.coefficients
    return len(found.names) == len(found.units) == int(found.weights.shape[1])


def _from_joblib(path: Path) -> Model | RegressionModel:
    """The model of a scikit-learn pipeline that `export` wrote. This executes code in the file."""
    try:
        pipeline = joblib.load(io.BytesIO(read_whole(path, follow=True)))
    except OSError as error:
        raise InvalidValueError(
            f"{path} cannot be read: {error.strerror}; check the path"
        ) from None
    except Exception as error:
        kind = type(error).__name__
        raise InvalidValueError(f"{path} cannot be loaded ({kind}): export it again") from None
    model = _of_pipeline(pipeline) if isinstance(pipeline, Pipeline) else None
    if model is None:
        raise InvalidValueError(
            f"{path} is not a pipeline that tidegate export wrote: use joblib.load"
        )
    return model


def _of_pipeline(pipeline: Pipeline) -> Model | RegressionModel | None:
    """The model with the same predictions; None for a pipeline that `to_sklearn` did not make."""
    *before, last = [step for _, step in pipeline.steps]
    scaled = before.pop() if before and isinstance(before[-1], CenterScale) else None
    clip = before.pop() if before else None
    if not isinstance(clip, NormClip) or len(before) > 1:
        return None
    card = getattr(pipeline, "card_", None)
    common: dict[str, Any] = {
        "norm": clip.norm,
        "transform": None if scaled is None else _transform(scaled),
        "features": before[0] if len(before) == 1 else None,
        "columns": None if card is None else named_columns(card),
        "card": card,
    }
    if isinstance(last, LogisticRegression):
        weights = last.coef_[0] if len(last.coef_) == 1 else last.coef_.T
        return Model(weights=weights, classes=last.classes_, **common)
    if isinstance(last, ClippedRegression):
        target = Target(last.low, last.high)
        return RegressionModel(weights=last.coef_ / target.half, target=target, **common)
    return None


def _transform(scaled: CenterScale) -> Transform:
    mix = getattr(scaled, "mix", None)  # a pipeline of an earlier version has none
    return Transform.of(scaled.center, scaled.scale, NO_MIX if mix is None else mix)
