"""A text's vector by a sentence model in ONNX."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tidegate.checks import InvalidValueError
from tidegate.data.encoder.encoder import Encoder
from tidegate.data.encoder.frozen_file import FrozenFile
from tidegate.data.encoder.onnx_model import OnnxModel, Row, loaded_model, rows_of
from tidegate.data.encoder.tokens import LENGTH, Ids, largest_id, tokens_of
from tidegate.data.encoder.unit_rows import Vectors, unit_rows

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
