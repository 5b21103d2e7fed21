"""Counts of hashed n-grams in an ONNX graph, as `HashedText` computes them."""

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import pairwise

import numpy as np

from tidegate.checks import refuse
from tidegate.features.feature_map import Graph
from tidegate.features.text_in_onnx.lower import characters, lowered
from tidegate.features.text_in_onnx.strings import (
    characters_of,
    concatenated,
    cut,
    equal,
    joined,
    not_empty,
    text,
    tokens,
)

OPSET = 20
"""The operator set that has StringConcat."""

INT64 = 7
"""The number of an ONNX type."""

MAX_FEATURES = 2**18
"""The most features of a text: a row of them is dense, and takes 2 MiB then."""

Grams = tuple[str, str]
"""The names of n-grams, one row for each text, and of which of them count."""


def hashed_grams(
    graph: Graph, texts: str, *, words: Sequence[int], characters: Sequence[int], size: int
) -> str:
    """Add the counts of the n-grams of texts, hashed with a sign.

    Args:
        graph: The graph.
        texts: The name of the texts, of shape (n, 1).
        words: The least and greatest length of word n-grams; empty for none.
        characters: The least and greatest length of character n-grams; empty for none.
        size: The number of features.

    Returns:
        The name of the counts, of shape (n, size), float64.
    """
    if size > MAX_FEATURES:
        allowed = f"at most {MAX_FEATURES:,} for ONNX (other export kinds take more)"
        raise refuse("the features of a text", allowed, shown=f"{size:,}")
    if not words and not characters:
        raise refuse("words or characters", "given for ONNX", shown="neither")
    graph.need(OPSET)
    # One more text, in which each length occurs: so no array is empty, with any texts or none.
    longest = max(*words, *characters)
    example = graph.constant(np.array([[" ".join(["aa"] * longest)]], object))
    lower = lowered(graph, graph.add(f"Concat <axis = 0> ({example}, {texts})"))
    grams = [*_words(graph, lower, words), *_characters(graph, lower, characters)]
    hashed = [_hashed(graph, *each, size) for each in grams]
    indices, signs = (
        graph.add(f"Concat <axis = 1> ({', '.join(part)})") for part in zip(*hashed, strict=True)
    )
    rows = graph.add(f"Shape <end = 1> ({indices})")
    shape = graph.add(f"Concat <axis = 0> ({rows}, {graph.constant(np.array([size]))})")
    zeros = graph.add(f"ConstantOfShape <value = double[1] {{0.0}}> ({shape})")
    counts = graph.add(
        f'ScatterElements <axis = 1, reduction = "add"> ({zeros}, {indices}, {signs})'
    )
    return graph.add(
        f"Slice({counts}, {', '.join(graph.constant(np.array([at])) for at in (1, 2**63 - 1, 0))})"
    )


def _words(graph: Graph, texts: str, lengths: Sequence[int]) -> Iterator[Grams]:
    """The n-grams of words: runs of two letters or digits or more."""
    if not lengths:
        return
    least, greatest = lengths
    own = tokens(graph, texts, tokenexp=f"{in_a_word()}{{2,}}")
    counted = not_empty(graph, own)
    grams = concatenated(graph, text(graph, "word "), own)
    for length in range(1, greatest + 1):
        if length > 1:
            following = cut(graph, own, length - 1)
            grams = concatenated(graph, cut(graph, grams, 0, -1), text(graph, " "), following)
        if length >= least:
            yield grams, cut(graph, counted, length - 1)


def _characters(graph: Graph, texts: str, lengths: Sequence[int]) -> Iterator[Grams]:
    """The character n-grams of each run without blanks, with a blank before and after it."""
    if not lengths:
        return
    least, greatest = lengths
    kind, blank = text(graph, "char_wb "), text(graph, " ")
    runs = tokens(graph, texts, tokenexp=f"{no_blank()}+")
    counted = not_empty(graph, runs)
    spaced = concatenated(graph, blank, runs, blank)
    spaced = graph.add(f"Where({counted}, {spaced}, {text(graph, '')})")
    if least > 3:  # a run that is shorter than the shortest n-gram counts once
        short = graph.add(f'RegexFullMatch <pattern = "(?s).{{1,{least - 3}}}"> ({runs})')
        yield concatenated(graph, kind, spaced), short
    own = characters_of(graph, joined(graph, spaced))
    counted = not_empty(graph, own)
    number = _numbers(graph, equal(graph, own, " "))
    grams = concatenated(graph, kind, own)
    for length in range(1, greatest + 1):
        last = length - 1
        if length > 1:
            grams = concatenated(graph, cut(graph, grams, 0, -1), cut(graph, own, last))
        if length >= least:
            used = cut(graph, counted, last)
            if length > 1:
                ends = cut(graph, number, 0, -last), cut(graph, number, last)
                used = graph.add(f"And({used}, {graph.add(f'Equal({ends[0]}, {ends[1]})')})")
            yield grams, used


def _numbers(graph: Graph, blanks: str) -> str:
    """The number of the run that each character is in, if each run has a blank at both ends."""
    one = graph.constant(np.int64(1))
    so_far = graph.add(f"CumSum({graph.add(f'Cast <to = {INT64}> ({blanks})')}, {one})")
    more = graph.add(f"Add({so_far}, {one})")
    return graph.add(f"Div({more}, {graph.constant(np.int64(2))})")


def _hashed(graph: Graph, grams: str, counted: str, size: int) -> tuple[str, str]:
    """The feature of each n-gram, and its sign: 0 if it does not count."""
    key = graph.node("MurmurHash3", grams, domain="com.microsoft", positive=0, seed=0)
    wide = graph.add(f"Cast <to = {INT64}> ({key})")  # the smallest int32 has no opposite
    index = graph.add(f"Mod({graph.add(f'Abs({wide})')}, {graph.constant(np.int64(size))})")
    below = graph.add(f"Less({wide}, {graph.constant(np.int64(0))})")
    sign = graph.add(f"Where({below}, {graph.constant(-1.0)}, {graph.constant(1.0)})")
    return index, graph.add(f"Where({counted}, {sign}, {graph.constant(0.0)})")


@lru_cache(1)
def in_a_word() -> str:
    r"""What Python's \w matches, spelled out: the classes of other libraries are different."""
    found = re.findall(r"\w", characters())
    return f"[{_ranges(found)}]"


@lru_cache(1)
def no_blank() -> str:
    """What `str.split` does not split at, spelled out."""
    return f"[^{_ranges([each for each in characters() if each.isspace()])}]"


def _ranges(found: Sequence[str]) -> str:
    r"""Sorted characters as ranges of a regular expression.

    >>> print(_ranges("abcx"))
    \x{61}-\x{63}\x{78}-\x{78}
    """
    codes = [ord(each) for each in found]
    breaks = [(a, b) for a, b in pairwise(codes) if b != a + 1]
    starts = [codes[0], *(after for _, after in breaks)]
    ends = [*(before for before, _ in breaks), codes[-1]]
    return "".join(rf"\x{{{a:x}}}-\x{{{b:x}}}" for a, b in zip(starts, ends, strict=True))
