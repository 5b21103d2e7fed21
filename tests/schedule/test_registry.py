"""A schedule from outside the package works everywhere once it is registered."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cli.run import tidegate
from tests.laws import test_plan_laws as laws
from tests.strategies import STRATEGIES, plans, schedules
from tidegate.checks import InvalidValueError, whole
from tidegate.gate import Gate
from tidegate.privacy import PureDP
from tidegate.run.config import Config
from tidegate.schedule import Fit, Span, Steps, protocol
from tidegate.schedule.fit import Certificate, Levels
from tidegate.schedule.plan import Plan
from tidegate.schedule.protocol import parameter
from tidegate.state.verification import verify


@dataclass(frozen=True, kw_only=True)
class Pairs:
    """Fit every two steps on their own."""

    kind: ClassVar[str] = "pairs"
    about: ClassVar[str] = "a model of every two steps alone"
    alone: ClassVar[bool] = True
    source: ClassVar[bool] = False
    allocated: ClassVar[bool] = True

    step: int = parameter("records in half a pair", 100)

    def __post_init__(self) -> None:
        whole("step", self.step)

    @property
    def steps(self) -> Steps:
        return Steps(self.step)

    @property
    def first(self) -> int:
        return 2

    @property
    def look_back(self) -> int:
        return 2

    @property
    def largest(self) -> int:
        return 2 * self.step

    def due(self, now: int) -> Sequence[Fit]:
        number, rest = divmod(now, 2)
        span = Span(now - 2, now)
        return () if rest or not number else (Fit(number - 1, now, span, None, "base", 0),)

    def raw_share(self, fit: Fit, levels: Levels) -> Fraction:
        del fit, levels
        return Fraction(1, 2)

    def certificate(self, levels: Levels) -> Certificate:
        del levels
        return Certificate(supremum=Fraction(1, 2), attained=True)

    def reads(self, step: int) -> Iterator[int]:
        yield (step // 2 + 1) * 2

    def settled(self, now: int) -> int:
        return now - now % 2


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    for command in ("plan", "init"):  # first: their help lists the schedules of that moment
        import_module(f"tidegate.cli.{command}_command")
    monkeypatch.setitem(protocol.SCHEDULES, Pairs.kind, Pairs)


def test_it_has_a_plan_and_a_ledger() -> None:
    plan = Plan(schedule=Pairs(step=5), budget=PureDP(1.0))
    ledger = plan.ledger()
    lines = list(plan.charge(ledger, 47))
    assert [line.fit.span for line in lines] == [Span(at, at + 10) for at in range(0, 40, 10)]
    assert {line.share for line in lines} == {Fraction(1)}
    assert (ledger.worst().share, plan.forever) == (Fraction(1), Fraction(1))
    assert plan.first == 10


PAIRS: st.SearchStrategy[Any] = st.builds(Pairs, step=st.integers(1, 5))


def laws_of_every_schedule() -> dict[str, tuple[Any, dict[str, Any]]]:
    """The laws for all schedules or all plans, with the strategies that each draws from."""
    drawn = {
        name: (law.hypothesis.inner_test, dict(law.hypothesis._given_kwargs))
        for name, law in vars(laws).items()
        if hasattr(law, "hypothesis")
    }
    return {
        name: (law, given)
        for name, (law, given) in drawn.items()
        if given.get("schedule") is schedules or repr(given.get("plan")) == repr(plans())
    }


def test_most_laws_are_for_every_schedule() -> None:
    assert len(laws_of_every_schedule()) >= 16


@pytest.mark.parametrize("name", laws_of_every_schedule())
def test_the_laws_hold_for_it(name: str) -> None:
    law, drawn = laws_of_every_schedule()[name]
    toy = {"schedule": PAIRS} if "schedule" in drawn else {"plan": plans(PAIRS)}
    given(**{**drawn, **toy})(law)()


def test_every_kind_has_a_strategy(monkeypatch: pytest.MonkeyPatch) -> None:
    assert {*protocol.SCHEDULES} - {*STRATEGIES} == {Pairs.kind}
    monkeypatch.delitem(protocol.SCHEDULES, Pairs.kind)
    assert {*protocol.SCHEDULES} == {*STRATEGIES}


def test_a_gate_carries_it_out(tmp_path: Path) -> None:
    config = Config.parse("""
        [schedule]
        kind = "pairs"
        step = 50
        [budget]
        epsilon = 1.0
        [records]
        classes = [0, 1]
        norm = 1.0
    """)
    with Gate.open(tmp_path / "state", config) as gate:
        gate.ingest(np.ones((250, 2)), np.arange(250) % 2)
        assert [release.card["at"] for release in gate.releases()] == [100, 200]
        assert list(verify(gate)) == []
        assert Config.from_json(gate.store.config()) == config.settled()


def test_the_commands_accept_it(tmp_path: Path) -> None:
    done = tidegate("plan", "pairs", "--step", "5", "--epsilon", "1", "--until", "20")
    assert done.returncode == 0
    assert "pairs, epsilon = 1" in done.stdout
    assert (
        "pairs has no --window"
        in tidegate(
            "plan", "pairs", "--step", "5", "--window", "9", "--epsilon", "1", "--until", "20"
        ).stderr
    )
    output = tmp_path / "pairs.toml"
    assert tidegate("init", "pairs", "--output", str(output)).returncode == 0
    text = output.read_text()
    assert "step = 100        # records in half a pair" in text
    assert Config.parse(text).plan().schedule == Pairs(step=100)


def test_what_is_not_registered_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(protocol.SCHEDULES, Pairs.kind)
    schedule: Any = Pairs(step=5)
    with pytest.raises(InvalidValueError, match="one that a certificate is proved for"):
        Plan(schedule=schedule, budget=PureDP(1.0))
