"""Explains errors of the operating system: a lack of memory, and files it cannot use."""

import errno
import math
import os
import re
import resource

from tidegate.checks import InvalidValueError

MEBIBYTE = 2**20
NEEDED = 1024 * MEBIBYTE
"""The least address space for commands that load numpy, pyarrow and scikit-learn: twice as much
as these take."""
THREAD = 80 * MEBIBYTE
"""Address space that each thread of BLAS takes when numpy and scipy are loaded."""
LOADER = re.compile("failed to map segment from shared object$|annot allocate memory|ut of memory")
"""How the dynamic loader reports a library that does not fit in memory."""


NEXT_STEPS = {
    errno.EACCES: "check its permissions",
    errno.EPERM: "check its permissions",
    errno.EROFS: "choose a folder that can be written to",
    errno.ENOSPC: "free some space and run the command again",
    errno.EDQUOT: "free some space and run the command again",
    errno.EIO: "check the disk",
}
"""What to do after an error, by its number."""


def check_room() -> None:
    """Refuse a limit on address space that is too low to load the libraries.

    Some of them do not raise when they run out of it: they kill the process, or hang.
    """
    limit = _limit()
    if limit < NEEDED:
        raise InvalidValueError(explain())
    if limit < NEEDED + THREAD * (os.cpu_count() or 1):
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


def lacking(error: BaseException | None) -> bool:
    """Whether an error, or one that caused it, is a lack of memory."""
    match error:
        case None:
            return False
        case MemoryError() | OSError(errno=errno.ENOMEM):
            return True
        case ImportError() if LOADER.search(str(error)):
            return True
    return lacking(error.__cause__ or error.__context__)


def explain() -> str:
    """Say in one line what limits memory, and what to change."""
    limit = _limit()
    if limit == math.inf:
        return "not enough memory: stop other programs, or use a machine with more"
    least = f"at least {NEEDED // MEBIBYTE:,}" if limit < NEEDED else "more"
    return f"not enough memory: ulimit -v allows {limit // MEBIBYTE:,.0f} MiB; allow {least}"


def explain_os_error(error: OSError, default: str) -> str:
    """Say in one line what failed, on which file (`default` if unknown), and what to check."""
    what = f"{error.strerror or error}: {error.filename or default}"
    return f"{what}; {NEXT_STEPS.get(error.errno or 0, 'check the path')}"


def _limit() -> float:
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    return math.inf if limit == resource.RLIM_INFINITY else limit
