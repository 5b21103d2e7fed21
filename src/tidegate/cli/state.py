"""`tidegate status`, `ledger`, `releases` and `verify`: inspect and check a state."""

import json
import re
import sys
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import asdict
from itertools import pairwise
from pathlib import Path
from statistics import mean
from typing import Any

import click
from rich.console import Console

from tidegate.checks import InvalidValueError, refuse
from tidegate.cli import advice, options
from tidegate.cli.person_id import read_id
from tidegate.cli.types import PATH, count
from tidegate.gate.gate import Gate
from tidegate.gate.ledger_view import LedgerView
from tidegate.gate.measured_steps import alarm_in_words, compact
from tidegate.gate.opening import holds_state
from tidegate.gate.person_view import in_words as person_in_words
from tidegate.gate.person_view import paid_by
from tidegate.gate.publish_folder import published_in, published_releases
from tidegate.gate.publish_folder import verify as verify_published
from tidegate.gate.status import status as status_of
from tidegate.gate.status import stopped_rows
from tidegate.gate.store import Evaluation, Problem, Step
from tidegate.gate.verify import Report
from tidegate.gate.verify import verify as problems_of
from tidegate.privacy.meaning import amounts, paid_so_far, until, whom
from tidegate.privacy.rounding import down
from tidegate.progress import ONLY
from tidegate.release import StoredRelease
from tidegate.release.measure_words import in_words, shown
from tidegate.serve.tokens import FILE as TOKENS
from tidegate.serve.tokens import Tokens

ASIDE = {"held_from", "held_records", "held_bytes", "held_because"}
"""Fields that `status` prints as sentences below the table."""


@click.command(epilog="\b\nExample:\n  tidegate status tidegate.state --format json\n")
@options.state
@options.form
def status(state: Path, form: str) -> None:
    """Show what a state holds: records, releases, raw data and why it is still kept.

    For the operator only: the exact number of unusable records is in no release.
    """
    with Gate.look(state) as gate:
        now, missing, person = status_of(gate), advice.waiting(gate), gate.plan.person
    if form == "json":
        click.echo(json.dumps(now))
        return
    streams, budget, schedule = now["streams"], now["budget"], now["schedule"]
    console = Console(highlight=False, soft_wrap=True)
    sizes = ", ".join(
        _setting(name, value)
        for name, value in schedule.items()
        if name != "kind" and isinstance(value, int | str)
    )
    spent = amounts(budget["epsilon"], budget["delta"])
    about = "" if person is None else f" about {whom(person)},"
    console.print(f"{schedule['kind']} ({sizes}): {spent}{about} for ever")
    if person is not None:
        console.print(until(person))
    if not now["private"]:
        console.print("NOT PRIVATE: made with a seed, so anyone who has it can remove the noise")
    if now["stopped"]:
        message = now["stopped"]["message"]
        console.print(f"{message[0].upper()}{message[1:]}.", markup=False)
    options.show([{k: v for k, v in row.items() if k not in ASIDE} for row in streams], form)
    for row in streams:
        console.print(
            f"Raw data of {row['stream']}: {row['held_records']:,} records, "
            f"{row['held_bytes']:,} bytes: {row['held_because']}."
        )
    newest = f", the newest of {now['newest']}: {now['trained_on']}" if now["newest"] else ""
    console.print(f"{now['releases']:,} releases{newest}.")
    console.print(paid_so_far(max(row["worst_share"] for row in streams), person))
    for line in stopped_lines(now["stopped_steps"]):
        console.print(line)
    for line in _measured(now):
        console.print(line)
    if not now["releases"] and not now["stopped"]:
        console.print(f"{missing.capitalize()}.")


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
    if scores is not None:
        of = f"release {scores['of_release']:,} on the step at {scores['at']:,}"
        yield f"Scores of {of}: {in_words(scores)}."
    if drift is not None and drift["newest_alarm"] is not None:
        yield f"drift: {alarm_in_words(drift['newest_alarm'], streams=len(now['streams']))}"
    elif drift is not None:
        yield f"drift: no alarm in the newest {drift['steps']:,} steps"


LEDGER = """\b
Examples:
  tidegate ledger tidegate.state --record 4096
  tidegate ledger tidegate.state --person < id.txt
"""


