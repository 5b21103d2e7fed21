"""Public ONNX models of texts and images, inspected before they are loaded.

How a matrix product rounds depends on the shape of its arrays. So a record is never put into a
batch with others: every run has the shape of its own record. See docs/proofs/encoders.md.
"""

import math
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from tidegate.checks import InvalidValueError, optional_module
from tidegate.data.encoder.encoder import (
    LENGTH,
    MAX_WIDTH,
    Encoder,
    FrozenFile,
    Vectors,
    frozen,
    joined,
    unit_rows,
)
from tidegate.data.encoder.tokens import Ids, largest_id, tokens_of

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


# --- texts


FILLED = {"attention_mask": 1, "token_type_ids": 0}
"""The inputs that a sentence model may have beside its tokens, and what they hold for each."""

INTEGERS = {"tensor(int64)": np.int64, "tensor(int32)": np.int32}


@dataclass(frozen=True)
class OnnxText(Encoder):
    """The output of a sentence model for each text, scaled to norm 1.

    If the model returns a vector for each token, their mean is taken. Each text is run by itself,
    in arrays of its own number of tokens, without padding.

    Attributes:
        model: An ONNX file. Its inputs are `input_ids` and, if it has them, `attention_mask` and
            `token_type_ids`.
        tokenizer: A tokenizer.json.
        length: The most tokens of a text that are read.
    """

    model: FrozenFile
    tokenizer: FrozenFile
    length: int = LENGTH

    @property
    def width(self) -> int:
        """How many features a text has."""
        return loaded_model(self.model).width

    @property
    def files(self) -> tuple[FrozenFile, ...]:
        """See `Encoder`."""
        return self.model, self.tokenizer

    def check(self) -> None:
        """Refuse a model that is not one of texts, or does not go with the tokenizer."""
        model = loaded_model(self.model)
        refuse_inputs(model)
        last = largest_id(self.tokenizer, self.length)
        model.probe(inputs_of(model, np.array([last])), f"token {last} of {self.tokenizer.path}")
        longest = np.zeros(self.length, np.int64)
        model.probe(inputs_of(model, longest), f"a text of length = {self.length} tokens")

    def encode(self, texts: Sequence[object]) -> Vectors:
        """The vector of each text; NaN for what is not a text."""
        model = loaded_model(self.model)

        def row(ids: Ids | None) -> Row | None:
            if ids is None:
                return None
            return model.row(inputs_of(model, ids)) if len(ids) else np.zeros(model.width)

        tokens = tokens_of(texts, self.tokenizer, length=self.length, special=True)
        return unit_rows(rows_of(row, tokens, model.width))


def inputs_of(model: OnnxModel, ids: Ids) -> dict[str, NDArray[Any]]:
    """The inputs for one text: shape (1, tokens)."""
    return {
        name: (np.full_like(ids, FILLED[name]) if name in FILLED else ids)[None].astype(
            INTEGERS[each.type]
        )
        for name, each in model.inputs.items()
    }


def refuse_inputs(model: OnnxModel) -> None:
    """Refuse inputs that are not those of a sentence model, or take one length only."""
    inputs = model.inputs
    if unknown := sorted(set(inputs) - {"input_ids", *FILLED}) or sorted(
        {"input_ids"} - set(inputs)
    ):
        raise InvalidValueError(
            f"{model.path}: the inputs of a text model must be input_ids and, if it has them, "
            f"attention_mask and token_type_ids; check {', '.join(unknown)}"
        )
    for name, each in inputs.items():
        shape = each.shape or []
        if each.type not in INTEGERS or len(shape) != 2 or isinstance(shape[1], int):
            raise InvalidValueError(
                f"{model.path}: its input {name} must be whole numbers of shape (texts, tokens), "
                "for any number of tokens: export it with dynamic axes"
            )


# --- images


Shape = tuple[int, int, int]


