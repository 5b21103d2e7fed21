"""Who is protected: each record by itself, or persons, whose ids a secret key turns into owners.

The key is in the file `person.key` of the state folder, or in an environment variable. Without it
nobody can tell which person a keyed id belongs to, and the state cannot recognise a person again.
"""

import hashlib
import hmac
import os
import secrets
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from tidegate.checks import InvalidValueError, StoreError
from tidegate.data.owners import owned_by, owners_of
from tidegate.learn.slot_weights import EVERY_RECORD, Counted
from tidegate.privacy.budget import down, up
from tidegate.state.damage import Problem
from tidegate.whole_file import (
    LARGEST_NOTE,
    delete_unfinished,
    open_ordinary,
    sync_folder,
    write_whole,
)

if TYPE_CHECKING:
    from tidegate.data.records import Owners, Records
    from tidegate.privacy.admission import Admission
    from tidegate.run.config import Config
    from tidegate.run.config.tables import PersonTable
    from tidegate.schedule import Span
    from tidegate.sources import RawBatch
    from tidegate.state.opening import KeyMaker
    from tidegate.state.store import Store

FILE = "person.key"
BYTES = 32
PURPOSE = b"tidegate: the key of persons"


class ProtectedRecords:
    """Each record is protected by itself: it has no owner, and every one counts."""

    ledger = "the ledger"

    def __init__(self, store: "Store") -> None:
        self._store = store

    def check(self) -> None:
        """See `ProtectedPersons`: no key is needed."""

    def owned(
        self, records: "Records", raw: "RawBatch"
    ) -> tuple["Records", Mapping[int, str], NDArray[np.bool_]]:
        """See `ProtectedPersons`: what arrived in any slot may be kept."""
        return records, raw.reasons, np.ones(records.n, np.bool_)

    def owner(self, _: Any) -> NoReturn:
        """See `ProtectedPersons`: nobody is one."""
        raise InvalidValueError("the state has no [person]: records are protected, not persons")

    paid = owner

    def admit(self, *_: object) -> Counted:
        """See `ProtectedPersons`."""
        return EVERY_RECORD

    def problems(self) -> Iterator[Problem]:
        """See `ProtectedPersons`: nothing may be kept about persons."""
        return self._store.verify_no_persons()


class ProtectedPersons:
    """Persons are protected: each owns its records, and an admission decides in which steps."""

    ledger = "the ledger of persons"

    def __init__(self, store: "Store", admission: "Admission", person: "PersonTable") -> None:
        self._store, self._admission = store, admission
        self._place = _place(person, store.folder)

    @cached_property
    def key(self) -> bytes:
        """The key; refused if it is not the one that the state was created with."""
        key = self._place.read()
        if not hmac.compare_digest(check_value(key), self._store.person_key()):
            wrong = "is not the key that this state was created with"
            advice = "every person would count as new; restore the key"
            raise StoreError(f"{self._place} {wrong}: {advice}")
        return key

    def check(self) -> None:
        """Refuse a missing or wrong key, in one line."""
        _ = self.key

    def owned(
        self, records: "Records", raw: "RawBatch"
    ) -> tuple["Records", Mapping[int, str], NDArray[np.bool_]]:
        """The records of a batch with their owners, why slots cannot be used, and which have one.

        What arrived in a slot that belongs to nobody is not kept: it may hold the content and the
        id of a person, and an erasure of that person could not find it.
        """
        owners, reasons = owners_of(raw.persons, self.key)
        known = (owners != 0).any(axis=1)
        return owned_by(records, owners), {**reasons, **raw.reasons}, known

    def owner(self, person: Any) -> "Owners":
        """The owner of an id, of shape (1, 2)."""
        owners, reasons = owners_of([person], self.key)
        for reason in reasons.values():
            raise InvalidValueError(f"{reason}: give it as the records have it")
        return owners

    def paid(self, person: Any) -> dict[str, Any]:
        """What a person has paid, in which steps the person is admitted, and what is left.

        It is for operators who may see it: none of it is public. The answer has the same form for a
        person whom the state does not know. Amounts are in units of what one record may cost; steps
        are counted from 1, over all streams. With a period, only the steps that the next one shares
        a period with count.
        """
        admission, owner = self._admission, self.owner(person)
        with self._store.snapshot():
            ranges = self._store.person(owner)
            done = sum(1 for _ in self._store.steps())
        first = done - admission.period + 1 if admission.period else 0
        ranges = [(max(start, first), stop) for start, stop in ranges if stop > first]
        cost = admission.cost(ranges)
        return {
            "paid": up(cost) if cost else 0.0,
            "left": down(max(admission.contributions - cost, Fraction(0))),
            "contributions": admission.contributions,
            "period": admission.period,
            "steps": [{"first": start + 1, "last": stop} for start, stop in ranges],
        }

    def admit(self, stream: str, step: "Span") -> Counted:
        """Decide which slots of a complete step count, from owners alone."""
        return self._store.admit(stream, step, self._admission)

    def problems(self) -> Iterator[Problem]:
        """A key that is missing, readable for others, or not the state's; and the ledger's.

        Where the key is in the environment, whoever verifies need not have it.
        """
        try:
            if self._place.at_hand:
                self.check()
        except StoreError as error:
            yield Problem("the key of persons", str(error))
        yield from self._store.verify_persons(self._admission)


