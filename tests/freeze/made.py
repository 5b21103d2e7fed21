"""What a configuration of the freeze is, and what it makes."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

from tests.freeze.inside import StoredRelease, SystemBits
from tidegate import Plan, TwoStreamPlan
from tidegate.privacy import Ledger

TIME = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
"""The time of every release of a Gate here."""

PERSON_KEY = "TIDEGATE_FREEZE_PERSON_KEY"
"""The environment variable with the key of ids: without it, each state would draw its own."""

SEED = 7
"""Of the noise, and of the bits that a state without a seed draws here."""


@dataclass(frozen=True, kw_only=True)
class Made:
    """What a configuration made.

    Attributes:
        releases: All releases, oldest first.
        ledgers: What the records of each stream have paid.
        counts: How many records of each stream there are.
        plan: The plan.
        until: For how many records the plan is printed; of the source, if there are two streams.
        questions: Records to predict, in the form that exports take; None if nothing is predicted.
        more: Other parts that are frozen, as text.
    """

    releases: list[StoredRelease]
    ledgers: Mapping[str, Ledger]
    counts: Mapping[str, int]
    plan: Plan | TwoStreamPlan
    until: int
    questions: Any = None
    more: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Configuration:
    """One configuration of the freeze.

    Attributes:
        name: Its area and its name.
        make: Runs it in an empty folder.
        spelled: The settings that it leaves to a default; there must be none.
        sampled: Whether `make test` runs it.
        postgres: Whether it needs a server.
    """

    name: str
    make: Callable[[Path], Made]
    spelled: Callable[[], list[str]] = list
    sampled: bool = False
    postgres: bool = False


@contextmanager
def fixed_bits() -> Iterator[None]:
    """Fix what is drawn: the key of persons, and the noise of states that have no seed.

    Each fit, survey and score of such a state takes its bits from an object of its own. All of them
    begin alike here, so that the order in which they draw does not matter.
    """

    def words(self: SystemBits, count: int) -> Any:
        return vars(self).setdefault("fixed", np.random.Philox(SEED)).random_raw(count)

    with (
        patch.dict("os.environ", {PERSON_KEY: "5e" * 32}),
        patch.object(SystemBits, "words", words),
    ):
        yield
