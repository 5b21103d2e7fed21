"""`tidegate verify`: check a state or a published folder."""

import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from pathlib import Path

import click

from tidegate.checks import InvalidValueError, refuse
from tidegate.cli import options
from tidegate.cli.options import PATH
from tidegate.cli.screen import one_line
from tidegate.gate import Gate
from tidegate.privacy.person import Person
from tidegate.release import StoredRelease
from tidegate.run.config import Config
from tidegate.run.config.tables import Locations
from tidegate.serve.access_tokens import TOKENS, Tokens
from tidegate.state.damage import Problem
from tidegate.state.inspecting import Consent
from tidegate.state.opening import marks_of_state
from tidegate.state.publish_folder import published_in, published_releases
from tidegate.state.verification import Report
from tidegate.state.verification import verify as problems_of
from tidegate.state.verify_published import verify as verify_published

FEWEST = 8
"""The fewest characters of a hash to look for: chance cannot match them, but trying 2^32 can."""

LONGEST = 2000
"""Most characters of a line about a problem; a card may state a number of any length."""

EXAMPLES = """\b
Examples:
  tidegate verify tidegate.state
  tidegate verify published                       a published folder alone
  tidegate verify published --includes HASH       a hash you noted earlier
  tidegate verify STATE --config tidegate.toml    a state on a server that the file names
"""


@click.command(epilog=EXAMPLES)
@click.argument("folder", type=PATH)
@click.option("--state", "as_state", is_flag=True, help="Check FOLDER as a state.")
@click.option("--published", "as_published", is_flag=True, help="Check it as a published folder.")
@click.option(
    "--config", type=PATH, help="Connect to the servers that this file names, if FOLDER is on them."
)
@click.option("--connect", is_flag=True, help="Connect to whatever server FOLDER says it is on.")
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
def verify(  # noqa: PLR0913 (one for each option)
    folder: Path,
    *,
    as_state: bool,
    as_published: bool,
    config: Path | None,
    connect: bool,
    includes: str | None,
    form: str,
    quiet: bool,
) -> None:
    """Check a state, or a folder of published releases; exit with 1 on any problem.

    FOLDER may be a stranger's: nothing is written to it, and no server is connected to unless you
    name it. The first line says what FOLDER was taken for.

    A state: recompute the plan, the ledger, the noise of every fit, the hash chain and all
    checksums, and compare them with the charges, the cards and the published files. All is read at
    one moment, so the gate can keep running.

    A published folder alone: check that the hash chain has no gap, that every card belongs to its
    model and states the noise that its share requires, and that every file matches its manifest.
    It cannot tell whether newer releases were deleted; only the state can.

    See docs/how-to/check-the-proof.md: neither shows that noise was really added.
    """
    kind = taken_for(folder, as_state=as_state, as_published=as_published)
    if form == "table" and not quiet:
        options.say(f"Checking {folder} as a {kind}.")
    consent = consent_of(config, connect=connect)
    with options.progress("{task.description}", quiet, form) as bar:
        task = bar.add_task("", total=None)
        problems, named, sound = _checked(
            folder, kind, consent, lambda what: bar.update(task, description=one_line(what))
        )
    found = [name for name, each in named if includes and each.startswith(includes)]
    problems += [_missing(includes, problems)] if includes and not found else []
    found_out = {"sound": not problems, "problems": list(map(asdict, problems)), "checked_as": kind}
    lines = [shortened(f"{each.where}: {each.what}") for each in problems]
    options.answer(found_out, form, *lines)
    if problems:
        sys.exit(1)
    if form == "table" and not quiet:
        options.say(f"Sound: {sound}")
        if found:
            options.say(f"It includes {' and '.join(found)}, which has the hash {includes}.")


def _missing(includes: str, problems: list[Problem]) -> Problem:
    missing = "no release has this hash, and no erasure: it was replaced or deleted since"
    if problems:  # then no hash can be relied on
        missing = "not searched for, because of the other problems: solve them first"
    return Problem(where=includes, what=missing)


