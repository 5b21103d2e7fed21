"""Texts in an ONNX graph: split, joined, compared and cut."""

from typing import Any

import numpy as np

from tidegate.features.feature_map import Graph

END = 2**63 - 1
"""The end of a slice that has none."""

TURNS = 64
"""More than the number of times that any array can be halved."""


def text(graph: Graph, value: str) -> str:
    """Add a constant text."""
    return graph.constant(np.array(value, object))


def equal(graph: Graph, texts: str, value: str) -> str:
    """Add whether each text is this one."""
    return graph.add(f"Equal({texts}, {text(graph, value)})")


def not_empty(graph: Graph, texts: str) -> str:
    """Add whether each text has a character."""
    return graph.add(f"Not({equal(graph, texts, '')})")


def concatenated(graph: Graph, *texts: str) -> str:
    """Add texts, one after the other."""
    made, *others = texts
    for each in others:
        made = graph.add(f"StringConcat({made}, {each})")
    return made


def cut(graph: Graph, rows: str, start: int, end: int = END) -> str:
    """Add the columns of rows from `start` to before `end`."""
    if (start, end) == (0, END):
        return rows
    places = (graph.constant(np.array([at])) for at in (start, end, 1))
    return graph.add(f"Slice({rows}, {', '.join(places)})")


def characters_of(graph: Graph, texts: str) -> str:
    """Add the characters of texts of shape (n, 1), as `tokens` does."""
    return tokens(graph, texts, separators=[""])


def tokens(graph: Graph, texts: str, **how: Any) -> str:
    """Add the tokens of texts of shape (n, 1), one row for each text, filled with empty texts.

    Args:
        graph: The graph.
        texts: The name of the texts; there is one at least, and one of them has a token.
        how: `tokenexp`, a regular expression, or `separators`.
    """
    ends = {"mark": 0, "mincharnum": 1, "pad_value": ""}
    found = graph.node("Tokenizer", texts, domain="com.microsoft", **ends, **how)
    return graph.add(f"Squeeze({found}, {graph.constant(np.array([1]))})")


def joined(graph: Graph, parts: str) -> str:
    """Add the texts of each row as one, of shape (n, 1): each turn joins pairs of neighbours."""
    zero, one, two, last, end = (graph.constant(np.array([at])) for at in (0, 1, 2, -1, END))
    column = graph.add(f"Shape({cut(graph, parts, 0, 1)})")
    empty = graph.add(f"Expand({text(graph, '')}, {column})")
    body = f"""
    join (int64 _turn, bool _going, string[n, m] _given) => (bool _more, string[n, k] _made) {{
        _padded = Concat <axis = 1> (_given, {empty})
        _left = Slice(_padded, {zero}, {last}, {one}, {two})
        _right = Slice(_padded, {one}, {end}, {one}, {two})
        _made = StringConcat(_left, _right)
        _width = Shape <start = 1> (_made)
        _many = Greater(_width, {one})
        _more = Squeeze(_many)
    }}"""
    turns, yes = graph.constant(np.int64(TURNS)), graph.constant(np.True_)
    return graph.add(f"Loop <body = {body}> ({turns}, {yes}, {parts})")
