"""Write releases to files that work without the state, and read them back: also as ONNX graphs.

No file contains a record. All contain the card, and all but the scikit-learn pipeline the hash.
"""

import io
import math
import zipfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import safetensors.numpy as safetensors
from numpy.lib import format as npy
from numpy.typing import NDArray

from tidegate.checks import InvalidValueError, Later, json_of, optional_module, refuse
from tidegate.data.columns.table import columns_in
from tidegate.data.feature_map import DOUBLE, INT64, STRING, FeatureMap, InOnnx, built_step, known
from tidegate.data.predicted import Target
from tidegate.release import StoredRelease, to_markdown
from tidegate.whole_file import delete_unfinished, read_whole, sync_folder, write_whole

if TYPE_CHECKING:
    from tidegate.data import maps
    from tidegate.release import clipped_regression
    from tidegate.release.model import Model, RegressionModel
else:
    maps = Later("tidegate.data.maps")
    clipped_regression = Later("tidegate.release.clipped_regression")

WEIGHTS = "weights"
"""The name of the constant that holds the weights of a release."""

OPSETS, IR = {"": 17, "ai.onnx.ml": 3, "com.microsoft": 1}, 8
"""The ONNX operator sets and format: every runtime since 2022 supports them."""

Values = Mapping[str, tuple[int, Sequence[int | str]]]
"""The type and shape of each input or output of a graph."""


def to_onnx(release: StoredRelease) -> bytes:
    """An ONNX graph from `records`, float64 of shape (n, columns), to `label`, `probabilities`.

    If the columns have kinds, the graph has an input for each instead, of shape (n, 1): numbers and
    flags are float64 with NaN for missing ones, categories are texts, empty for missing ones, times
    whole seconds since 1970 by their own clock, with the smallest int64 for missing ones. If a
    target is predicted, the only output is `prediction`, float64 of shape (n,).

    It includes intercepts, clipping, and the centre and scale of surveys. Hashed categories need
    ONNX Runtime. Texts and other feature maps are refused: ONNX has neither words nor encoders, nor
    the exact sums of the random maps. For a record with a value that is not finite, and for a
    missing or unlisted value of a column that has none, `Model` raises an error; the graph returns
    NaN probabilities or predictions.
    """
    onnx = optional_module("onnx", "onnx")
    graph, steps = _Graph(), release.card["features"]
    inputs: Values = {"records": (DOUBLE, ["n", "columns"])}
    rows = "records"
    if columns := columns_in(steps):
        given, steps = columns.checked, steps[1:]
        inputs = {each.name: (each.onnx_type, ["n", each.onnx_width]) for each in given}
        rows = graph.op("Concat", *(each.onnx(graph, each.name) for each in given), axis=1)
    for step in steps:
        rows = _in_onnx(step).onnx(graph, rows)
    rows = maps.NormClip(norm=release.card["norm"]).onnx(graph, rows)
    for each in release.prepared.feature_maps():
        rows = each.onnx(graph, rows)
    outputs = _predicted(graph, rows, release)
    if taken := inputs.keys() & {*graph.nodes, *graph.constants}:
        raise InvalidValueError(
            f"column {min(taken)} has a name that ONNX files use for something else: "
            "export another kind, or give the column another name in a new state"
        )
    return graph.model(onnx, inputs, outputs, release.text)


def _in_onnx(step: Mapping[str, Any]) -> InOnnx:
    """The map that a card describes; refuse one that ONNX has not."""
    made = built_step(step) if step["kind"] in known() else None
    if isinstance(made, InOnnx):
        return made
    supported = sorted(name for name, kind in known().items() if issubclass(kind, InOnnx))
    allowed = f"{', '.join(supported)} only for ONNX (other export kinds take all)"
    raise refuse("features", allowed, shown=step["kind"])


def _predicted(graph: "_Graph", rows: str, release: StoredRelease) -> Values:
    """Add what a release predicts for transformed records; return the outputs."""
    target, weights = release.target, release.weights
    if target is not None:
        _add_number(graph, graph.op("MatMul", rows, graph.constant(weights, WEIGHTS)), target)
        return {"prediction": (DOUBLE, ["n"])}
    if weights.ndim == 1:  # with two classes, the first has margin 0
        weights = np.column_stack([np.zeros_like(weights), weights])
    classes = np.asarray(release.card["classes"])
    if classes.dtype.kind not in "Uib":
        raise refuse("classes", "whole numbers or text for ONNX", release.card["classes"])
    label, kind = (STRING, object) if classes.dtype.kind == "U" else (INT64, np.int64)
    margins = graph.op("MatMul", rows, graph.constant(weights, WEIGHTS))
    codes = graph.op("ArgMax", margins, axis=1, keepdims=0)
    graph.add("probabilities", "Softmax", margins, axis=1)
    graph.add("label", "Gather", classes.astype(kind), codes)
    return {"label": (label, ["n"]), "probabilities": (DOUBLE, ["n", weights.shape[1]])}


