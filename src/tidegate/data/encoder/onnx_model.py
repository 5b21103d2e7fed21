"""Public ONNX models, inspected before they are loaded, and run on one record at a time.

How a matrix product rounds depends on the shape of its arrays. So a record is never put into a
batch with others: every run has the shape of its own record. See docs/proofs/encoders.md.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from tidegate.checks import InvalidValueError, optional_module
from tidegate.data.encoder.frozen_file import FrozenFile
from tidegate.data.encoder.unit_rows import MAX_WIDTH

Row = NDArray[np.float64]
Item = TypeVar("Item")

RANDOM = {
    "Bernoulli",
    "Multinomial",
    "RandomNormal",
    "RandomNormalLike",
    "RandomUniform",
    "RandomUniformLike",
}
"""Operators whose result is another one each time."""

LOOPS = {
    "BeamSearch",
    "GreedySearch",
    "Loop",
    "Sampling",
    "Scan",
    "SequenceMap",
    "WhisperBeamSearch",
}
"""Operators that repeat parts of a model: for how long, and with how much memory, a record says."""

FLOATS = ("tensor(float)", "tensor(float16)", "tensor(double)")

POOLED = "sentence_embedding"
"""The output that is read if a model has it; otherwise the first is read."""


@dataclass(frozen=True, eq=False)
class OnnxModel:
    """A loaded model.

    Attributes:
        path: Where it was read.
        session: The runtime's session, which runs on the thread that calls it.
        output: The name of the output that is read.
        width: How many features it has.
    """

    path: str
    session: Any
    output: str
    width: int

    @property
    def inputs(self) -> dict[str, Any]:
        """Its inputs by name."""
        return {each.name: each for each in self.session.get_inputs()}

    def row(self, inputs: dict[str, NDArray[Any]]) -> Row | None:
        """The features of one record: the output, or the mean of its tokens; None if it fails."""
        try:
            (found,) = self.session.run([self.output], inputs)
        except Exception:  # a record that the model does not take is unusable
            return None
        if found.ndim not in (2, 3) or found.shape[0] != 1 or found.shape[-1] != self.width:
            return None
        if found.ndim == 3 and not found.shape[1]:
            return None
        rows = found.reshape(-1, self.width).astype(np.float64)
        mean: Row = rows.sum(axis=0) / len(rows)
        return mean

    def probe(self, inputs: dict[str, NDArray[Any]], what: str) -> None:
        """Refuse a model that makes no vector of a made-up record."""
        if self.row(inputs) is None:
            raise InvalidValueError(
                f"{self.path} does not turn {what} into one row of {self.width} numbers: check how "
                "it was exported"
            )


def rows_of(make: Callable[[Item], Row | None], items: Sequence[Item], width: int) -> Row:
    """One row for each item, NaN where there is none, on all cores of this process.

    Each row is made by itself, so it makes no difference which thread makes it.
    """
    rows = np.full((len(items), width), np.nan)
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        for index, row in enumerate(pool.map(make, items)):
            if row is not None:
                rows[index] = row
    return rows


@lru_cache(maxsize=4)
def loaded_model(file: FrozenFile) -> OnnxModel:
    """Load the model of a file; refuse what is not one, or is not a function of its input alone."""
    onnx = optional_module("onnx", "encoders")
    content = file.read()
    try:
        model = onnx.load_model_from_string(content)
        messages = list(_messages(model))
    except Exception:
        messages = []
    nodes = [each for each in messages if isinstance(each, onnx.NodeProto)]
    if not nodes:
        raise InvalidValueError(f"{file.path} is not an ONNX model: check how it was exported")
    _refuse_external(file, [each for each in messages if isinstance(each, onnx.TensorProto)], onnx)
    _refuse_random(file, nodes)
    _refuse_loops(file, nodes)
    session = _session(file, content)
    return OnnxModel(file.path, session, *_output(file, session))


def _messages(message: Any) -> Iterator[Any]:
    """A message of protocol buffers and all within it: also those of subgraphs and functions."""
    yield message
    for field, value in message.ListFields():
        if field.message_type is not None:
            for each in value if isinstance(value, Iterable) else (value,):
                yield from _messages(each)


def _refuse_external(file: FrozenFile, tensors: list[Any], onnx: Any) -> None:
    """Refuse weights in other files: they have no digest, and their path could be any file."""
    if any(
        tensor.data_location == onnx.TensorProto.EXTERNAL or tensor.external_data
        for tensor in tensors
    ):
        raise InvalidValueError(
            f"{file.path} keeps weights in other files: save it as one file, without external data"
        )


def _refuse_random(file: FrozenFile, nodes: list[Any]) -> None:
    chance = {node.op_type for node in nodes if node.op_type in RANDOM}
    chance |= {node.op_type for node in nodes if node.op_type == "Dropout" and node.input[2:]}
    if chance:
        raise InvalidValueError(
            f"{file.path} has {', '.join(sorted(chance))}, which draws random numbers: export the "
            "model for inference"
        )


def _refuse_loops(file: FrozenFile, nodes: list[Any]) -> None:
    """Refuse a model that may never end on a record, or end the process by the memory it takes."""
    if loops := {node.op_type for node in nodes} & LOOPS:
        raise InvalidValueError(
            f"{file.path} has {', '.join(sorted(loops))}, which may never end on some record: "
            "export the model without loops"
        )


def _session(file: FrozenFile, content: bytes) -> Any:
    """A session that computes on the calling thread, in an order that depends on shapes alone."""
    runtime = optional_module("onnxruntime", "encoders")
    options = runtime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.execution_mode = runtime.ExecutionMode.ORT_SEQUENTIAL
    options.use_deterministic_compute = True
    options.enable_mem_pattern = False  # it would keep a plan for each length of a text
    options.log_severity_level = 4  # its messages could quote a record
    try:
        return runtime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    except Exception as error:
        why = " ".join(str(error).split())[:120]
        raise InvalidValueError(f"{file.path} cannot be run by onnxruntime: {why}") from None


def _output(file: FrozenFile, session: Any) -> tuple[str, int]:
    """The name of the output that is read, and how many features it has."""
    outputs = {each.name: each for each in session.get_outputs()}
    output = outputs.get(POOLED) or next(iter(outputs.values()))
    shape, what = output.shape or [], f"{file.path}: its output {output.name}"
    if output.type not in FLOATS:
        raise InvalidValueError(f"{what} must be floats, got {output.type}")
    if len(shape) not in (2, 3):
        allowed = "(records, features) or (records, tokens, features)"
        raise InvalidValueError(f"{what} must have shape {allowed}, got {len(shape)} dimensions")
    width = shape[-1]
    if not isinstance(width, int) or not 1 <= width <= MAX_WIDTH:
        allowed = f"a fixed number of features from 1 to {MAX_WIDTH}"
        raise InvalidValueError(f"{what} must have {allowed}, got {width}")
    if shape[0] not in (1, None) and not isinstance(shape[0], str):
        raise InvalidValueError(f"{what} must be of one record, got {shape[0]} at a time")
    return output.name, width
