"""Turn the ids of persons into owners, under the key of the state."""

import os
from collections.abc import Mapping
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tidegate.checks import InvalidValueError
from tidegate.data.owners import owned_by, owners_of
from tidegate.data.records import Owners, Records
from tidegate.run.config import Config
from tidegate.sources import RawBatch
from tidegate.state.opening import KeyMaker
from tidegate.state.person_key import checked_key, new_key
from tidegate.state.store import Store


class PersonIds:
    """The ids of a gate's persons; without [person] it does nothing."""

    def __init__(self, store: Store, config: Config) -> None:
        self._store, self._table = store, config.person

    @cached_property
    def key(self) -> bytes:
        """The key; refused if it is not the one that the state was created with."""
        variable = None if self._table is None else self._table.key
        return checked_key(self._store.folder, variable, self._store.person_key() or "")

    @property
    def at_hand(self) -> bool:
        """Whether the key can be checked: False if it is in a variable that is not set."""
        table = self._table
        return table is not None and (table.key is None or table.key in os.environ)

    def check(self) -> None:
        """Refuse a missing or wrong key, in one line."""
        if self._table is not None:
            _ = self.key

    def owned(self, records: Records, raw: RawBatch) -> tuple[Records, Mapping[int, str]]:
        """The records of a batch with their owners, and why slots cannot be used."""
        if self._table is None:
            return records, raw.reasons
        owners, reasons = owners_of(raw.persons, self.key)
        return owned_by(records, owners), {**reasons, **raw.reasons}

    def owner(self, person: Any) -> Owners:
        """The owner of an id, of shape (1, 2)."""
        if self._table is None:
            raise InvalidValueError("the state has no [person]: records are protected, not persons")
        owners, reasons = owners_of([person], self.key)
        for reason in reasons.values():
            raise InvalidValueError(f"{reason}: give it as the records have it")
        return owners


def has_owners(records: Records) -> NDArray[np.bool_]:
    """Which slots have an owner; all, if records are protected.

    What arrived in a slot that belongs to nobody is not kept: it may hold the content and the id of
    a person, and an erasure of that person could not find it.
    """
    if records.owners is None:
        return np.ones(records.n, np.bool_)
    known: NDArray[np.bool_] = np.asarray(records.owners.any(axis=1))
    return known


def key_maker(config: Config) -> KeyMaker | None:
    """Makes the key of a new state; None if records are protected."""
    return None if config.person is None else partial(new_key, config.person.key)
