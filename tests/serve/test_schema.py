"""Requests made from the OpenAPI document by a machine: no answer is an error of ours."""

from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis.errors import Unsatisfiable

pytest.importorskip("fastapi", reason="needs the extra serve")
pytest.importorskip("schemathesis", reason="needs schemathesis")

import schemathesis

from tests.serve.served import Served, served, stream
from tidegate.serve.limits import Limits


def check(service: Served, examples: int) -> Counter[int]:
    """Ask what the document allows, and a little of what it does not; the statuses found."""
    document = service.ask("GET", "/v1/openapi.json").json
    schema = schemathesis.openapi.from_dict(document)
    found: Counter[int] = Counter()

    def probe(case: Any) -> None:
        scopes = {"/v1/records": "ingest", "/v1/audit": "admin", "/v1/erasures": "erase"}
        scope = scopes.get(case.path, "read")
        headers = {"Authorization": f"Bearer {service.tokens[scope]}"}
        answer = case.call(base_url=service.url, headers=headers, timeout=20)
        found[answer.status_code] += 1
        assert answer.status_code < 500, answer.content

    how = settings(max_examples=examples, deadline=None, suppress_health_check=list(HealthCheck))
    operations: Any = schema.get_all_operations()
    for made in operations:
        operation = made.ok()
        if operation.path == "/v1/releases/events":
            continue  # an answer without end
        for mode in schemathesis.GenerationMode:
            with suppress(Unsatisfiable):  # nothing can be wrong with a route without parameters
                how(given(case=operation.as_strategy(generation_mode=mode))(probe))()
    return found


@pytest.mark.thorough
@pytest.mark.parametrize("examples", [3, pytest.param(100, marks=pytest.mark.slow)])
def test_no_request_is_our_fault(tmp_path: Path, examples: int) -> None:
    limits = Limits(wait=0.05, rate=10_000, burst=10_000, erasing=0.01)
    with served(tmp_path / "state", limits=limits) as running, running.client() as client:
        client.ingest(*stream(300))
        running.wait_for(0)
        found = check(running, examples)
    assert found[200] > 10
    assert found[422] > 10
