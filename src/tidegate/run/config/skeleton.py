"""A configuration to start from for the columns of a file, as `tidegate init --from` writes it."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tidegate.data.columns import KINDS
from tidegate.run.config.example import example
from tidegate.run.config.texts import PLACEHOLDER

BY_NAME = """\
# The columns of {file},
# by {what} alone: no record was read. Say what each column is: replace every "?".
# Until then every command refuses this file. Remove columns that say the outcome, are known only
# after it, or identify records.
"""

BY_RECORDS = """\
# The columns of {file},
# with kinds, ranges and values that its first {records:,} records suggest, because --public says
# that they are public. Remove columns that say the outcome or are known only after it. Commented
# out: columns that never vary, and those that seem to identify records. "no gaps": if no record
# will ever lack a value, add gaps = false to the column. "no others": if there are no other values,
# add others = false. Each leaves out a feature; without a delta, that means less noise in all of
# them. A record that has a gap or another value all the same is then unusable.
"""

RECORDS = """\
# What a record is: the columns at the top, and a label. A record that does not fit goes to
# quarantine and the run continues. Check `tidegate status` after the first run.
"""

KINDS_OF_COLUMNS = """\
# Kinds: {kinds}.
columns = [
{lines}
]

"""


@dataclass(frozen=True, kw_only=True)
class Proposed:
    """What a column may be.

    Attributes:
        name: Its name.
        kind: Its kind; a placeholder if it is not known.
        keys: The keys of that kind.
        active: Whether the configuration uses it before it is edited.
        note: What its public records show, as a comment.
    """

    name: str
    kind: str = PLACEHOLDER
    keys: Mapping[str, Any] = field(default_factory=dict)
    active: bool = False
    note: str = ""

    @property
    def line(self) -> str:
        """The column as a line of a list of inline tables."""
        given = {"name": self.name, "kind": self.kind, **self.keys}
        pairs = ", ".join(f"{key} = {in_toml(value)}" for key, value in given.items())
        note = f"  # {self.note}" if self.note else ""
        return f"    {'' if self.active else '# '}{{{pairs}}},{note}"


@dataclass(frozen=True, kw_only=True)
class Source:
    """The file that a configuration is made for.

    Attributes:
        path: The file.
        type: The type of its source.
        keys: Other keys of [source].
        columns: What its columns may be, without the label.
        label: The column to predict, if it is known.
        outcome: The lines of [records] that say what the label is, if that is known.
        records: How many records were read; 0 if none.
        typed: Whether the types of columns were read, too.
    """

    path: str
    type: str
    columns: Sequence[Proposed]
    keys: Mapping[str, Any] = field(default_factory=dict)
    label: str | None = None
    outcome: Sequence[str] = ()
    records: int = 0
    typed: bool = False


def skeleton(kind: str, source: Source) -> str:
    """A commented configuration for a kind of schedule and the columns of a file, as TOML text."""
    text = example(kind)
    before, section, after = text.partition("[records]\n")
    before = before[: before.rindex("# What a record is")] + RECORDS
    old, blank, rest = after.partition("\n\n")
    kept = [line for line in old.splitlines() if line.startswith(("dtype", "# dtype"))]
    classes = source.outcome or [
        f'classes = "{PLACEHOLDER}"  # the list of all possible labels, such as ["no", "yes"]'
    ]
    label = source.label or "y"
    lines = [*classes, f"label = {in_toml(label)}  # the column of labels", *kept]
    if not source.outcome:
        lines[2:2] = [
            "# cuts = [15]  # if the label is a number: up to 15 the first class, above the second",
            "# target = [0, 100]  # or predict the number itself, in this range: remove classes",
        ]
    rest = _with_path(rest, source)
    columns = _columns(source)
    return f"{columns}{before}{section}" + "\n".join(lines) + blank + rest


def _columns(source: Source) -> str:
    head = BY_RECORDS if source.records else BY_NAME
    what = "their names and types" if source.typed else "their names"
    about = ", ".join(f'"{kind}" ({each.about})' for kind, each in KINDS.items())
    file = "".join(each if each.isprintable() else "?" for each in source.path)
    return head.format(file=file, what=what, records=source.records) + (
        KINDS_OF_COLUMNS.format(
            kinds=_wrapped(about), lines="\n".join(each.line for each in source.columns)
        )
    )


def _wrapped(text: str) -> str:
    """A text as the rest of a comment of several lines."""
    lines, line = [], ""
    for word in text.split():
        if len(line) + len(word) > 88:
            lines.append(line)
            line = ""
        line = f"{line} {word}".strip()
    return "\n# ".join([*lines, line])


def _with_path(rest: str, source: Source) -> str:
    lines = []
    for line in rest.splitlines():
        if line.startswith("type = "):
            lines.append(f"type = {in_toml(source.type)}")
        elif line.startswith("path = "):
            lines.append(f"path = {in_toml(source.path)}")
        elif line.startswith("# delimiter"):
            lines += [f"{name} = {in_toml(value)}" for name, value in source.keys.items()]
        else:
            lines.append(line)
    return "\n".join(lines) + "\n"


def in_toml(value: Any) -> str:
    """A text, number, flag or list as TOML.

    >>> print(in_toml(["a", "b"]), in_toml(0.5), in_toml(True))
    ["a", "b"] 0.5 true
    """
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(in_toml, value))}]"
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
