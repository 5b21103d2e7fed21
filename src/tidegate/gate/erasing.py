"""How a Gate erases records."""

from abc import ABC, abstractmethod
from functools import partial
from typing import Any

from tidegate.checks import InvalidValueError
from tidegate.compute import Engine
from tidegate.gate.durable_run import DurableRun
from tidegate.gate.erasure import Erasure, OnePerson, Target, one_record
from tidegate.gate.person_ids import PersonIds
from tidegate.gate.store import Store


class Erasing(ABC):
    """The part of a Gate that erases records."""

    store: Store
    engine: Engine
    persons: PersonIds
    _run: DurableRun

    @abstractmethod
    def stream(self, stream: str | None) -> str:
        """The name of a stream, checked; None means the only stream."""

    def erase(
        self, *, record: int | None = None, stream: str | None = None, person: Any = None
    ) -> Erasure:
        """Destroy what the state holds of a record, or of all records of a person.

        The slots stay, as unusable ones, with what they have paid. Everything is covered that was
        durable before the call. A step that is being trained begins again without the records.
        Releases stay as they are. Erasing again what is erased already changes nothing.

        Args:
            record: The record, by its number in the stream, from 0.
            stream: "source" or "target" if there are two streams; only with `record`.
            person: The id of the person instead, as the records have it.
        """
        if (record is None) == (person is None):
            raise InvalidValueError("name a record or a person to erase: one of the two")
        if person is not None:
            if stream is not None:
                raise InvalidValueError("a person is erased from every stream: leave stream out")
            target: Target = OnePerson(self.persons.owner(person))
        else:
            name = self.stream(stream)
            target = one_record(name, record, self.store.count(name))
        end_fits = partial(self._run.end_outdated, self._end_fits)
        return self.store.erase(target, time=self._run.clock(), end_fits=end_fits)

    def _end_fits(self) -> None:
        """End what may hold erased records; a fit in this process is waited for."""
        self.engine.close()
