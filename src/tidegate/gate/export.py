"""Write releases to files that work without the state, and read them back.

No file contains a record. All but the scikit-learn pipeline contain the card and the hash.
"""

import io
import json
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import safetensors.numpy as safetensors
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

from tidegate.checks import InvalidValueError, optional_module, refuse
from tidegate.features import NormClip
from tidegate.features.codec import built_step
from tidegate.features.feature_map import MAPS, FeatureMap, InOnnx
from tidegate.gate.segment_folder import sync_folder
from tidegate.gate.whole_file import delete_unfinished, read_whole, write_whole
from tidegate.release import Model, StoredRelease, canonical, to_markdown

OPSET = 17
"""The ONNX operator set; every runtime since 2022 supports it."""


def export(release: StoredRelease, path: Path | str, kind: str | None = None) -> None:
    """Write a release to a file, atomically.

    Args:
        release: The release.
        path: The file to write.
        kind: "npz", "safetensors", "onnx", "sklearn", "json" or "md". By default the file's ending
            decides; a scikit-learn pipeline ends in ".joblib".
    """
    path = Path(path)
    ending = path.suffix.removeprefix(".")
    if kind is None and ending not in ENDINGS:
        allowed = f"one that ends in {', '.join(f'.{each}' for each in ENDINGS)}"
        raise refuse("the export file", allowed, path.name)
    kind = kind or ENDINGS[ending]
    if kind not in KINDS:
        raise refuse("the export kind", f"one of {', '.join(KINDS)}", kind)
    data = KINDS[kind](release)
    delete_unfinished(path.parent, path.name)
    write(path, data)


def load(path: Path | str, features: FeatureMap | None = None) -> Model:
    """Load the model from an .npz or .safetensors file; refuse a file with a wrong hash.

    Args:
        path: A file that `export` or `publish` wrote.
        features: The feature map, if it is not one of Tidegate's: the card only names those.
    """
    return load_release(path).model(features)


def load_release(path: Path | str) -> StoredRelease:
    """Load a release with its card from an .npz or .safetensors file."""
    path = Path(path)
    if path.suffix not in READERS:
        raise refuse("the release file", f"a {' or '.join(READERS)} file", str(path))
    return release_of(path, path.read_bytes())


def release_of(path: Path, data: bytes) -> StoredRelease:
    """Parse the content of a release file; refuse it if its hash is wrong."""
    try:
        weights, text = READERS[path.suffix](data)
        release = StoredRelease(weights=weights, **json.loads(text))
        intact = release.intact
    except Exception:  # a damaged file can raise anything
        intact = False
    if not intact:
        raise InvalidValueError(f"{path} is damaged or not a release: do not use it")
    weights.flags.writeable = False
    return release


def to_npz(release: StoredRelease) -> bytes:
    """Two NumPy arrays: `weights`, and `release` with the card and hashes as JSON."""
    buffer = io.BytesIO()
    np.savez(buffer, weights=release.weights, release=np.array(_text(release)))
    return buffer.getvalue()


def to_safetensors(release: StoredRelease) -> bytes:
    """The tensor `weights`, and the metadata `release` with the card and hashes as JSON."""
    weights = np.ascontiguousarray(release.weights)
    return safetensors.save({"weights": weights}, metadata={"release": _text(release)})


def to_json(release: StoredRelease) -> bytes:
    """The card, the hash and the previous hash, as canonical JSON."""
    return (_text(release) + "\n").encode()


def to_md(release: StoredRelease) -> bytes:
    """The card in Markdown, with the hashes."""
    chain = f"\nHash `{release.hash}`  \nafter `{release.previous}`\n"
    return (to_markdown(release.card) + chain).encode()


def to_sklearn(release: StoredRelease, features: FeatureMap | None = None) -> Any:
    """A fitted scikit-learn pipeline: the feature map, the clipping, a LogisticRegression.

    If the release has surveys, records are centred and scaled after the clipping. Predictions equal
    those of the release, also for losses other than the logistic one. All steps but the last are
    transformers of `tidegate.features`, so using the pipeline requires Tidegate.

    Args:
        release: The release.
        features: The feature map, if the card only names it.
    """
    model = release.model(features)
    linear = LogisticRegression(solver="lbfgs" if model.weights.ndim == 2 else "liblinear")
    linear.coef_ = np.atleast_2d(model.weights.T)
    linear.intercept_ = np.zeros(linear.coef_.shape[0])  # a learnt intercept is a feature
    linear.classes_ = model.classes
    linear.n_features_in_ = linear.coef_.shape[1]
    linear.n_iter_ = np.zeros(1, np.int32)
    before = [] if model.features is None else [model.features]
    after = [] if model.transform is None else [model.transform.feature_map()]
    return make_pipeline(*before, NormClip(norm=model.norm), *after, linear)


