"""Tells a lack of memory from a bug, and says what to do about it."""

import errno
import os
import re
import resource

from tidegate.checks import InvalidValueError

MEBIBYTE = 2**20
NEEDED = 1024 * MEBIBYTE
"""The least address space for commands that load numpy, pyarrow and scikit-learn: twice theirs."""
THREAD = 80 * MEBIBYTE
"""Address space that each thread of BLAS takes when numpy and scipy are loaded."""
LOADER = re.compile("failed to map segment from shared object$|annot allocate memory|ut of memory")
"""What the loader says of a library for which there is no room."""


def check_room() -> None:
    """Refuse a limit on address space that is too low to load the libraries.

    Some of them do not fail when they are short of it: they end the process, or never return.
    """
    limit = _limit()
    if limit is not None and limit < NEEDED:
        raise InvalidValueError(explain())
    if limit is not None and limit < NEEDED + THREAD * (os.cpu_count() or 1):
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


def lacking(error: BaseException | None) -> bool:
    """Whether an error, or one that led to it, says that memory is lacking."""
    match error:
        case None:
            return False
        case MemoryError() | OSError(errno=errno.ENOMEM):
            return True
        case ImportError() if LOADER.search(str(error)):
            return True
    return lacking(error.__cause__ or error.__context__)


def explain() -> str:
    """One line for the user: what limits memory, and what to change."""
    limit = _limit()
    if limit is None:
        return "not enough memory: stop other programs, or use a machine with more"
    least = f"at least {NEEDED // MEBIBYTE:,}" if limit < NEEDED else "more"
    return f"not enough memory: ulimit -v allows {limit // MEBIBYTE:,} MiB; allow {least}"


def _limit() -> int | None:
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    return None if limit == resource.RLIM_INFINITY else limit