def shortened(line: str) -> str:
    """A line without the middle of a very long value."""
    return line if len(line) <= LONGEST else f"{line[: LONGEST // 2]} … {line[-LONGEST // 2 :]}"


STATE, PUBLISHED = "state", "published folder"


def taken_for(folder: Path, *, as_state: bool = False, as_published: bool = False) -> str:
    """What a folder is checked as. Nothing in it is opened to find out."""
    if as_state and as_published:
        raise click.UsageError("Name one of --state and --published.")
    if as_state or as_published:
        return STATE if as_state else PUBLISHED
    held, published = marks_of_state(folder), published_in(folder)
    if held and published:
        both = f"{folder} holds a state ({held[0]}) and published releases"
        raise InvalidValueError(f"{both}: say which to check, with --state or --published")
    return PUBLISHED if published else STATE


def consent_of(config: Path | None, *, connect: bool) -> Consent:
    """Where the user agrees to connect to."""
    locations = Config.load(config).locations() if config else Locations()
    return Consent(connect=connect, locations=locations)


def _hash(text: str) -> str:
    """Read a hash, or its beginning."""
    if not re.fullmatch(rf"[0-9a-f]{{{FEWEST},64}}", text.lower()):
        allowed = f"the first {FEWEST} to 64 characters of a hash, 0-9 and a-f"
        raise refuse("--includes", allowed, text)
    return text.lower()


Checked = tuple[list[Problem], list[tuple[str, str]], str]
"""The problems, names and hashes of releases and erasures, and what to print if all is sound."""


def _checked(folder: Path, kind: str, consent: Consent, report: Report) -> Checked:
    if kind == STATE:
        return _verify_state(folder, consent, report)
    return _verify_published(folder, report)


def _verify_state(folder: Path, consent: Consent, report: Report) -> Checked:
    with Gate.inspect(folder, consent) as gate:
        problems = [*problems_of(gate, report), *_token_problems(folder)]
        releases = [] if problems else _releases(gate.releases())
        erased = [] if problems else gate.store.erased()
        erasures = [(f"erasure {each.number:,}", each.hash) for each in erased]
        fits = sum(1 for _ in gate.store.lines())
        person = gate.plan.person
        files, publish = len(gate.store.published()), gate.config.publish
    sound = (
        f"{fits:,} fits match the plan, their cards state the noise that it requires, "
        f"{len(releases):,} releases form an unbroken hash chain"
    )
    if person:
        sound += f", {_nobody_paid_more(person)}"
    if erasures:
        sound += f", {len(erasures):,} erasures are part of the history"
    if files and publish:
        sound += f", the files of {files:,} releases in {publish.folder} are unchanged"
    elif files:
        sound += f"; {files:,} releases were published to a folder that is no longer configured"
    return problems, [*releases, *erasures], f"{sound}."


def _releases(listed: Iterable[StoredRelease]) -> list[tuple[str, str]]:
    return [(f"release {each.number:,}", each.hash) for each in listed]


def _nobody_paid_more(person: Person) -> str:
    """What was checked about persons."""
    times = f"{person.contributions:,} contribution{'s' * (person.contributions > 1)}"
    within = ""
    if person.period:
        within = f"{person.within.replace('any ', '')} (of the steps that are kept)"
    return f"no person has paid more than {times}{within}"


def _token_problems(folder: Path) -> Iterator[Problem]:
    try:
        Tokens(folder).all()
    except (InvalidValueError, OSError) as error:
        yield Problem(where=TOKENS, what=str(error))


def _verify_published(folder: Path, report: Report) -> Checked:
    report("published releases")
    problems = list(verify_published(folder))
    hashes = [] if problems else _releases(published_releases(folder))
    sound = (
        f"{len(hashes):,} releases form an unbroken hash chain, their cards state the noise that "
        "their shares require, their files match the manifests."
    )
    unseen = "This check cannot tell whether newer releases were deleted; only the state can."
    return problems, hashes, f"{sound} {unseen}"
