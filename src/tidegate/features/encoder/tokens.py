"""Texts as numbers of tokens, by a public tokenizer.json."""

import json
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tidegate.checks import InvalidValueError, optional_module, whole
from tidegate.features.encoder.frozen_file import FrozenFile

Ids = NDArray[np.int64]

LENGTH = 256
"""How many tokens of a text are read, unless a setting says otherwise."""

CHARACTERS = 64
"""Characters of a text that are read, per token: more cannot hold tokens that count."""

RANDOM = ("dropout", "alpha", "nbest_size")
"""Settings of tokenizers that split the same text in another way each time."""

PANIC = "PanicException"
"""What a panic in the tokenizer's library raises: a text may cause it, and it is no Exception."""

RUN = 4096
"""Texts given to the tokenizer at a time."""


def tokens_of(
    texts: Sequence[object], file: FrozenFile, *, length: int, special: bool
) -> list[Ids | None]:
    """The tokens of each text, at most `length`; None for what is not a text.

    A text is cut by its own length alone, and never padded.

    Args:
        texts: The texts.
        file: A tokenizer.json.
        length: The most tokens of a text.
        special: Whether to add the tokens that mark the start and end of a text.
    """
    tokenizer = loaded_tokenizer(file, length)
    clean = [cut(text, length) if isinstance(text, str) else None for text in texts]
    found: list[Ids | None] = []
    for start in range(0, len(clean), RUN):
        part = clean[start : start + RUN]
        split = iter(_split(tokenizer, [text for text in part if text is not None], special))
        found += [None if text is None else next(split) for text in part]
    return found


def cut(text: str, length: int) -> str:
    r"""The start of a text that is read, with a question mark for half a surrogate pair.

    >>> cut("tide \ud800", 256), len(cut("tide" * 10**6, 256))
    ('tide ?', 16384)
    """
    return text[: CHARACTERS * length].encode(errors="replace").decode()


def _split(tokenizer: Any, texts: list[str], special: bool) -> list[Ids | None]:
    """The tokens of texts; None for one that the tokenizer cannot split."""
    try:
        found = tokenizer.encode_batch_fast(texts, add_special_tokens=special)
    except BaseException as error:
        if not isinstance(error, Exception) and type(error).__name__ != PANIC:
            raise
        if len(texts) == 1:
            return [None]
        return [_split(tokenizer, [text], special)[0] for text in texts]
    return [np.array(each.ids, np.int64) for each in found]


@lru_cache(maxsize=8)
def loaded_tokenizer(file: FrozenFile, length: int) -> Any:
    """The tokenizer of a file, which cuts texts at `length` tokens."""
    tokenizers = optional_module("tokenizers", "encoders")
    length = whole("length", length, least=8, most=2**16)
    content = file.read()
    try:
        model = json.loads(content)["model"]
        tokenizer = tokenizers.Tokenizer.from_str(content.decode())
        tokenizer.no_padding()
        tokenizer.enable_truncation(length)
    except Exception:
        raise InvalidValueError(
            f"{file.path} is not a tokenizer: give a tokenizer.json of the tokenizers library"
        ) from None
    if chance := [name for name in RANDOM if model.get(name)]:
        raise InvalidValueError(
            f"{file.path} splits texts at random: set {' and '.join(chance)} to null in it"
        )
    return tokenizer


def largest_id(file: FrozenFile, length: int) -> int:
    """The largest number that the tokenizer gives to a token."""
    return max(loaded_tokenizer(file, length).get_vocab(with_added_tokens=True).values(), default=0)
