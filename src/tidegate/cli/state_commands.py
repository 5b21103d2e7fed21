"""`tidegate status`, `ledger` and `releases`: inspect a state."""

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from statistics import mean
from typing import Any

import click

from tidegate.cli import options
from tidegate.cli.from_state import few_admitted, waiting
from tidegate.cli.options import ReadsId, count, read_id
from tidegate.cli.screen import Screen
from tidegate.gate import Gate
from tidegate.learn.measures.measure import kind_of, listed, score_named
from tidegate.learn.score_kinds import KINDS, headline_in, headline_name
from tidegate.privacy.budget import down
from tidegate.privacy.meaning import amounts, paid_so_far, until, whom
from tidegate.release import StoredRelease
from tidegate.release.verdict import (
    PLUS_MINUS,
    accuracy_alone,
    compact,
    guarded_value,
    in_words,
    verdict,
)
from tidegate.schedule.progress import ONLY
from tidegate.state.ledger_view import LedgerView
from tidegate.state.protected import person_in_words
from tidegate.state.quality import alarm_in_words
from tidegate.state.status import behind_in_words, stopped_rows, verdict_row
from tidegate.state.status import status as status_of
from tidegate.state.store import Evaluation, Step

NOT_IN_TABLE = {
    "held_from",
    "held_records",
    "held_bytes",
    "held_because",
    "steps_waiting",
    "behind",
} | {"admitted_steps"}
"""Fields that `status` prints as sentences below the table."""


@click.command(epilog="\b\nExample:\n  tidegate status tidegate.state --format json\n")
@options.state
@options.form
def status(state: Path, form: str) -> None:
    """Show what a state holds: records, releases, raw data and why it is still kept.

    For the operator only: the exact numbers of unusable records, and of those that count where
    persons are protected, are in no release.
    """
    with Gate.look(state) as gate:
        now, missing, protects = status_of(gate), waiting(gate), gate.plan.protects
        few = list(few_admitted(gate))
    if form == "json":
        options.answer(now, form)
        return
    streams, budget, schedule = now["streams"], now["budget"], now["schedule"]
    console = Screen(soft_wrap=True)
    sizes = ", ".join(
        _setting(name, value)
        for name, value in schedule.items()
        if name != "kind" and isinstance(value, int | str)
    )
    spent = amounts(budget["epsilon"], budget["delta"])
    about = f" about {whom(protects)}," if protects.persons else ""
    console.say(f"{schedule['kind']} ({sizes}): {spent}{about} for ever")
    if protects.persons:
        console.say(until(protects))
    if not now["private"]:
        console.say("NOT PRIVATE: made with a seed, so anyone who has it can remove the noise")
    if now["stopped"]:
        message = now["stopped"]["message"]
        console.say(f"{message[0].upper()}{message[1:]}.")
    options.show([{k: v for k, v in row.items() if k not in NOT_IN_TABLE} for row in streams], form)
    for row in streams:
        console.say(
            f"Raw data of {row['stream']}: {row['held_records']:,} records, "
            f"{row['held_bytes']:,} bytes: {row['held_because']}."
        )
    newest = f", the newest of {now['newest']}: {now['trained_on']}" if now["newest"] else ""
    console.say(f"{now['releases']:,} releases{newest}.")
    console.say(paid_so_far(max(row["worst_share"] for row in streams), protects))
    for line in stopped_lines(now["stopped_steps"]):
        console.say(line)
    for line in (*few, *behind_lines(now), *_measured(now)):
        console.say(line)
    if not now["releases"] and not now["stopped"]:
        console.say(f"{missing.capitalize()}.")


def behind_lines(now: dict[str, Any]) -> Iterator[str]:
    """Say which streams have more complete steps than training should leave."""
    for row in now["streams"]:
        if row["behind"] and not now["stopped"]:
            yield f"{behind_in_words(row)}."


BELOW = {"stopped_records", "stopped_paid"}
"""Fields that `ledger` prints as sentences below the table."""


def stopped_lines(steps: list[dict[str, Any]]) -> Iterator[str]:
    """Say what the records of stopped steps have paid."""
    for row in steps:
        yield (
            f"Before the settings were corrected, a stopped step of {row['records']:,} "
            f"{row['stream'] if row['stream'] == ONLY else row['stream'] + ' records'} paid "
            f"{row['paid']:.4g} of their budget each; they were deleted and are not counted above."
        )


