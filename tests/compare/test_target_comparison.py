"""Schedules that predict a number are compared as those of classes are, by RMSE."""

import math
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.linear_model import LinearRegression

from tests.compare.test_comparison import TABLES
from tidegate.checks import InvalidValueError
from tidegate.compare.compare_plot import draw
from tidegate.compare.comparison import Comparison, read
from tidegate.compare.contenders import Contender
from tidegate.compare.curve import Curve, measure, newest_at
from tidegate.compare.labelled import UNUSABLE, Labelled, LabelledStream
from tidegate.compare.method import Linear
from tidegate.compare.recommend import Recommendation, Result, common_times, results
from tidegate.compare.yardstick import ByClass, ByError
from tidegate.data.predicted import BITS, Target
from tidegate.privacy import PureDP
from tidegate.schedule.protocol import alone
from tidegate.sources import Batches
from tidegate_lab.methods.baselines import BASELINES
from tidegate_lab.methods.constant import Constant, Mapped, WithConstant
from tidegate_lab.methods.nonprivate import NonPrivate
from tidegate_lab.methods.times import Times

TARGET = Target(0, 100)
RICH = {"epsilon": 100.0, "delta": 1e-6}
TARGETS = TABLES | {"records": {"target": [0, 100], "norm": 1.0}, "budget": RICH}
NAMES = [*alone(), *(each.name for each in BASELINES if each.usual)]


