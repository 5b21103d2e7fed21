"""`tidegate survey`: what the records of each step look like, as far as that is paid for."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from tidegate.checks import InvalidValueError, refuse
from tidegate.cli import options
from tidegate.cli.options import count
from tidegate.gate import Gate
from tidegate.learn.feature_summary import (
    FeatureSummary,
    NeverPresent,
    NormAdvice,
    RangeAdvice,
    never_present,
    norm_advice,
    range_advice,
    summarize,
)
from tidegate.learn.preparation import Moments
from tidegate.release.verdict import PLUS_MINUS, margin
from tidegate.schedule.progress import ONLY
from tidegate.state.quality import MeasuredStep, alarm_in_words, alarm_row, drift_row, shares_of

Row = dict[str, Any]

MOST_FEATURES = 20
"""The most features in a table; JSON has all."""

MOST_ADVICE = 5
"""The most lines about ranges that are too wide."""

MOST_SHARES = 5
"""The most classes with a column of their own."""

EPILOG = """\b
Examples:
  tidegate survey tidegate.state
  tidegate survey tidegate.state --last 50 --format json
"""


@click.command(epilog=EPILOG)
@options.state
@click.option("--stream", help="Stream to show, if there are two [both].")
@click.option(
    "--last",
    type=count(least=1, most=1000),
    default=10,
    show_default=True,
    help="Number of newest steps.",
)
@options.form
def survey(state: Path, stream: str | None, last: int, form: str) -> None:
    """Show what records look like: class shares, unusable records, centre and spread of features.

    If a target is predicted, the shares are those of eight equal parts of its range.

    Every number is noisy and paid for, so you may show it to anyone. ± is two standard deviations
    of the noise: 95 %. Drift is the largest difference to the steps before, relative to its
    threshold: above 1 is an alarm.
    """
    with Gate.look(state) as gate, gate.store.snapshot():
        streams = list(gate.streams)
        if stream not in {None, *streams}:
            raise refuse("--stream", " or ".join(streams), stream)
        view = gate.ledger_view()
        view.read()
        steps = [each for each in view.measured.newest(full=0) if each.survey]
        shown = [name for name in streams if stream in {None, name}]
        if not any(each.step.stream in shown for each in steps):
            raise InvalidValueError(_nothing(gate, state))
        for name in shown:
            _show(gate, name, [each for each in steps if each.step.stream == name][-last:], form)


def _nothing(gate: Gate, state: Path) -> str:
    if gate.plan.survey:
        return f"{state} has no survey yet: the first comes with the first complete step"
    return f"{state} has no surveys: [survey] share is 0 in its configuration"


def _show(gate: Gate, stream: str, steps: Sequence[MeasuredStep], form: str) -> None:
    if not steps:
        return
    names, newest = [str(name) for name in gate.config.records.groups], steps[-1]
    features, advice = _told(gate, newest)
    if form == "json":
        told = {"features": features, "advice": [each.row for each in advice]}
        none = dict.fromkeys(told)
        rows = [{**_json(each, names), **(told if each is newest else none)} for each in steps]
        options.show(rows, form)
        return
    title = "Shares of each step" if stream == ONLY else f"Shares of each step of {stream}"
    options.show([_row(each, names) for each in steps], form, title=title)
    noise = (newest.survey or {})["deviation"]
    options.say(f"Every share of the newest step is ± {100 * margin(noise):.2g} %. {PLUS_MINUS}.")
    for each in steps:
        if each.alarm:
            options.say(f"drift: {alarm_in_words(alarm_row(each))}")
    click.echo()
    rows = [_feature_row(each) for each in features[:MOST_FEATURES]]
    title = "Features, means of the newest steps, of which older ones count less"
    options.show(rows, form, title=title)
    if len(features) > MOST_FEATURES:
        left = len(features) - MOST_FEATURES
        options.say(f"{left:,} more features: --format json lists all")
    for each_advice in advice[:MOST_ADVICE]:
        options.say(f"{each_advice.row['what']}: {each_advice.text}")


def _json(each: MeasuredStep, names: Sequence[str]) -> Row:
    card = each.survey or {}
    noise = card["deviation"]
    return {
        "stream": each.step.stream,
        "start": card["start"],
        "stop": card["stop"],
        "share": card["share"],
        "parts" if "parts" in card else "classes": {
            name: {"value": value, "deviation": noise}
            for name, value in zip(names, shares_of(card), strict=True)
        },
        "unusable": {"value": card["unusable"], "deviation": noise},
        "drift": drift_row(each.drift),
    }


def _row(each: MeasuredStep, names: Sequence[str]) -> Row:
    card = each.survey or {}
    shares = dict(zip(names, shares_of(card), strict=True))
    columns = {f"class_{name[:12]}": _percent(share) for name, share in shares.items()}
    if len(names) > MOST_SHARES:  # too many for columns: only the largest class of each step
        largest = max(shares, key=shares.__getitem__)
        what = "most_targets" if "parts" in card else "largest_class"
        columns = {what: largest, "its_share": _percent(shares[largest])}
    drift = each.drift
    return {
        "at": card["stop"],
        **columns,
        "unusable": _percent(card["unusable"]),
        "drift": drift and round(drift.statistic, 2),
        "alarm": drift.what if drift and drift.alarm else "",
    }


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


Advice = NeverPresent | RangeAdvice | NormAdvice


def _told(gate: Gate, newest: MeasuredStep) -> tuple[list[Row], list[Advice]]:
    """What surveys tell of each feature, and which columns, ranges or norm should be others."""
    task, stored = gate.about.task, gate.store.survey(newest.step.stream, newest.step.span.stop)
    if not stored:
        return [], []
    moments = stored.means(task.groups)
    summary = summarize(moments, norm=task.norm)
    columns = None if gate.config.features else gate.config.column_map()
    if not columns:
        return _features(summary, gate.config.read or ()), _about_norm(moments, task.norm)
    names: list[str] = columns.get_feature_names_out().tolist()
    wide = sorted(range_advice(columns.checked, summary), key=lambda each: -each.times)
    return _features(summary, names), [*never_present(columns.checked, summary), *wide]


def _about_norm(moments: Moments, norm: float) -> list[Advice]:
    advice = norm_advice(moments, norm=norm)
    return [advice] if advice else []


def _features(summary: FeatureSummary, columns: Sequence[str]) -> list[Row]:
    """A row for each feature; by their columns, if these are as many."""
    named = len(columns) == summary.center.size
    return [
        {
            "feature": columns[index] if named else f"feature {index}",
            "center": {
                "value": float(summary.center[index]),
                "deviation": summary.center_deviation,
            },
            "spread": _spread(summary, index),
        }
        for index in range(summary.center.size)
    ]


def _spread(summary: FeatureSummary, index: int) -> Row | None:
    """The spread of a feature; None where the noise hides it."""
    value, noise = float(summary.spread[index]), float(summary.spread_deviation[index])
    return None if math.isnan(value) else {"value": value, "deviation": noise}


def _feature_row(feature: Row) -> Row:
    center, spread = feature["center"], feature["spread"]
    hidden = not spread and abs(center["value"]) < 2 * center["deviation"]
    return {
        "feature": feature["feature"],
        "center": "not resolved" if hidden else _around(center),
        "spread": _around(spread) if spread else "not resolved",
    }


def _around(measure: Row) -> str:
    return f"{measure['value']:.4g} ± {margin(measure['deviation']):.2g}"
