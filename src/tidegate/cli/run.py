"""`tidegate run` and `tidegate ingest`: records in, releases out."""

import json
import select
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import click

from tidegate.checks import InvalidValueError
from tidegate.cli import advice, options
from tidegate.cli.state import release_row
from tidegate.gate.config import Config, file_name
from tidegate.gate.config.source_identity import shared
from tidegate.gate.gate import Gate
from tidegate.gate.sources import Files, RawBatch, Source, StandardInput, every, once
from tidegate.gate.sources.files import Follow
from tidegate.gate.taken import check_ingested, taken_elsewhere
from tidegate.release import StoredRelease

PAUSE = 1.0
"""Seconds after which a source that is followed is looked at again."""

RUN_EPILOG = """\b
Examples:
  tidegate run tidegate.toml                     until the source ends
  tidegate run tidegate.toml --follow            and go on as it grows
  tidegate run tidegate.toml --state /srv/state  with the state elsewhere
  tidegate run tidegate.toml --format json       a line for each release
"""

INGEST_EPILOG = """\b
Examples:
  tidegate ingest tidegate.state new.csv
  tidegate ingest tidegate.state new.parquet --stream target
"""


@click.command(epilog=RUN_EPILOG)
@click.argument("config", type=click.Path(path_type=Path))
@click.option(
    "--state",
    type=click.Path(path_type=Path),
    help="Where the state is kept; by default beside CONFIG, under its name.",
)
@click.option("--follow", is_flag=True, help="Wait for new files, lines of a file, or messages.")
@options.form
@options.quiet
def run(config: Path, state: Path | None, follow: bool, form: str, quiet: bool) -> None:
    """Run a gate on the sources that CONFIG names, from where it stopped the last time.

    It can be stopped at any time and in any way: started again it goes on, and nothing is lost,
    taken twice or paid for twice.
    """
    known = Config.load(config)
    sources = known.sources(follow=follow, pause=None)
    again = every(PAUSE) if follow or known.follows else once
    if not sources:
        raise InvalidValueError(f"{config} names no source: add a [source] section")
    folder = state or config.with_suffix(".state")
    new = not folder.exists()
    with open_gate(folder, known, sources) as gate:
        if new and form == "table" and not quiet:  # who expected an old one should know
            click.echo(f"{folder} is new: no record has paid anything yet", err=True)
        _follow(gate, sources, again, form=form, quiet=quiet)
        if form == "table" and not quiet:
            _conclude(gate)
            click.echo(f"The state is in {folder}; see tidegate status {folder}")


@contextmanager
def open_gate(folder: Path, known: Config, sources: Mapping[str, Source]) -> Iterator[Gate]:
    """A gate that may take in what its sources have."""
    if len(known.identities) == 2 and (both := shared(*known.identities)) is not None:
        told = f"source.target must not read {both}, which source.source reads"
        raise InvalidValueError(f"{told}: a record would pay in both")
    if not folder.exists():  # a state fixes its settings: not before its sources can be read
        _try(sources.values())
    with Gate.open(folder, known) as gate:
        files = [source for source in sources.values() if isinstance(source, Files)]
        linked = (path for each in files for path in taken_elsewhere(gate.store, each, sources))
        named = (path for path in known.files() if gate.store.offset(file_name(path)) is not None)
        for path in chain(named, linked):
            told = f"{path} was taken in by ingest: run would take it twice"
            raise InvalidValueError(f"{told}, so [source] must not name it")
        yield gate


def _try(sources: Iterable[Source]) -> None:
    """Refuse files and brokers' streams that are not there, and files that lack a column."""
    for source in sources:
        if not isinstance(source, StandardInput):
            batches = source.batches(None)
            try:
                next(batches, None)
            finally:
                _close([batches])


def _close(opened: Iterable[Iterator[RawBatch]]) -> None:
    """End connections now: when a generator would be collected is nobody's to say."""
    for batches in opened:
        if isinstance(batches, Generator):
            batches.close()


def _conclude(gate: Gate) -> None:
    for told in advice.unusable(gate):
        click.echo(f"tidegate: {told}", err=True)
    if gate.store.newest() is None:
        click.echo(advice.waiting(gate).capitalize())