@dataclass(frozen=True)
class OnnxImage:
    """The output of a vision model for each image, scaled to norm 1.

    A record is a row of numbers: the pixels row by row, and the channels of a pixel side by side. A
    number v of channel c enters the model as (v scale - mean[c]) / deviation[c], in float32. Each
    image is run by itself.

    Attributes:
        model: An ONNX file with one input, of shape (images, channels, height, width) or (images,
            height, width, channels).
        shape: The height, width and channels of an image.
        scale: What each number is multiplied by.
        mean: What is subtracted then, one for each channel.
        deviation: What it is divided by then, one for each channel.
    """

    model: FrozenFile
    shape: Shape
    scale: float
    mean: tuple[float, ...]
    deviation: tuple[float, ...]

    @classmethod
    def open(  # noqa: PLR0913 (each is one public setting)
        cls,
        model: str,
        shape: Shape,
        *,
        scale: float = 1 / 255,
        mean: tuple[float, ...] = (),
        deviation: tuple[float, ...] = (),
        digest: str | None = None,
    ) -> "OnnxImage":
        """Open a model; without a digest, check the file and freeze it as it is now."""
        (file,) = frozen((model,), digest)
        channels = shape[2]
        opened = cls(file, shape, scale, mean or (0.0,) * channels, deviation or (1.0,) * channels)
        if not digest:
            opened.check()
        return opened

    @property
    def columns(self) -> int:
        """How many numbers an image is."""
        return math.prod(self.shape)

    @property
    def width(self) -> int:
        """How many features an image has."""
        return loaded_model(self.model).width

    @property
    def digest(self) -> str:
        """The SHA-256 of the file."""
        return joined((self.model,))

    def check(self) -> None:
        """Refuse a model that does not take images of this shape."""
        model = loaded_model(self.model)
        name, order = input_of(model, self.shape)
        blank = self._image(np.zeros(self.columns), order)
        model.probe({name: blank}, f"an image of {' x '.join(map(str, self.shape))}")

    def encode(self, rows: NDArray[Any]) -> Vectors:
        """The vector of each image; NaN for one with a number that is not finite.

        Args:
            rows: Shape (images, height x width x channels).
        """
        model = loaded_model(self.model)
        name, order = input_of(model, self.shape)

        def row(pixels: NDArray[Any]) -> Row | None:
            if not np.isfinite(pixels).all():
                return None
            return model.row({name: self._image(pixels, order)})

        return unit_rows(rows_of(row, list(rows), model.width))

    @np.errstate(all="ignore")
    def _image(self, pixels: NDArray[Any], order: tuple[int, ...]) -> NDArray[np.float32]:
        """One image as the model takes it, at an address that depends on no other image."""
        image = pixels.astype(np.float64).reshape(self.shape) * self.scale
        scaled = ((image - self.mean) / self.deviation).transpose(order)
        return aligned(scaled[None].astype(np.float32))


def aligned(image: NDArray[np.float32]) -> NDArray[np.float32]:
    """A copy in C order at an address that is a multiple of 64 bytes, whatever came before.

    How a model rounds may depend on the address of its input.

    >>> aligned(np.ones((1, 3, 5), np.float32)).ctypes.data % 64
    0
    """
    room = np.empty(image.nbytes + 64, np.uint8)
    first = -room.ctypes.data % 64
    moved = room[first : first + image.nbytes].view(np.float32).reshape(image.shape)
    moved[...] = image
    return moved


def input_of(model: OnnxModel, shape: Shape) -> tuple[str, tuple[int, ...]]:
    """The name of the input, and the order in which it takes height, width and channels."""
    what = " x ".join(map(str, shape))
    if len(model.inputs) == 1:
        ((name, only),) = model.inputs.items()
        sizes = list(only.shape or [])
        for order in ((2, 0, 1), (0, 1, 2)):
            image = (1, *(shape[axis] for axis in order))
            if only.type == "tensor(float)" and takes(sizes, image):
                return name, order
    raise InvalidValueError(
        f"{model.path} must have one input of float32 images of {what} (height x width x channels),"
        " channels first or last: check the shape"
    )


def takes(sizes: Sequence[object], image: Sequence[int]) -> bool:
    """Whether an input of these sizes takes an image; a size that is no number takes any.

    >>> takes(["n", 3, 28, 28], (1, 3, 28, 28)), takes(["n", 3, "h", 28], (1, 28, 28, 3))
    (True, False)
    """
    return len(sizes) == len(image) and all(
        own == given or not isinstance(own, int) for own, given in zip(sizes, image, strict=True)
    )
