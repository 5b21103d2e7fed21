"""A lack of memory is told as one, in one line, with the exit code of what a user can change."""

import errno
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.run import Done, through, tidegate
from tidegate.cli.memory import MEBIBYTE, NEEDED, lacking

PLAN = ("plan", "sliding", "--window", "7", "--step", "1", "--epsilon", "1", "--until", "9")

FULL = """
import re, resource, sys
from tidegate.cli import main, memory

memory.NEEDED = 0  # the check would come before the loader
room = 1024 * int(re.search("VmSize:\\\\s*([0-9]+) kB", open("/proc/self/status").read())[1])
resource.setrlimit(resource.RLIMIT_AS, (room + 8 * memory.MEBIBYTE,) * 2)
sys.argv = ["tidegate", *sys.argv[1:]]
main()
"""
"""A command that has 8 MiB left, in which no library of linear algebra has room."""


def limited(mebibytes: int, *words: str) -> Done:
    """Run a command that `ulimit -v` allows so much."""
    shell = ["bash", "-c", f'ulimit -v {mebibytes * 1024}; exec "$@"', "limited"]
    return through(shell, *words)


@pytest.mark.parametrize("mebibytes", [100, 220, 300, 420, 600, 1023])
def test_a_low_limit_is_named_with_what_is_needed(mebibytes: int, tmp_path: Path) -> None:
    """Without a check before it, loading fails in all ways there are; at 220 it never ended."""
    done = limited(mebibytes, "status", str(tmp_path))
    said = f"not enough memory: ulimit -v allows {mebibytes:,} MiB; allow at least 1,024"
    assert done == (2, "", f"tidegate: {said}\n")


@pytest.mark.slow
def test_what_is_needed_is_enough_to_load_all(tmp_path: Path) -> None:
    done = limited(NEEDED // MEBIBYTE, "status", str(tmp_path))
    assert (done.returncode, done.stdout) == (2, "")
    assert "holds no state" in done.stderr


def test_a_plan_needs_little() -> None:
    assert limited(256, *PLAN).returncode == 0


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs /proc (Linux)")
@pytest.mark.parametrize("words", [("status", "."), (*PLAN, "--plot", "plan.png")])
def test_a_library_without_room_is_a_lack_of_memory(words: tuple[str, ...], tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", FULL, *words],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        cwd=tmp_path,
    )
    assert done.returncode == 2
    assert done.stderr.startswith("tidegate: not enough memory: ulimit -v allows ")
    assert done.stderr.count("\n") == 1


def test_a_command_that_runs_out_of_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    def large(*_: object) -> None:
        raise MemoryError("a value that must not be shown")

    monkeypatch.setattr("tidegate.cli.plan_command.planned", large)
    monkeypatch.setattr(resource, "getrlimit", lambda _: (resource.RLIM_INFINITY,) * 2)
    done = tidegate(*PLAN)
    said = "not enough memory: stop other programs, or use a machine with more"
    assert done == (2, "", f"tidegate: {said}\n")


def led_to(cause: Exception) -> Exception:
    """What a library raises instead of an error of its own parts."""
    error = ImportError("install it again")
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("error", "lacks"),
    [
        (MemoryError(), True),
        (OSError(errno.ENOMEM, "Cannot allocate memory"), True),
        (ImportError("libblas.so: failed to map segment from shared object"), True),
        (ImportError("libblas.so: cannot open shared object file: No such file"), False),
        (ImportError("libblas.so: failed to map segment from shared object: not permitted"), False),
        (OSError(errno.ENOSPC, "No space left on device"), False),
        (ValueError("out of memory"), False),
    ],
)
def test_which_errors_are_a_lack_of_memory(error: Exception, lacks: bool) -> None:
    assert lacking(error) is lacks
    assert lacking(led_to(led_to(error))) is lacks
