"""A child process ends with its parent, and Ctrl-C is the parent's business."""

import subprocess
import sys

import pytest

PARENT = """
import multiprocessing, signal, time
from tidegate.serve.process import end_with_parent

def child():
    end_with_parent()
    signal.raise_signal(signal.SIGINT)
    print("alive", flush=True)
    time.sleep(600)

process = multiprocessing.get_context("fork").Process(target=child)
process.start()
process.join()
"""


@pytest.mark.thorough
def test_a_child_ignores_an_interrupt_and_ends_with_a_parent_that_is_killed() -> None:
    words = [sys.executable, "-c", PARENT]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        assert parent.stdout.readline() == "alive\n"
        parent.kill()
        assert not parent.communicate(timeout=30)[0]  # the child has closed its end, too
