"""A configuration to start from, with words for those who see one for the first time."""

import json
import re
from collections.abc import Iterator, Mapping
from textwrap import wrap

from tidegate.features.feature_map import NamedMap, configurable
from tidegate.gate.config.keys import one_of
from tidegate.gate.config.sections import ALL, keys_of, sections
from tidegate.kinds import parameters
from tidegate.learn.learner import LEARNERS, NamedLearner
from tidegate.learn.loss import LOSSES
from tidegate.learn.loss.margins import NamedLoss
from tidegate.schedule import Schedule, TwoStream
from tidegate.schedule.registry import SCHEDULES, alone, sources

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
# Where records come from; leave this section out to hand them over from Python or over HTTP.
[source]
{SOURCE.format(path="records.csv")}
# delimiter = ";"
"""

TWO = f"""\
# Where records come from; leave both sections out to hand them over from Python.
[source.source]
{SOURCE.format(path="source.csv")}

[source.target]
{SOURCE.format(path="target.csv")}
"""

TEXT = """\
# What a Gate does with a stream of records. Everything except [source], [publish] and [compute] is
# fixed when the state is created: privacy is promised for these settings. Choose them by what you
# know beforehand, or by public data, and never by looking at the records.
# All keys: docs/reference/configuration.md.

# When models are made: {about}.
[schedule]
kind = "{kind}"
{sizes}

# What anyone can ever learn about any one record, from all models together, for ever.
[budget]
epsilon = 1.0
delta = 1e-6
{allocation}
# What a record is: columns of numbers, or one column of text in UTF-8. A record that does not fit
# is set aside in its slot and counted; nothing stops. Check `tidegate status` after the first run.
[records]
classes = [0, 1]
norm = 1.0
columns = ["a", "b"]
# text = "body"
label = "y"
dtype = "float32"

{maps}
[[features]]
map = "intercept"

{learners}
[learner]
kind = "auto"
loss = "auto"

# How good the models are, measured privately for a share of the budget, or on public records.
[quality]
# share = 0.05
# holdout = "public.csv"

{source}
# Models are written here as well, where no record ever is.
# [publish]
# folder = "releases"

# The state's database and records can be outside its folder, from its first run on.
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

MAPS = "What every record goes through before it is scaled, in the order of the tables"

LEARN = 'How models are learnt; "auto" chooses by the budget and the classes. Kinds'


def about() -> dict[str, str]:
    """What the models of each kind of schedule are, in a line."""
    known = {kind: each.about for kind, each in alone().items()}
    return {**known, TwoStream.kind: TwoStream.about}


def example(kind: str) -> str:
    """A configuration of a kind of schedule as TOML text, with comments.

    >>> from tidegate.gate.config.config import Config
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
        learners=_comment(f"{LEARN}: {_choices(LEARNERS)}. Losses: {_choices(LOSSES)}."),
        source=TWO if two else ONE,
    )
    return "\n".join(_explained(text, kind)) + "\n"


def _explained(text: str, kind: str) -> Iterator[str]:
    """The lines of a configuration, each key with its help."""
    helps: Mapping[str, str] = {}
    for line in text.splitlines():
        if section := re.fullmatch(r"(?:# )?\[+([a-z.]+)\]+", line):
            helps = _helps(section[1], kind)
        key = re.fullmatch(r"(?:# )?([a-z]+) = .*", line)
        yield f"{line:17} # {helps[key[1]]}" if key else line


def _helps(section: str, kind: str) -> dict[str, str]:
    """What the keys of a section are, where a kind has to be chosen that of the example."""
    name = section if section in sections() else section.partition(".")[0]
    chosen = {ALL, "csv", kind if name == "schedule" else _sources()[0]}
    tables = {each: table for each, table in sections()[name].items() if each in chosen}
    return {each.name: each.help for each in keys_of(tables)}


def _choices(kinds: Mapping[str, type[NamedMap | NamedLearner | NamedLoss]]) -> str:
    """Kinds of a thing, each with what it is."""
    *most, last = (f'"{kind}" ({each.about})' for kind, each in kinds.items())
    return f"{', '.join(most)} or {last}"


def _comment(text: str) -> str:
    return "\n".join(f"# {line}" for line in wrap(text, 98, break_on_hyphens=False))


def _sources() -> list[str]:
    """The kinds of schedules of a source stream, the one of the example first."""
    return sorted(sources(), key=lambda kind: not sources()[kind].alone)


def _target() -> str:
    """The parameters of two streams."""
    source, *others = _sources()
    names = ", ".join(f'"{kind}" ({sources()[kind].about})' for kind in others)
    return TARGET.format(
        target=_sizes(TwoStream),
        kind=source,
        sizes=_sizes(sources()[source]),
        others=_comment(f"Of the source stream; other kinds: {names}."),
    )


def _sizes(schedule: type[Schedule | TwoStream]) -> str:
    """A line for each parameter of a schedule that has an example."""
    return "\n".join(
        f"{each.name} = {json.dumps(each.example)}"
        for each in parameters(schedule)
        if each.example is not None
    )