def _add_number(graph: "_Graph", margin: str, target: Target) -> None:
    """Add the prediction of a target, as `Target.predictions` computes it."""
    inside = graph.op("Clip", margin, np.float64(-1), np.float64(1))
    moved = graph.op("Mul", inside, np.float64(target.half))
    moved = graph.op("Add", moved, np.float64(target.middle))
    value = graph.op("Clip", moved, np.float64(target.low), np.float64(target.high))
    missing = graph.op("IsNaN", margin)  # a runtime may clip these to an end of the range
    graph.add("prediction", "Where", missing, margin, value)


def from_onnx(data: bytes) -> tuple[NDArray[np.float64], str]:
    """The weights of a release, and its other content as JSON, from its ONNX graph."""
    onnx = optional_module("onnx", "onnx")
    model = onnx.load_model_from_string(data)
    (text,) = (each.value for each in model.metadata_props if each.key == "release")
    (kept,) = (each for each in model.graph.initializer if each.name == WEIGHTS)
    if onnx.external_data_helper.uses_external_data(kept):
        raise InvalidValueError("its weights are in another file")
    weights = np.array(onnx.numpy_helper.to_array(kept))
    if len(json_of(text)["card"]["shape"]) < weights.ndim:  # the first of two has margin 0
        weights = weights[:, 1].copy()
    return weights, text


class _Graph:
    """The nodes and constants of an ONNX graph; see `tidegate.data.feature_map.Graph`."""

    def __init__(self) -> None:
        self.nodes: dict[str, dict[str, Any]] = {}
        self.constants: dict[str, NDArray[Any]] = {}

    def constant(self, value: Any, name: str = "") -> str:
        """Add a constant and return its name."""
        name = name or f"constant_{len(self.constants)}"
        self.constants[name] = np.asarray(value)
        return name

    def add(self, name: str, op: str, *operands: Any, **attributes: Any) -> str:
        """Add a call whose result has this name."""
        inputs = [each if isinstance(each, str) else self.constant(each) for each in operands]
        usual = {"op_type": op, "inputs": inputs, "outputs": [name], "domain": ""}
        self.nodes[name] = {**usual, **attributes}
        return name

    def op(self, op: str, *operands: Any, **attributes: Any) -> str:
        """Add a call of an operator with names and constants; return the name of its result."""
        return self.add(f"value_{len(self.nodes)}", op, *operands, **attributes)

    def reduced(self, op: str, rows: str) -> str:
        """Add a reduction of each row to one number."""
        return self.op(op, rows, axes=[1], domain=None)  # files have always been written so

    def with_gap(self, values: str, missing: str) -> str:
        """Add an indicator column to values, which are set to 0 where it is true."""
        kept = self.op("Where", missing, 0.0, values)
        return self.op("Concat", kept, self.op("Cast", missing, to=DOUBLE), axis=1)

    def labels(self, texts: str, codes: Mapping[str, int], *, other: int) -> str:
        """Add a look-up of texts; return the name of their codes, int64."""
        known = {"keys_strings": [*codes], "values_int64s": [*codes.values()]}
        return self.op("LabelEncoder", texts, domain="ai.onnx.ml", default_int64=other, **known)

    def hashed(self, texts: str, buckets: int) -> str:
        """Add a hash of texts; return the name of their buckets, int64."""
        key = self.op("MurmurHash3", texts, domain="com.microsoft", positive=1, seed=0)
        return self.op("Mod", self.op("Cast", key, to=INT64), np.int64(buckets))

    def model(self, onnx: Any, inputs: Values, outputs: Values, release: str) -> bytes:
        """The file, with what it says about the release."""
        helper = onnx.helper
        given, made = (
            [helper.make_tensor_value_info(name, *each) for name, each in values.items()]
            for values in (inputs, outputs)
        )
        nodes = [helper.make_node(**each) for each in self.nodes.values()]
        kept = [onnx.numpy_helper.from_array(v, name) for name, v in self.constants.items()]
        model = helper.make_model(
            helper.make_graph(nodes, "release", given, made, kept),
            opset_imports=[helper.make_opsetid(*each) for each in OPSETS.items()],
            ir_version=IR,
            producer_name="tidegate",
        )
        helper.set_model_props(model, {"release": release})
        onnx.checker.check_model(model)
        data: bytes = model.SerializeToString()
        return data


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
    if not kind and ending not in ENDINGS:
        allowed = f"one that ends in {', '.join(f'.{each}' for each in ENDINGS)}"
        raise refuse("the export file", allowed, path.name)
    kind = kind or ENDINGS[ending]
    if kind not in KINDS:
        raise refuse("the export kind", f"one of {', '.join(KINDS)}", kind)
    data = KINDS[kind](release)
    delete_unfinished(path.parent, path.name)
    write(path, data)


