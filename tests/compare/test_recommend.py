"""The recommended schedule: its rule for noise, its measures, and the table to paste."""

import math
import tomllib
from fractions import Fraction
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from scipy import stats

from tests.compare.test_comparison import TABLES, labelled, plain
from tidegate.checks import InvalidValueError
from tidegate.compare.compare_plot import draw
from tidegate.compare.comparison import Comparison, read
from tidegate.compare.contenders import FORGETS, GRID, Contender, Scheduled, settings_of
from tidegate.compare.results import (
    Curve,
    Recommendation,
    Result,
    common_times,
    margin,
    measure,
    results,
    toml,
)
from tidegate.privacy import ApproxDP, PureDP
from tidegate.run.config import Config
from tidegate.schedule import Fading
from tidegate.sources import Batches

PURE = TABLES | {"budget": {"epsilon": 1.0}}


def ranked(*accuracies: tuple[str, Any]) -> Recommendation:
    """Results with given accuracies, shape (runs, times); the first is configured."""
    found, _ = Comparison(tables=TABLES).contenders(["growing", "independent"], 10_000)
    by_name = {each.name: each for each in found}
    for name in ("naive", "constant"):
        by_name[name] = Contender(name=name, budget=PureDP(1.0), methods=())
    measured = [
        Result(
            contender=by_name[name],
            curve=Curve(private=True, at=(1, 2, 3), runs=np.array(runs)),
        )
        for name, runs in accuracies
    ]
    return Recommendation(results=measured, times=range(1, 4))


# --- noise


def test_the_margin_is_a_paired_difference() -> None:
    ahead = np.array([[0.80, 0.90], [0.82, 0.94]])
    behind = np.array([[0.70, 0.90], [0.70, 0.90]])
    size, noise = margin(ahead, behind)
    assert size == pytest.approx(0.065)  # of 0.10, 0.00, 0.12 and 0.04
    runs, times = np.array([0.05, 0.08]), np.array([0.11, 0.02])
    error = np.sqrt(runs.var(ddof=1) / 2 + times.var(ddof=1) / 2)
    assert noise == pytest.approx(12.706 * error, rel=1e-4)  # Student's t for two of each
    assert math.isinf(margin(ahead[:1], behind[:1]).noise)
    assert margin(ahead[:1], behind[:1]).within_noise
    assert margin(ahead, behind[:1]) == margin(ahead, behind)  # what runs once has no noise
    assert margin(ahead, ahead).within_noise
    lone = margin(ahead[:, :1], behind[:, :1])
    assert lone.noise == pytest.approx(12.706 * 0.01, rel=1e-4)  # one time: of the runs alone


def test_few_runs_do_not_hide_a_difference_at_all_times() -> None:
    """The quantile for two runs, 12.7, does not multiply what varies over many times."""
    drawn = np.full((2, 40), 0.3) + np.random.default_rng(0).uniform(-0.3, 0.3, 40)
    assert not margin(drawn, np.zeros((1, 40))).within_noise


@pytest.mark.parametrize(("by_run", "by_time", "by_both"), [(1, 0, 0), (0, 1, 0), (1, 1, 1)])
def test_equals_are_told_apart_in_at_most_one_of_twenty(
    by_run: float, by_time: float, by_both: float
) -> None:
    rng, trials = np.random.default_rng(), 500
    wrong = 0
    for _ in range(trials):
        drawn = (
            by_run * rng.normal(size=(5, 1))
            + by_time * rng.normal(size=(1, 20))
            + by_both * rng.normal(size=(5, 20))
        )
        wrong += not margin(drawn, np.zeros((1, 20))).within_noise
    assert wrong <= stats.binom.isf(1e-6, trials, 0.05)


def test_schedules_are_ranked_and_ties_named() -> None:
    rng = np.random.default_rng(0)
    noise = rng.uniform(-0.001, 0.001, (4, 5, 3))
    found = ranked(
        ("sliding", 0.7 + noise[0]),
        ("growing", 0.9 + noise[1]),
        ("independent", 0.9 + noise[2]),
        ("naive", 0.95 + noise[3]),
    )
    names = [each.contender.name for each in found.ranked]
    assert names[2] == "sliding"
    assert sorted(names[:2]) == ["growing", "independent"]
    assert [each.contender.name for each in found.ties] == [names[1]]
    assert found.others == found.ranked[1:]
    assert found.behind(found.configured).size == pytest.approx(0.2, abs=0.002)
    assert [each.contender.name for each in found.baselines_ahead] == ["naive"]


def test_a_tie_goes_to_what_retains_less() -> None:
    same = np.full((2, 3), 0.9)
    found = ranked(("growing", same), ("sliding", same), ("independent", same))
    assert [r.contender.name for r in found.ranked] == ["independent", "sliding", "growing"]


def test_the_best_is_compared_with_the_constant() -> None:
    noise = np.random.default_rng(0).uniform(-0.001, 0.001, (2, 5, 3))
    found = ranked(("sliding", 0.9 + noise[0]), ("constant", 0.95 + noise[1]))
    assert found.over_constant == [found.behind(found.results[1])]
    assert found.over_constant[0].size == pytest.approx(-0.05, abs=0.002)
    assert ranked(("sliding", 0.9 + noise[0])).over_constant == []


# --- runs