@click.command(epilog=LEDGER)
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
    if person:
        _show_person(state, read_id(), form)
        return
    with Gate.look(state) as gate:
        view = gate.ledger_view()
        view.catch_up()
        rows = view.totals() if record is None else view.paid(record)
        there = record is None or any(record < gate.store.count(name) for name in gate.streams)
        empty = "this record has paid nothing yet" if there else "this record has not arrived yet"
        shown = ({k: v for k, v in row.items() if k not in BELOW} for row in rows)
        options.show(rows if form == "json" else shown, form, empty=empty)
        if record is None and form == "table":
            click.echo(paid_so_far(max(row["paid"] for row in rows), gate.plan.person))
            for line in stopped_lines(stopped_rows(gate.store)):
                click.echo(line)


def _show_person(state: Path, person: str, form: str) -> None:
    with Gate.look(state) as gate:
        row = paid_by(gate, person)
    click.echo(json.dumps(row) if form == "json" else person_in_words(row))


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
            if step.evaluation is not None:
                tried[step.evaluation.release].append(_tried(step, step.evaluation))
        view = gate.ledger_view()
        view.read()
        rows = (
            {**release_row(one, view), "tried": tried[one.number]} for one in gate.releases(start)
        )
        if form == "json":
            options.show(rows, form)
            return
        listed = list(rows)
        options.show(_narrow(listed), form, folded="of_records")
        scores, person = list(_scores(listed)), gate.plan.person
    if person is not None and listed:
        click.echo(f"Shares are of a record's budget. {until(person)}")
    if scores:
        click.echo()
        options.show(scores, form, title="Scores, ± the deviation of their noise")


