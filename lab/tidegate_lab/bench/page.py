"""The results of a run as a Markdown page, with the machine and the versions they hold for."""

import os
import platform
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from tidegate_lab.bench.table import Result, Shown, yes

PACKAGES = (
    "numpy",
    "scipy",
    "scikit-learn",
    "pyarrow",
    "python-flint",
    "orjson",
    "uvicorn",
    "distributed",
)
PEERS = ("diffprivlib", "opendp", "torch", "dask-ml")

HEAD = """\
<!-- Written by `make bench`. Do not edit: change lab/tidegate_lab/bench/ and run it again. -->

# Benchmarks

Where a row compares Tidegate with something else, both ran in the same run on the same machine.
Trust the ratios: times alone say more about the machine. A *bar* is a ratio that we hold
ourselves to; *met* says whether this run did.
"""


@dataclass(frozen=True)
class Section:
    """What one benchmark found."""

    name: str
    about: str
    seconds: float
    results: Sequence[Result]


def machine() -> dict[str, str]:
    """What the numbers are true for; nothing that names this machine."""
    kernel = platform.release().partition("-")[0]
    load = ", ".join(f"{average:.1f}" for average in os.getloadavg())
    return {
        "date": f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC",
        "Tidegate": " ".join([version("tidegate"), *_commit()]),
        "Python": f"{platform.python_implementation()} {platform.python_version()}",
        "system": f"{platform.system()} {kernel}, {platform.machine()}",
        "processor": f"{_processor()}, {os.cpu_count()} cores",
        "memory": f"{_memory() / 2**30:.1f} GiB",
        "load average before the run": load,
        "packages": ", ".join(f"{name} {_installed(name)}" for name in PACKAGES),
        "peers": ", ".join(f"{name} {_installed(name)}" for name in PEERS),
    }


def page(facts: Mapping[str, str], sections: Sequence[Section]) -> str:
    """The whole page.

    Args:
        facts: About the machine and the versions, by name.
        sections: One for each benchmark, in order.
    """
    parts = [HEAD, _summary(sections), "## Machine", _table(("", ""), list(facts.items()))]
    for section in sections:
        parts.append(f"## {section.name.capitalize()}")
        command = f"python -m tidegate_lab.bench {section.name}"
        parts.append(f"{section.about} `{command}` took {section.seconds:.0f} s.")
        parts += [_markdown(result) for result in section.results]
    return "\n\n".join(part.strip("\n") for part in parts) + "\n"


def _summary(sections: Sequence[Section]) -> str:
    """How many bars were met, and which were not."""
    goals = [goal for section in sections for goal in _goals(section)]
    missed = [what for what, met in goals if not met]
    line = f"This run met {len(goals) - len(missed)} of {len(goals)} bars."
    return f"{line} Not met: {'; '.join(missed)}." if missed else line


def _goals(section: Section) -> Iterator[tuple[str, bool]]:
    """The rows that have a bar, and whether they meet it."""
    for result in section.results:
        if isinstance(result, Shown) and "met" in result.columns:
            place = result.columns.index("met")
            for row in result.rows:
                if len(row) > place and row[place] in {yes(True), yes(False)}:
                    yield f"{section.name}: {row[0]}, {row[1]}", row[place] == yes(True)


def _markdown(result: Result) -> str:
    if isinstance(result, str):
        return result
    return f"**{result.title}**\n\n{_table(result.columns, result.rows)}"


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table; rows that end early are filled up."""
    filled = [[*row, *[""] * (len(columns) - len(row))] for row in rows]
    lines = [columns, ["---"] * len(columns), *filled]
    return "\n".join("| " + " | ".join(map(_cell, line)) + " |" for line in lines)


def _cell(text: str) -> str:
    return text.replace("|", r"\|")


def _installed(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "(not installed)"


def _commit() -> list[str]:
    """The commit, and whether files differ from it; nothing outside a clone."""
    described = subprocess.run(
        ["git", "describe", "--always", "--dirty=, changed since", "--exclude=*"],
        cwd=Path(__file__).parent,
        capture_output=True,
        text=True,
        check=False,
    )
    return [f"(commit {described.stdout.strip()})"] if described.returncode == 0 else []


def _processor() -> str:
    """The model where the system says it, otherwise the architecture."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:  # not on Linux
        lines = []
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return next(iter(models), platform.processor() or platform.machine())


def _memory() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
