"""`tidegate survey`: what the records of each step look like, as far as that is paid for."""

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from tidegate.checks import InvalidValueError, refuse
from tidegate.cli import options
from tidegate.cli.types import count
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
from tidegate.release.verdict import PLUS_MINUS, margin
from tidegate.schedule.progress import ONLY
from tidegate.state.measured_steps import MeasuredStep, alarm_in_words, alarm_row, drift_row
from tidegate.state.quality import shares_of

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
        if stream is not None and stream not in streams:
            raise refuse("--stream", " or ".join(streams), stream)
        view = gate.ledger_view()
        view.read()
        steps = [each for each in view.measured.newest(full=0) if each.survey is not None]
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
    features = _features(gate, newest)
    if form == "json":
        told = {"features": features, "advice": [each.row for each in _advice(gate, newest)]}
        for each in steps:
            more = told if each is newest else dict.fromkeys(told)
            click.echo(json.dumps({**_json(each, names), **more}))
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
    for advice in _advice(gate, newest)[:MOST_ADVICE]:
        options.say(f"{advice.row['what']}: {advice.text}")


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
        "drift": None if drift is None else round(drift.statistic, 2),
        "alarm": drift.what if drift is not None and drift.alarm else "",
    }


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def _features(gate: Gate, newest: MeasuredStep) -> list[Row]:
    stored = gate.store.survey(newest.step.stream, newest.step.span.stop)
    if stored is None:
        return []
    moments = stored.means(gate.about.task.groups)
    summary = summarize(moments, norm=gate.about.task.norm)
    columns = _feature_names(gate)
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


def _feature_names(gate: Gate) -> Sequence[str]:
    """The names of the features of a record; of its columns, if maps change them."""
    columns = gate.config.column_map()
    if columns is None or gate.config.features:
        return gate.config.read or ()
    names: list[str] = columns.get_feature_names_out().tolist()
    return names


def _advice(gate: Gate, newest: MeasuredStep) -> list[NeverPresent | RangeAdvice | NormAdvice]:
    """Which columns are empty, and which ranges or norm too wide, as far as surveys tell."""
    stored = gate.store.survey(newest.step.stream, newest.step.span.stop)
    if stored is None:
        return []
    moments, norm = (
        stored.means(gate.about.task.groups),
        gate.about.task.norm,
    )
    columns = None if gate.config.features else gate.config.column_map()
    if columns is not None:
        summary = summarize(moments, norm=norm)
        wide = range_advice(columns.checked, summary)
        widest = sorted(wide, key=lambda each: -each.times)
        return [*never_present(columns.checked, summary), *widest]
    advice = norm_advice(moments, norm=norm)
    return [] if advice is None else [advice]


def _spread(summary: FeatureSummary, index: int) -> Row | None:
    """The spread of a feature; None where the noise hides it."""
    value, noise = float(summary.spread[index]), float(summary.spread_deviation[index])
    return None if math.isnan(value) else {"value": value, "deviation": noise}


def _feature_row(feature: Row) -> Row:
    center, spread = feature["center"], feature["spread"]
    hidden = spread is None and abs(center["value"]) < 2 * center["deviation"]
    return {
        "feature": feature["feature"],
        "center": "not resolved" if hidden else _around(center),
        "spread": "not resolved" if spread is None else _around(spread),
    }


def _around(measure: Row) -> str:
    return f"{measure['value']:.4g} ± {margin(measure['deviation']):.2g}"
