"""A survey or score that was never committed is never seen: the next one takes its place."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest

from tests.state.gatelife import stream
from tests.state.postgres_server import needs_postgres, on_server
from tidegate.gate import Gate
from tidegate.learn import preparation, score_kinds
from tidegate.learn.scores import Scores, score
from tidegate.learn.survey import Survey, survey
from tidegate.run.config import Config
from tidegate.run.config.keys import given_keys
from tidegate.schedule import Span
from tidegate.schedule.plan import Plan
from tidegate.state import state_database
from tidegate.state.store import _text
from tidegate.state.verification import verify

SHARE = Fraction(1, 10)
SCHEDULES: dict[str, Any] = {
    "fading": {"kind": "fading", "step": 100, "forget": "1/3", "memory": 3},
    "sliding": {"kind": "sliding", "window": 300, "step": 100},
}


class PulledError(Exception):
    """The plug is pulled."""


def config(kind: str, store: Any = None) -> Config:
    """A Gate with noise from the operating system, so that no two surveys are alike."""
    share = {"share": str(SHARE)}
    return Config.of(
        {
            "schedule": SCHEDULES[kind],
            "budget": {"epsilon": 1.0, "delta": 1e-6},
            "records": {"classes": [0, 1], "norm": 1.5, "dtype": "float64"},
            "survey": share,
            "quality": share,
            "store": store or {},
        }
    )


@contextmanager
def noted(made: list[Any]) -> Iterator[None]:
    """Notes all surveys and scores, also those of steps that are undone."""

    def keep(function: Callable[..., Any]) -> Callable[..., Any]:
        def kept(*given: Any, **more: Any) -> Any:
            made.append(function(*given, **more))
            return made[-1]

        return kept

    with (
        patch.object(preparation, "survey", keep(survey)),
        patch.object(score_kinds, "score", keep(score)),
    ):
        yield


@contextmanager
def pulled(point: str) -> Iterator[None]:
    """The next commit of a step ends here."""

    def end(name: str) -> None:
        if name == point:
            raise PulledError

    with patch.object(state_database, "failpoint", end):
        yield


def traces(made: Survey | Scores) -> list[bytes]:
    """What the noisy numbers look like in a file."""
    if isinstance(made, Survey):
        return [_text(made.cells)[:40].encode(), made.cells.tobytes()[:32]]
    return [repr(float(each)).encode() for each in made.counts[:2]]


def written(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())


SERVER = pytest.param(lambda: given_keys(on_server()), marks=needs_postgres, id="postgres")


@pytest.mark.parametrize("places", [pytest.param(dict, id="sqlite"), SERVER])
@pytest.mark.parametrize("point", ["publish.commit", "publish.done"])
@pytest.mark.parametrize("kind", SCHEDULES)
def test_every_step_is_charged_and_shown_once(
    kind: str, point: str, places: Any, tmp_path: Path
) -> None:
    folder, store = tmp_path / "state", places()
    attempts: list[list[Any]] = []
    for start in range(0, 600, 100):
        for interrupted in (True, False):
            made: list[Any] = []
            with Gate.open(folder, config(kind, store)) as gate, noted(made):
                if not interrupted:
                    list(gate.advance())  # nothing is left if the step was committed
                else:
                    with pulled(point), pytest.raises(PulledError):
                        gate.ingest(*stream(100, start))
            attempts.append(made)
    with Gate.look(folder) as gate:
        assert list(verify(gate)) == []
        steps = list(gate.store.steps())
        assert [step.span for step in steps] == [Span(at, at + 100) for at in range(0, 600, 100)]
        for number, step in enumerate(steps):
            first, second = attempts[2 * number : 2 * number + 2]
            seen, unseen = (second, first) if point == "publish.commit" else (first, second)
            assert_stored(gate, step, seen)
            if not store:
                inside = written(folder)
                assert traces(seen[0])[0] in inside
                assert all(trace not in inside for one in unseen for trace in traces(one))
        paid = gate.ledgers()["records"].paid(250)
        assert isinstance(gate.plan, Plan)
        assert paid == gate.plan.paid(250, 600) + SHARE * (steps[2].evaluation is not None)


def assert_stored(gate: Gate, step: Any, seen: list[Any]) -> None:
    """The step has this survey and these scores, each paid for once."""
    stored = gate.store.survey("records", step.span.stop)
    assert stored is not None
    assert np.array_equal(stored.cells, seen[0].cells)
    assert step.survey_share == SHARE
    scores = [each for each in seen if isinstance(each, Scores)]
    assert len(seen) == 1 + len(scores)
    assert (step.evaluation is not None) == bool(scores)
    if scores:
        assert step.evaluation.scores == scores[0].as_json()
        assert step.measured == [SHARE, SHARE]
