"""`tidegate run` and `tidegate ingest`: records in, releases out."""

import json
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import closing
from functools import partial
from itertools import tee
from pathlib import Path
from typing import Any

import click

from tidegate.checks import InvalidValueError
from tidegate.cli import advice, options
from tidegate.cli.state_commands import release_rows
from tidegate.cli.types import PATH
from tidegate.gate import Gate
from tidegate.learn.measures.measure import score_named
from tidegate.learn.score_kinds import headline_in
from tidegate.release import StoredRelease
from tidegate.release.verdict import TOO_NOISY, known_scores
from tidegate.run.config import Config
from tidegate.run.step_admission import StepAdmission, warning
from tidegate.schedule.progress import ONLY
from tidegate.state.ledger_view import LedgerView
from tidegate.state.measured_steps import alarm_in_words, alarm_row

RUN_EPILOG = """\b
Examples:
  tidegate run tidegate.toml                     stop at the end of the source
  tidegate run tidegate.toml --follow            keep running as it grows
  tidegate run tidegate.toml --state /srv/state  keep the state elsewhere
  tidegate run tidegate.toml --format json       one line per release
"""

INGEST_EPILOG = """\b
Examples:
  tidegate ingest tidegate.state new.csv
  tidegate ingest tidegate.state new.parquet --stream target
"""


@click.command(epilog=RUN_EPILOG)
@click.argument("config", type=PATH)
@click.option("--state", type=PATH, help="Folder of the state [CONFIG with the extension .state].")
@click.option("--follow", is_flag=True, help="Keep running; wait for new files, lines or messages.")
@options.form
@options.quiet
def run(config: Path, state: Path | None, follow: bool, form: str, quiet: bool) -> None:
    """Run a gate on the sources in CONFIG; it resumes where it stopped the last time.

    You can stop it at any time, in any way. Run it again to continue: no record is lost, and none
    is read or charged twice.
    """
    settings = Config.load(config)
    sources = settings.sources(follow=follow, pause=None)
    if not sources:
        raise InvalidValueError(f"{config} names no source: add a [source] section")
    folder = state or config.with_suffix(".state")
    new = not folder.exists()
    with Gate.open(folder, settings, sources=sources) as gate:
        if new and form == "table" and not quiet:
            expected = "if you expected an existing one, stop now and check the path"
            options.say(f"{folder}: created a new state; {expected}", err=True)
        if gate.corrected is not None:
            options.say(f"tidegate: {gate.corrected}", err=True)
        _show(gate, partial(gate.run, follow=follow), form=form, quiet=quiet)
        if form == "table" and not quiet:
            _conclude(gate)
            options.say(f"The state is in {folder}; see tidegate status {folder}")


def _conclude(gate: Gate) -> None:
    for line in advice.unusable(gate):
        options.say(f"tidegate: {line}", err=True)
    if gate.store.newest() is None:
        options.say(advice.waiting(gate).capitalize())


@click.command(epilog=INGEST_EPILOG)
@options.state
@click.argument("file", type=PATH)
@click.option(
    "--stream", type=click.Choice(["source", "target"]), help="Stream to add to, if there are two."
)
@click.option(
    "--resume",
    nargs=2,
    metavar="MARK RECORDS",
    help="Continue with a changed FILE after RECORDS records; the error message has both values.",
)
@options.aliases
@options.form
@options.quiet
def ingest(  # noqa: PLR0913, PLR0917 (an argument for each option)
    state: Path,
    file: Path,
    stream: str | None,
    resume: tuple[str, str] | None,
    aliases: tuple[str, ...],
    form: str,
    quiet: bool,
) -> None:
    """Add the records of FILE (.csv, .parquet or .jsonl) to a state.

    The state remembers how far it has read each file. Adding a file again adds only the new records
    at its end.
    """
    with Gate.open(state, upgrade=False) as gate:
        name = gate.stream(stream)
        source = gate.config.source_of(file, resume, options.pairs(aliases))
        before = gate.store.count(name)
        _show(gate, partial(gate.run, {name: source}), form=form, quiet=quiet)
        if form == "table" and not quiet:
            _conclude(gate)
            taken = gate.store.count(name) - before
            options.say(f"Added {taken:,} records of {file}; {state} now has {before + taken:,}")