def test_runs_are_reproducible_and_differ_by_seed() -> None:
    comparison = Comparison(tables=TABLES)
    stream = comparison.stream(
        read(comparison.config, Batches(name="made", pairs=labelled(800))), every=0
    )
    (own,), _ = comparison.contenders(["sliding"], stream.n)
    first, again = (measure(own.methods[0], stream, [3, 4]) for _ in range(2))
    losses = first.measures["log_loss"]
    assert losses.tolist() == again.measures["log_loss"].tolist()
    assert losses[0].tolist() != losses[1].tolist()
    assert losses.shape == first.runs.shape == (2, 5)
    assert (first.seconds > 0).all()


@pytest.mark.parametrize("name", [*GRID, "basic", "multiresolution"])
def test_what_is_retained_is_what_the_plan_still_needs(name: str) -> None:
    found, _ = Comparison(tables=TABLES).contenders([name], 10_000)
    for each in found:
        (method,) = each.methods
        assert isinstance(method, Scheduled)
        at = 12_800
        needed = method.plan.needed(at)
        assert at - needed == min(at, each.records_kept)


# --- the grid


@pytest.mark.parametrize("tables", [TABLES, PURE], ids=["approximate", "pure"])
def test_every_schedule_of_the_grid_serves_both_budgets(tables: dict[str, Any]) -> None:
    found, left_out = Comparison(tables=tables).contenders([], 10_000)
    assert list(left_out) == ([] if tables is TABLES else ["dp-ftrl"])
    wanted = {setting.name for name in GRID for setting in settings_of(name)}
    assert wanted < {each.name for each in found}
    kinds = {type(each.budget) for each in found}
    assert kinds == {ApproxDP if tables is TABLES else PureDP}


@pytest.mark.parametrize("own", [{}, {"allocation": {"name": "tapered"}}])
def test_a_printed_table_configures_the_plan_that_was_measured(own: dict[str, Any]) -> None:
    comparison = Comparison(tables=TABLES | own)
    found, _ = comparison.contenders([], 10_000)
    for each in found:
        if each.table:
            pasted = {**comparison.tables, **tomllib.loads(toml(each.table))}
            if comparison.without_allocation(each.table):
                with pytest.raises(InvalidValueError, match="allocation"):
                    Config.of(pasted)
                pasted = {key: value for key, value in pasted.items() if key != "allocation"}
            (method,) = each.methods
            assert isinstance(method, Scheduled)
            assert Config.of(pasted).plan() == method.plan


def test_what_is_configured_is_not_tried_twice() -> None:
    fading = {"kind": "fading", "step": 100, "forget": "1/5"}
    found, _ = Comparison(tables=TABLES | {"schedule": fading}).contenders(["fading"], 10_000)
    names = [each.name for each in found]
    assert names[0] == "fading"
    assert "fading 1/5" not in names
    assert len(names) == 1 + len(FORGETS)
    chosen = {"kind": "fading", "step": 100, "memory": 3, "linger": "1/2", "first": 2}
    found, _ = Comparison(tables=TABLES | {"schedule": chosen}).contenders(["fading"], 10_000)
    schedules = [plain(each).plan.schedule for each in found]
    assert schedules[0] == Fading(step=100, memory=3, linger=Fraction(1, 2), first=2)
    assert schedules[2] == Fading(step=100, first=2)  # forget 3/10, the default


def test_a_window_is_tried_in_both_ways_whichever_is_configured() -> None:
    def names(**own: Any) -> list[str]:
        tables = TABLES | {"schedule": {"kind": "sliding", "window": 300, "step": 100} | own}
        found, left_out = Comparison(tables=tables).contenders([], 10_000)
        assert list(left_out) == ["sliding-refit"] * ("sample" in own)
        return [each.name for each in found if "sliding" in each.name]

    assert names() == ["sliding", "sliding-refit"]
    assert names(refit=True) == ["sliding", "sliding-chain"]
    assert names(sample=50) == ["sliding"]


def test_baselines_beside_fading_read_a_window() -> None:
    tables = TABLES | {"schedule": {"kind": "fading", "step": 100}}
    found, _ = Comparison(tables=tables).contenders(["naive", "not-private"], 10_000)
    for each in found[1:]:
        times = plain(each).times
        assert times.window == times.first == 700


# --- the plot


@pytest.mark.thorough
def test_the_plot_has_a_row_for_every_method_and_budget(tmp_path: Any) -> None:
    figures = pytest.importorskip("matplotlib.figure")
    comparison = Comparison(tables=TABLES, budgets=[(1.0, 1e-6), (10.0, None)])
    stream = comparison.stream(
        read(comparison.config, Batches(name="made", pairs=labelled(800))), every=0
    )
    found, _ = comparison.contenders(["fading", "not-private"], stream.n)
    measured = list(results(found, stream, 2))
    times = common_times(measured, 100)
    budgets = list(dict.fromkeys(each.budget for each in found))
    recommendations = [
        Recommendation(results=[r for r in measured if r.contender.budget == budget], times=times)
        for budget in budgets
    ]
    with patch.object(figures.Figure, "savefig", autospec=True) as saved:
        draw(tmp_path / "p.png", recommendations, comparison.wording)
    figure = saved.call_args.args[0]
    assert len(figure.axes) == 12
    for each, axes in zip(recommendations, (figure.axes[1], figure.axes[7]), strict=True):
        labels = [label.get_text() for label in axes.get_yticklabels()]
        assert len(labels) == len(each.results)
        assert [label for label in labels if "(best)" in label] == [
            each.best.contender.name + " *" * each.best.contender.configured + " (best)"
        ]
    draw(tmp_path / "p.png", recommendations, comparison.wording)
    assert (tmp_path / "p.png").stat().st_size > 10_000
