"""Locations where a test can pull the plug: before and after everything that makes data durable."""

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
"""Every failpoint of the store, in the order in which a batch, a step and a retention meet them."""

EXPORTS = (
    "export.write",
    "export.fsync",
    "export.rename",
)
"""Those of the files that releases are published to."""

PUBLISHED = ("published.commit", "published.done")
"""Those of what the state keeps of these files."""

UPGRADES = ("migrate.commit", "migrate.done")
"""Those of a state that is brought to a newer layout."""

_passed: Counter[str] = Counter()


def failpoint(name: str) -> None:
    """End the process without a goodbye if TIDEGATE_FAILPOINT is `name`, or `name:count`.

    With a count the process ends when it comes by for that time. Unset, nothing happens.

    >>> failpoint("append.commit")
    """
    wanted, _, count = os.environ.get("TIDEGATE_FAILPOINT", "").partition(":")
    if wanted == name:
        _passed[name] += 1
        if _passed[name] == int(count or 1):
            os.kill(os.getpid(), signal.SIGKILL)
