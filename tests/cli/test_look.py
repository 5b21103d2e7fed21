"""Commands that only look at a state start quickly: they import no scikit-learn."""

import subprocess
import sys
from pathlib import Path

import pytest

from tidegate.gate import Config, Gate

COMMON: dict[str, object] = {
    "schedule": {"kind": "sliding", "window": 20, "step": 10},
    "budget": {"epsilon": 1.0, "delta": 1e-6},
}
NUMBERS = {**COMMON, "records": {"classes": [0, 1], "norm": 1.0}}
COLUMNS = {
    **COMMON,
    "records": {"classes": [0, 1], "label": "y"},
    "columns": [
        {"kind": "number", "name": "age", "low": 0, "high": 80},
        {"kind": "category", "name": "ward", "hash": 8},
        {"kind": "text", "name": "note", "size": 16},
    ],
}

SCRIPT = """
import sys
from tidegate.cli.main import main
sys.argv = ["tidegate", "status", sys.argv[1]]
try:
    main()
finally:
    found = sorted({"sklearn", "scipy.stats", "pandas"} & set(sys.modules))
    assert not found, f"imported: {found}"
"""


@pytest.mark.parametrize("given", [NUMBERS, COLUMNS], ids=["numbers", "columns"])
def test_status_imports_no_scikit_learn(given: dict[str, object], tmp_path: Path) -> None:
    Gate.open(tmp_path / "state", Config.of(given)).close()
    asked = [sys.executable, "-c", SCRIPT, str(tmp_path / "state")]
    done = subprocess.run(asked, capture_output=True, text=True, check=False)
    assert not done.returncode, done.stderr


READING = """
import sys
import tidegate.serve.parser as parser
from tidegate.run.config import Config
from tidegate.serve.bodies import Reader
before = {name.partition(".")[0] for name in sys.modules}
config = Config.from_json(sys.argv[1])
with parser._reading(Reader(config=config)) as ask:
    body = bytearray(b'{"records": [{"ward": "x", "y": 0}]}')
    ask(parser.Question("application/json", body, True))
more = {name.partition(".")[0] for name in sys.modules} - before
assert not more & {"sklearn", "scipy"}, f"imported: {more}"
"""


def test_a_bounded_reader_has_loaded_what_it_needs() -> None:
    """Else the first body would pay for the import: with its memory and its time."""
    given = {**COLUMNS, "columns": [{"kind": "category", "name": "ward", "hash": 8}]}
    text = Config.of(given).to_json()
    asked = [sys.executable, "-c", READING, text]
    done = subprocess.run(asked, capture_output=True, text=True, check=False)
    assert not done.returncode, done.stderr
