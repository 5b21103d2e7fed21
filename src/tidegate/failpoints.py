"""Points at which a test can kill the process, around every step that makes data durable."""

import os
import signal
from collections import Counter

NAMES = (
    "create.commit",
    "create.done",
    "segment.write",
    "segment.fsync",
    "segment.rename",
    "segment.folder",
    "append.commit",
    "append.done",
    "publish.commit",
    "publish.done",
    "forget.commit",
    "forget.done",
    "forget.unlink",
    "forget.scrub",
    "sweep.unlink",
)
"""The failpoints of the store, in the order in which a run passes them."""

EXPORTS = (
    "export.write",
    "export.fsync",
    "export.rename",
)
"""The failpoints of exported and published files."""

PUBLISHED = ("published.commit", "published.done")
"""The failpoints of recording published files in the state."""

PERSONS = ("key.write", "key.fsync", "key.rename", "publish.admitted")
"""The failpoints of states that protect persons."""

UPGRADES = ("migrate.commit", "migrate.done")
"""The failpoints of upgrading a state to a newer layout."""

ERASURES = (
    "segment.write",
    "segment.fsync",
    "segment.rename",
    "segment.folder",
    "erase.commit",
    "erase.done",
    "erase.unlink",
    "erase.scrub",
)
"""The failpoints of an erasure."""

CORRECTIONS = ("correct.commit", "correct.done")
"""The failpoints of correcting the settings of a stopped state."""

_passed: Counter[str] = Counter()


def failpoint(name: str) -> None:
    """Kill this process (SIGKILL) if TIDEGATE_FAILPOINT is `name`, or `name:count`.

    With a count, kill it the count-th time it passes this point. If unset, do nothing.

    >>> failpoint("append.commit")
    """
    wanted, _, count = os.environ.get("TIDEGATE_FAILPOINT", "").partition(":")
    if wanted == name:
        _passed[name] += 1
        if _passed[name] == int(count or 1):
            os.kill(os.getpid(), signal.SIGKILL)
