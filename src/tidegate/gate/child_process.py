"""How a child process ends: with its parent, and not by the user's Ctrl-C."""

import os
import signal
import threading
from multiprocessing import parent_process


def end_with_parent() -> None:
    """Call this first in a child process: it then ends when its parent does, however that ends.

    Ctrl-C reaches all processes of a terminal; the child ignores it, so the parent decides.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_wait_for_parent, daemon=True).start()


def _wait_for_parent() -> None:
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
