"""The bodies and responses of the OpenAPI document, with an example of each.

The examples of the long responses are the gate's own, at the time of asking: see `with_own`.
"""

from collections.abc import Callable, Mapping
from copy import deepcopy
from http import HTTPStatus
from typing import Any

from tidegate.serve.bodies import ARROW, JSON

Spec = dict[str, Any]

NUMBERS = {"type": "array", "items": {"type": ["number", "string", "null"]}}
RECORDS: Spec = {
    "matrix": {"value": {"x": [[0.5, -1.25], [2.0, 0.75]], "y": [0, 1]}},
    "named": {"value": {"records": [{"a": 0.5, "b": -1.25, "y": 0}]}},
    "persons": {"value": {"x": [[0.5, -1.25]], "y": [0], "persons": ["p-17"]}},
}
TO_PREDICT: Spec = {
    "matrix": {"value": {"x": [[0.5, -1.25]]}},
    "named": {"value": {"records": [{"a": 0.5, "b": -1.25}]}},
}
ERASURES: Spec = {
    "person": {"value": {"person": "p-17"}},
    "record": {"value": {"record": 4096}},
}
TIME = "2026-01-05T08:00:00+00:00"
TAKEN = {"count": 7168, "taken": 1000}
ERASED = {"erasure": 3, "time": TIME, "kind": "person", "hash": "5c" * 32}
PREDICTED = {"release": 12, "classes": [0, 1], "labels": [1], "probabilities": [[0.18, 0.82]]}
RELEASE = {
    "number": 12,
    "at": 19456,
    "hash": "9f" * 32,
    "previous": "41" * 32,
    "time": TIME,
    "trained_on": "a model of records 12,288 to 19,455, last updated on records 18,432 to 19,455",
    "card": {"release": 12, "at": 19456, "start": 18432, "stop": 19456, "share": "2/7"},
}
HEALTH = {"status": "ok"}
AUDIT = {"lines": [{"time": TIME, "token": "app", "what": "POST /v1/records", "outcome": 200}]}
OWN: Spec = {}
"""Stands for an example that `with_own` fills in."""


def with_own(document: Spec, answers: Mapping[str, Callable[[], Spec]]) -> Spec:
    """The document with the gate's own answers to GET as examples.

    Args:
        document: The OpenAPI document.
        answers: The function that answers each of these paths.
    """
    filled = deepcopy(document)
    for path, answer in answers.items():
        success = filled["paths"][path]["get"]["responses"]["200"]
        success["content"][JSON]["example"] = answer()
    return filled


def body(examples: Spec) -> Spec:
    """The request body of a route that takes records, in JSON or as an Arrow stream."""
    shape = {
        "type": "object",
        "properties": {
            "x": {"type": "array", "items": NUMBERS},
            "y": NUMBERS,
            "persons": {"type": "array", "items": {"type": ["string", "integer", "null"]}},
            "records": {"type": "array", "items": {"type": "object"}},
        },
    }
    arrow = {"schema": {"type": "string", "format": "binary"}}
    content = {JSON: {"schema": shape, "examples": examples}, ARROW: arrow}
    return {"requestBody": {"required": True, "content": content}}


def erasure_body() -> Spec:
    """The request body of an erasure: a person, or a record."""
    shape = {
        "type": "object",
        "properties": {
            "person": {"type": ["string", "integer"]},
            "record": {"type": "integer", "minimum": 0},
            "stream": {"type": "string"},
        },
        "additionalProperties": False,
    }
    content = {JSON: {"schema": shape, "examples": ERASURES}}
    return {"requestBody": {"required": True, "content": content}}


def answers(example: Spec, *refusals: int) -> dict[int | str, Spec]:
    """The responses of a JSON route: success, the errors of every route, and `refusals`."""
    responses: dict[int | str, Spec] = {
        200: {"description": "Success.", "content": {JSON: {"example": example}}}
    }
    for status in (401, 403, 422, 429, *refusals):
        responses[status] = {"description": HTTPStatus(status).phrase}
        if status != HTTPStatus.NOT_MODIFIED:
            responses[status]["content"] = {JSON: {"example": {"error": "one clear line"}}}
    return responses


def other(kind: str, words: str) -> dict[int | str, Spec]:
    """The responses of a route that is not JSON."""
    return {**answers({}, 404, 503), 200: {"description": words, "content": {kind: {}}}}
