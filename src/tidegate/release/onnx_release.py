"""A release as an ONNX graph, and back."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tidegate.checks import InvalidValueError, Later, json_of, optional_module, refuse
from tidegate.data.columns.table import columns_in
from tidegate.data.feature_map import DOUBLE, INT64, STRING, InOnnx, built_step, known
from tidegate.data.predicted import Target
from tidegate.release import StoredRelease

if TYPE_CHECKING:
    from tidegate.data import maps
else:
    maps = Later("tidegate.data.maps")

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
