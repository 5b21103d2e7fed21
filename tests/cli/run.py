"""Runs the command: in this process for speed, or in one of its own where that matters."""

import contextlib
import io
import json
import os
import subprocess
import sys
from typing import Any, NamedTuple
from unittest.mock import patch

from tidegate.cli import main

VARIABLES = {"COLUMNS": "100", "NO_COLOR": "1"}


class Done(NamedTuple):
    returncode: int
    stdout: str
    stderr: str


def tidegate(*words: str, **variables: str) -> Done:
    out, err = io.StringIO(), io.StringIO()
    with (
        patch.object(sys, "argv", ["tidegate", *words]),
        patch.dict(os.environ, VARIABLES | variables),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        try:
            main()
            code = 0
        except SystemExit as ended:
            code = int(ended.code or 0)
    return Done(code, out.getvalue(), err.getvalue())


def process(*words: str, **variables: str) -> Done:
    return through([], *words, **variables)


def through(wrapper: list[str], *words: str, **variables: str) -> Done:
    """Run the command in a process of its own that another program starts."""
    done = subprocess.run(
        [*wrapper, sys.executable, "-m", "tidegate", *words],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        env=os.environ | VARIABLES | variables,
    )
    return Done(done.returncode, done.stdout, done.stderr)


def json_lines(*words: str) -> list[dict[str, Any]]:
    done = tidegate(*words, "--format", "json")
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return [json.loads(line) for line in done.stdout.splitlines()]
