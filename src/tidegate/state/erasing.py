"""How a Gate erases records."""

import threading
from abc import ABC, abstractmethod
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from tidegate.checks import InvalidValueError, StoreError
from tidegate.state.erasure import Erasure, OnePerson, Target, one_record

if TYPE_CHECKING:
    from tidegate.run.engine import Engine
    from tidegate.state.durable_run import DurableRun, StateSteps
    from tidegate.state.protected import Protected
    from tidegate.state.store import Store


@dataclass(frozen=True, eq=False)
class ErasureRequest:
    """An erasure that was asked for, and the future of its answer."""

    target: Target
    answer: "Future[Erasure]" = field(default_factory=Future)


class ErasureRequests:
    """The erasures that were asked for and not carried out yet; any thread may add one."""

    def __init__(self) -> None:
        self._changing = threading.Lock()
        self._waiting: list[ErasureRequest] = []

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, target: Target) -> "Future[Erasure]":
        """Ask for an erasure."""
        request = ErasureRequest(target)
        with self._changing:
            self._waiting.append(request)
        return request.answer

    def take(self) -> list[ErasureRequest]:
        """Remove and return all requests, except those that were cancelled."""
        with self._changing:
            taken, self._waiting = self._waiting, []
        return [each for each in taken if each.answer.set_running_or_notify_cancel()]


class Erasing(ABC):
    """The part of a Gate that erases records."""

    store: "Store"
    engine: "Engine"
    persons: "Protected"
    erasure_requests: ErasureRequests
    _run: "DurableRun"
    _steps: "StateSteps"

    @abstractmethod
    def stream(self, stream: str | None) -> str:
        """The name of a stream, checked; None means the only stream."""

    def erase(
        self, *, record: int | None = None, stream: str | None = None, person: Any = None
    ) -> Erasure:
        """Destroy what the state holds of a record, or of all records of a person.

        The slots stay, as unusable ones, with what they have paid. Everything is covered that was
        durable before the call. A step that is being trained begins again without the records; if
        erasures have made it begin again twice already, this waits until the step is done.
        Releases stay as they are. Erasing again what is erased already changes nothing.

        Args:
            record: The record, by its number in the stream, from 0.
            stream: "source" or "target" if there are two streams; only with `record`.
            person: The id of the person instead, as the records have it.
        """
        answer = self.ask_to_erase(record=record, stream=stream, person=person)
        try:
            self.erase_waiting()
            return answer.result()
        finally:
            answer.cancel()  # if this thread was interrupted while it waited

    def ask_to_erase(
        self, *, record: int | None = None, stream: str | None = None, person: Any = None
    ) -> "Future[Erasure]":
        """Ask for an erasure, which the next `erase_waiting` carries out. See `erase`."""
        if (record is None) == (person is None):
            raise InvalidValueError("name a record or a person to erase: one of the two")
        if person is not None:
            if stream is not None:
                raise InvalidValueError("a person is erased from every stream: leave stream out")
            return self.erasure_requests.add(OnePerson(self.persons.owner(person)))
        name = self.stream(stream)
        return self.erasure_requests.add(one_record(name, record, self.store.count(name)))

    def erase_waiting(self) -> None:
        """Carry out all erasures that were asked for, in one transaction, when it is their turn."""
        if not self.erasure_requests:  # another thread has carried them out
            return
        with self._run.attempts.erasing():
            self._answer(self.erasure_requests.take())

    def _answer(self, requests: Sequence[ErasureRequest]) -> None:
        """Carry out requests together, or if that fails each by itself."""
        if not requests:  # they were carried out meanwhile
            return
        end_fits = partial(self._run.attempts.end_outdated, self.end_fits)
        targets = [each.target for each in requests]
        try:
            lines = self.store.erase(targets, time=self._steps.clock(), end_fits=end_fits)
        except BaseException as error:
            if isinstance(error, StoreError) and len(requests) > 1:  # a damaged file stops only one
                for each in requests:
                    self._answer([each])
                return
            for each in requests:
                each.answer.set_exception(error)
            if not isinstance(error, Exception):
                raise
        else:
            for each, line in zip(requests, lines, strict=True):
                each.answer.set_result(line)

    def end_fits(self) -> None:
        """End what may hold erased records; a fit in this process is waited for."""
        self.engine.close()