def _show(
    gate: Gate, run: Callable[..., Generator[StoredRelease]], *, form: str, quiet: bool
) -> None:
    """Print the releases of a run, and its progress."""
    view = gate.ledger_view()
    view.read()
    view.measured.skip()  # alarms of earlier runs
    admissions = _Admissions(gate)
    text = "{task.fields[records]:,} records, {task.fields[releases]:,} releases"
    with options.progress(text, quiet, form) as progress:
        task = progress.add_task("", total=None, records=0, releases=0)
        with closing(run(counted=lambda n: progress.update(task, records=n))) as releases:
            for release, row in _rows(releases, view):
                progress.update(task, releases=release.number + 1)
                step = admissions.at(row)
                if gate.plan.person is not None:
                    row["admitted"] = None if step is None else step.share
                if form == "json":
                    click.echo(json.dumps(row))
                elif not quiet:
                    options.say("; ".join([_line(release, row), *admissions.shares(step)]))
                if not quiet:
                    admissions.warn(step)
                    _show_alarms(gate, view)


class _Admissions:
    """Tells the operator how many records of each step count, and warns once they become few.

    Args:
        gate: The gate; nothing is printed if it protects records.
    """

    def __init__(self, gate: Gate) -> None:
        self._gate, self._warned = gate, set[str]()

    def at(self, row: Mapping[str, Any]) -> StepAdmission | None:
        """How many records of a release's newest step count, if known."""
        place = (row["stream"] or ONLY, row["at"])
        found = [] if self._gate.plan.person is None else self._gate.store.admissions()
        return next((each for each in found if (each.stream, each.span.stop) == place), None)

    @staticmethod
    def shares(step: StepAdmission | None) -> list[str]:
        """What the release's line says about it."""
        return [] if step is None else [step.in_words()]

    def warn(self, step: StepAdmission | None) -> None:
        """Print a warning to standard error when few begin to count, not at every step after."""
        person = self._gate.plan.person
        if step is None or person is None:
            return
        if step.few and step.stream not in self._warned:
            options.say(f"tidegate: {warning(step, person)}", err=True)
        (self._warned.add if step.few else self._warned.discard)(step.stream)


def _show_alarms(gate: Gate, view: LedgerView) -> None:
    """Print the drift alarms of new steps to standard error."""
    view.read()
    for each in view.measured.fresh(full=0):
        if each.alarm:
            words = alarm_in_words(alarm_row(each), streams=len(gate.streams))
            options.say(f"tidegate: drift: {words}", err=True)


def _rows(
    releases: Iterable[StoredRelease], view: LedgerView
) -> Iterator[tuple[StoredRelease, dict[str, Any]]]:
    """Each release with its row."""
    one, other = tee(releases)
    yield from zip(one, release_rows(other, view), strict=True)


def _line(release: StoredRelease, row: Mapping[str, Any]) -> str:
    whose = f" {row['stream']}" if row["stream"] else ""
    name = f"release {release.number:,}"
    weighted = len(release.card.get("emphasis", []))
    payers = (
        "; the newest records" if weighted > 1 else "; these records" if weighted else ", which"
    )
    parts = [
        f"{name} after {row['at']:,}{whose} records: {row['trained_on']}{payers} paid "
        f"{row['share']:.4g} of their budget for it"
    ]
    if row.get("accuracy_on_holdout") is not None:
        parts.append(f"{name} scored {row['accuracy_on_holdout']:.1%} on the holdout")
    if row.get("mae_on_holdout") is not None:
        parts.append(f"{name} is off by {row['mae_on_holdout']:.4g} on the holdout (MAE)")
    if (evaluation := release.card["evaluation"]) and "step_before" in evaluation:
        parts.append(_scored(evaluation["step_before"], row["scores_before"], whose))
        if row["verdict"] is not None:
            parts.append(f"that is {row['verdict']['words']}")
    return "; ".join(parts)


def _scored(tried: Mapping[str, Any], scores: Mapping[str, Any] | None, whose: str) -> str:
    """How good the release before was on the step."""
    newest = f"these newest {tried['stop'] - tried['start']:,}{whose} records"
    before = f"release {tried['of_release']:,}"
    name = headline_in(tried)
    form, value, noise = score_named(name).form, tried[name], tried["deviation"]
    if form.kept(value, noise) is None:
        what = {"mae": "mean error"}.get(name, name)
        return f"the {what} of {before} on {newest} is {TOO_NOISY}"
    text = form.text(value, noise)
    beside = [f"{each.label} {said}" for each, said in known_scores(scores or {}) if each.brief]
    if name == "mae":
        return f"{before} is off by {text} on {newest} ({'; '.join(['MAE', *beside])})"
    listed = f" ({', '.join(beside)})" if beside else ""
    return f"{before} scored {text}{listed} on {newest}"
