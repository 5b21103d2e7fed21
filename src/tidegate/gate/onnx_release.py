"""A release as an ONNX graph, and back."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tidegate.checks import InvalidValueError, json_of, optional_module, refuse
from tidegate.features import NormClip
from tidegate.features.codec import built_step, columns_in, takes_text
from tidegate.features.feature_map import MAPS, InOnnx
from tidegate.learn.target import Target
from tidegate.release import StoredRelease

WEIGHTS = "weights"
"""The name of the constant that holds the weights of a release."""

OPSET, IR = 17, 8
"""The ONNX operator set and format, unless a graph needs later ones: every runtime since 2022
supports them."""

LATER_IR = 9
"""The format of graphs that need a later operator set."""

AXES_ARE_INPUTS = 18
"""From this operator set on, the axes of a reduction are an input of it."""

INT64, DOUBLE = 7, 11
"""The numbers of ONNX types."""


def to_onnx(release: StoredRelease) -> bytes:
    """An ONNX graph from `records`, float64 of shape (n, columns), to `label`, `probabilities`.

    If records are texts, `records` are texts of shape (n, 1). If the columns have kinds, the graph
    has an input for each instead, of shape (n, 1): numbers and flags are float64 with NaN for
    missing ones, categories and texts are texts, empty for missing ones, times whole seconds since
    1970 by their own clock, with the smallest int64 for missing ones. If a target is predicted, the
    only output is `prediction`, float64 of shape (n,).

    It includes intercepts, clipping, the centre and scale of surveys, and hashed text. Words and
    n-grams are those of `HashedText` for every text, by the Unicode version of the Python that
    exports. Hashed categories need ONNX Runtime, hashed text its version 1.17 or later. Other
    feature maps are refused: ONNX has neither encoders of texts and images nor the exact sums of
    the random maps. For a record with a value that is not finite, and for a missing or unlisted
    value of a column that has none, `Model` raises an error; the graph returns NaN probabilities or
    predictions.
    """
    onnx = optional_module("onnx", "onnx")
    card = release.card
    graph, columns = _Graph(), columns_in(card["features"])
    text = takes_text(card["features"])
    inputs, rows = "string[n, 1] records" if text else "double[n, columns] records", "records"
    if columns is not None:
        given = columns.checked
        inputs = ", ".join(
            f"{each.onnx_type}[n, {each.onnx_width}] column_{place}"
            for place, each in enumerate(given)
        )
        made = [each.onnx(graph, f"column_{place}") for place, each in enumerate(given)]
        rows = graph.add(f"Concat <axis = 1> ({', '.join(made)})")
    for step in card["features"][columns is not None :]:
        each = built_step(step) if step["kind"] in MAPS else None
        if not isinstance(each, InOnnx):
            supported = sorted(name for name, kind in MAPS.items() if issubclass(kind, InOnnx))
            allowed = f"{', '.join(supported)} only for ONNX (other export kinds take all)"
            raise refuse("features", allowed, shown=step["kind"])
        rows = each.onnx(graph, rows)
    rows = NormClip(norm=card["norm"]).onnx(graph, rows)
    if release.transform is not None:
        rows = release.transform.feature_map().onnx(graph, rows)
    outputs = _predicted(graph, rows, release)
    form = IR if graph.opset == OPSET else LATER_IR
    model = onnx.parser.parse_model(
        f"<ir_version: {form}, opset_import: "
        f'["": {graph.opset}, "ai.onnx.ml": 3, "com.microsoft": 1], '
        f'producer_name: "tidegate"> release ({inputs}) => ({outputs})'
        "{" + "\n".join(graph.lines) + "}"
    )
    graph.finished(onnx, model, [] if columns is None else columns.names)
    onnx.helper.set_model_props(model, {"release": release.text})
    onnx.checker.check_model(model)
    data: bytes = model.SerializeToString()
    return data


def _predicted(graph: "_Graph", rows: str, release: StoredRelease) -> str:
    """Add what a release predicts for transformed records; the names and types of the outputs."""
    target, weights = release.target, release.weights
    if target is not None:
        margin = graph.add(f"MatMul({rows}, {graph.constant(weights, WEIGHTS)})")
        return _number(graph, margin, target)
    if weights.ndim == 1:  # with two classes, the first has margin 0
        weights = np.column_stack([np.zeros_like(weights), weights])
    classes = np.asarray(release.card["classes"])
    label, kind = ("string", object) if classes.dtype.kind == "U" else ("int64", np.int64)
    if classes.dtype.kind not in "Uib":
        raise refuse("classes", "whole numbers or text for ONNX", release.card["classes"])
    margins = graph.add(f"MatMul({rows}, {graph.constant(weights, WEIGHTS)})")
    codes = graph.add(f"ArgMax <axis = 1, keepdims = 0> ({margins})")
    graph.lines += [
        f"probabilities = Softmax <axis = 1> ({margins})",
        f"label = Gather ({graph.constant(classes.astype(kind))}, {codes})",
    ]
    return f"{label}[n] label, double[n, {weights.shape[1]}] probabilities"


def _number(graph: "_Graph", margin: str, target: Target) -> str:
    """Add the prediction of a target, as `Target.predictions` computes it."""

    def number(value: float) -> str:
        return graph.constant(np.float64(value))

    inside = graph.add(f"Clip({margin}, {number(-1)}, {number(1)})")
    moved = graph.add(f"Mul({inside}, {number(target.half)})")
    moved = graph.add(f"Add({moved}, {number(target.middle)})")
    value = graph.add(f"Clip({moved}, {number(target.low)}, {number(target.high)})")
    missing = graph.add(f"IsNaN({margin})")  # a runtime may clip these to an end of the range
    graph.lines.append(f"prediction = Where({missing}, {margin}, {value})")
    return "double[n] prediction"


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
    """An ONNX graph in ONNX text syntax, its constants, and nodes that have no text."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.constants: dict[str, NDArray[Any]] = {}
        self.others: dict[str, dict[str, Any]] = {}
        self.reductions: list[str] = []
        self.opset = OPSET

    def constant(self, value: Any, name: str | None = None) -> str:
        """Add a constant and return its name."""
        name = name or f"constant_{len(self.constants)}"
        self.constants[name] = np.asarray(value)
        return name

    def add(self, call: str) -> str:
        """Add a call and return the name of its result."""
        name = f"value_{len(self.lines)}"
        self.lines.append(f"{name} = {call}")
        return name

    def with_gap(self, values: str, missing: str) -> str:
        """Add an indicator column to values, which are set to 0 where it is true."""
        kept = self.add(f"Where({missing}, {self.constant(0.0)}, {values})")
        indicator = self.add(f"Cast <to = {DOUBLE}> ({missing})")
        return self.add(f"Concat <axis = 1> ({kept}, {indicator})")

    def labels(self, texts: str, keys: Sequence[str], codes: Sequence[int], *, other: int) -> str:
        """Add a look-up of texts among keys; return the name of their codes, int64."""
        return self.node(
            "LabelEncoder",
            texts,
            domain="ai.onnx.ml",
            keys_strings=list(keys),
            values_int64s=list(codes),
            default_int64=other,
        )

    def hashed(self, texts: str, buckets: int) -> str:
        """Add a hash of texts; return the name of their buckets, int64."""
        key = self.node("MurmurHash3", texts, domain="com.microsoft", positive=1, seed=0)
        wide = self.add(f"Cast <to = {INT64}> ({key})")
        return self.add(f"Mod({wide}, {self.constant(np.int64(buckets))})")

    def need(self, opset: int) -> None:
        """Use this operator set, or a later one."""
        self.opset = max(self.opset, opset)

    def reduced(self, op: str, rows: str) -> str:
        """Add a reduction of each row to one number; `finished` adds the axis."""
        name = self.node(op, rows)
        self.reductions.append(name)
        return name

    def node(self, op: str, operand: str, **attributes: Any) -> str:
        """Add a node that the text syntax cannot hold; `finished` puts it in its place."""
        name = self.add(f"Identity({operand})")
        self.others[name] = {"op_type": op, "inputs": [operand], "outputs": [name], **attributes}
        return name

    def finished(self, onnx: Any, model: Any, inputs: Sequence[str]) -> Any:
        """A parsed model with the constants, the other nodes and the names of its inputs."""
        for name in self.reductions:
            if self.opset < AXES_ARE_INPUTS:
                self.others[name]["axes"] = [1]
            else:
                self.others[name]["inputs"].append(self.constant(np.array([1])))
        for node in model.graph.node:
            if node.output[0] in self.others:
                node.CopyFrom(onnx.helper.make_node(**self.others[node.output[0]]))
        for name, value in self.constants.items():
            model.graph.initializer.append(onnx.numpy_helper.from_array(value, name))
        if taken := set(inputs) & set(_names(model.graph)):
            raise InvalidValueError(
                f"column {min(taken)} has a name that ONNX files use for something else: "
                "export another kind, or give the column another name in a new state"
            )
        names = {f"column_{place}": name for place, name in enumerate(inputs)}
        for each in model.graph.input:
            each.name = names.get(each.name, each.name)
        for node in model.graph.node:
            node.input[:] = [names.get(each, each) for each in node.input]
        return model


def _names(graph: Any) -> Iterator[str]:
    """The names of all values in an ONNX graph, except for its inputs."""
    yield from (each.name for each in graph.initializer)
    for node in graph.node:
        yield from node.output
        for each in node.attribute:
            yield from (given.name for given in each.g.input)
            yield from _names(each.g)