def _scores(rows: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """A row for each release with scores: on the step after it, and on the holdout."""
    found = []
    for before, row in pairwise([None, *rows]):
        if before is not None and row is not None and row["scores_before"] is not None:
            found.append((before["release"], "next step", row["scores_before"]))
        if row is not None and row["scores_on_holdout"] is not None:
            found.append((row["release"], "holdout", row["scores_on_holdout"]))
    used = [name for name in SCORES if any(scores[name] is not None for _, _, scores in found)]
    for number, where, scores in found:
        cells = {
            SCORES[name]: None if scores[name] is None else shown(name, scores[name])
            for name in used
        }
        yield {"release": number, "on": where, **cells}


SCORES = {
    "accuracy": "accuracy",
    "majority": "majority_class",
    "balanced_accuracy": "balanced_accuracy",
    "log_loss": "log-loss",
    "constant_log_loss": "of_a_constant",
    "auc": "AUC",
    "bias": "bias",
    "unusable": "unusable",
}
"""The measures in the table of `releases`, with their headings."""


def _tried(step: Step, evaluation: Evaluation) -> dict[str, Any]:
    """The accuracy of a release on a later step."""
    return {
        "stream": step.stream,
        "start": step.span.start,
        "stop": step.span.stop,
        "share": down(evaluation.share),
        "accuracy": evaluation.accuracy,
        "deviation": evaluation.deviation,
    }


def _setting(name: str, value: int | str) -> str:
    """A parameter of a schedule: a flag, a size or a fraction."""
    if value is True:
        return name
    return f"{name} {value:,}" if isinstance(value, int) else f"{name} {value}"


ELSEWHERE = {"stream", "at", "start", "stop", "mu", "epsilon", "accuracy_before", "trained_on"} | {
    "scores_before",
    "scores_on_holdout",
}
"""Fields that the first table of `releases` leaves out: they are elsewhere, in less space."""


def _narrow(rows: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Rows for a terminal: the records behind each release, no empty columns, short hashes."""
    for row in rows:
        tried = [each["accuracy"] for each in row["tried"]]
        row["tried"] = mean(tried) if tried else None
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


def release_row(release: StoredRelease, view: LedgerView) -> dict[str, Any]:
    """A release as a row of a table."""
    card = release.card
    unit = "mu" if "mu" in card else "epsilon"
    evaluation = card["evaluation"] or {}
    return {
        "release": release.number,
        "stream": card["stream"],
        "at": card["at"],
        "start": card["start"],
        "stop": card["stop"],
        "share": card["share_rounded_down"],
        unit: card[unit],
        "accuracy_before": evaluation.get("step_before", {}).get("accuracy"),
        "accuracy_on_holdout": evaluation.get("holdout", {}).get("accuracy"),
        "scores_before": compact(evaluation.get("step_before", {}).get("scores")),
        "scores_on_holdout": compact(evaluation.get("holdout", {}).get("scores")),
        "time": card["time"],
        "hash": release.hash,
        "trained_on": view.trained_on(card["fit"]),
    }


FEWEST = 8
"""The fewest characters of a hash to look for: chance cannot match them, but trying 2^32 can."""

EXAMPLES = """\b
Examples:
  tidegate verify tidegate.state
  tidegate verify published                       a published folder alone
  tidegate verify published --includes HASH       a hash you noted earlier
"""


@click.command(epilog=EXAMPLES)
@click.argument("folder", type=PATH)
@click.option(
    "--includes",
    metavar="HASH",
    callback=lambda _, __, value: None if value is None else _hash(value),
    help="Also check that the release or erasure with this hash, noted earlier, is still there. "
    f"Give all 64 characters: {FEWEST} are accepted, but an insider can match {FEWEST} with about "
    "2^32 tries.",
)
@options.form
@options.quiet
def verify(folder: Path, includes: str | None, form: str, quiet: bool) -> None:
    """Check a state, or a folder of published releases; exit with 1 on any problem.

    A state: recompute the plan, the ledger, the noise of every fit, the hash chain and all
    checksums, and compare them with the charges, the cards and the published files. All is read at
    one moment, so the gate can keep running.

    A published folder alone: check that the hash chain has no gap, that every card belongs to its
    model and states the noise that its share requires, and that every file matches its manifest.
    It cannot tell whether newer releases were deleted; only the state can.

    See docs/how-to/check-the-proof.md: neither shows that noise was really added.
    """
    with options.progress("{task.description}", quiet, form) as bar:
        task = bar.add_task("", total=None)
        alone = not holds_state(folder) and published_in(folder)
        check = _verify_published if alone else _verify_state
        problems, hashes, sound = check(folder, lambda what: bar.update(task, description=what))
    if includes is not None and not any(each.startswith(includes) for each in hashes):
        missing = "no release has this hash, and no erasure: it was replaced or deleted since"
        if problems:  # then no hash can be relied on
            missing = "not searched for, because of the other problems: solve them first"
        problems.append(Problem(where=includes, what=missing))
    if form == "json":
        result = {"sound": not problems, "problems": [asdict(each) for each in problems]}
        click.echo(json.dumps(result))
    for problem in problems if form == "table" else []:
        click.echo(f"{problem.where}: {problem.what}")
    if problems:
        sys.exit(1)
    if form == "table" and not quiet:
        click.echo(f"Sound: {sound}")


def _hash(text: str) -> str:
    """Read a hash, or its beginning."""
    if not re.fullmatch(rf"[0-9a-f]{{{FEWEST},64}}", text.lower()):
        allowed = f"the first {FEWEST} to 64 characters of a hash, 0-9 and a-f"
        raise refuse("--includes", allowed, text)
    return text.lower()


Checked = tuple[list[Problem], list[str], str]
"""The problems, the hashes of releases and erasures, and what to print if there are no problems."""


def _verify_state(folder: Path, report: Report) -> Checked:
    with Gate.look(folder) as gate:
        problems = [*problems_of(gate, report), *_token_problems(folder)]
        releases = [] if problems else [release.hash for release in gate.releases()]
        erasures = [] if problems else [erasure.hash for erasure in gate.store.erased()]
        fits = sum(1 for _ in gate.store.lines())
        files, publish = len(gate.store.published()), gate.config.publish
    sound = (
        f"{fits:,} fits match the plan, their cards state the noise that it requires, "
        f"{len(releases):,} releases form an unbroken hash chain"
    )
    if erasures:
        sound += f", {len(erasures):,} erasures are part of the history"
    if files and publish is not None:
        sound += f", the files of {files:,} releases in {publish.folder} are unchanged"
    elif files:
        sound += f"; {files:,} releases were published to a folder that is no longer configured"
    return problems, [*releases, *erasures], f"{sound}."


def _token_problems(folder: Path) -> Iterator[Problem]:
    try:
        Tokens(folder).all()
    except InvalidValueError as error:
        yield Problem(where=TOKENS, what=str(error))


def _verify_published(folder: Path, report: Report) -> Checked:
    report("published releases")
    problems = [Problem(where=str(folder), what=what) for what in verify_published(folder)]
    hashes = [] if problems else [release.hash for release in published_releases(folder)]
    sound = (
        f"{len(hashes):,} releases form an unbroken hash chain, their cards state the noise that "
        "their shares require, their files match the manifests."
    )
    unseen = "This check cannot tell whether newer releases were deleted; only the state can."
    return problems, hashes, f"{sound} {unseen}"
