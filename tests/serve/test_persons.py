"""Ids of persons over HTTP: read with their records, and never in an answer."""

import json
import logging
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("fastapi", reason="needs the extra serve")

from tests.serve.leaks import DIGITS, answers, digits, leaks
from tests.serve.served import Served, config, served, stream
from tests.serve.test_api import ARROW, arrow
from tests.serve.test_privacy import known
from tidegate.checks import InvalidValueError
from tidegate.client import Client, ServiceError
from tidegate.data.owners import owners_of
from tidegate.gate import Gate
from tidegate.privacy.meaning import meaning, whom
from tidegate.privacy.person import EACH_RECORD, Person
from tidegate.run.step_admission import StepAdmission, status_rows
from tidegate.serve.bodies import JSON, Reader
from tidegate.serve.facts import Facts
from tidegate.serve.parser import Question, _reading
from tidegate.sources import RawBatch
from tidegate.state.folder_store import FolderStore

SECRET = "Ada-Lovelace-1815"
HUGE = SECRET * (2**20 // len(SECRET))
PERSON = {"id": "p", "contributions": 4}
KEY = bytes(32)

BAD: list[Any] = [None, "", True, 1.5, [SECRET], {SECRET: 1}, HUGE, "\ud800"]


def listed(rows: Any) -> Any:
    return pa.array(rows, pa.list_(pa.float64(), 2))


@pytest.fixture(scope="module")
def reader() -> Reader:
    return Reader(config=config(person=PERSON))


@pytest.fixture(scope="module")
def plain() -> Reader:
    return Reader(config=config())


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("service") / "state"
    with served(folder, config(person=PERSON)) as running:
        yield running


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> list[RawBatch]:
    """The batches that the gate takes from now on."""
    batches: list[RawBatch] = []
    take = Gate.take

    def noted(self: Gate, raw: RawBatch, **how: Any) -> int:
        batches.append(raw)
        return take(self, raw, **how)

    monkeypatch.setattr(Gate, "take", noted)
    return batches


BODIES: dict[str, tuple[str, Any]] = {
    "matrix": (JSON, {"x": [[1, 2], [3, 4]], "y": [0, 1], "persons": ["ada", 17]}),
    "a whole float": (JSON, {"x": [[1, 2], [3, 4]], "y": [0, 1], "persons": ["ada", 17.0]}),
    "records": (
        JSON,
        {"records": [{"a": 1, "b": 2, "y": 0, "p": "ada"}, {"a": 3, "b": 4, "y": 1, "p": 17}]},
    ),
    "columns": (ARROW, {"p": ["ada", "17"], "a": [1.0, 3.0], "b": [2.0, 4.0], "y": [0, 1]}),
    "lists": (ARROW, {"x": listed([[1, 2], [3, 4]]), "y": [0, 1], "persons": ["ada", "17"]}),
}


def encoded(kind: str, body: Any) -> bytes:
    return json.dumps(body).encode() if kind == JSON else arrow(pa.table(body))


@pytest.mark.parametrize("name", BODIES)
def test_every_body_carries_ids(service: Served, taken: list[RawBatch], name: str) -> None:
    kind, body = BODIES[name]
    answer = service.ask("POST", "/v1/records", encoded(kind, body), Content_Type=kind)
    assert answer.status == 200, answer.body
    assert answer.json["taken"] == 2
    (batch,) = taken
    assert batch.X.tolist() == [[1, 2], [3, 4]]
    np.testing.assert_array_equal(
        owners_of(batch.persons, KEY).owners, owners_of(["ada", "17"], KEY).owners
    )


def test_whole_numbers_and_texts_of_arrow_are_one_person(reader: Reader) -> None:
    for kind in (pa.int64(), pa.uint8(), pa.string(), pa.large_string()):
        table = {"x": listed([[1, 2]] * 3), "y": [0] * 3}
        ids = pa.array(["5", "7", None]).cast(kind)
        for body in (
            {**table, "persons": ids},
            {"a": [1.0] * 3, "b": [1.0] * 3, "y": [0] * 3, "p": ids},
        ):
            batch = reader.batch(ARROW, arrow(pa.table(body)))
            keyed = owners_of(batch.persons, KEY)
            np.testing.assert_array_equal(keyed.owners, owners_of(["5", "7", None], KEY).owners)


@pytest.mark.thorough
@pytest.mark.parametrize("form", ["matrix", "records"])
def test_a_bad_id_costs_its_own_slot(
    service: Served, taken: list[RawBatch], form: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    ids = [each for bad in BAD for each in (bad, "ada")]
    if form == "matrix":
        body: Any = {"x": [[1, 2]] * len(ids), "y": [0] * len(ids), "persons": ids}
    else:
        body = {
            "records": [{"a": 1, "b": 2, "y": 0, "p": each} for each in ids]
            + [{"a": 1, "b": 2, "y": 0}]
        }
    answer = service.ask("POST", "/v1/records", body)
    assert answer.status == 200
    assert answer.json["taken"] == len(ids) + (form == "records")
    assert SECRET.encode() not in answer.body
    (batch,) = taken
    keyed = owners_of(batch.persons, KEY)
    without = [*range(0, len(ids), 2), *([len(ids)] if form == "records" else [])]
    assert sorted(keyed.reasons) == without
    assert not any(SECRET in each for each in [*keyed.reasons.values(), *batch.reasons.values()])
    assert all(json.loads(batch.arrived(slot)) for slot in without)
    assert SECRET not in caplog.text


def test_ids_that_are_no_json_cost_their_own_slot(reader: Reader) -> None:
    body = b'{"x": [[1, 2], [3, 4], [5, 6]], "y": [0, 1, 0], "persons": ["ada", \xff, nonsense]}'
    batch = reader.batch(JSON, body)
    assert batch.persons == ["ada", None, None]
    assert batch.reasons == {1: "not UTF-8", 2: "not JSON"}


@pytest.mark.parametrize("damage", [b"nonsense", b"\xff", b'{"p": "bob"}', b'"bob"', b"null"])
def test_a_damaged_record_keeps_an_id_that_is_beside_it(reader: Reader, damage: bytes) -> None:
    """As docs/guarantee.md says: what the record holds cannot change whose it is."""
    lists = b'{"x": [[1, 2], [1, %s]], "y": [0, 1], "persons": ["ada", "bob"]}' % damage
    assert reader.batch(JSON, lists).persons == ["ada", "bob"]
    labels = b'{"x": [[1, 2], [1, 2]], "y": [0, %s], "persons": ["ada", "bob"]}' % damage
    assert reader.batch(JSON, labels).persons == ["ada", "bob"]


def test_an_id_is_lost_with_the_record_that_holds_it(reader: Reader) -> None:
    """The case for which docs/guarantee.md recommends ids beside records."""
    whole, damaged = b'{"a": 1, "b": 2, "y": 0, "p": "ada"}', b'{"a": \xff, "p": "bob"}'
    batch = reader.batch(JSON, b'{"records": [%s, %s]}' % (whole, damaged))
    assert batch.persons == ["ada", None]


REFUSED: dict[str, tuple[str, Any]] = {
    "none at all": (JSON, {"x": [[1, 2]], "y": [0]}),
    "too few": (JSON, {"x": [[1, 2], [1, 2]], "y": [0, 1], "persons": [SECRET]}),
    "too many": (JSON, {"x": [[1, 2]], "y": [0], "persons": [SECRET, SECRET]}),
    "no list": (JSON, {"x": [[1, 2]], "y": [0], "persons": SECRET}),
    "an object": (JSON, {"x": [[1, 2]], "y": [0], "persons": {SECRET: 1}}),
    "no column": (ARROW, {"a": [1.0], "b": [2.0], "y": [0]}),
    "no column beside lists": (ARROW, {"x": listed([[1, 2]]), "y": [0]}),
    "numbers with a point": (ARROW, {"a": [1.0], "b": [2.0], "y": [0], "p": [1.5]}),
    "the same beside lists": (ARROW, {"x": listed([[1, 2]]), "y": [0], "persons": [1.5]}),
    "lists": (ARROW, {"x": listed([[1, 2]]), "y": [0], "persons": [[SECRET]]}),
    "bytes": (ARROW, {"x": listed([[1, 2]]), "y": [0], "persons": [SECRET.encode()]}),
    "nulls": (ARROW, {"a": [1.0], "b": [2.0], "y": [0], "p": pa.nulls(1)}),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_wrong_with_all_of_a_body_is_one_line(
    service: Served, taken: list[RawBatch], name: str
) -> None:
    kind, body = REFUSED[name]
    answer = service.ask("POST", "/v1/records", encoded(kind, body), Content_Type=kind)
    assert answer.status == 422
    said = answer.json["error"]
    assert "\n" not in said
    assert SECRET not in said
    assert "person" in said or "column p is not in the body" in said
    assert taken == []


def test_a_service_of_records_refuses_ids(plain: Reader) -> None:
    for name in ("matrix", "lists"):
        kind, body = BODIES[name]
        with pytest.raises(InvalidValueError, match="no \\[person\\], so records are protected"):
            plain.batch(kind, encoded(kind, body))
    kind, body = BODIES["records"]  # a field like any other that is not read
    assert plain.batch(kind, encoded(kind, body)).persons is None


@pytest.mark.parametrize("name", BODIES)
def test_predictions_need_no_ids(reader: Reader, name: str) -> None:
    kind, body = BODIES[name]
    if isinstance(body.get("records"), list):
        body = {"records": [{k: v for k, v in row.items() if k in "ab"} for row in body["records"]]}
    without = {key: value for key, value in body.items() if key not in {"p", "persons", "y"}}
    for each in (body, without):
        batch = replace(reader, labelled=False).batch(kind, encoded(kind, each))
        assert batch.persons is None
        assert batch.X.tolist() == [[1, 2], [3, 4]]


@given(
    st.lists(
        st.none()
        | st.booleans()
        | st.integers()
        | st.floats()
        | st.text()
        | st.lists(st.text(), max_size=2),
        max_size=9,
    )
)
def test_no_id_gets_lost_between_processes(ids: list[Any]) -> None:
    """The process that reads JSON sends plain values; who owns what must be the same."""
    reader = Reader(config=config(person=PERSON))
    body = json.dumps({"x": [[1, 2]] * len(ids), "y": [0] * len(ids), "persons": ids}).encode()
    whole = reader.batch(JSON, body)
    with _reading(reader) as read:
        sent = read(Question(JSON, bytearray(body), labelled=True)).batch()
    assert sent.n == whole.n
    one, other = (owners_of(batch.persons, KEY) for batch in (whole, sent))
    np.testing.assert_array_equal(one.owners, other.owners)
    assert one.reasons.keys() == other.reasons.keys()


@pytest.mark.parametrize(
    "ids", [["ada", "bob"], np.array([3, 5]), np.array(["a", "b"]), pa.array(["a", None])]
)
def test_the_client_sends_ids(service: Served, taken: list[RawBatch], ids: Any) -> None:
    X, y = stream(2)
    with service.client("ingest") as client:
        client.ingest(X, y, persons=ids)
        (batch,) = taken
        np.testing.assert_array_equal(
            owners_of(batch.persons, KEY).owners, owners_of(ids, KEY).owners
        )
        with pytest.raises(ServiceError, match="persons is missing: the configuration has"):
            client.ingest(X, y)


@pytest.mark.parametrize("ids", [[1.5, 2.5], [SECRET, 3], [None, None], [[SECRET], ["b"]], "ab", 7])
def test_the_client_does_not_send_what_are_no_ids(service: Served, ids: Any) -> None:
    X, y = stream(2)
    with Client(service.url, "x") as client, pytest.raises(InvalidValueError) as refused:
        client.ingest(X, y, persons=ids)
    assert str(refused.value).startswith("persons must be")
    assert SECRET not in str(refused.value)


def test_the_client_sends_ids_with_texts(tmp_path: Path, taken: list[RawBatch]) -> None:
    settings = config(
        records={"classes": [0, 1], "norm": 1.0},
        features=[{"map": "text"}],
        person=PERSON,
    )
    with served(tmp_path / "state", settings) as running, running.client("ingest") as client:
        client.ingest(["one", "two"], [0, 1], persons=["ada", "bob"])
    assert taken[0].persons == ["ada", "bob"]


def test_status_and_plan_say_whom_the_budget_protects(service: Served, tmp_path: Path) -> None:
    person = Person(contributions=4)
    for path in ("/v1/status", "/v1/plan"):
        told = service.ask("GET", path).json
        assert told["protects"] == {
            "unit": "person",
            "contributions": 4,
            "period": None,
            "typical": "1",
            "whom": "any one person",
        }
        assert told["meaning"] == meaning(**told["budget"], protects=person)
    with served(tmp_path / "state") as plain:
        told = plain.ask("GET", "/v1/status").json
        assert told["protects"] == {"unit": "record", "whom": whom(EACH_RECORD)}


FEW = config(
    person={"id": "p", "contributions": 1},
    schedule={"kind": "sliding", "window": 291, "step": 97},
)
"""Of the second step 40 of 97 records count, if 137 persons take turns."""

SECRET_IDS = [f"P{DIGITS}-{slot % 137}" for slot in range(485)]


def with_persons(service: Served, ids: list[str]) -> list[StepAdmission]:
    """How many records of each step count once a service has learnt from them."""
    X, y = stream(len(ids))
    body = {"x": X.tolist(), "y": y.tolist(), "persons": ids}
    assert service.ask("POST", "/v1/records", body).status == 200
    service.wait_for(2)
    return service.runner.gate.store.admissions()


def secrets_of(counts: list[StepAdmission]) -> list[str]:
    """What no answer may hold: ids, the share of the second step, and what names such shares."""
    share = counts[1].share
    assert share is not None
    return [DIGITS, digits(share), "admitted", "with a person count"]


def test_nobody_hears_over_http_how_many_records_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The share has no noise: no route may have it, whatever the token, nor even read it."""
    with served(tmp_path / "state", FEW) as service:
        counts = with_persons(service, SECRET_IDS)
        assert [each.counted for each in counts] == [97, 40, 0, 0, 0]
        assert set(status_rows(counts, "records")) == {"admitted", "admitted_steps"}
        assert leaks(service, *secrets_of(counts)) == {}
        heard = list(answers(service))
        assert any(status == 200 for _, (status, *_) in heard[:-1])

        def unread(*_: Any) -> Any:
            raise AssertionError("a route reads how many records count")

        monkeypatch.setattr(FolderStore, "admissions", unread)
        for (route, before), (_, after) in zip(heard, answers(service), strict=True):
            if "/metrics" not in route and "/v1/audit" not in route:  # they count requests
                assert before == after, route
            else:
                assert before[0] == after[0], route


def test_nobody_can_tell_over_http_how_many_records_count(tmp_path: Path) -> None:
    """Counts are too short to be searched; so two services that differ in nothing else."""
    with served(tmp_path / "few", FEW) as few, served(tmp_path / "all", FEW) as every:
        counts = with_persons(few, SECRET_IDS), with_persons(every, list(map(str, range(485))))
        assert [sum(each.counted for each in steps) for steps in counts] == [137, 485]
        assert known(few) == known(every)
        for path in ("/v1/ledger", "/v1/ledger/strip", "/v1/plan"):
            assert few.ask("GET", path).json == every.ask("GET", path).json


def test_a_planted_share_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the test above searches would be found in a number, a word or a key."""
    with served(tmp_path / "state", FEW) as service:
        counts = with_persons(service, SECRET_IDS)
        secrets, plan = secrets_of(counts), Facts.plan
        share = secrets[1]
        notes: list[tuple[Any, str]] = [
            (counts[1].share, share),
            (-100 * (counts[1].share or 0), share),
            (f"x0.{share[:12]}s", share),
            ([f"<{SECRET_IDS[3]}>"], DIGITS),
            (status_rows(counts, "records"), "admitted"),
            ({"unadmitted": 0}, "admitted"),
            (f"({counts[1].in_words()})", "with a person count"),
        ]
        for note, secret in notes:
            monkeypatch.setattr(Facts, "plan", lambda self, n=note: {**plan(self), "note": n})
            assert secret in leaks(service, *secrets)["GET /v1/plan"]
