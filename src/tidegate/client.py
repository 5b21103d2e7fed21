"""A client for Python programs that send records to a service or read its releases."""

import json
import secrets
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import urlencode, urlsplit

import numpy as np
from numpy.typing import NDArray

from tidegate.checks import refuse
from tidegate.client_body import body_of

if TYPE_CHECKING:
    from tidegate.release import Model, RegressionModel

RETRIED_STATUSES = {429, 502, 503, 504}
"""Statuses after which a request is retried."""

PAUSE, LONGEST = 0.1, 5.0
"""Seconds before a retry: the first pause, and the longest."""


class ServiceError(RuntimeError):
    """The service refused a request, or could not be reached.

    Attributes:
        status: The HTTP status of the response; None if there was none.
    """

    def __init__(self, message: str, status: int | None = None) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True, kw_only=True)
class Prediction:
    """The predictions of a release.

    Attributes:
        release: The number of the release.
        labels: The class of each record, or its predicted target, shape (n,).
        probabilities: The probability of each class, shape (n, K); K is 0 for a target.
    """

    release: int
    labels: NDArray[Any]
    probabilities: NDArray[np.float64]


class Client:
    """A client of a service, over one open connection; each thread needs its own client.

    It follows no redirects and uses no proxy, so only the service sees the token.

    Args:
        url: Address of the service, such as "http://127.0.0.1:8321".
        token: A token from `tidegate token create`.
        timeout: Seconds to wait for a response.
        patience: Seconds for which requests are retried while the service is busy or unreachable.
    """

    def __init__(
        self, url: str, token: str, *, timeout: float = 60.0, patience: float = 60.0
    ) -> None:
        parts = urlsplit(url)
        if parts.scheme not in {"http", "https"} or not parts.netloc:
            raise refuse("url", "an address that starts with http:// or https://", url)
        kind = HTTPSConnection if parts.scheme == "https" else HTTPConnection
        self._connection = kind(parts.netloc, timeout=timeout)
        self._url, self._prefix = url, parts.path.rstrip("/")
        self._authorization = f"Bearer {token}"
        self._patience = patience

    def __repr__(self) -> str:
        return f"Client({self._url!r})"

    def close(self) -> None:
        """Close the connection; the next request opens another."""
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def ingest(
        self,
        X: Any,
        y: Any,
        *,
        persons: Any = None,
        stream: str | None = None,
        key: str | None = None,
    ) -> int:
        """Add a batch exactly once, and return how many records the stream now has.

        When this returns, the records are durable. If a response is lost, the request is sent again
        under the same key, so the batch is not added twice.

        Args:
            X: Numbers of shape (n, d), a list of n texts, or a table with columns of any kind: a
                DataFrame, an Arrow table or a list of dicts.
            y: A label for each record; for a table the name of its column of labels. With a label
                for each, all columns of a table are read as numbers, in their order.
            persons: The id of each record's person, if the service protects persons: texts or whole
                numbers. A table has them in the column that the service's `person.id` names.
            stream: "source" or "target", if there are two streams.
            key: A unique name for the batch; random by default.
        """
        where = "/v1/records" + (f"?{urlencode({'stream': stream})}" if stream else "")
        headers = {"Idempotency-Key": key or secrets.token_urlsafe(16)}
        answer = self._ask("POST", where, *body_of(X, y, persons), headers=headers)
        return int(json.loads(answer)["count"])

    def erase(
        self,
        *,
        person: str | int | None = None,
        record: int | None = None,
        stream: str | None = None,
    ) -> dict[str, Any]:
        """Destroy what the service's state holds of a person or of a record; return the receipt.

        The token needs the scope "erase". Releases stay. If a response is lost, the request is sent
        again, which does no harm: the state then has two lines about it.

        Args:
            person: The id of the person, as the records have it.
            record: The number of the record in its stream instead.
            stream: "source" or "target", if there are two streams; only with `record`.
        """
        given = {"person": person, "record": record, "stream": stream}
        body = {name: value for name, value in given.items() if value is not None}
        answer = self._ask("POST", "/v1/erasures", json.dumps(body).encode(), "application/json")
        receipt: dict[str, Any] = json.loads(answer)
        return receipt

    def predict(self, X: Any) -> Prediction:
        """Predict with the newest release.

        Args:
            X: Records as in `ingest`, without labels.
        """
        answer = json.loads(self._ask("POST", "/v1/predict", *body_of(X)))
        if "predictions" in answer:
            numbers = np.asarray(answer["predictions"], np.float64)
            none = np.empty((numbers.size, 0))
            return Prediction(release=answer["release"], labels=numbers, probabilities=none)
        return Prediction(
            release=answer["release"],
            labels=np.asarray(answer["labels"]),
            probabilities=np.asarray(answer["probabilities"], np.float64),
        )

    def releases(self, start: int = 0) -> Iterator[dict[str, Any]]:
        """Yield the releases from number `start` on, without their weights."""
        while batch := self.get(f"/v1/releases?from={start}&limit=100")["releases"]:
            yield from batch
            start = batch[-1]["number"] + 1

    def follow(self, start: int = 0) -> Iterator[dict[str, Any]]:
        """Yield the releases from number `start` on, then wait for each new one, without end."""
        tag = ""
        while True:
            for release in self.releases(start):
                start, tag = release["number"] + 1, f'"{release["hash"]}"'
                yield release
            try:
                self._ask("GET", "/v1/releases/latest?wait=30", headers={"If-None-Match": tag})
            except ServiceError as error:
                if error.status != 404:  # 404: there is no release yet
                    raise

    def model(self, number: int | None = None) -> "Model | RegressionModel":
        """Download a model, by default the newest, and check it against its hash."""
        from tidegate.release.export_formats import load  # noqa: PLC0415 (slow to load)

        chosen = self.get("/v1/releases/latest")["number"] if number is None else number
        with TemporaryDirectory() as folder:
            path = Path(folder) / "release.safetensors"
            path.write_bytes(self._ask("GET", f"/v1/releases/{chosen}/weights.safetensors"))
            return load(path)

    def status(self) -> dict[str, Any]:
        """The service's status: its records, releases and budget."""
        return self.get("/v1/status")

    def ledger(self, record: int | None = None) -> dict[str, Any]:
        """What the most-charged record has paid, or all charges to one record."""
        return self.get("/v1/ledger" + ("" if record is None else f"?record={record}"))

    def get(self, path: str) -> dict[str, Any]:
        """Get the JSON at a path of the service."""
        answer: dict[str, Any] = json.loads(self._ask("GET", path))
        return answer

    def _ask(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        kind: str | None = None,
        *,
        headers: Mapping[str, str] | None = None,
    ) -> bytes:
        """Send a request, with retries if the service is busy or unreachable; return the body."""
        all_headers = {"Authorization": self._authorization, **(headers or {})}
        if kind is not None:
            all_headers["Content-Type"] = kind
        until, pause = time.monotonic() + self._patience, PAUSE
        while True:
            try:
                self._connection.request(method, self._prefix + path, body, all_headers)
                answer = self._connection.getresponse()
                content = answer.read()
            except (OSError, HTTPException) as error:
                self._connection.close()
                unreachable = f"{self._url} does not answer: {error}"
                failure = ServiceError(f"{unreachable}; check the address, and that it is running")
            else:
                if answer.status in {200, 304}:
                    return content
                failure = ServiceError(_error(content, answer.status), answer.status)
                if answer.status not in RETRIED_STATUSES:
                    raise failure
                later = answer.headers.get("Retry-After", "")  # a proxy may send a date
                pause = max(pause, float(later) if later.isdecimal() else 0.0)
            if time.monotonic() + pause > until:
                raise failure
            time.sleep(pause)
            pause = min(2 * pause, LONGEST)


def _error(content: bytes, status: int) -> str:
    try:
        return str(json.loads(content)["error"])
    except (ValueError, KeyError, TypeError):
        return f"the service answered {status}: check the address, and any proxy before it"
