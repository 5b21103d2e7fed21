"""The ratchet: `tests/house.json` holds the best value of each number so far.

It has one line for each number, and every line ends with a comma, so that git can merge lines of
two branches. Of two lines about one number the better counts: if that is not the truth about the
merged code, the test says so, and the number must be raised with a reason.
"""

import io
import json
import subprocess
import tarfile
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from tests.house.numbers import PROJECT, RATCHET, Number, Values, by_module
from tests.house.source import ROOT, Module, modules_of, of_sources

FILE = PROJECT / "tests" / "house.json"

MOST_NAMED = 5
"""How many modules a message names."""


@dataclass(frozen=True)
class Stored:
    """The stored value of a number, and why it was raised the last time, if it was."""

    value: float
    because: str | None = None


Record = Mapping[str, Stored]


class RaiseError(ValueError):
    """A number cannot be raised as asked."""


def read(path: Path = FILE) -> dict[str, Stored]:
    """The stored numbers; none if there is no file."""
    known = {number.name: number for number in RATCHET}
    found: dict[str, Stored] = {}
    # After a merge two lines may be about one number, so they are read as pairs.
    pairs = json.loads(path.read_text(), object_pairs_hook=list) if path.exists() else []
    for name, entry in pairs:
        if name in known:
            new = Stored(**dict(entry))
            if name not in found or known[name].worse(found[name].value, new.value):
                found[name] = new
    return found


def text(record: Record) -> str:
    """The file of a record."""
    lines = []
    for name in sorted(record):
        stored = record[name]
        entry = {"value": stored.value}
        reason = {} if stored.because is None else {"because": stored.because}
        lines.append(f"{json.dumps(name)}: {json.dumps({**entry, **reason})},")
    return "\n".join(["{", *lines, '"end": {}', "}", ""])


def lowered(record: Record, values: Values, raised: Mapping[str, str]) -> dict[str, Stored]:
    """The record with all values that are better, and with worse ones only where that is asked.

    Args:
        record: What is stored.
        values: What is measured now; numbers that were not measured stay as they are.
        raised: The numbers that may get worse, each with the reason.
    """
    known = {number.name: number for number in RATCHET}
    for name, because in raised.items():
        if name not in known:
            raise RaiseError(f"{name} is no number that is stored: {', '.join(sorted(known))}")
        if name not in values:
            raise RaiseError(f"{name} was not measured: leave out --fast")
        if not because.strip():
            raise RaiseError(f"{name} needs a reason: add --because")
    after = dict(record)
    for name, number in known.items():
        if name not in values:
            continue
        before, now = record.get(name), values[name]
        if before is None or number.worse(before.value, now):
            after[name] = Stored(now)
        elif number.worse(now, before.value) and name in raised:
            after[name] = Stored(now, raised[name])
    return after


def complaints(record: Record, values: Values, root: Path = ROOT) -> list[str]:
    """One line for each number that is worse than stored: from what to what, and where."""
    return [
        complaint(number, record[number.name].value, values[number.name], root)
        for number in RATCHET
        if number.name in record
        and number.name in values
        and number.worse(values[number.name], record[number.name].value)
    ]


def complaint(number: Number, before: float, now: float, root: Path = ROOT) -> str:
    """What got worse, by how much, in which modules, and what to do."""
    grown = growth(number.name, root)
    where = ", ".join(f"{name} (+{more:,})" for name, more in grown.most_common(MOST_NAMED))
    return (
        f"{number.name} ({number.words}) got worse, from {before:,} to {now:,}"
        f"{f'; it grew in {where}' if where else ''}. See python -m tests.house --where "
        f"{number.name}; if it must be: --write --raise {number.name} --because REASON"
    )


def growth(name: str, root: Path = ROOT) -> Counter[str]:
    """By how much modules grew since the numbers were stored, for numbers that are sums."""
    before = by_module(name, stored_modules())
    return by_module(name, modules_of(root)) - before if before else Counter()


@lru_cache(1)
def stored_modules() -> tuple[Module, ...]:
    """The modules as they were when `tests/house.json` was committed; none without git."""
    commit = _git("log", "-1", "--format=%H", "--", "tests/house.json").decode().strip()
    packed = _git("archive", commit, "src/tidegate") if commit else b""
    if not packed:
        return ()
    sources = {}
    with tarfile.open(fileobj=io.BytesIO(packed)) as files:
        for each in files:
            if each.name.endswith(".py") and (file := files.extractfile(each)) is not None:
                sources[Path(each.name).relative_to("src")] = file.read().decode()
    return of_sources(sources)


def _git(*arguments: str) -> bytes:
    """What git says; nothing if it cannot say it."""
    try:
        asked = ["git", "-C", str(PROJECT), *arguments]
        return subprocess.run(asked, capture_output=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return b""
