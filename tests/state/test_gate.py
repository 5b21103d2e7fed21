"""The Gate does durably what a run does in memory, whatever happens to it."""

import json
import multiprocessing
import os
import random
import signal
import stat
from contextlib import closing
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.state import gatelife
from tests.state.gate_files import write_csv
from tests.state.gatelife import SLIDING, TWO, config, opened, stream
from tests.state.postgres_server import DATABASES
from tidegate.checks import InvalidValueError, StoreError
from tidegate.data.intake import clean
from tidegate.failpoints import EXPORTS, NAMES, PUBLISHED
from tidegate.gate import Gate
from tidegate.privacy import LedgerError
from tidegate.privacy.shares import Shares
from tidegate.release.export_formats import load
from tidegate.run.config import Config, ConfigError
from tidegate.run.config.keys import given_keys
from tidegate.run.memory_run import MemoryRun
from tidegate.schedule.plan import Plan, TwoStreamPlan
from tidegate.sources import Batches, SourceError, raw_batch
from tidegate.state.publish_folder import newest_published
from tidegate.state.status import status
from tidegate.state.store import NoStateError
from tidegate.state.verification import verify
from tidegate.state.verify_published import verify as verify_folder

children = multiprocessing.get_context("forkserver")
children.set_forkserver_preload(["tests.state.gatelife"])

SCHEDULES = [
    SLIDING,
    {"kind": "continual", "block": 400, "step": 100},
    {"kind": "multiresolution", "block": 100},
    {"kind": "basic", "block": 400, "step": 100},
    {"kind": "independent", "step": 100},
    {"kind": "sliding", "window": 300, "step": 100, "sample": 60},
]


def cleaned(known: Config, X: Any, y: Any) -> Any:
    classes = known.records.classes
    return clean(X, y, classes=classes, norm=1.5, features=known.feature_map())


def hashes(gate: Gate) -> list[str]:
    return [release.hash for release in gate.releases()]


def named_by_the_books(gate: Gate) -> bool:
    """Whether what a record has paid for names the releases that it is in, and no others."""
    books = gate.ledger_view()
    books.catch_up()
    made = {release.card["fit"]: release.number for release in gate.releases()}
    rows = [row for record in range(0, 1000, 100) for row in books.paid(record)]
    return all(row["release"] == made.get(row["fit"]) for row in rows if row["kind"] == "fit")


@pytest.mark.parametrize("schedule", SCHEDULES, ids=lambda schedule: schedule["kind"])
def test_it_releases_what_a_run_in_memory_does(schedule: Any, tmp_path: Path) -> None:
    known = config(schedule)
    plan = known.plan()
    assert isinstance(plan, Plan)
    run = MemoryRun(known.settings)
    run.take(cleaned(known, *stream(1000)))
    with opened(tmp_path, known) as gate:
        for X, y in (stream(450), stream(550, 450)):
            gate.ingest(X, y)
        found = list(gate.releases())
        assert len(found) == len(run.releases) > 0
        for release, expected in zip(found, run.releases, strict=True):
            assert np.array_equal(release.weights, expected.weights)
            assert expected.entries().items() <= release.card.items()
        assert list(gate.store.lines("records")) == list(plan.lines(1000))
        assert gate.ledgers()["records"].worst() == run.ledger("records").worst()
        assert list(verify(gate)) == []
        assert named_by_the_books(gate)


def test_two_streams_release_what_a_run_in_memory_does(tmp_path: Path) -> None:
    known = config(TWO)
    plan = known.plan()
    assert isinstance(plan, TwoStreamPlan)
    run = MemoryRun(known.settings)
    with opened(tmp_path, known) as gate:
        for X, y, name in gatelife.batches(two=True):
            assert name in {"source", "target"}
            run.take(cleaned(known, X, y), name)
            gate.ingest(X, y, stream=name)
        found = list(gate.releases())
        assert {release.card["stream"] for release in found} == {"source", "target"}
        expected = [release.weights for release in run.releases]
        assert all(map(np.array_equal, [release.weights for release in found], expected))
        ledgers = gate.ledgers()
        assert ledgers["source"].worst() == run.ledger("source").worst()
        assert ledgers["target"].worst() == run.ledger("target").worst()
        assert list(verify(gate)) == []
        assert named_by_the_books(gate)
        with pytest.raises(InvalidValueError, match="stream must be source or target"):
            gate.ingest(*stream(1))