def _measured(now: dict[str, Any]) -> Iterator[str]:
    """What scores and surveys tell: how good the newest release was, and the newest alarm."""
    scores, drift = now["scores"], now["drift"]
    if scores:
        of = f"release {scores['of_release']:,} on the step at {scores['at']:,}"
        yield f"Scores of {of}: {in_words(scores)}."
        if scores["verdict"]:
            yield f"It is {scores['verdict']['words']}."
    elif now.get("verdict"):
        yield f"The newest release that was tested is {now['verdict']['words']}."
    if drift and drift["newest_alarm"]:
        yield f"drift: {alarm_in_words(drift['newest_alarm'], streams=len(now['streams']))}"
    elif drift:
        yield f"drift: no alarm in the newest {drift['steps']:,} steps"


LEDGER = """\b
Examples:
  tidegate ledger tidegate.state --record 4096
  tidegate ledger tidegate.state --person < id.txt
"""


@click.command(cls=ReadsId, epilog=LEDGER)
@options.state
@click.option("--record", type=count(least=0), help="List all charges to this record.")
@click.option("--person", is_flag=True, help="Show what the person has paid whose id is on stdin.")
@options.form
def ledger(state: Path, record: int | None, person: bool, form: str) -> None:
    """Show what the most-charged record has paid, or all charges to one record or person.

    Each charge is for a fit that read the record, with its release if there is one, for the survey
    of the record's step, or for the private scores of a release on that step.

    What a person has paid is for the operator only: it says when the person was there. Amounts are
    in units of what one record may cost. Steps are counted from 1, over all streams.
    """
    if person and record is not None:
        raise click.UsageError("Name one of --record and --person.")
    whose = read_id() if person else ""
    with Gate.look(state) as gate:
        if person:
            row = gate.persons.paid(whose)
            options.answer(row, form, person_in_words(row))
            return
        view = gate.ledger_view()
        view.catch_up()
        if record is not None:
            there = any(record < gate.store.count(name) for name in gate.streams)
            why = "this record has paid nothing yet" if there else "this record has not arrived yet"
            options.show(view.paid(record), form, empty=why)
            return
        rows = view.totals()
        if form == "json":
            options.show(rows, form)
            return
        options.show(({k: v for k, v in row.items() if k not in BELOW} for row in rows), form)
        click.echo(paid_so_far(max(row["paid"] for row in rows), gate.plan.protects))
        for line in stopped_lines(stopped_rows(gate.store)):
            click.echo(line)


@click.command(epilog="\b\nExample:\n  tidegate releases tidegate.state --format json\n")
@options.state
@click.option("--start", type=count(least=0), default=0, help="First release to list.")
@options.form
def releases(state: Path, start: int, form: str) -> None:
    """List the releases: what each was trained on, what it cost, and how good it was.

    A release is tested on the step after it, if the configuration reserves a share for that, and
    on the holdout, if there is one.
    """
    with Gate.look(state) as gate, gate.store.snapshot():
        tried: dict[int, list[dict[str, Any]]] = defaultdict(list)
        for step in gate.store.steps():
            if step.evaluation:
                tried[step.evaluation.release].append(_tried(step, step.evaluation))
        view = gate.ledger_view()
        view.read()
        rows = (
            {**row, "tried": tried[release.number]}
            for release, row in release_rows(gate.releases(start), view)
        )
        if form == "json":
            options.show(map(_guarded, rows), form)
            return
        listed = list(rows)
        options.show(_narrow(listed), form, folded="of_records")
        scores, protects = list(_scores(listed)), gate.plan.protects
    if protects.persons and listed:
        click.echo(f"Shares are of a record's budget. {until(protects)}")
    if scores:
        click.echo()
        options.show(scores, form, title=f"Scores, {PLUS_MINUS}")
    if verdicts := list(_verdicts(listed)):
        click.echo()
        options.show(verdicts, form, title="Each release on the step after it")


