"""What `tidegate verify` checks of a store by itself: damage, and rows that were edited."""

import json
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

from tidegate.checks import StoreError
from tidegate.gate import segments
from tidegate.gate.integrity import BEGINNING, COLUMNS, HISTORY, after
from tidegate.gate.layout import LAYOUT, SCHEMA, STEP, sums_of, with_fits
from tidegate.gate.lock import witness_of
from tidegate.gate.record_log import RecordLog
from tidegate.gate.release_log import ReleaseLog
from tidegate.gate.state_database import StateDatabase
from tidegate.gate.store import DAMAGED, RESTORE, Problem, Segment, damage, readable, reported
from tidegate.release import FIRST


def problems(state: StateDatabase, records: RecordLog, releases: ReleaseLog) -> Iterator[Problem]:
    """All that is wrong with what a store holds, nothing if it is sound."""
    checks = (
        _verify_state(state, records),
        _verify_tables(state),
        _verify_segments(state, records),
        _verify_fits(state, releases),
        _verify_history(state),
    )
    for check in checks:
        yield from reported(state.db.name, _explaining(state, check))


def _explaining(state: StateDatabase, found: Iterator[Problem]) -> Iterator[Problem]:
    with state.explained():
        yield from found


def _verify_state(state: StateDatabase, records: RecordLog) -> Iterator[Problem]:
    if state.one("SELECT seal FROM state")[0] != state.seal():
        yield Problem(state.db.name, DAMAGED)
    known = state.witness or witness_of(state.folder)
    if known is None:
        what = "is missing or damaged: nothing shows whether the newest transactions are there"
        yield Problem("lock", f"{what}; see docs/store.md")
    elif known.committed > (committed := state.one("SELECT committed FROM state")[0]):
        what = f"has lost the last {known.committed - committed} transaction(s)"
        yield damage(state.db.name, what)
    for source in records.sources():
        yield from _problem(f"the offset of {source}", records.offset, source)
    for what in state.db.problems():
        yield Problem(state.db.name, f"{what}; {RESTORE}")


def _verify_tables(state: StateDatabase) -> Iterator[Problem]:
    """Whether each table has the rows that were written, and only those."""
    kept, found = state.kept_sums(), sums_of(state.db)
    for table in COLUMNS:
        if kept[table] != found[table]:
            what = f"rows of the table {table} were changed, added or deleted"
            yield damage(state.db.name, what)
    made = state.db.schema()
    if made is not None and sorted(made) != sorted(each.strip() for each in SCHEMA.split(";")):
        yield damage(state.db.name, f"its tables are not those of layout {LAYOUT}")


def _verify_history(state: StateDatabase) -> Iterator[Problem]:
    """Whether steps and fits are as they were written, and each card knows those before it."""
    history, named, fits = BEGINNING, False, 0
    sources: Counter[str | None] = Counter()
    steps = state.db.execute(f"SELECT {STEP}, history FROM steps ORDER BY number").fetchall()  # noqa: S608
    for (*step, kept), made in with_fits(state.db, steps):
        fits += len(made)
        for fit in made:
            with readable(f"the card of fit {fit[0]}"):
                card = json.loads(fit[4])
            named = named or HISTORY in card
            if named and card.get(HISTORY) != history:
                yield damage(f"fit {fit[0]}", "its card names another history than the state has")
            history = after(history, fit)
        history = after(history, step)
        if history != kept:
            yield damage(f"step {step[0]}", "it, or a fit that it made, is not what was written")
            history = kept  # one line for each that is wrong
        came: list[tuple[str | None, int]] = json.loads(step[-1] or "[]")
        for source, count in came:
            sources[source] += count
        # of a step from before an upgrade the sources are not known
        if step[-1] is not None and sum(count for _, count in came) != step[3] - step[2]:
            yield damage(f"step {step[0]}", "its sources do not add up to its records")
    if fits != state.one("SELECT count(*) FROM fits")[0]:
        yield damage(state.db.name, "it has fits that no step has made")
    yield from _verify_arrivals(state, sources)


