"""What is compared with what, and that it is what the configuration says."""

from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest

from tidegate.checks import InvalidValueError
from tidegate.compare.compare_plot import draw
from tidegate.compare.comparison import Comparison, read
from tidegate.compare.contenders import CONSTANT, Contender
from tidegate.compare.curve import Curve
from tidegate.compare.labelled import UNUSABLE
from tidegate.compare.method import Linear, Scheduled
from tidegate.compare.recommend import Recommendation, Result, common_times, results
from tidegate.privacy import ApproxDP, PureDP
from tidegate.run.config import Config
from tidegate.schedule import Basic, SlidingWindow
from tidegate.schedule.protocol import alone
from tidegate.sources import Batches
from tidegate_lab.methods.baselines import BASELINES
from tidegate_lab.methods.constant import WithConstant
from tidegate_lab.methods.ftrl import DPFTRL
from tidegate_lab.methods.refit import NaiveSplitting, WindowRefit

TABLES: dict[str, Any] = {
    "schedule": {"kind": "sliding", "window": 300, "step": 100},
    "budget": {"epsilon": 1.0, "delta": 1e-6},
    "records": {"classes": [0, 1], "norm": 1.0},
    "quality": {"share": "1/10"},
}


def labelled(n: int) -> list[tuple[Any, Any]]:
    rng = np.random.default_rng(0)
    y = rng.integers(2, size=n)
    X = np.where(y == 1, 0.5, -0.5)[:, None] + rng.uniform(-0.2, 0.2, (n, 2))
    X[7] = np.nan
    return [(X, y)]


def plain(contender: Contender) -> Any:
    """The method of a contender, without its constant column."""
    method = contender.methods[0]
    return method.method if isinstance(method, WithConstant) else method


def methods(comparison: Comparison, *names: str, n: int = 10_000) -> dict[str, Any]:
    found, _ = comparison.contenders(names, n)
    return {each.name: plain(each) for each in found}


def test_the_configured_plan_is_compared_as_it_would_run() -> None:
    tapered = TABLES | {"allocation": {"name": "tapered"}}
    found = methods(Comparison(tables=tapered), "growing")
    assert found["sliding"].plan.allocation.name == "tapered"
    assert found["growing"].plan.allocation.name == "paper"  # whose shares are its own
    found = methods(Comparison(tables=TABLES), "basic")
    own = found["sliding"]
    assert isinstance(own, Scheduled)
    assert own.plan == Config.of(TABLES).plan()
    assert own.plan.schedule == SlidingWindow(window=300, step=100)
    other = found["basic"].plan
    assert other.schedule == Basic(block=800, step=100)
    assert other.reserve == own.plan.reserve > 0


def test_all_can_be_had_and_sizes_and_budgets_can_be_changed() -> None:
    comparison = Comparison(
        tables=TABLES,
        sizes={"window": 500, "block": 200, "step": 50},
        budgets=[(0.5, 1e-6), (2.0, None)],
        forgets=[Fraction(1, 4)],
    )
    others = [name for name in alone() if name != "sliding"]
    names = ["sliding", *others, "window-refit", "naive", "not-private"]
    found, left_out = comparison.contenders(names, 10_000)
    assert not left_out
    assert {each.budget for each in found} == {ApproxDP(0.5, 1e-6), PureDP(2.0)}
    at = names.index("fading")
    expected = [*names[:at], "fading 1/4", "fading 1/5, memory 1", *names[at + 1 :]]
    assert [each.name for each in found] == expected * 2
    assert [each.name for each in found if each.configured] == ["sliding", "sliding"]
    by_name: dict[str, Any] = {each.name: plain(each) for each in found}
    assert by_name["window-refit"].times.window == 500
    assert by_name["naive"].times.window == 500  # the configuration wants the newest records
    continual = Comparison(tables=TABLES | {"schedule": {"kind": "continual"} | TWICE})
    assert methods(continual, "naive")["naive"].times.window is None


TWICE = {"block": 200, "step": 100}