def _scores(rows: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """A row for each release with scores: on the step after it, and on the holdout."""
    found = []
    for before, row in zip([{}, *rows], rows, strict=False):
        if before and row["scores_before"]:
            found.append((before["release"], "next step", row["scores_before"]))
        if row["scores_on_holdout"]:
            found.append((row["release"], "holdout", row["scores_on_holdout"]))
    names = {name: None for _, _, scores in found for name in scores if scores[name]}
    used = [each for each in listed(kind_of(names)) if each.name in names]
    for number, where, scores in found:
        cells = {
            each.heading: each.shown(scores[each.name]) if scores.get(each.name) else None
            for each in used
        }
        yield {"release": number, "on": where, **cells}


def _verdicts(rows: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """A row for each release that was scored on the step after it: how it did there."""
    for before, row in pairwise(rows):
        if row["verdict"]:
            yield {
                "release": before["release"],
                "beside_a_constant": row["verdict"]["than_constant"],
                "beside_the_one_before": row["verdict"]["than_before"],
            }


def _tried(step: Step, evaluation: Evaluation) -> dict[str, Any]:
    """The accuracy of a release on a later step, or its mean absolute error."""
    return {
        "stream": step.stream,
        "start": step.span.start,
        "stop": step.span.stop,
        "share": down(evaluation.share),
        headline_name(evaluation.scores): evaluation.value,
        "deviation": evaluation.deviation,
    }


def _setting(name: str, value: int | str) -> str:
    """A parameter of a schedule: a flag, a size or a fraction."""
    if value is True:
        return name
    return f"{name} {value:,}" if isinstance(value, int) else f"{name} {value}"


ELSEWHERE = {"stream", "at", "start", "stop", "mu", "epsilon", "accuracy_before", "trained_on"} | {
    "mae_before",
    "verdict",
    "scores_before",
    "scores_on_holdout",
}
"""Fields that the first table of `releases` leaves out: they are elsewhere, in less space."""


def _narrow(rows: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Rows for a terminal: the records behind each release, no empty columns, short hashes."""
    for row in rows:
        row["tried"] = _mean_tried(row["tried"])
    empty = {name for name in (rows or [{}])[0] if all(row[name] is None for row in rows)}
    for row in rows:
        records = row["trained_on"].partition(", ")[0].removeprefix("a model of ")
        short = {
            "release": row["release"],
            "of_records": records.replace("records ", ""),
            "read": row["stop"] - row["start"],
            **row,
            "hash": row["hash"][:8],
        }
        yield {name: value for name, value in short.items() if name not in empty | ELSEWHERE}


def _mean_tried(tried: list[dict[str, Any]]) -> str | None:
    """The mean accuracy (or error) of a release on later steps, with the noise's deviation."""
    if not tried:
        return None
    name = headline_in(tried[0])
    noise = math.hypot(*(each["deviation"] for each in tried)) / len(tried)
    text = score_named(name).form.text(mean(each[name] for each in tried), noise)
    return text if name == "accuracy" else f"{score_named(name).label} {text}"


def release_rows(
    releases: Iterable[StoredRelease], view: LedgerView
) -> Iterator[tuple[StoredRelease, dict[str, Any]]]:
    """Releases, each with its row of a table and in that a verdict on the release before it."""
    before: dict[str | None, Any] = {}
    for release in releases:
        stream = release.card["stream"]
        tried = (release.card["evaluation"] or {}).get("step_before") or {}
        now = tried.get("scores")
        if not now and "accuracy" in tried:
            records = tried["stop"] - tried["start"]
            now = accuracy_alone(tried["accuracy"], tried["deviation"], records)
        yield release, _release_row(release, view, tried, verdict(now, before.get(stream)))
        before[stream] = now


def _guarded(row: dict[str, Any]) -> dict[str, Any]:
    """A row for JSON: without numbers that are too noisy to tell anything."""
    for tried in row["tried"]:
        name = headline_in(tried)
        tried[name] = guarded_value(name, tried[name], tried["deviation"])
    return row


def _release_row(
    release: StoredRelease,
    view: LedgerView,
    tried: Mapping[str, Any],
    found: Mapping[str, Any] | None,
) -> dict[str, Any]:
    """A release as a row; `tried` is how the release before it did, `found` the verdict on that."""
    card = release.card
    unit = "mu" if "mu" in card else "epsilon"
    holdout = (card["evaluation"] or {}).get("holdout", {})
    name = KINDS[release.predicted.kind].headline
    return {
        "release": release.number,
        "stream": card["stream"],
        "at": card["at"],
        "start": card["start"],
        "stop": card["stop"],
        "share": card["share_rounded_down"],
        unit: card[unit],
        f"{name}_before": guarded_value(name, tried.get(name), tried.get("deviation")),
        f"{name}_on_holdout": holdout.get(name),
        "scores_before": compact(tried.get("scores")),
        "verdict": verdict_row(found),
        "scores_on_holdout": compact(holdout.get("scores")),
        "time": card["time"],
        "hash": release.hash,
        "trained_on": view.trained_on(card["fit"]),
    }