def _verify_arrivals(state: StateDatabase, sources: "Counter[str | None]") -> Iterator[Problem]:
    """Whether each source gave as many records as its offset says, and all as many as wait."""
    streams = state.db.execute("SELECT stream, done, count FROM streams").fetchall()
    reached = {stream: done for stream, done, _ in streams}
    for stream, start, stop, source in sorted(state.rows("arrivals", "1 = 1")):
        sources[source] += stop - start
        reached[stream] = stop if start < stop and start == reached.get(stream) else -1
    counts = {stream: count for stream, _, count in streams}
    for stream in sorted(name for name, stop in reached.items() if stop != counts.get(name)):
        yield damage(stream, "the sources of records that wait do not add up to them")
    offsets = {row[0]: row[2] for row in state.rows("offsets", "records >= ?", 0)}
    for source in sorted({*offsets, *(each for each in sources if each is not None)}):
        if offsets.get(source) != sources[source]:
            told = f"{sources[source]} records came from it, its offset says"
            yield damage(f"the source {source}", f"{told} {offsets.get(source, 'nothing')}")


def _verify_segments(state: StateDatabase, records: RecordLog) -> Iterator[Problem]:
    records.distrust()
    reached: dict[str, int] = {}
    for segment in records.held():
        stream, (start, stop) = segment.stream, segment.span
        if start != reached.get(stream, start):
            yield Problem(stream, f"segments end at {reached[stream]} and go on at {start}")
        reached[stream] = stop
        for problem in _problem(segment.file or stream, _check_segment, state, records, segment):
            if _holds(state, segment):
                yield problem
    for stream, total in state.db.execute("SELECT stream, count FROM streams"):
        if reached.get(stream, total) != total:
            what = f"segments end at {reached[stream]}, but {total} records were taken"
            yield Problem(stream, what)


def _check_segment(state: StateDatabase, records: RecordLog, segment: Segment) -> None:
    """Read a segment; refuse it if its rows are not like those of its stream."""
    found = segments.kind(records.read(segment.stream, segment.span))
    (kind,) = state.one("SELECT kind FROM streams WHERE stream = ?", segment.stream)
    if found != kind:
        raise StoreError(f"its rows are {found}, those of the stream {kind}: {RESTORE}")


def _verify_fits(state: StateDatabase, releases: ReleaseLog) -> Iterator[Problem]:
    expected, previous = 0, FIRST
    dropped = {number for number, _ in state.rows("dropped", "1 = 1")}
    unknown = set(dropped)
    needed: dict[tuple[str, int], tuple[int, set[int]]] = {}  # the newest fits of each level
    query = (
        "SELECT number, stream, fit, release, previous, hash, length(weights) FROM fits "
        "ORDER BY number"
    )
    for number, stream, fit, release, chained_to, stored_hash, size in state.db.execute(query):
        if number not in dropped:
            yield from _problem(f"fit {number}", releases.fit, number)
        elif size or release is not None:
            yield damage(f"fit {number}", "it is marked as dropped, but has a model or is released")
        unknown.discard(number)
        with readable(f"fit {number}"):
            fields = json.loads(fit)
            level, at, released = (fields[name] for name in ("level", "at", "released"))
        if (release is not None) != released:
            yield Problem(f"fit {number}", "is released, or should be")
        if release is not None:
            yield from _problem(f"release {release}", releases.release, release)
            if (release, chained_to) != (expected, previous):
                what = f"should be release {expected}, after {previous}"
                yield Problem(f"release {release}", what)
            expected, previous = release + 1, stored_hash
        newest, numbers = needed.get((stream, level), (at, set()))
        needed[stream, level] = (at, {number} | (numbers if newest == at else set()))
    for number in sorted(unknown):
        yield damage(f"fit {number}", "it is marked as dropped, and was never made")
    for number in sorted(dropped & {each for _, some in needed.values() for each in some}):
        yield damage(f"fit {number}", "its model is missing, which a fit to come may need")


def _holds(state: StateDatabase, segment: Segment) -> bool:
    """Whether a segment is still there: beside a snapshot a Gate may go on and delete some."""
    query = "SELECT file FROM segments WHERE stream = ? AND start = ?"
    with closing(state.db.beside()) as present:
        row = present.execute(query, (segment.stream, segment.span.start)).fetchone()
        return row is not None and row[0] == segment.file


def _problem(where: str, read: Callable[..., object], *what: Any) -> Iterator[Problem]:
    """What is wrong with something, if reading it finds that."""
    try:
        read(*what)
    except StoreError as error:
        yield Problem(where, str(error))
