"""Texts as numbers of tokens, by a public tokenizer.json."""

import json
import math
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tidegate.checks import InvalidValueError, optional_module, whole
from tidegate.data.encoder.encoder import FrozenFile

Ids = NDArray[np.int64]

CHARACTERS = 64
"""Characters of a text that are read, per token: more cannot hold tokens that count."""

RANDOM = ("dropout", "alpha", "nbest_size")
"""Settings of tokenizers that split the same text in another way each time."""

PANIC = "PanicException"
"""What a panic in the tokenizer's library raises: a text may cause it, and it is no Exception."""

RUN = 4096
"""Most texts given to the tokenizer at a time."""

RUN_CHARACTERS = 2**22
"""Most characters given to it at a time, once its replacements have made them more."""

MAX_GROWTH = 64
"""How many times as long a tokenizer's replacements may make a text, in memory and time."""


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
    for part in runs(clean, growth(file)):
        split = iter(_split(tokenizer, [text for text in part if text is not None], special))
        found += [None if text is None else next(split) for text in part]
    return found


def runs(texts: Sequence[str | None], times: float) -> Iterator[Sequence[str | None]]:
    """Split texts into runs for the tokenizer, which makes them up to so many times as long.

    >>> list(map(len, runs(["tide" * 1000] * 100, 64.0)))
    [16, 16, 16, 16, 16, 16, 4]
    """
    start = size = 0
    for stop, text in enumerate(texts):
        length = 0 if text is None else len(text)
        if stop - start == RUN or (size and times * (size + length) > RUN_CHARACTERS):
            yield texts[start:stop]
            start, size = stop, 0
        size += length
    if texts[start:]:
        yield texts[start:]


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
def growth(file: FrozenFile) -> float:
    """How many times as long the replacements of a tokenizer make a text, at most."""
    return math.prod(map(_growth, _replacements(json.loads(file.read()).get("normalizer"))))


def _replacements(normalizer: Any) -> Iterator[Any]:
    """The replacements of a normalizer, also of those within it."""
    if isinstance(normalizer, dict) and normalizer.get("type") == "Replace":
        yield normalizer
    elif isinstance(normalizer, dict):
        for each in normalizer.get("normalizers", ()):
            yield from _replacements(each)


def _growth(replacement: Any) -> float:
    """How many times as long a replacement makes a text, at most.

    An expression may match nothing between any two characters, and then only adds.

    >>> _growth({"pattern": {"String": "ab"}, "content": "abc"})
    1.5
    >>> _growth({"pattern": {"Regex": " {2,}"}, "content": " "})
    2.0
    """
    pattern, content = replacement["pattern"].get("String"), len(replacement["content"])
    return max(1.0, content / len(pattern)) if pattern else 1.0 + content


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
        times = growth(file)
    except Exception:
        raise InvalidValueError(
            f"{file.path} is not a tokenizer: give a tokenizer.json of the tokenizers library"
        ) from None
    if chance := [name for name in RANDOM if model.get(name)]:
        raise InvalidValueError(
            f"{file.path} splits texts at random: set {' and '.join(chance)} to null in it"
        )
    if times > MAX_GROWTH:
        raise InvalidValueError(
            f"{file.path} may make a text {times:.3g} times as long by its replacements; the most "
            f"is {MAX_GROWTH}: remove some of type Replace from its normalizer"
        )
    return tokenizer


def largest_id(file: FrozenFile, length: int) -> int:
    """The largest number that the tokenizer gives to a token."""
    return max(loaded_tokenizer(file, length).get_vocab(with_added_tokens=True).values(), default=0)
