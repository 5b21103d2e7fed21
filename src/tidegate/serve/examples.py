"""The bodies and responses of the OpenAPI document, with an example of each."""

from http import HTTPStatus
from typing import Any

from tidegate.privacy.meaning import meaning
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
TAKEN = {"count": 7168, "taken": 1000}
ERASURES: Spec = {
    "person": {"value": {"person": "p-17"}},
    "record": {"value": {"record": 4096}},
}
ERASED = {
    "erasure": 3,
    "time": "2026-01-05T08:00:00+00:00",
    "kind": "person",
    "hash": "5c" * 32,
}
PREDICTED = {"release": 12, "classes": [0, 1], "labels": [1], "probabilities": [[0.18, 0.82]]}
CARD = {"release": 12, "at": 19456, "start": 18432, "stop": 19456, "share": "2/7", "private": True}
RELEASE = {
    "number": 12,
    "at": 19456,
    "hash": "9f" * 32,
    "previous": "41" * 32,
    "time": "2026-01-05T08:00:00+00:00",
    "trained_on": "a model of records 12,288 to 19,455, last updated on records 18,432 to 19,455",
    "card": CARD,
}
RELEASES = {"releases": [RELEASE]}
LINE = {
    "stream": "records",
    "records": 19500,
    "fits": 31,
    "worst_record": 6144,
    "evaluations": 12,
    "paid": 1.0,
    "most_for_ever": 1.0,
    "stopped_records": 0,
    "stopped_paid": 0.0,
}
SUMMARY = {"fits": 31, "worst": 1.0, "most_for_ever": 1.0}
LEDGER = {"lines": [LINE], "summary": SUMMARY}
STRIP = {"bound": 1, "streams": [{"stream": "records", "starts": [0, 9750], "paid": [1.0, 0.86]}]}
PROMISE = {
    "schedule": {"kind": "SlidingWindow", "window": 7168, "step": 1024, "sample": None},
    "budget": {"epsilon": 1.0, "delta": 1e-6},
    "protects": {"unit": "record", "whom": "any one record"},
    "meaning": meaning(1.0, 1e-6),
    "private": True,
}
BLOCK: Spec = {
    "fit": 30,
    "stream": None,
    "start": 18432,
    "stop": 19456,
    "role": "update",
    "emphasized": False,
    "started_from": None,
    "emphasis": [],
    "level": 0,
    "share": 0.28,
}
PLAN = {
    **PROMISE,
    "allocation": {"kind": "Paper"},
    "forever": {"records": 1.0},
    "records": {"columns": ["a", "b"], "text": None, "label": "y", "classes": [0, 1]},
    "chain": [BLOCK],
    "window": {"start": 12288, "stop": 19456},
}
STREAM = {
    "stream": "records",
    "records": 19500,
    "done": 19456,
    "step": 1024,
    "next_model": 20480,
    "steps_waiting": 0,
    "behind": False,
    "held_from": 12288,
    "held_records": 7212,
    "held_because": "future fits may read records from 12,288 on",
}
SCORES: Spec = {
    "accuracy": {"value": 0.81, "deviation": 0.02},
    "majority": {"value": 0.76, "deviation": 0.02},
    "balanced_accuracy": {"value": 0.71, "deviation": 0.03},
    "log_loss": {"value": 0.48, "deviation": 0.02},
    "constant_log_loss": {"value": 0.55, "deviation": 0.01},
    "brier": {"value": 0.15, "deviation": 0.01},
    "auc": {"value": 0.72, "deviation": 0.03},
    "bias": {"value": -0.01, "deviation": 0.02},
    "unusable": {"value": 0.0, "deviation": 0.02},
}
DRIFT: Spec = {"statistic": 0.58, "alarm": False, "what": "", "rate": 0.001}
ALARM: Spec = {"statistic": 3.2, "alarm": True, "what": "features", "rate": 0.001}
PLACE: Spec = {"at": 19456, "stream": "records"}
VERDICT: Spec = {
    "measure": "log_loss",
    "than_constant": "better",
    "than_before": "too noisy to tell",
    "words": "better than a constant, too noisy to tell whether it beats the release before",
}
QUALITY = {
    **PLACE,
    "of_release": 11,
    "accuracy": 0.81,
    "deviation": 0.02,
    "scores": SCORES,
    "verdict": VERDICT,
    "drift": DRIFT,
}
SURVEY = {**PLACE, "classes": [0.76, 0.24], "unusable": 0.01, "deviation": 0.02, "drift": DRIFT}
BIN: Spec = {
    "low": 0.0,
    "high": 0.5,
    "predicted": {"value": 0.21, "deviation": 0.01},
    "observed": {"value": 0.2, "deviation": 0.02},
    "share": {"value": 0.9, "deviation": 0.02},
}
THRESHOLD: Spec = {
    "probability": 0.5,
    "precision": {"value": 0.61, "deviation": 0.05},
    "recall": {"value": 0.42, "deviation": 0.04},
    "flagged": {"value": 0.16, "deviation": 0.02},
}
NEWEST_SCORES: Spec = {
    **PLACE,
    "of_release": 11,
    "records": 1024,
    **SCORES,
    "calibration": [BIN],
    "thresholds": [THRESHOLD],
    "confusion": {"counts": [[710.0, 68.0], [127.0, 119.0]], "deviation": 21.0},
    "verdict": VERDICT,
}
STOPPED = {  # null unless the state is stopped; an example of null would be left out
    "stream": "records",
    "records": 1024,
    "unusable": 0.954,
    "deviation": 0.078,
    "paid": 0.05,
    "message": "stopped before the first fit: 95.4% (noisy; standard deviation 7.8%) of ...",
}
STATUS = {
    **PROMISE,
    "stopped": STOPPED,
    "stopped_steps": [{"stream": "records", "records": 1024, "paid": 0.05}],
    "releases": 13,
    "newest": "2026-01-05T08:00:00+00:00",
    "trained_on": RELEASE["trained_on"],
    "streams": [STREAM],
    "quality": [QUALITY],
    "scores": NEWEST_SCORES,
    "drift": {
        **PLACE,
        **DRIFT,
        "newest_alarm": {**PLACE, "at": 12288, **ALARM},
        "alarms": 1,
        "steps": 18,
    },
    "surveys": [SURVEY],
    "training": False,
}
HEALTH = {"status": "ok"}
AUDIT = {
    "lines": [
        {
            "time": "2026-01-05T08:00:00.000+00:00",
            "token": "app",
            "what": "POST /v1/records",
            "outcome": 200,
            "client": "127.0.0.1",
            "path": "/v1/records",
            "records": 1000,
        }
    ]
}


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
