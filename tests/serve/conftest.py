"""A service that many tests share."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.serve.served import Served


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> "Iterator[Served]":
    """A service whose gate has released three models of 500 records."""
    pytest.importorskip("fastapi", reason="needs the extra serve")
    pytest.importorskip("uvicorn", reason="needs the extra serve")
    pytest.importorskip("prometheus_client", reason="needs the extra serve")
    from tests.serve.served import served, stream  # noqa: PLC0415 (needs the extra)

    folder: Path = tmp_path_factory.mktemp("served") / "state"
    with served(folder) as running:
        with running.client() as client:
            client.ingest(*stream(500))
        running.wait_for(2)
        yield running