@click.command(epilog=INGEST_EPILOG)
@options.state
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--stream", type=click.Choice(["source", "target"]), help="Which, if there are two.")
@click.option(
    "--resume",
    nargs=2,
    metavar="MARK RECORDS",
    help="Go on after so many records of a FILE that has changed; the refusal names both.",
)
@options.form
@options.quiet
def ingest(  # noqa: PLR0913, PLR0917 (an argument for each option)
    state: Path,
    file: Path,
    stream: str | None,
    resume: tuple[str, str] | None,
    form: str,
    quiet: bool,
) -> None:
    """Add the records of FILE (.csv, .parquet or .jsonl) to a state.

    How far a file was read is remembered: adding it again adds only what is new at its end.
    """
    with Gate.open(state) as gate:
        name, source = gate.stream(stream), gate.config.source_of(file, resume)
        check_ingested(gate.config, gate.store, source)
        before = gate.store.count(name)
        _follow(gate, {name: source}, once, form=form, quiet=quiet)
        if form == "table" and not quiet:
            _conclude(gate)
            taken = gate.store.count(name) - before
            click.echo(f"{taken:,} records of {file} were new; {state} has {before + taken:,}")


def _follow(
    gate: Gate, sources: Mapping[str, Source], again: Follow, *, form: str, quiet: bool
) -> None:
    """Take in what the sources have, and tell what is released."""
    text = "{task.fields[records]:,} records, {task.fields[releases]:,} releases"
    with options.progress(text, quiet, form) as progress:
        task = progress.add_task("", total=None, records=0, releases=0)
        counted = partial(progress.update, task)
        with closing(releases_of(gate, sources, again, counted)) as releases:
            for release in releases:
                progress.update(task, releases=release.number + 1)
                if form == "json":
                    click.echo(json.dumps(release_row(release)))
                elif not quiet:
                    click.echo(_line(release))


def releases_of(
    gate: Gate,
    sources: Mapping[str, Source],
    again: Follow,
    counted: Callable[..., object],
    enough: Callable[[], bool] = once,
) -> Generator[StoredRelease]:
    """Take in what the sources have, and carry out what becomes due.

    As long as two streams have records, they take turns by what was carried out (`Progress.turn`):
    what files hold decides the order, not how they are read or when a run was stopped.

    Args:
        gate: Where to.
        sources: The source of each stream.
        again: Called when all are at their ends: whether to look again.
        counted: Told how many `records` there are.
        enough: Asked before every batch and every step: whether to stop there for now.
    """

    def batches(*, piped: bool) -> dict[str, Iterator[RawBatch]]:
        return {
            stream: source.batches(gate.store.offset(source.name))
            for stream, source in sources.items()
            if isinstance(source, StandardInput) == piped
        }

    pipes, files, complete = batches(piped=True), batches(piped=False), gate.progress.complete
    try:
        while True:
            waiting = {**pipes, **files}
            while left := [s for s in gate.streams if s in waiting or complete(s)]:
                if enough():
                    return
                stream = min(left, key=gate.progress.turn)
                if complete(stream):
                    yield from gate.carry_out(stream)
                elif stream in pipes and len(sources) > 1 and not ready(sources[stream]):
                    del waiting[stream]  # the other stream need not wait for this one
                elif (raw := next(waiting[stream], None)) is not None:
                    gate.take(raw, source=sources[stream].name, stream=stream)
                    counted(records=sum(map(gate.store.count, gate.streams)))
                else:
                    del waiting[stream]
                    pipes.pop(stream, None)  # a pipe that has ended has ended for good
            if pipes:
                ready(*(sources[stream] for stream in pipes), seconds=PAUSE)
            elif not files or not again():
                return
            files = batches(piped=False)
    finally:
        _close([*pipes.values(), *files.values()])


def ready(*pipes: Source, seconds: float = 0) -> bool:
    """Whether a pipe has something to read, or has ended; by default without waiting for it."""
    streams: list[Any] = [pipe.stream for pipe in pipes if isinstance(pipe, StandardInput)]
    return bool(select.select(streams, [], [], seconds)[0])


def _line(release: StoredRelease) -> str:
    row = release_row(release)
    whose = f" {row['stream']}" if row["stream"] else ""
    how = "fitted" if release.card["prior"] is None else "refined"
    before, holdout = row["accuracy_before"], row["accuracy_on_holdout"]
    return "".join(
        [
            f"release {release.number:,} after {row['at']:,}{whose} records: {how} on "
            f"{row['start']:,} to {row['stop'] - 1:,} for {row['share']:.4g} of their budget",
            "" if holdout is None else f", right on {holdout:.1%} of the holdout",
            "" if before is None else f", the one before was right on {before:.1%} of the step",
        ]
    )
