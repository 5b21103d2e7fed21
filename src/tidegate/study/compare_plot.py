"""The plot of a comparison: what ranks the methods over time, and other measures beside it."""

import math
from collections.abc import Callable, Iterable, Sequence
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tidegate.picture import new_figure
from tidegate.privacy.meaning import amounts
from tidegate.study.compared import Result
from tidegate.study.curve import Curve
from tidegate.study.recommend import Recommendation, retained
from tidegate.study.wording import Shown, Wording

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Floats = NDArray[np.float64]

COLORS = ("#D55E00", "#009E73", "#CC79A7", "#E69F00", "#8C6D31", "#882255", "#44AA99", "0.6")
"""Mostly by Okabe and Ito; people with any colour vision can distinguish them."""

FADING = ("#08306b", "#1f65ab", "#4b97c9", "#85bcdc", "#b5d4e9", "#54278f", "#9e9ac8")
"""Shades for the settings of fading, which belong together."""

WIDTHS = (4.6, 1.6, 1.2, 1.2, 1.2, 1.2)
"""Relative widths of the panels."""

CONSTANT: dict[str, Any] = {"color": "0.4", "linestyle": "--", "linewidth": 1, "zorder": 1}
"""The line of a constant, which every model should be better than."""


def draw(path: Path, recommendations: Sequence[Recommendation], words: Wording) -> None:
    """Write a plot to a .png or .svg file, with a row of panels for each budget."""
    most = max(len(each.results) for each in recommendations)
    figure = new_figure(17, max(4.2, 0.3 * most + 1.5) * len(recommendations))
    rows = figure.subplots(len(recommendations), len(WIDTHS), squeeze=False, width_ratios=WIDTHS)
    for (over_time, means, beside, another, seconds, kept), each in zip(
        rows, recommendations, strict=True
    ):
        ordered = each.ordered
        colors = dict(zip(map(id, each.results), _colors(each.results), strict=True))
        _over_time(over_time, each, colors, words)
        _means(means, each, ordered, colors, words)
        _measure(beside, each, colors, words.beside)
        _measure(another, each, colors, _defined(words.plotted, each))
        _bars(seconds, [result.seconds for result in ordered], ordered, colors, "seconds of a run")
        _draw_kept(kept, ordered, colors)
    figure.savefig(path, dpi=150)


def _colors(results: Iterable[Result]) -> list[str]:
    """A shade for each setting of fading, other colours for other methods."""
    others, shades = iter(COLORS * len(COLORS)), iter(FADING * len(COLORS))
    return [
        "black" if not r.curve.private else next(shades if _fades(r) else others) for r in results
    ]


def _fades(result: Result) -> bool:
    return (result.contender.table or {}).get("kind") == "fading"


def _name(result: Result, each: Recommendation) -> str:
    best = each.next is not None and result is each.best
    return result.contender.name + " *" * result.contender.configured + " (best)" * best


def _over_time(axes: "Axes", each: Recommendation, colors: dict[int, str], words: Wording) -> None:
    """What ranks, over time; a band of quartiles for the best and the configured schedule only."""
    budget, dotted = each.best.contender.budget, cycle((":", "-."))
    for result in each.results:
        curve, color = result.curve, colors[id(result)]
        marked = result is each.best or result.contender.configured
        base = _base(curve, words)
        if marked:
            lower, upper = (each - base for each in curve.quartiles)
            axes.fill_between(curve.at, lower, upper, color=color, alpha=0.2, linewidth=0)
        axes.plot(
            curve.at,
            curve.median - base,
            color=color,
            linestyle="-" if curve.private else next(dotted),
            linewidth=2.6 if marked else 1.1,
            zorder=3 if marked else 2,
        )
    _constant_over_time(axes, each, words)
    title = f"{amounts(budget.epsilon, budget.delta)}: {words.title}"
    axes.set_title(title, fontsize="medium")
    axes.yaxis.set_major_formatter(_tick(words))
    axes.xaxis.set_major_formatter("{x:,.0f}")
    axes.set_xlabel("records arrived")
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_ylabel(words.axis)


def _base(curve: Curve, words: Wording) -> Floats:
    """What is subtracted over time: what a constant reaches, if words say so, or else nothing.

    How far numbers are spread differs from time to time by more than models do.
    """
    name = words.ranks.constant
    if words.relative and isinstance(name, str) and name in curve.measures:
        return curve.median_of(name)
    return np.zeros(len(curve.at))


