"""Commented configurations to start from, as `tidegate init` writes them."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from textwrap import wrap
from typing import Any

from tidegate.checks import one_of
from tidegate.data.columns import KINDS
from tidegate.data.feature_map import NamedMap, configurable
from tidegate.kinds import parameters
from tidegate.learn.learner import LEARNERS, NamedLearner
from tidegate.learn.loss import LOSSES, TARGET_LOSSES
from tidegate.learn.loss.classification import NamedLoss
from tidegate.learn.loss.regression import NamedTargetLoss
from tidegate.run.config.sections import ALL, keys_of, sections
from tidegate.run.config.texts import PLACEHOLDER
from tidegate.schedule import Schedule, TwoStream
from tidegate.schedule.protocol import SCHEDULES, alone, sources
from tidegate.sources.configured import ConfiguredSource, source_kinds

TARGET = """\
{target}

{others}
[schedule.source]
kind = "{kind}"
{sizes}"""

SOURCE = """\
type = "csv"
path = "{path}"
follow = false"""

ONE = f"""\
{{types}}
[source]
{SOURCE.format(path="records.csv")}
# delimiter = ";"
"""

TWO = f"""\
{{types}}
[source.source]
{SOURCE.format(path="source.csv")}

[source.target]
{SOURCE.format(path="target.csv")}
"""

TEXT = """\
# The configuration of a gate. Settings that affect privacy are fixed when the state is created:
# all except [source], [publish] and [compute]. Choose them from prior knowledge or public data,
# never by looking at the records.
# All keys: docs/reference/configuration.md.

# The schedule: {about}.
[schedule]
kind = "{kind}"
{sizes}

# The limit on what all models together reveal about any one record, for ever.
[budget]
epsilon = 1.0
delta = 1e-6
{allocation}
# What a record is: columns of numbers, or one column of text in UTF-8. A record that does not fit
# goes to quarantine and the run continues. Check `tidegate status` after the first run.
[records]
classes = [0, 1]
# target = [0, 120]
# A generous bound will do: the survey below finds the centre and the scale of each column.
norm = 10.0
columns = ["a", "b"]
# text = "body"
label = "y"
dtype = "float32"

# If people have several records each: protect persons, not records. Then the budget above is about
# any one person. Choose k as docs/people.md says.
# [person]
# id = "patient"
# contributions = 4
# typical = 1
# period = 365
# key = "PERSON_KEY"

{maps}
# With a survey, an intercept is added anyway.
# [[features]]
# map = "intercept"

{learners}
[learner]
kind = "auto"
loss = "auto"

# What records look like: noisy means, spreads and class shares of each step, by which columns are
# centred and scaled.
[survey]
share = 0.05

# How good models are: measured privately on the step after each, or on public records.
[quality]
share = 0.05
# holdout = "public.csv"

{source}
# A folder for copies of the releases. No record is ever written there.
# [publish]
# folder = "releases"

# Keep the state's database and records outside its folder. Set this before the first run.
# [store]
# database = "postgresql://tidegate@host/ledgers"
# segments = "s3://bucket/records"

# Where models are computed.
# [compute]
# engine = "memory"
"""

ALLOCATION = """
# How the budget is split.
[allocation]
name = "paper"
"""

MAPS = "Maps applied to every record before it is scaled, in this order"

RECORDS = "Where records come from; leave this out to send them from Python or over HTTP. Types"

LEARN = 'How models are trained; "auto" chooses by the budget and the classes. Kinds'


def about() -> dict[str, str]:
    """One line about each kind of schedule."""
    single = {kind: each.about for kind, each in alone().items()}
    return {**single, TwoStream.kind: TwoStream.about}


def example(kind: str) -> str:
    """A commented configuration for one kind of schedule, as TOML text.

    >>> from tidegate.run.config.config import Config
    >>> Config.parse(example("continual")).plan().schedule
    Continual(block=8192, step=1024, sample=None)
    """
    one_of(*about())("kind", kind)
    two = kind == TwoStream.kind
    text = TEXT.format(
        about=about()[kind],
        kind=kind,
        sizes=_target() if two else _sizes(SCHEDULES[kind]),
        allocation=ALLOCATION if two or SCHEDULES[kind].allocated else "",
        maps=_comment(f"{MAPS}: {_choices(configurable())}."),
        learners=_comment(
            f"{LEARN}: {_choices(LEARNERS)}. Losses: {_choices(LOSSES)}; for a target "
            f"{_choices(TARGET_LOSSES)}."
        ),
        source=(TWO if two else ONE).format(
            types=_comment(f"{RECORDS}: {_choices(source_kinds())}.")
        ),
    )
    return "\n".join(_explained(text, kind)) + "\n"


def _explained(text: str, kind: str) -> Iterator[str]:
    """The lines of a configuration, with a comment after each key."""
    helps: Mapping[str, str] = {}
    for line in text.splitlines():
        if section := re.fullmatch(r"(?:# )?\[+([a-z.]+)\]+", line):
            helps = _helps(section[1], kind)
        key = re.fullmatch(r"(?:# )?([a-z]+) = .*", line)
        yield f"{line:17} # {helps[key[1]]}" if key else line


def _helps(section: str, kind: str) -> dict[str, str]:
    """The help text of each key of a section, for the kinds that the example uses."""
    name = section if section in sections() else section.partition(".")[0]
    chosen = {ALL, "csv", kind if name == "schedule" else _sources()[0]}
    tables = {each: table for each, table in sections()[name].items() if each in chosen}
    return {each.name: each.help for each in keys_of(tables)}


def _choices(
    kinds: Mapping[
        str, type[NamedMap | NamedLearner | NamedLoss | NamedTargetLoss | ConfiguredSource]
    ],
) -> str:
    """All kinds, each with its description."""
    *most, last = (f'"{kind}" ({each.about})' for kind, each in kinds.items())
    return f"{', '.join(most)} or {last}"


def _comment(text: str) -> str:
    return "\n".join(f"# {line}" for line in wrap(text, 98, break_on_hyphens=False))


def _sources() -> list[str]:
    """The kinds of schedules for a source stream, the example's kind first."""
    return sorted(sources(), key=lambda kind: not sources()[kind].alone)


def _target() -> str:
    """The [schedule] keys of a two-stream configuration."""
    source, *others = _sources()
    names = ", ".join(f'"{kind}" ({sources()[kind].about})' for kind in others)
    return TARGET.format(
        target=_sizes(TwoStream),
        kind=source,
        sizes=_sizes(sources()[source]),
        others=_comment(f"The schedule of the source stream. Other kinds: {names}."),
    )


def _sizes(schedule: type[Schedule | TwoStream]) -> str:
    """A line for each parameter of a schedule that has an example."""
    return "\n".join(
        f"{each.name} = {json.dumps(each.example)}"
        for each in parameters(schedule)
        if each.example is not None
    )


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

OF_COLUMNS = """\
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
    before = before[: before.rindex("# What a record is")] + OF_COLUMNS
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
    match value:
        case bool():
            return "true" if value else "false"
        case int() | float():
            return repr(value)
        case list() | tuple():
            return f"[{', '.join(map(in_toml, value))}]"
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