SMALL = config({"kind": "sliding", "window": 300, "step": 100})


@pytest.fixture(scope="module")
def uncut(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """What a small gate releases whose records come at once."""
    with opened(tmp_path_factory.mktemp("gate"), SMALL) as gate:
        gate.ingest(*stream(900))
        return hashes(gate)


@settings(max_examples=10)
@given(cuts=st.lists(st.integers(0, 900), max_size=6), reopen=st.booleans())
def test_how_the_stream_is_cut_means_nothing(
    cuts: list[int], reopen: bool, uncut: list[str], tmp_path_factory: pytest.TempPathFactory
) -> None:
    X, y = stream(900)
    parts = tmp_path_factory.mktemp("gate")
    gate = opened(parts, SMALL)
    for start, stop in zip([0, *sorted(cuts)], [*sorted(cuts), 900], strict=True):
        gate.ingest(X[start:stop], y[start:stop])
        if reopen:
            gate.close()
            gate = opened(parts, SMALL)
    with closing(gate):
        assert hashes(gate) == uncut
        assert len(uncut) == 7


def child(*words: Any) -> bool:
    """Whether a life was cut short; it must not end in any other way but well."""
    process = children.Process(target=gatelife.live, args=words)
    process.start()
    process.join(120)
    assert process.exitcode in {0, -signal.SIGKILL}
    return bool(process.exitcode)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> dict[bool, list[str]]:
    found = {}
    for two in (False, True):
        folder = tmp_path_factory.mktemp("undisturbed") / "state"
        gatelife.live(folder, two=two)
        with Gate.look(folder) as gate:
            found[two] = hashes(gate)
    return found


ONE_STREAM = [(name, False) for name in (*NAMES, *EXPORTS, *PUBLISHED)]
TWO_STREAMS = [
    (f"{call}.{place}", True)
    for call in ("append", "publish", "forget")
    for place in ("commit", "done")
]


@pytest.mark.parametrize("places", DATABASES)
@pytest.mark.parametrize(("name", "two"), ONE_STREAM + TWO_STREAMS)
def test_killed_anywhere_it_ends_as_if_undisturbed(
    name: str, two: bool, places: Any, tmp_path: Path, undisturbed: dict[bool, list[str]]
) -> None:
    folder, kills, store = tmp_path / "state", 0, given_keys(places())
    if name == "sweep.unlink":
        assert child(folder, "segment.folder", two, store)
    for passed in range(1, 100):  # later each time, for the script to go on
        if not child(folder, f"{name}:{passed}", two, store):
            break
        kills += 1
    with Gate.look(folder) as gate:
        assert hashes(gate) == undisturbed[two]
        assert list(verify(gate)) == []
        assert sum(map(gate.store.count, gate.streams)) == sum(gatelife.SIZES)
        needed = {stream: gate.progress.needed(stream) for stream in gate.streams}
        assert all(segment.span.start >= needed[segment.stream] for segment in gate.store.held())
    assert kills > 0
    published = folder.with_suffix(".out")
    assert list(verify_folder(published)) == []
    assert newest_published(published) == len(undisturbed[two]) - 1


def test_a_second_gate_is_refused_at_once_and_one_that_looks_is_not(tmp_path: Path) -> None:
    with opened(tmp_path, config()) as gate:
        gate.ingest(*stream(800))
        with pytest.raises(StoreError, match="in use by process"):
            Gate.open(tmp_path)
        with Gate.look(tmp_path) as other:
            assert hashes(other) == hashes(gate)
            with pytest.raises(StoreError, match="reading only"):
                other.ingest(*stream(1))
    with Gate.open(tmp_path) as gate:
        assert gate.config == config().settled()


def test_other_settings_are_refused_by_name_and_other_places_are_not(tmp_path: Path) -> None:
    with pytest.raises(NoStateError):
        Gate.open(tmp_path)
    opened(tmp_path / "state", config()).close()
    changed = config(budget={"epsilon": 2.0}, learner={"regularization": 0.2})
    with pytest.raises(ConfigError) as caught:
        opened(tmp_path / "state", changed)
    assert "budget.epsilon: 1.0 before, now 2.0" in str(caught.value)
    assert "learner.regularization: 0.1 before, now 0.2" in str(caught.value)
    moved = config(publish={"folder": str(tmp_path / "out")})
    with opened(tmp_path / "state", moved) as gate:
        gate.ingest(*stream(800))
    assert newest_published(tmp_path / "out") == 1


@pytest.mark.parametrize("size", [1300, 50, 7])
def test_what_left_the_window_is_deleted_and_status_says_why_the_rest_is_not(
    size: int, tmp_path: Path
) -> None:
    with opened(tmp_path, config()) as gate:
        for start in range(0, 1300, size):
            gate.ingest(*stream(min(size, 1300 - start), start))
            told = status(gate)["streams"][0]
            assert told["held_from"] == gate.progress.needed("records")
            assert told["held_records"] == told["records"] - told["held_from"]
        assert told["records"] == 1300
        assert told["held_from"] == 700
        assert "records from 700 on" in told["held_because"]
        files = {segment.file for segment in gate.store.held()} - {None}
        assert set(os.listdir(tmp_path / "segments")) == files != set()
        assert told["worst_share"] <= 1


def test_a_schedule_that_reads_everything_again_keeps_it(tmp_path: Path) -> None:
    with opened(tmp_path, config({"kind": "basic", "block": 200, "step": 100})) as gate:
        gate.ingest(*stream(800))
        assert status(gate)["streams"][0]["held_records"] == 800


def test_what_cannot_be_used_keeps_its_slot_and_is_shown_to_the_operator(tmp_path: Path) -> None:
    with opened(tmp_path, config()) as gate:
        gate.ingest([[1.0, 2.0], [np.nan, 0.0], [0.5, 0.5]], [0, 1, "what"])
        found = list(gate.store.quarantine("records"))
        assert [bad.slot for bad in found] == [1, 2]
        assert json.loads(found[1].payload or "") == {"x": [0.5, 0.5], "y": "what"}
        assert status(gate)["streams"][0]["unusable"] == 2
        assert gate.store.count("records") == 3
        with pytest.raises(InvalidValueError, match="1 features, but 2 were expected"):
            gate.ingest([[1.0]], [0])
        assert gate.store.count("records") == 3


@pytest.mark.thorough
def test_ten_thousand_bad_records_stop_nothing(tmp_path: Path) -> None:
    with opened(tmp_path, config()) as gate:
        gate.ingest(np.full((10_000, 3), np.nan), np.zeros(10_000))
        gate.ingest(*stream(1000))
        assert gate.store.quarantined("records") >= 10_000
        assert next(gate.releases(0)).card["at"] == 700
        assert list(verify(gate)) == []


def test_a_batch_of_one_key_is_taken_once(tmp_path: Path) -> None:
    with opened(tmp_path, config()) as gate:
        assert gate.ingest(*stream(10), key="monday") == 10
        assert gate.ingest(*stream(10), key="monday") == 10
        assert gate.ingest(*stream(0)) == 10


def test_a_source_is_taken_up_where_it_was_left(tmp_path: Path) -> None:
    pairs = [stream(300, start) for start in range(0, 900, 300)]
    for _ in range(2):
        with opened(tmp_path, config()) as gate:
            source = Batches(name="mine", pairs=pairs)
            for raw in source.batches(gate.store.offset("mine")):
                gate.take(raw, source="mine")
            assert gate.store.count("records") == 900
    with opened(tmp_path, config()) as gate:
        assert len(list(gate.advance())) == 3
        assert list(gate.advance()) == []


def test_private_quality_is_paid_for_and_is_right_up_to_its_noise(tmp_path: Path) -> None:
    # An accuracy is in [0, 1]; its noise is Laplace of scale 1/(0.5 * 100) = 0.02, beyond 0.5 with
    # probability e^-25 < 1e-10.
    known = config(quality={"share": "1/2", "scores": False}, budget={"epsilon": 1.0})
    with opened(tmp_path, known) as gate:
        gate.ingest(*stream(1000))
        first, *later = gate.releases()
        assert first.card["evaluation"] is None
        for before, release in enumerate(later):
            measured = release.card["evaluation"]["step_before"]
            assert measured["of_release"] == before
            assert (measured["start"], measured["stop"]) == (
                release.card["at"] - 100,
                release.card["at"],
            )
            assert measured["share"] == "1/2"
            assert -0.5 < measured["accuracy"] < 1.5
            assert measured["deviation"] == pytest.approx(0.02 * 2**0.5)
        assert gate.plan.reserve == Fraction(1, 2)
        assert gate.ledgers()["records"].worst().share <= 1
        assert status(gate)["streams"][0]["worst_share"] <= 1


@pytest.mark.parametrize("two", [False, True])
def test_every_step_after_the_first_release_pays_for_one_evaluation(
    two: bool, tmp_path: Path
) -> None:
    """Also a step that releases nothing: those of the source between two of its models."""
    share = Fraction(1, 10)
    with opened(tmp_path, config(TWO if two else None, quality={"share": "1/10"})) as gate:
        newest: int | None = None
        for X, y, name in gatelife.batches(two=two):
            gate.take(raw_batch(X, y), stream=name)
            while ready := [stream for stream in gate.streams if gate.progress.complete(stream)]:
                released = gate._run.carry_out(ready[0])
                *_, step = gate.store.steps()
                assert (step.stream, step.span.stop) == (ready[0], gate.store.done(ready[0]))
                paid = step.evaluation
                assert (paid and paid.release) == newest
                assert paid is None or paid.share == share
                newest = released[-1].number if released else newest
        steps = list(gate.store.steps())
        at = {step.span.stop for step in steps if step.stream == "source" and step.evaluation}
        released_at = {release.card["at"] for release in gate.releases()}
        assert not two or 600 in at - released_at
        for stream, ledger in gate.ledgers().items():
            lines = list(gate.store.lines(stream))
            for record in range(0, gate.store.count(stream), 50):
                fits = sum((line.share for line in lines if record in line.fit.span), Fraction(0))
                own = [s for s in steps if s.stream == stream and record in s.span]
                tried = sum((s.evaluation.share for s in own if s.evaluation), Fraction(0))
                assert ledger.paid(record) == fits + tried <= 1
        assert list(verify(gate)) == []


@pytest.mark.parametrize(
    ("change", "where"),
    [
        ("UPDATE steps SET release = 0 WHERE number = 10", "the step of target at 900"),
        ("UPDATE steps SET share = '1/11' WHERE number = 10", "the step of target at 900"),
        ("UPDATE steps SET share = NULL, release = NULL WHERE number = 10", "the step of target"),
        ("UPDATE steps SET stop = stop + 1 WHERE number = 10", "the step of target"),
        ("DELETE FROM steps WHERE number = 10", "fit"),
        ("DELETE FROM steps WHERE number = (SELECT max(number) FROM steps)", "source"),
        ("UPDATE steps SET stream = 'source' WHERE number = 3", "fit"),
        ("UPDATE state SET arrived = replace(arrived, '\"fits\": ', '\"fits\": 1')", "state.db"),
    ],
)
def test_verify_recomputes_the_order_of_steps(change: str, where: str, tmp_path: Path) -> None:
    with opened(tmp_path, config(TWO, quality={"share": "1/10"})) as gate:
        for X, y, name in gatelife.batches(two=True):
            gate.ingest(X, y, stream=name)
        assert list(verify(gate)) == []
        gate.store._db.execute(change)
        found = list(verify(gate))
        assert any(problem.where.startswith(where) for problem in found), found
        assert all("\n" not in problem.what for problem in found)


@pytest.mark.thorough
def test_a_gate_that_goes_on_is_sound_to_one_that_looks(tmp_path: Path) -> None:
    process = children.Process(target=gatelife.go_on, args=(tmp_path / "state",))
    process.start()
    while not (tmp_path / "state.out" / "latest").exists():
        process.join(0.01)
    looks = 0
    while process.is_alive():
        with Gate.look(tmp_path / "state") as gate:
            assert list(verify(gate)) == []
            assert status(gate)["streams"][0]["worst_share"] <= 1
        looks += 1
    process.join()
    assert (process.exitcode, looks > 1) == (0, True)


def test_a_public_holdout_costs_nothing(tmp_path: Path) -> None:
    holdout = tmp_path / "public.csv"
    X, y = stream(5)
    write_csv(holdout, 5)
    table = {"classes": [0, 1], "norm": 1.5, "columns": ["a", "b", "c"], "label": "y"}
    known = config(records=table, quality={"holdout": str(holdout)})
    with opened(tmp_path / "state", known) as gate:
        gate.ingest(X.repeat(200, axis=0).astype("float32"), y.repeat(200))
        found = [release.card["evaluation"]["holdout"] for release in gate.releases()]
        assert {each["records"] for each in found} == {5}
        assert all(0 <= each["accuracy"] <= 1 for each in found)
        assert gate.ledgers()["records"].worst().share <= 1
    holdout.unlink()
    with pytest.raises(SourceError, match=r"public[.]csv cannot be read"):
        opened(tmp_path / "state", known)


def test_a_published_release_predicts_without_the_state(tmp_path: Path) -> None:
    features = [{"map": "intercept"}]
    known = config(publish={"folder": str(tmp_path / "out")}, features=features)
    with opened(tmp_path / "state", known) as gate:
        gate.ingest(*stream(700))
        (release,) = gate.releases()
    for path in (tmp_path / "state").rglob("*"):
        assert stat.S_IMODE(path.stat().st_mode) in {0o600, 0o700}
    X, _ = stream(5)
    model = load(tmp_path / "out" / "000000.safetensors")
    assert np.array_equal(model.predict(X), release.model().predict(X))
    assert release.card["features"][0]["kind"] == "AppendIntercept"
    assert sorted(os.listdir(tmp_path / "out")) == [
        "000000.json",
        "000000.md",
        "000000.safetensors",
        "000000.sha256",
        "latest",
    ]


def test_verify_finds_what_was_not_planned(tmp_path: Path) -> None:
    with opened(tmp_path, config()) as gate:
        gate.ingest(*stream(800))
        gate.store._db.execute("UPDATE fits SET share = '1/999' WHERE number = 1")
        found = {problem.what for problem in verify(gate) if problem.where == "fit 1"}
        assert any("the state charged 1/999" in what for what in found)
        assert any("its card says share" in what for what in found)


def test_without_a_seed_releases_are_private(tmp_path: Path) -> None:
    known = replace(config(), not_private_seed=None)
    with Gate.open(tmp_path, known) as gate:
        gate.ingest(*stream(700))
        (release,) = gate.releases()
        assert release.card["private"]
        assert status(gate)["private"]


@pytest.mark.parametrize("damage", ["truncated", "flipped", "missing"])
def test_nothing_is_published_from_damaged_records(damage: str, tmp_path: Path) -> None:
    with opened(tmp_path, config()) as gate:
        gate.ingest(*stream(650))
        before = hashes(gate)
    (file,) = (tmp_path / "segments").glob("records-500-*")
    data = bytearray(file.read_bytes())
    if damage == "truncated":
        file.write_bytes(data[:-100])
    elif damage == "flipped":
        data[len(data) // 2] ^= 1
        file.write_bytes(data)
    else:
        file.unlink()
    with opened(tmp_path, config()) as gate:
        with pytest.raises(StoreError, match=file.name):
            gate.ingest(*stream(100, 650))
        assert hashes(gate) == before
        assert file.name in {problem.where for problem in verify(gate)}
        assert gate.store.count("records") == 750  # what arrived is kept all the same
        assert gate.store.done("records") == 600


@pytest.mark.slow
def test_hundreds_of_random_kills(tmp_path: Path, undisturbed: dict[bool, list[str]]) -> None:
    rng, kills = random.Random(0), 0
    for life in range(60):
        folder = tmp_path / f"{life}" / "state"
        for _ in range(8):
            process = children.Process(target=gatelife.live, args=(folder,))
            process.start()
            process.join(rng.uniform(0.01, 0.5))
            process.kill()
            process.join()
            kills += process.exitcode == -signal.SIGKILL
        assert not child(folder)
        with Gate.look(folder) as gate:
            assert hashes(gate) == undisturbed[False]
            assert list(verify(gate)) == []
    assert kills > 100


def test_a_planted_share_publishes_no_more_than_the_budget_allows(tmp_path: Path) -> None:
    """Whatever the plan says, the ledger in the store has the last word."""
    with patch.object(Shares, "of", lambda *_: Fraction(9, 10)):
        with opened(tmp_path / "state", config()) as gate, pytest.raises(LedgerError):
            gate.ingest(*stream(2000))
        with Gate.look(tmp_path / "state") as gate:
            assert gate.ledgers()["records"].worst().share == Fraction(9, 10)
