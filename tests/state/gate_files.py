"""The files of a small reproducible gate: its configuration and its records."""

from collections.abc import Iterator
from pathlib import Path

from tests.state.gatelife import stream

HEADER = "a,b,c,y\n"
LEARNER = "[learner]\nregularization = 0.1\n"
SLIDING = 'kind = "sliding"\nwindow = 300\nstep = 100'
TWO = 'kind = "twostream"\nstep = 100\n[schedule.source]\nkind = "cumulative"\nblock = 200'


def config_text(*tables: str, schedule: str = SLIDING) -> str:
    """A configuration for records with the columns of HEADER; `tables` are more tables of it."""
    return f"""
not_private_seed = 7
[schedule]
{schedule}
[budget]
epsilon = 1.0
[records]
classes = [0, 1]
norm = 1.5
columns = ["a", "b", "c"]
label = "y"
{"".join(tables)}"""


def quality_table(share: object) -> str:
    """The table that buys evaluations."""
    return f'[quality]\nshare = "{share}"\n'


def publish_table(folder: Path | str) -> str:
    """The table that publishes releases into a folder."""
    return f'[publish]\nfolder = "{folder}"\n'


def source_table(path: Path | str, kind: str = "csv", table: str = "source") -> str:
    """The table of a source of files."""
    return f'[{table}]\ntype = "{kind}"\npath = "{path}"\n'


def csv_rows(n: int, start: int = 0) -> Iterator[str]:
    """Lines of the stream's records."""
    for row, label in zip(*stream(n, start), strict=True):
        yield ",".join(map(str, [*row, label])) + "\n"


def write_csv(path: Path, n: int, start: int = 0) -> None:
    """Write a file of the stream's records."""
    path.write_text(HEADER + "".join(csv_rows(n, start)))