Protected = ProtectedRecords | ProtectedPersons
"""Who is protected. The rest of a gate does not ask which of the two it is."""


def protected_by(store: "Store", config: "Config") -> Protected:
    """Who is protected in a state with this configuration."""
    admission = config.settings.plan.admission
    if admission and config.person:
        return ProtectedPersons(store, admission, config.person)
    return ProtectedRecords(store)


def person_in_words(row: Mapping[str, Any]) -> str:
    """What `ProtectedPersons.paid` says, as a sentence."""
    spans = [(each["first"], each["last"]) for each in row["steps"]]
    ranges = [f"{first:,}-{last:,}" if first < last else f"{last:,}" for first, last in spans]
    steps = f"admitted in steps {', '.join(ranges)}" if ranges else "admitted in no step"
    within = f" within the newest period of {row['period']:,} steps" if row["period"] else ""
    return (
        f"This person is {steps}{within}, and has paid {row['paid']:.4g} of "
        f"{row['contributions']:,} contributions; {row['left']:.4g} are left."
    )


# --- the key


@dataclass(frozen=True)
class KeyFile:
    """The key in a file of the state folder."""

    folder: Path
    at_hand = True

    def __str__(self) -> str:
        return str(self.folder / FILE)

    def make(self) -> None:
        """Draw the key and write it; one that an interrupted creation has left there is used."""
        path = self.folder / FILE
        if not path.exists():
            delete_unfinished(self.folder, FILE)
            write_whole(path, f"{secrets.token_hex(BYTES)}\n".encode(), point="key", mode=0o600)
            sync_folder(self.folder)

    def read(self) -> bytes:
        """The key; a missing, readable or malformed one is refused in one line."""
        try:
            file = open_ordinary(self.folder / FILE, LARGEST_NOTE)
        except OSError as error:
            restore = "restore it from a copy, or no person can be recognised again"
            raise StoreError(f"{self}: {error.strerror}: {restore}") from None
        with file:
            if stat.S_IMODE(os.fstat(file.fileno()).st_mode) & 0o077:
                raise StoreError(f"{self} can be read or written by others: chmod 600 it")
            return _parsed(file.read(1024).decode("ascii", "replace"), str(self))


@dataclass(frozen=True)
class KeyVariable:
    """The key in an environment variable, which whoever verifies may not have."""

    name: str

    def __str__(self) -> str:
        return f"the environment variable {self.name}"

    @property
    def at_hand(self) -> bool:
        """Whether the key can be checked."""
        return self.name in os.environ

    def make(self) -> None:
        """See `KeyFile`: the operator has set it."""

    def read(self) -> bytes:
        """See `KeyFile`."""
        if not self.at_hand:
            advice = f"set it to the state's key, {2 * BYTES} hexadecimal digits"
            raise StoreError(f"{self} is not set: {advice}")
        return _parsed(os.environ[self.name], str(self))


def key_maker(config: "Config") -> "KeyMaker | None":
    """Makes the key of a new state; None if records are protected."""
    return partial(_new_key, config.person) if config.person else None


def _new_key(person: "PersonTable", folder: Path) -> str:
    place = _place(person, folder)
    place.make()
    return check_value(place.read())


def _place(person: "PersonTable", folder: Path) -> KeyFile | KeyVariable:
    return KeyVariable(person.key) if person.key else KeyFile(folder)


def _parsed(text: str, where: str) -> bytes:
    try:
        key = bytes.fromhex(text)
    except ValueError:
        key = b""
    if len(key) != BYTES:
        allowed = f"must hold {2 * BYTES} hexadecimal digits and nothing else"
        raise StoreError(f"{where} {allowed}: restore the state's key")
    return key


def check_value(key: bytes) -> str:
    """What a state keeps of its key, to recognise it: nothing can be computed back from it.

    >>> len(check_value(bytes(32)))
    64
    """
    return hmac.new(key, PURPOSE, hashlib.sha256).hexdigest()
