"""Whether segments that `verify` could not read are problems."""

from contextlib import closing

from tidegate.state.state_database import StateDatabase
from tidegate.state.store import Segment


def still_held(state: StateDatabase, *segments: Segment) -> bool:
    """Whether segments still exist now: a gate may have deleted or erased some since the snapshot.

    Args:
        state: The state.
        segments: The segments, as the snapshot has them.
    """
    query = "SELECT file FROM segments WHERE stream = ? AND start = ?"
    with closing(state.db.open_reader()) as present:
        for segment in segments:
            row = present.execute(query, (segment.stream, segment.span.start)).fetchone()
            if row is None or row[0] != segment.file:
                return False
    return True
