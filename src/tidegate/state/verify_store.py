"""The checks of `tidegate verify` on a store alone: damage, and edited rows."""

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

from tidegate.checks import StoreError, json_of
from tidegate.release.card import FIRST
from tidegate.state import erasure, segments, stopped
from tidegate.state.damage import (
    COLUMNS,
    DAMAGED,
    HISTORY,
    RESTORE,
    Problem,
    after,
    damage,
    readable,
    reported,
)
from tidegate.state.erasure import Erasures, has_content, place_of
from tidegate.state.layout import LAYOUT, SCHEMA, sums_of
from tidegate.state.lock import witness_of
from tidegate.state.person_log import PersonLog
from tidegate.state.record_log import RecordLog
from tidegate.state.release_log import ReleaseLog
from tidegate.state.state_database import StateDatabase
from tidegate.state.store import SOURCES, STEP, Segment, covered, with_fits
from tidegate.state.verify_persons import row_problems


def problems(
    state: StateDatabase, records: RecordLog, releases: ReleaseLog, persons: PersonLog
) -> Iterator[Problem]:
    """The problems of a store; none if it is sound."""
    checks = (
        _verify_state(state, records),
        _verify_tables(state),
        _verify_segments(state, records),
        row_problems(state, persons),
        erasure.problems(state),
        _verify_fits(state, releases),
        _verify_history(state),
    )
    for check in checks:
        yield from reported(state.db.name, check, state.explained)


def _verify_state(state: StateDatabase, records: RecordLog) -> Iterator[Problem]:
    head = state.read_head()
    if head.seal != head.digest():
        yield Problem(state.db.name, DAMAGED)
    witness = state.witness or witness_of(state.folder)
    if not witness:
        what = "is missing or damaged, so lost transactions would go unnoticed"
        yield Problem("lock", f"{what}; see docs/store.md")
    elif witness.committed > (committed := head.committed):
        what = f"has lost the last {witness.committed - committed} transaction(s)"
        yield damage(state.db.name, what)
    for source in records.sources():
        yield from _problem(f"the offset of {source}", records.offset, source)
    for what in state.db.problems():
        yield Problem(state.db.name, f"{what}; {RESTORE}")


def _verify_tables(state: StateDatabase) -> Iterator[Problem]:
    """Check that each table has exactly the rows that were written."""
    stored, computed = state.read_head().table_sums(), sums_of(state.db)
    for table in COLUMNS:
        if stored[table] != computed[table]:
            what = f"rows of the table {table} were changed, added or deleted"
            yield damage(state.db.name, what)
    schema = state.db.schema()
    if schema is not None and sorted(schema) != sorted(each.strip() for each in SCHEMA.split(";")):
        yield damage(state.db.name, f"its tables are not those of layout {LAYOUT}")


def _verify_history(state: StateDatabase) -> Iterator[Problem]:
    """Check steps and fits against the history, and the history digest in each card."""
    erasures = Erasures(state.db)
    yield from stopped.history_problems(state.db, erasures)
    history, named, fits = stopped.beginning(state), False, 0
    end = place_of(state)
    sources: Counter[str | None] = Counter()
    steps = state.db.execute(f"SELECT {STEP}, history FROM steps ORDER BY number").fetchall()  # noqa: S608
    for (*step, kept), made in with_fits(state.db, steps):
        fits += len(made)
        history = erasures.after(history, end._replace(steps=step[0] - 1))
        for fit in made:
            with readable(f"the card of fit {fit[0]}"):
                card = json_of(fit[4])
            named = named or HISTORY in card
            if named and card.get(HISTORY) != history:
                yield damage(f"fit {fit[0]}", "its card's history_sha256 does not match the state")
            history = after(history, fit)
        history = after(history, covered(step))
        if history != kept:
            yield damage(f"step {step[0]}", "hash mismatch in the step or one of its fits")
            history = kept  # report each wrong step once
        came: list[tuple[str | None, int]] = json_of(step[SOURCES] or "[]")
        for source, count in came:
            sources[source] += count
        # steps from before the upgrade to layout 3 have no sources
        if step[SOURCES] is not None and sum(count for _, count in came) != step[3] - step[2]:
            yield damage(f"step {step[0]}", "its sources do not add up to its number of records")
    erasures.after(history, end)
    yield from erasures.found()
    if fits != state.one("SELECT count(*) FROM fits")[0]:
        yield damage(state.db.name, "it has fits that belong to no step")
    yield from _verify_arrivals(state, sources)