def load(path: Path | str, features: FeatureMap | None = None) -> "Model | RegressionModel":
    """Load the model from an .npz, .safetensors or .onnx file; refuse a file with a wrong hash.

    Args:
        path: A file that `export` or `publish` wrote.
        features: The feature map, if it is not one of Tidegate's: the card only names those.
    """
    return load_release(path).model(features)


def load_release(path: Path | str) -> StoredRelease:
    """Load a release with its card from an .npz, .safetensors or .onnx file."""
    path = Path(path)
    if path.suffix not in READERS:
        raise refuse("the release file", f"a {', '.join(READERS)} file", str(path))
    return release_of(path, read_whole(path, follow=True))


def release_of(path: Path, data: bytes) -> StoredRelease:
    """Parse the content of a release file; refuse it if its hash is wrong."""
    if path.suffix == ".onnx":
        optional_module("onnx", "onnx")
    try:
        weights, text = READERS[path.suffix](data)
        release = StoredRelease(weights=weights, **json_of(text))
        intact = release.intact and release.text == text and _plain(weights) and _numbered(release)
    except Exception:  # a damaged file can raise anything
        intact = False
    if not intact:
        raise InvalidValueError(f"{path} is damaged or not a release: do not use it")
    weights.flags.writeable = False
    return release


def _numbered(release: StoredRelease) -> bool:
    """Whether a card says which release it belongs to; a text can be a number without end."""
    number = release.card["release"]
    return type(number) is int and number >= 0


def _plain(weights: NDArray[Any]) -> bool:
    """Whether these are weights as releases have them: finite numbers of 64 bits."""
    return weights.dtype == np.float64 and bool(np.isfinite(weights).all())


def to_npz(release: StoredRelease) -> bytes:
    """Two NumPy arrays: `weights`, and `release` with the card and hashes as JSON."""
    buffer = io.BytesIO()
    np.savez(buffer, weights=release.weights, release=np.array(release.text))
    return buffer.getvalue()


def to_safetensors(release: StoredRelease) -> bytes:
    """The tensor `weights`, and the metadata `release` with the card and hashes as JSON."""
    weights = np.ascontiguousarray(release.weights)
    return safetensors.save({"weights": weights}, metadata={"release": release.text})


def to_json(release: StoredRelease) -> bytes:
    """The card, the hash and the previous hash, as canonical JSON."""
    return (release.text + "\n").encode()


def to_md(release: StoredRelease) -> bytes:
    """The card in Markdown, with the hashes."""
    chain = f"\nHash `{release.hash}`  \nafter `{release.previous}`\n"
    return (to_markdown(release.card) + chain).encode()


def to_joblib(release: StoredRelease) -> bytes:
    """The release as a scikit-learn pipeline, in a joblib file; see `to_sklearn`."""
    return clipped_regression.to_joblib(release)


def write(path: Path, data: bytes) -> None:
    """Write a file durably unless it already has this content; replace a link of that name."""
    with suppress(OSError):
        if read_whole(path) == data:
            return
    write_whole(path, data, point="export")
    sync_folder(path.parent)


def _from_npz(data: bytes) -> tuple[NDArray[np.float64], str]:
    with zipfile.ZipFile(io.BytesIO(data)) as file:
        weights, text = (_from_npy(file, name) for name in ("weights", "release"))
    return weights, str(text)


def _from_npy(file: zipfile.ZipFile, name: str) -> NDArray[Any]:
    """An array of an .npz file, as `to_npz` writes it: stored, so as large as it is in the file.

    The size that its header states is compared first: 4 MB can be unpacked to 4 GiB.
    """
    entry = file.getinfo(f"{name}.npy")
    if entry.compress_type != zipfile.ZIP_STORED or entry.file_size != entry.compress_size:
        raise ValueError(name)
    content = file.read(entry)
    header = io.BytesIO(content)
    read = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}
    shape, _, dtype = read[npy.read_magic(header)](header)
    if math.prod(shape) * dtype.itemsize != len(content) - header.tell():
        raise ValueError(name)
    return npy.read_array(io.BytesIO(content), allow_pickle=False)


def _from_safetensors(data: bytes) -> tuple[NDArray[np.float64], str]:
    weights = safetensors.load(data)["weights"]
    # the package reads metadata only from paths; the data starts with the length of its header
    header = json_of(data[8 : 8 + int.from_bytes(data[:8], "little")])
    (tensor,) = header.keys() - {"__metadata__"}
    ((_, text),) = header["__metadata__"].items()
    return weights, text if tensor == "weights" else ""


KINDS: dict[str, Callable[[StoredRelease], bytes]] = {
    "npz": to_npz,
    "safetensors": to_safetensors,
    "onnx": to_onnx,
    "sklearn": to_joblib,
    "json": to_json,
    "md": to_md,
}
ENDINGS = {"joblib" if kind == "sklearn" else kind: kind for kind in KINDS}
READERS = {".npz": _from_npz, ".safetensors": _from_safetensors, ".onnx": from_onnx}