def numbers(n: int) -> list[tuple[Any, Any]]:
    """Targets of 30 on average, which move by up to 20 with the first feature."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-0.6, 0.6, (n, 2))
    y: list[Any] = (30 + 33 * X[:, 0] + rng.uniform(-3, 3, n)).tolist()
    y[7], y[8] = "late", None
    return [(X, y)]


def stream_of(comparison: Comparison, n: int = 800) -> LabelledStream:
    records = read(comparison.config, Batches(name="made", pairs=numbers(n)))
    return comparison.stream(records, every=0)


# --- contenders


@pytest.mark.thorough
def test_every_contender_learns_a_number() -> None:
    comparison = Comparison(tables=TARGETS, sizes={"block": 200})
    stream = stream_of(comparison)
    assert (~stream.records.usable).nonzero()[0].tolist() == [7, 8]
    contenders, _ = comparison.contenders(NAMES, stream.n)
    found = {r.contender.name: r for r in results(contenders, stream, 2, step=100)}
    times = common_times(list(found.values()), 100)
    assert times == [300, 400, 500, 600, 700]
    errors = {name: result.at(times).mean() for name, result in found.items()}
    constant = errors.pop("constant")
    assert constant == pytest.approx(33 * 0.6 / math.sqrt(3), rel=0.1)
    for name, error in errors.items():  # the noise in the targets leaves 1.7
        assert error < 0.7 * constant, name
    assert errors["not-private"] == pytest.approx(math.sqrt(3), rel=0.1)
    ranked = Recommendation(results=list(found.values()), times=times)
    least = min(ranked.score(each) for each in ranked.ranked)
    assert ranked.score(ranked.best) == least
    assert all(ranked.behind(each).size >= 0 for each in ranked.ranked)


def test_a_pure_budget_compares_targets_too() -> None:
    comparison = Comparison(tables=TARGETS | {"budget": {"epsilon": 100.0}}, sizes={"block": 200})
    stream = stream_of(comparison)
    contenders, left_out = comparison.contenders([], stream.n)
    assert list(left_out) == ["dp-ftrl"]
    assert not any(isinstance(m, WithConstant) for each in contenders for m in each.methods)
    found = list(results(contenders[:1], stream, 1, step=100))
    assert np.isfinite(found[0].curve.runs).all()


def test_diffprivlib_has_no_regression_here() -> None:
    with pytest.raises(InvalidValueError, match="diffprivlib is compared on classes only"):
        Comparison(tables=TARGETS).contenders(["diffprivlib"], 10_000)


@pytest.mark.parametrize("tables", [TABLES, TARGETS])
def test_a_file_of_unusable_records_is_refused(tables: dict[str, Any]) -> None:
    nothing = Batches(name="made", pairs=[(np.zeros((5, 2)), [None] * 5)])
    with pytest.raises(InvalidValueError, match="no record of made can be used"):
        read(Comparison(tables=tables).config, nothing)


# --- baselines


def made(target: Target | None, *, n: int = 60, classes: int = 3) -> LabelledStream:
    rng = np.random.default_rng(1)
    X = rng.uniform(-2, 2, (n, 2))
    y = rng.integers(classes, size=n)
    if target is not None:
        y = target.codes(target.middle + 0.2 * target.half * (X[:, 0] + 1))[0]
    y[3] = UNUSABLE
    X[3] = 0
    records = Labelled(X=X, y=y)
    task: dict[str, Any] = {"target": target, "classes": classes}
    loss = Comparison(tables=TARGETS).config.task().loss if target is not None else None
    return LabelledStream(records=records, norm=3.0, test=lambda _: records, loss=loss, **task)


def margins(model: Any) -> Any:
    return Labelled(X=np.array([[1.0, 2.0]]), y=np.zeros(1)).margins(model)[0]


def test_the_constant_is_the_mean_of_the_records_that_count() -> None:
    stream = made(TARGET)
    method = Constant(times=Times(first=20, step=20, window=20))
    for at, model in method.models(stream, 0):
        part = stream.between(at - 20, at)
        mean = part.y[part.usable].mean() / 2**BITS
        assert margins(model) == pytest.approx(mean, abs=1e-6)
    assert not method.private


@pytest.mark.parametrize("classes", [2, 3])
def test_the_constant_of_classes_has_their_shares(classes: int) -> None:
    stream = made(None, classes=classes)
    ((_, model),) = Constant(times=Times(first=60, step=60)).models(stream, 0)
    counts = np.bincount(stream.between(0, 60).y[stream.between(0, 60).usable])
    found = ByClass(classes).measured(model, stream.records)
    shares = counts / counts.sum()
    assert found["log_loss"] == pytest.approx(-(shares * np.log(shares)).sum(), rel=1e-2)
    assert found["accuracy"] == counts.max() / 60


def test_without_any_usable_record_the_constant_is_the_middle() -> None:
    stream = made(TARGET)
    none = Labelled(X=stream.records.X, y=np.full(60, UNUSABLE))
    empty = LabelledStream(
        records=none, classes=0, norm=3.0, test=stream.test, loss=stream.loss, target=TARGET
    )
    ((_, model),) = Constant(times=Times(first=60, step=60)).models(empty, 0)
    assert margins(model) == 0


def test_without_privacy_the_model_is_that_of_least_squares() -> None:
    """Also if errors are large and skewed, where robust losses have another minimiser."""
    stream = made(TARGET)
    stream.records.y[5::6] = 2**BITS
    method = WithConstant(
        method=NonPrivate(times=Times(first=60, step=60), regularization=1e-9, tolerance=1e-6)
    )
    ((_, model),) = method.models(stream, 0)
    usable = stream.records.usable
    X, t = stream.records.X[usable], stream.records.y[usable] / 2**BITS
    expected = LinearRegression().fit(X, t).predict(X)
    assert stream.records[usable].margins(model) == pytest.approx(expected, abs=1e-3)


def test_a_constant_column_is_not_added_to_an_unusable_record() -> None:
    class Spy:
        name, private, probabilities = "spy", True, True

        def models(self, stream: LabelledStream, seed: int) -> Any:
            del seed
            assert stream.records.X.shape == (60, 3)
            assert not stream.records.X[3].any()
            lengths = np.linalg.norm(np.asarray(stream.records.X), axis=1)
            assert lengths.max() <= stream.norm
            with pytest.raises(LookupError):
                stream.test(0)
            yield 60, Linear(np.zeros(3))

    method = WithConstant(method=Spy())
    assert (method.name, method.private, method.probabilities) == ("spy", True, True)
    ((at, model),) = method.models(made(TARGET), 0)
    assert at == 60
    assert isinstance(model, Mapped)


# --- ranking


@given(
    st.lists(st.lists(st.floats(0.1, 0.9), min_size=3, max_size=3), min_size=6, max_size=6),
)
def test_less_is_better_is_the_same_rule_with_another_sign(rows: list[list[float]]) -> None:
    """Errors of 1 - a are ranked, paired and tied as accuracies of a are."""
    found, _ = Comparison(tables=TABLES).contenders(["growing", "independent"], 10_000)
    drawn = np.array(rows).round(6).reshape(3, 2, 3)

    def ranking(*, errors: bool) -> Recommendation:
        curves = [
            Curve(private=True, at=(1, 2, 3), runs=1 - a if errors else a, lower_is_better=errors)
            for a in drawn
        ]
        pairs = zip(found, curves, strict=True)
        compared = [Result(contender=c, curve=curve) for c, curve in pairs]
        return Recommendation(results=compared, times=range(1, 4))

    more, less = ranking(errors=False), ranking(errors=True)
    gaps = np.diff(sorted(drawn.mean(axis=(1, 2))))
    if gaps.min() < 1e-9:
        return  # rounding decides
    assert [r.contender.name for r in more.ranked] == [r.contender.name for r in less.ranked]
    for a, b in zip(more.ranked, less.ranked, strict=True):
        assert more.score(a) == pytest.approx(1 - less.score(b))
        assert more.behind(a).size == pytest.approx(less.behind(b).size, abs=1e-9)
        assert more.behind(a).noise == pytest.approx(less.behind(b).noise, abs=1e-9)


def test_the_newest_release_is_tested_at_every_step() -> None:
    """A method that releases seldom is tested on the same records as the others."""

    class Seldom:
        name, private, probabilities = "seldom", True, True

        def models(self, stream: LabelledStream, seed: int) -> Any:
            del stream, seed
            yield 20, Linear(np.array([0.1, 0.0]))

    stream = made(TARGET)
    tests: list[int] = []

    def test(at: int) -> Labelled:
        tests.append(at)
        return stream.records

    spied = LabelledStream(
        records=stream.records, classes=0, norm=3.0, test=test, loss=stream.loss, target=TARGET
    )
    who = Contender(name="seldom", budget=PureDP(1.0), methods=[Seldom()])
    (found,) = results([who], spied, 1, step=10)
    assert found.curve.at == (20, 30, 40, 50, 60)
    assert tests == [20, 30, 40, 50, 60]
    assert measure(Seldom(), spied, [0]).at == (20,)
    assert newest_at([], [1]) == []


def test_times_without_a_usable_record_are_left_out() -> None:
    runs = np.array([[3.0, math.nan, 2.0], [3.0, math.nan, 4.0]])
    contender = Contender(name="m", budget=PureDP(1.0), methods=())
    curve = Curve(private=True, at=(1, 2, 3), runs=runs, lower_is_better=True)
    assert common_times([Result(contender=contender, curve=curve)], 1) == [1, 3]
    assert curve.gain == -3.0
    assert curve.row(2)["median"] == [3.0, None, 3.0]


# --- words and the plot


@pytest.mark.parametrize(
    ("ends", "value", "difference"),
    [
        ((-60, 180), "12.35", "0.12"),
        ((0, 1), "12.3457", "0.1235"),
        ((0, 1e7), "12", "0"),
        ((0, 1e-12), "12.35", "0.123456789"),
        ((0, 1e12), "12.35", "0"),
    ],
)
def test_numbers_are_shown_as_precisely_as_their_range_is_wide(
    ends: tuple[float, float], value: str, difference: str
) -> None:
    words = ByError(Target(*ends)).wording("minutes")
    assert words.ranks.cell(12.345678) == value
    assert words.difference(0.123456789) == difference
    assert words.ranks.cell(math.nan) == "-"


def test_the_plot_shows_errors(tmp_path: Path) -> None:
    figures = pytest.importorskip("matplotlib.figure")
    comparison = Comparison(tables=TARGETS)
    stream = stream_of(comparison)
    contenders, _ = comparison.contenders(["fading", "not-private", "constant"], stream.n)
    found = list(results(contenders, stream, 2, step=100))
    ranked = Recommendation(results=found, times=common_times(found, 100))
    with patch.object(figures.Figure, "savefig", autospec=True) as saved:
        draw(tmp_path / "p.png", [ranked], comparison.wording)
    axes = saved.call_args.args[0].axes
    assert "RMSE" in axes[0].get_title()
    assert "lower is better" in axes[0].get_ylabel()
    assert [each.get_title() for each in axes[2:4]] == ["MAE", "R^2"]
    assert [text.get_text() for text in axes[0].get_legend().get_texts()] == ["mean target"]
    assert "%" not in axes[0].yaxis.get_major_formatter()(12.5, 0)
    lines = axes[0].lines
    assert [line.get_linestyle() for line in lines].count("--") == 1
    own = found[0].curve
    expected = (own.median - own.median_of("constant_rmse")).tolist()
    assert lines[0].get_ydata().tolist() == expected
    assert not np.any(lines[-1].get_ydata())  # the constant itself


def test_classes_and_targets_have_the_same_contenders() -> None:
    shared = {"budget": RICH}
    by_kind = [
        [each.name for each in Comparison(tables=tables | shared).contenders([], 10_000)[0]]
        for tables in (TABLES, TARGETS)
    ]
    assert by_kind[0] == by_kind[1]