def _verify_arrivals(state: StateDatabase, sources: "Counter[str | None]") -> Iterator[Problem]:
    """Check that records by source match the offsets, and waiting records their sources."""
    streams = state.db.execute("SELECT stream, done, count FROM streams").fetchall()
    reached = {stream: done for stream, done, _ in streams}
    for stream, start, stop, source in sorted(state.rows("arrivals", "1 = 1")):
        sources[source] += stop - start
        reached[stream] = stop if start < stop and start == reached.get(stream) else -1
    counts = {stream: count for stream, _, count in streams}
    for stream in sorted(name for name, stop in reached.items() if stop != counts.get(name)):
        yield damage(stream, "the sources of waiting records do not add up to their number")
    offsets = {row[0]: row[2] for row in state.rows("offsets", "records >= ?", 0)}
    for source in sorted({*offsets, *(each for each in sources if each is not None)}):
        if offsets.get(source) != sources[source]:
            counted = offsets.get(source, "nothing")
            what = f"{sources[source]} records came from it, but its offset says {counted}"
            yield damage(f"the source {source}", what)


def _verify_segments(state: StateDatabase, records: RecordLog) -> Iterator[Problem]:
    records.distrust()
    both = "SELECT count(*) FROM segments WHERE file IS NOT NULL AND data IS NOT NULL"
    if state.one(both)[0]:
        yield damage(state.db.name, "records are in a file and in the database too")
    reached: dict[str, int] = {}
    for segment in records.held():
        stream, (start, stop) = segment.stream, segment.span
        if start != reached.get(stream, start):
            yield damage(stream, f"a segment ends at {reached[stream]}, the next starts at {start}")
        reached[stream] = stop
        for problem in _problem(segment.file or stream, _check_segment, state, records, segment):
            if records.still_holds(segment):
                yield problem
    for stream, total in state.db.execute("SELECT stream, count FROM streams"):
        if reached.get(stream, total) != total:
            what = f"segments end at {reached[stream]}, but {total} records were taken"
            yield damage(stream, what)


def _check_segment(state: StateDatabase, records: RecordLog, segment: Segment) -> None:
    """Read a segment; refuse it if its kind of rows is not that of its stream."""
    read = records.read(segment.stream, segment.span)
    actual = segments.kind(read)
    (kind,) = state.one("SELECT kind FROM streams WHERE stream = ?", segment.stream)
    if actual != kind:
        raise StoreError(f"its rows are {actual}, but the stream has {kind}: {RESTORE}")
    slots = records.marked(segment.stream, segment.span) - segment.span.start
    if has_content(read, slots):
        raise StoreError(f"slots that were erased have content: {RESTORE}")


def _verify_fits(state: StateDatabase, releases: ReleaseLog) -> Iterator[Problem]:
    expected, previous = 0, FIRST
    dropped = {number for number, _ in state.rows("dropped", "1 = 1")}
    unknown = set(dropped)
    needed: dict[tuple[str, int], tuple[int, set[int]]] = {}  # the newest fits of each level
    query = (
        "SELECT number, stream, fit, release, previous, hash, "
        "CASE WHEN length(weights) = 0 THEN weights END FROM fits ORDER BY number"
    )
    for number, stream, fit, release, chained_to, stored_hash, empty in state.db.execute(query):
        if number not in dropped:
            yield from _problem(f"fit {number}", releases.fit, number)
        elif empty != b"" or release is not None:  # SQLite also has an empty text
            yield damage(f"fit {number}", "it is marked as dropped, but has a model or is released")
        unknown.discard(number)
        with readable(f"fit {number}"):
            fields = json_of(fit)
            level, at, released = (fields[name] for name in ("level", "at", "released"))
        if (release is not None) != released:
            yield damage(f"fit {number}", "it should be released and is not, or the reverse")
        if release is not None:
            yield from _problem(f"release {release}", releases.release, release)
            if (release, chained_to) != (expected, previous):
                what = f"expected release {expected} with the previous hash {previous}"
                yield damage(f"release {release}", what)
            expected, previous = release + 1, stored_hash
        newest, numbers = needed.get((stream, level), (at, set()))
        needed[stream, level] = (at, {number} | (numbers if newest == at else set()))
    for number in sorted(unknown):
        yield damage(f"fit {number}", "it is marked as dropped, but was never made")
    for number in sorted(dropped & {each for _, some in needed.values() for each in some}):
        yield damage(f"fit {number}", "its model is missing, but a future fit may need it")


def _problem(where: str, read: Callable[..., object], *what: Any) -> Iterator[Problem]:
    """Call `read` and yield its StoreError as a problem."""
    try:
        read(*what)
    except StoreError as error:
        yield Problem(where, str(error))
