"""Metrics of the newest scores, survey and drift of each stream, for Prometheus."""

from collections.abc import Iterable, Iterator
from typing import Any

from prometheus_client.core import GaugeMetricFamily, Metric

from tidegate.learn.measures.measure import kind_of, listed, score_named
from tidegate.learn.score_kinds import headline_in

Fields = dict[str, Any]

UNUSABLE = "unusable_share"
"""The metric of unusable records: from a survey, or else from scores."""

DRIFT = {
    "drift": "Largest difference of the newest step to those before, relative to its threshold.",
    "drift_alarm": "Whether the newest step is a drift alarm.",
    "drift_alarm_at": "Records up to the newest step that was a drift alarm; 0 without one.",
}
"""The metrics of drift."""


def measured(status: Fields) -> Iterable[Metric]:
    """One gauge for each metric and stream; none for what is not measured.

    Args:
        status: The public status.
    """
    values: dict[str, dict[str, float]] = {}
    for stream in (row["stream"] for row in status["streams"]):
        for name, value in _of_stream(status, stream):
            values.setdefault(name, {})[stream] = value
    for name, streams in values.items():
        family = GaugeMetricFamily(f"tidegate_{name}", _words(name), labels=["stream"])
        for stream, value in streams.items():
            family.add_metric([stream], value)
        yield family


def _words(name: str) -> str:
    measure = name.removesuffix("_deviation")
    if name != measure:
        return f"Standard deviation of the noise in tidegate_{measure}."
    return DRIFT.get(name) or score_named(name.removesuffix("_share")).about


def _of_stream(status: Fields, stream: str) -> Iterator[tuple[str, float]]:
    quality = [row for row in status["quality"] if row["stream"] == stream]
    surveys = [row for row in status["surveys"] if row["stream"] == stream]
    measures: Fields = {}
    if quality:
        newest = quality[-1]
        first = headline_in(newest)
        plain = {"value": newest[first], "deviation": newest["deviation"]}
        measures = {**(newest["scores"] or {}), first: plain}
        measures[UNUSABLE] = measures.pop("unusable", None)
    if surveys:
        newest = surveys[-1]
        measures[UNUSABLE] = {"value": newest["unusable"], "deviation": newest["deviation"]}
    names = [score.name for score in listed(kind_of(measures))]
    for name in [*names, UNUSABLE]:
        if (measures.get(name) or {}).get("value") is not None:  # None where noise hides it
            yield name, measures[name]["value"]
            yield f"{name}_deviation", measures[name]["deviation"]
    compared = [row for row in surveys or quality if row["drift"] is not None]
    if compared:
        alarms = [row["at"] for row in compared if row["drift"]["alarm"]]
        yield "drift", compared[-1]["drift"]["statistic"]
        yield "drift_alarm", float(compared[-1]["drift"]["alarm"])
        yield "drift_alarm_at", float(max(alarms, default=0))
