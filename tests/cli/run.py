"""Runs the command as a user does: in a process of its own."""

import json
import os
import subprocess
import sys
from typing import Any


def tidegate(*words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tidegate", *words],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        env={**os.environ, "COLUMNS": "100", "NO_COLOR": "1", **variables},
    )


def json_lines(*words: str) -> list[dict[str, Any]]:
    done = tidegate(*words, "--format", "json")
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return [json.loads(line) for line in done.stdout.splitlines()]
