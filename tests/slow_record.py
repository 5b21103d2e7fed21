"""When each slow test was last green: `tests/slow.json`.

The file has one line for each test, and a line with the number of shares run so far
(`make test-slow-share`). Branches that both ran one are merged line by line (`.gitattributes`): of
two lines about one test, the newer counts.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path

OLDEST = 12
"""CI fails for a test that none of this many shares has run."""

NEVER = "never"
"""The commit of a test that is listed, but has not been green since the file began. It counts as
run `OLDEST` shares ago: the next share runs it first, and CI fails if that did not happen."""

UNKNOWN = 7.0
"""The seconds that a test is expected to take if it has never run: about the mean of all."""


@dataclass(frozen=True, kw_only=True)
class Green:
    """The last time that a test passed.

    Attributes:
        share: The number of the share that ran it.
        at: The date.
        commit: The commit that was checked out, with + if files differed from it; or `NEVER`.
        seconds: How long it took.
        skipped: Why it could not run, if it could not.
    """

    share: int
    at: str
    commit: str
    seconds: float
    skipped: str | None = None


@dataclass(frozen=True, kw_only=True)
class Record:
    """What is known about all slow tests.

    Attributes:
        shares: The number of shares run so far.
        green: The last time that each test passed, by its name.
    """

    shares: int
    green: Mapping[str, Green]

    def seconds(self, name: str) -> float:
        """How long a test is expected to take."""
        return self.green[name].seconds if name in self.green else UNKNOWN

    def stalest(self, names: Iterable[str]) -> list[str]:
        """Tests without an entry first, then by the share that last ran them."""
        known = self.green
        return sorted(names, key=lambda name: (known[name].share if name in known else -1, name))

    def problems(self, names: Iterable[str]) -> list[str]:
        """What is wrong with the file, given the tests that there are: one line for each test."""
        lines = []
        for name in self.stalest(names):
            if name not in self.green:
                lines.append(f"NO GREEN RUN of the slow test {name}: {MEND}")
            elif (age := self.shares - self.green[name].share) > OLDEST:
                lines.append(f"NOT RUN in the last {age} shares: {name}: {MEND}")
        return lines

    def after(self, passed: Mapping[str, Green], failed: Iterable[str]) -> "Record":
        """The record after another share: a test that failed is no longer in it."""
        kept = {
            **self.green,
            **{name: replace(each, share=self.shares + 1) for name, each in passed.items()},
        }
        gone = {*failed}
        green = {name: each for name, each in kept.items() if name not in gone}
        return Record(shares=self.shares + 1, green=green)

    def only(self, names: Iterable[str]) -> "Record":
        """The record without tests that are no longer there."""
        there = {*names}
        green = {name: each for name, each in self.green.items() if name in there}
        return replace(self, green=green)

    def text(self) -> str:
        """The file: every line ends with a comma, so that lines can be merged."""
        lines = [f'"shares": {self.shares},']
        for name, green in sorted(self.green.items()):
            entry = {key: value for key, value in asdict(green).items() if value is not None}
            lines.append(f"{json.dumps(name)}: {json.dumps(entry)},")
        return "\n".join(["{", *lines, '"end": 0', "}", ""])


MEND = "run `make test-slow-share`, which runs such tests first, and commit tests/slow.json"


def read(path: Path) -> Record:
    """The record in a file; an empty one if there is none."""
    if not path.exists():
        return Record(shares=0, green={})
    shares, green = 0, dict[str, Green]()
    # After a merge two lines may be about one test, so they are read as pairs.
    for name, value in json.loads(path.read_text(), object_pairs_hook=list):
        if name == "shares":
            shares = max(shares, value)
        elif name != "end":
            entry = Green(**dict(value))
            if name not in green or entry.share >= green[name].share:
                green[name] = entry
    return Record(shares=shares, green=green)


def within(names: Iterable[str], record: Record, seconds: float) -> list[str]:
    """The tests, in this order, that are expected to end in time; at least one."""
    chosen: list[str] = []
    left = seconds
    for name in names:
        if not chosen or record.seconds(name) <= left:
            chosen.append(name)
            left -= record.seconds(name)
    return chosen
