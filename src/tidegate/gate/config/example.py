"""A configuration to start from, with words for those who see one for the first time."""

import json
from collections.abc import Mapping
from textwrap import wrap

from tidegate.features.feature_map import NamedMap, configurable
from tidegate.gate.config.keys import one_of
from tidegate.kinds import parameters
from tidegate.learn.learner import LEARNERS, NamedLearner
from tidegate.learn.loss import LOSSES
from tidegate.learn.loss.margins import NamedLoss
from tidegate.schedule import Schedule, TwoStream
from tidegate.schedule.registry import SCHEDULES, alone, sources

TARGET = """\
step = 256        # records of the target between two models

{others}
[schedule.source]
kind = "{kind}"
{sizes}"""

ONE = """\
[source]          # leave this section out to hand records over from Python
type = "csv"      # or "parquet", or "jsonl": JSON lines; of a broker: see docs/sources.md
path = "records.csv"  # a file or folder, seen from where you run; "-" with jsonl: standard input
follow = false    # true waits for new files in a folder, or new lines in a file
# delimiter = ";" # of csv, if it is not a comma"""

TWO = """\
# Where records come from; both sections together may be left out to hand them over from Python.
[source.source]
type = "csv"      # or "parquet", or "jsonl": JSON lines
path = "source.csv"  # a file or folder, seen from where you run; "-" with jsonl: standard input
follow = false    # true waits for new files in a folder, or new lines in a file

[source.target]
type = "csv"
path = "target.csv"
follow = false"""

TEXT = """\
# What a Gate does with a stream of records. All but [source], [publish] and [compute] is fixed when
# its state is created: privacy is promised for these settings. Choose them by what you know
# beforehand, or by public data, and never by looking at the records.

# When models are made: {about}.
[schedule]
kind = "{kind}"
{sizes}

# What anyone can ever learn about any one record, from all models together, for ever. Smaller is
# more private and noisier: 1 is a strong promise, 10 is a weak one.
[budget]
epsilon = 1.0
delta = 1e-6      # far below 1 / records, see docs/guarantee.md; without it: stricter, more noise
{allocation}
# What a record is: columns of numbers, or one column of text in UTF-8. One that does not fit is set
# aside in its slot and counted, and nothing stops: look at `tidegate status` after the first run.
[records]
classes = [0, 1]  # all labels there can be: whole numbers, or texts such as ["no", "yes"]
norm = 1.0        # records longer than this (root of the sum of squares) are scaled down to it
columns = ["a", "b"]  # near 0 and of like size; or text = "body", with map = "text" below
label = "y"       # the column of labels
dtype = "float32"

{maps}
[[features]]
map = "intercept"

{learners}
[learner]
kind = "auto"
loss = "auto"

# How good the models are. A `share` of the budget buys a private accuracy at each step; a
# `holdout` file of public records costs nothing; it must hold no record of a source.
[quality]
# share = 0.05
# holdout = "public.csv"

{source}

# Models are written here as well, where no record ever is.
# [publish]
# folder = "releases"

# The state's database and records may lie elsewhere than in its folder, from its first run on.
# [store]
# database = "postgresql://tidegate@host/ledgers"  # the password: in PGPASSWORD or ~/.pgpass
# segments = "s3://bucket/records"  # or an absolute path; credentials: in the environment

# Where models are computed: in "memory", from "disk" where the records of one do not fit, or on a
# "dask" cluster: so many `workers` here, or those of a `scheduler` by its address.
# [compute]
# engine = "memory"
"""

ALLOCATION = """
# How the budget is split: "paper" evenly, "tapered" so that models of more records are better.
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
    return TEXT.format(
        about=about()[kind],
        kind=kind,
        sizes=_target() if two else _sizes(SCHEDULES[kind]),
        allocation=ALLOCATION if two or SCHEDULES[kind].allocated else "",
        maps=_comment(f"{MAPS}: {_choices(configurable())}."),
        learners=_comment(f"{LEARN}: {_choices(LEARNERS)}. Losses: {_choices(LOSSES)}."),
        source=TWO if two else ONE,
    )


def _choices(kinds: Mapping[str, type[NamedMap | NamedLearner | NamedLoss]]) -> str:
    """Kinds of a thing, each with what it is."""
    *most, last = (f'"{kind}" ({each.about})' for kind, each in kinds.items())
    return f"{', '.join(most)} or {last}"


def _comment(text: str) -> str:
    return "\n".join(f"# {line}" for line in wrap(text, 98, break_on_hyphens=False))


def _target() -> str:
    """The parameters of two streams."""
    source, *others = sorted(sources(), key=lambda kind: not sources()[kind].alone)
    names = ", ".join(f'"{kind}" ({sources()[kind].about})' for kind in others)
    return TARGET.format(
        kind=source,
        sizes=_sizes(sources()[source]),
        others=_comment(f"Of the source stream; other kinds: {names}."),
    )


def _sizes(schedule: type[Schedule]) -> str:
    """A line for each parameter of a schedule that has an example."""
    return "\n".join(
        f"{each.name} = {json.dumps(each.example)}".ljust(17) + f" # {each.help}"
        for each in parameters(schedule)
        if each.example is not None
    )