def test_what_cannot_be_had_is_left_out_unless_it_was_asked_for() -> None:
    pure = Comparison(tables=TABLES | {"budget": {"epsilon": 1.0}})
    found, left_out = pure.contenders([], 700)
    assert "delta" in left_out["dp-ftrl"]
    assert "800" in left_out["continual"]
    assert {"sliding", "naive", "window-refit"} <= {each.name for each in found}
    with pytest.raises(InvalidValueError, match="needs a delta"):
        pure.contenders(["dp-ftrl"], 10_000)
    with pytest.raises(InvalidValueError, match="continual needs 800 records for its first"):
        pure.contenders(["continual"], 700)
    with pytest.raises(InvalidValueError, match="sliding needs 300 records for its first"):
        pure.contenders([], 200)


def test_the_records_are_those_that_a_gate_would_keep() -> None:
    config = Config.of(TABLES)
    records = read(config, Batches(name="made", pairs=labelled(500)))
    assert records.y[7] == UNUSABLE
    assert not records.X[7].any()
    assert np.linalg.norm(records.X, axis=1).max() <= 1
    stream = Comparison(tables=TABLES).stream(records, every=0)
    assert (stream.n, len(stream.test(300).y)) == (400, 100)
    assert not stream.between(0, 10).usable[7]
    held_out = Comparison(tables=TABLES).stream(records, every=5)
    assert (held_out.n, len(held_out.test(300).y)) == (400, 100)
    # One that cannot be used is never counted as right.
    assert stream.test(0).score(Linear(np.array([1.0, 1.0]))) == 0.99
    with pytest.raises(InvalidValueError, match="number of records"):
        read(config, Batches(name="made", pairs=[]))


@pytest.mark.thorough
def test_every_contender_runs() -> None:
    tables = TABLES | {"budget": {"epsilon": 100.0, "delta": 1e-6}}
    comparison = Comparison(tables=tables, sizes={"block": 200})
    stream = comparison.stream(
        read(comparison.config, Batches(name="made", pairs=labelled(800))), every=0
    )
    names = [*alone(), *(each.name for each in BASELINES if each.usual)]
    contenders, _ = comparison.contenders(names, stream.n)
    ticks: list[None] = []
    found = list(results(contenders, stream, 2, lambda: ticks.append(None)))
    assert [result.contender.name for result in found] == [each.name for each in contenders]
    settings = {each.name: len(each.methods) for each in contenders}
    assert len(ticks) == 2 * sum(settings.values()) - 2  # what has no noise runs once
    times = common_times(found, 100)
    assert list(times) == [300, 400, 500, 600, 700]
    learnt = [result for result in found if result.contender.name != CONSTANT]
    assert min(result.at(times).min() for result in learnt) > 0.9
    assert max(result.at(times).max() for result in found if result not in learnt) < 0.7
    kinds = {type(plain(each)) for each in contenders}
    assert {DPFTRL, NaiveSplitting, WindowRefit, Scheduled} <= kinds


def test_between_releases_the_newest_counts() -> None:
    curve = Curve(private=True, at=(2, 4, 4, 8), runs=np.array([[0.1, 0.2, 0.3, 0.4]]))
    contender = Contender(name="m", budget=PureDP(1.0), methods=())
    result = Result(contender=contender, curve=replace(curve, seconds=np.ones(1)))
    assert result.at([2, 3, 4, 5, 9]).tolist() == [0.1, 0.1, 0.3, 0.3, 0.4]
    assert list(common_times([result], 3)) == [3, 6]


def test_two_streams_are_refused() -> None:
    two = {"kind": "twostream", "step": 10, "source": {"kind": "cumulative", "block": 20}}
    with pytest.raises(InvalidValueError, match=r"schedule\.kind"):
        Comparison(tables=TABLES | {"schedule": two}).contenders([], 1000)


def test_ticks_of_accuracies_that_are_close_can_be_told_apart(tmp_path: Path) -> None:
    figures = pytest.importorskip("matplotlib.figure")
    curve = Curve(private=True, at=(2, 4), runs=np.array([[0.871, 0.879]]))
    comparison = Comparison(tables=TABLES)
    (who,), _ = comparison.contenders(["sliding"], 1000)
    with patch.object(figures.Figure, "savefig", autospec=True) as saved:
        measured = [Result(contender=who, curve=replace(curve, seconds=np.ones(1)))]
        found = Recommendation(results=measured, times=range(2, 5, 2))
        draw(tmp_path / "p.png", [found], comparison.wording)
    figure = saved.call_args.args[0]
    figure.draw_without_rendering()
    labels = [label.get_text() for label in figure.axes[0].get_yticklabels()]
    assert len(set(labels)) == len(labels) > 2