def _constant_over_time(axes: "Axes", each: Recommendation, words: Wording) -> None:
    """What a constant reaches that knows the test records of each time, if it was measured."""
    curve, name = each.configured.curve, words.ranks.constant
    if isinstance(name, str) and name in curve.measures:
        reached = curve.median_of(name) - _base(curve, words)
        axes.plot(curve.at, reached, label=words.constant, **CONSTANT)
        axes.legend(loc="best", frameon=False, fontsize="small")


def _defined(candidates: Sequence[Shown], each: Recommendation) -> Shown:
    """The first measure that is defined for any result, or else the last."""
    for shown in candidates[:-1]:
        if not all(math.isnan(result.measure(shown.name, each.times)) for result in each.results):
            return shown
    return candidates[-1]


def _measure(axes: "Axes", each: Recommendation, colors: dict[int, str], shown: Shown) -> None:
    """The mean of a measure, beside what a constant reaches."""
    values = [result.measure(shown.name, each.times) for result in each.ordered]
    heading = shown.heading.replace("-\n", "-").replace("\n", " ")
    _dots(axes, values, each.ordered, colors, heading)
    axes.locator_params("x", nbins=3)
    if not math.isnan(reached := each.constant(shown.constant)):
        axes.axvline(reached, **CONSTANT)


def _percent(value: float, _: object) -> str:
    return f"{100 * value:.4g}%"  # 87.5% is not 88%


def _number(value: float, _: object) -> str:
    return f"{value:.6g}"


def _tick(words: Wording) -> Callable[[float, object], str]:
    return _percent if words.ranks.spec.endswith("%") else _number


def _means(
    axes: "Axes",
    each: Recommendation,
    ordered: Sequence[Result],
    colors: dict[int, str],
    words: Wording,
) -> None:
    """The means of what ranks, with the noise of their difference from the best; and the names."""
    means = [each.score(result) for result in ordered]
    _dots(axes, means, ordered, colors, f"mean from {each.times[0]:,} on")
    for place, (result, mean) in enumerate(zip(ordered, means, strict=True)):
        noise = each.behind(result).noise or 0.0
        axes.plot([mean - noise, mean + noise], [place] * 2, color=colors[id(result)], linewidth=1)
    axes.axvline(each.score(each.best), color="0.8", linewidth=1, zorder=0)
    axes.set_yticks(range(len(ordered)), [_name(result, each) for result in ordered])
    axes.tick_params("y", labelleft=True)
    for label, result in zip(axes.get_yticklabels(), ordered, strict=True):
        if result is each.best or result.contender.configured:
            label.set_fontweight("bold")
    axes.xaxis.set_major_formatter(_tick(words))
    axes.locator_params("x", nbins=3)


def _draw_kept(axes: "Axes", ordered: Sequence[Result], colors: dict[int, str]) -> None:
    """How many records stay stored; "all" if none is ever deleted."""
    schedules = [result.contender.schedule for result in ordered]
    counts = [None if each is None else retained(each).records for each in schedules]
    _bars(axes, [count or 0.0 for count in counts], ordered, colors, "records kept")
    for place, (schedule, count) in enumerate(zip(schedules, counts, strict=True)):
        if schedule is not None and not count:
            axes.text(0, place, " all" if count is None else " 0", va="center", fontsize="small")
    axes.xaxis.set_major_formatter("{x:,.0f}")
    axes.locator_params("x", nbins=3)


def _dots(
    axes: "Axes",
    values: Sequence[float],
    ordered: Sequence[Result],
    colors: dict[int, str],
    title: str,
) -> None:
    axes.scatter(values, range(len(ordered)), c=[colors[id(r)] for r in ordered], s=28, zorder=3)
    _rows(axes, len(ordered), title)


def _bars(
    axes: "Axes",
    values: Sequence[float],
    ordered: Sequence[Result],
    colors: dict[int, str],
    title: str,
) -> None:
    axes.barh(range(len(ordered)), values, color=[colors[id(r)] for r in ordered], height=0.6)
    _rows(axes, len(ordered), title)


def _rows(axes: "Axes", count: int, title: str) -> None:
    """One row for each method, the first on top."""
    axes.set_title(title, fontsize="medium")
    axes.set_yticks(range(count), [""] * count)
    axes.set_ylim(count - 0.5, -0.5)
    axes.grid(axis="y", color="0.92", zorder=0)
    axes.set_axisbelow(True)
    axes.tick_params("y", length=0)
    axes.locator_params("x", nbins=4)
    axes.spines[["top", "right", "left"]].set_visible(False)
