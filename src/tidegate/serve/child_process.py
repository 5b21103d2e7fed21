"""Tie a child process to its parent, and make it ignore Ctrl-C."""

import os
import signal
import threading
from multiprocessing import parent_process


def end_with_parent() -> None:
    """Make this child process exit when its parent exits, even if the parent is killed.

    Call it first. A terminal sends Ctrl-C to all its processes; the child ignores it, so that the
    parent decides.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_wait_for_parent, daemon=True).start()


def _wait_for_parent() -> None:
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
