"""Lower case in an ONNX graph: `str.lower`, by tables of the Python that builds the graph.

ONNX has an operator for lower case, but it needs a locale, which many machines lack, and its result
depends on the machine. Here each text is split into characters, which are looked up one by one and
joined again.
"""

import sys
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from tidegate.features.feature_map import Graph
from tidegate.features.text_in_onnx.strings import characters_of, equal, joined, text

SIGMA, FINAL = "Σ", "ς"
"""The only letter whose lower case depends on its neighbours: at the end of a word it is FINAL."""

LAST = "a", SIGMA
"""What is before and after a character that may be skipped: then SIGMA is at the end of a word."""

BLOCK = 4096
"""The number of characters that are looked at together, to save time."""

BOOL = 9
"""The number of an ONNX type."""


@lru_cache(1)
def characters() -> str:
    """Every character that UTF-8 can hold."""
    codes = np.arange(sys.maxunicode + 1, dtype="<u4")
    surrogate = (codes >= 0xD800) & (codes < 0xE000)
    return codes[~surrogate].tobytes().decode("utf-32-le")


class Letters(NamedTuple):
    """The characters that `str.lower` treats differently from most.

    Attributes:
        keys: These characters.
        lower: Each in lower case, which may be two characters.
        cased: Whether a SIGMA beside each is part of a word.
        skipped: Whether each is passed over when the neighbours of a SIGMA are looked for.
    """

    keys: list[str]
    lower: list[str]
    cased: list[bool]
    skipped: list[bool]


@lru_cache(1)
def letters() -> Letters:
    """Find the special characters by what `str.lower` makes of them."""
    every = characters().replace("\n", "")  # a line break is not special: it separates the others
    found = Letters([], [], [], [])
    for start in range(0, len(every), BLOCK):
        own = every[start : start + BLOCK]
        alone, after_it, between = (
            _lower(own, *beside) for beside in (("", ""), ("", SIGMA), LAST)
        )
        for each, lower, one, other in zip(own, alone, after_it, between, strict=True):
            cased, is_last = one.endswith(FINAL), other.endswith(FINAL)
            if each != lower or is_last:
                found.keys.append(each)
                found.lower.append(lower)
                found.cased.append(cased)
                found.skipped.append(is_last and not cased)
    return found


def _lower(own: str, before: str, after: str) -> list[str]:
    """The lower case of each character between two texts."""
    return (before + f"{after}\n{before}".join(own) + after).lower().split("\n")


def lowered(graph: Graph, texts: str) -> str:
    """Add the lower case of texts of shape (n, 1), which are not all empty."""
    own = characters_of(graph, texts)
    known = letters()
    codes = graph.labels(own, known.keys, range(1, len(known.keys) + 1), other=0)
    lower = graph.constant(np.array(["", *known.lower], object))
    special = graph.add(f"Cast <to = {BOOL}> ({codes})")
    found = graph.add(f"Where({special}, {graph.add(f'Gather({lower}, {codes})')}, {own})")
    final = graph.add(f"And({equal(graph, own, SIGMA)}, {_at_an_end(graph, codes, known)})")
    made = graph.add(f"Where({final}, {text(graph, FINAL)}, {found})")
    return joined(graph, made)


def _at_an_end(graph: Graph, codes: str, known: Letters) -> str:
    """Whether a cased character, but none after it, is next to each, except for skipped ones.

    The others are moved together into an array, in which neighbours are side by side. It starts
    with a place for the skipped ones, and has places for what is before and after the text.
    """

    def gathered(values: list[bool]) -> str:
        table = graph.constant(np.array([False, *values], np.int64))
        return graph.add(f"Gather({table}, {codes})")

    one = graph.constant(np.int64(1))
    kept = graph.add(f"Sub({one}, {gathered(known.skipped)})")
    cased = gathered(known.cased)
    rank = graph.add(f"CumSum({kept}, {one})")
    places = graph.add(f"Mul({graph.add(f'Add({rank}, {one})')}, {kept})")
    shape = graph.add(f"Add({graph.add(f'Shape({codes})')}, {graph.constant(np.array([0, 3]))})")
    empty = graph.add(f"ConstantOfShape <value = int64[1] {{0}}> ({shape})")
    close = graph.add(f"ScatterElements <axis = 1> ({empty}, {places}, {cased})")
    after = graph.add(f"Add({rank}, {graph.constant(np.int64(2))})")
    neighbours = [
        graph.add(f"Cast <to = {BOOL}> ({graph.add(f'GatherElements <axis = 1> ({close}, {at})')})")
        for at in (rank, after)
    ]
    return graph.add(f"And({neighbours[0]}, {graph.add(f'Not({neighbours[1]})')})")