def to_joblib(release: StoredRelease) -> bytes:
    """`to_sklearn` as a joblib file. Loading one executes code: load only files you trust."""
    buffer = io.BytesIO()
    joblib.dump(to_sklearn(release), buffer)
    return buffer.getvalue()


def to_onnx(release: StoredRelease) -> bytes:
    """An ONNX graph from `records`, float64 of shape (n, columns), to `label`, `probabilities`.

    It includes intercepts, clipping, and the centre and scale of surveys. Other feature maps are
    refused: ONNX has neither text hashing nor the exact sums of the random maps. For a record with
    a value that is not finite, `Model` raises an error; the graph returns NaN probabilities.
    """
    onnx = optional_module("onnx", "onnx")
    card, weights = release.card, release.weights
    if weights.ndim == 1:  # with two classes, the first has margin 0
        weights = np.column_stack([np.zeros_like(weights), weights])
    classes = np.asarray(card["classes"])
    label, kind = ("string", object) if classes.dtype.kind == "U" else ("int64", np.int64)
    if classes.dtype.kind not in "Uib":
        raise refuse("classes", "whole numbers or text for ONNX", card["classes"])
    graph = _Graph()
    rows = "records"
    for step in card["features"]:
        each = built_step(step) if step["kind"] in MAPS else None
        if not isinstance(each, InOnnx):
            supported = sorted(name for name, kind in MAPS.items() if issubclass(kind, InOnnx))
            allowed = f"{' and '.join(supported)} only for ONNX (other export kinds take all)"
            raise refuse("features", allowed, shown=step["kind"])
        rows = each.onnx(graph, rows)
    rows = NormClip(norm=card["norm"]).onnx(graph, rows)
    if release.transform is not None:
        rows = release.transform.feature_map().onnx(graph, rows)
    margins = graph.add(f"MatMul({rows}, {graph.constant(weights)})")
    graph.lines += [
        f"probabilities = Softmax <axis = 1> ({margins})",
        f"codes = ArgMax <axis = 1, keepdims = 0> ({margins})",
        f"label = Gather ({graph.constant(classes.astype(kind))}, codes)",
    ]
    model = onnx.parser.parse_model(
        f'<ir_version: 8, opset_import: ["": {OPSET}], producer_name: "tidegate">'
        "release (double[n, columns] records)"
        f" => ({label}[n] label, double[n, {weights.shape[1]}] probabilities)"
        "{" + "\n".join(graph.lines) + "}"
    )
    for name, value in graph.constants.items():
        model.graph.initializer.append(onnx.numpy_helper.from_array(value, name))
    onnx.helper.set_model_props(model, {"release": _text(release)})
    onnx.checker.check_model(model)
    data: bytes = model.SerializeToString()
    return data


class _Graph:
    """An ONNX graph in ONNX text syntax, and its constants."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.constants: dict[str, NDArray[Any]] = {}

    def constant(self, value: Any) -> str:
        """Add a constant and return its name."""
        name = f"constant_{len(self.constants)}"
        self.constants[name] = np.asarray(value)
        return name

    def add(self, call: str) -> str:
        """Add a call and return the name of its result."""
        name = f"value_{len(self.lines)}"
        self.lines.append(f"{name} = {call}")
        return name


def _text(release: StoredRelease) -> str:
    """Everything in a release except its weights, as JSON."""
    return canonical({"card": release.card, "previous": release.previous, "hash": release.hash})


def write(path: Path, data: bytes) -> None:
    """Write a file durably unless it already has this content; replace a link of that name."""
    with suppress(OSError):
        if read_whole(path) == data:
            return
    write_whole(path, data, point="export")
    sync_folder(path.parent)


def _from_npz(data: bytes) -> tuple[NDArray[np.float64], str]:
    with np.load(io.BytesIO(data), allow_pickle=False) as arrays:
        return arrays["weights"], str(arrays["release"])


def _from_safetensors(data: bytes) -> tuple[NDArray[np.float64], str]:
    weights = safetensors.load(data)["weights"]
    # the package reads metadata only from paths; the data starts with the length of its header
    header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
    return weights, header["__metadata__"]["release"]


KINDS: dict[str, Callable[[StoredRelease], bytes]] = {
    "npz": to_npz,
    "safetensors": to_safetensors,
    "onnx": to_onnx,
    "sklearn": to_joblib,
    "json": to_json,
    "md": to_md,
}
ENDINGS = {"joblib" if kind == "sklearn" else kind: kind for kind in KINDS}
READERS = {".npz": _from_npz, ".safetensors": _from_safetensors}
