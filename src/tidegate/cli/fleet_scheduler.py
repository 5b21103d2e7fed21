"""Members of a fleet take turns on a few processes: a turn is a run that stops after a while."""

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from typing import Any

from threadpoolctl import threadpool_limits

from tidegate.checks import InvalidValueError, StoreError
from tidegate.gate.child_process import end_with_parent
from tidegate.gate.fleet import Fleet, Member, MemberStatus
from tidegate.gate.gate import Gate
from tidegate.gate.lock import Lock
from tidegate.gate.segment_folder import make_folder
from tidegate.gate.source_loop import PAUSE
from tidegate.gate.sources import once

SLICE = 5.0
"""Seconds after which a member that has more to do lets another have its process."""

RETRY = 60.0
"""Seconds after which a member that has failed is tried again, by a run that goes on."""

processes = get_context("forkserver")  # a turn then starts in no time, and copies no threads
processes.set_forkserver_preload([__name__])


@dataclass(frozen=True, kw_only=True)
class Turn:
    """How a turn of a member has ended.

    Attributes:
        more: Whether it has more to do at once.
        why: Why it has failed, None if it has not.
        records: How many records there are.
        releases: How many releases there are.
    """

    more: bool = False
    why: str | None = None
    records: int = 0
    releases: int = 0


Told = Callable[[Member, MemberStatus, Turn], object]
"""Told of every turn that has ended, and what became of its member."""


def run_fleet(fleet: Fleet, *, workers: int, follow: bool, told: Told) -> dict[str, MemberStatus]:
    """Run all members, as many at a time as there are workers, and say what became of each.

    With `follow` all of them go on as their sources grow.
    """
    make_folder(fleet.root, 0o700)
    lock = Lock(fleet.root)
    try:
        return _Scheduler(fleet, workers, follow, told).run()
    finally:
        lock.close()


class _Scheduler:
    """Whose turn it is: first come, first served."""

    def __init__(self, fleet: Fleet, workers: int, follow: bool, told: Told) -> None:
        self._fleet, self._workers, self._follow, self._told = fleet, workers, follow, told
        self._queue = [(0.0, member) for member in fleet.members]  # not before, who
        self._running: dict[Connection, tuple[Member, Any]] = {}
        self._threads = max(1, (os.cpu_count() or 1) // workers)
        self._statuses = {member.name: MemberStatus(state="running") for member in fleet.members}

    def run(self) -> dict[str, MemberStatus]:
        try:
            self._fleet.write(self._statuses)
            while self._queue or self._running:
                self._start()
                ended = wait(list(self._running), self._pause())
                for pipe in [each for each in self._running if each in ended]:
                    self._end(pipe)
        finally:
            for _, process in self._running.values():
                process.kill()  # what it was at is made anew, from what is durable
                process.join()
        return self._statuses

    def _start(self) -> None:
        due = [each for each in self._queue if each[0] <= time.monotonic()]
        for turn in due[: self._workers - len(self._running)]:
            self._queue.remove(turn)
            ours, theirs = processes.Pipe()
            work = (turn[1], self._follow, SLICE, self._threads, theirs)
            process = processes.Process(target=_take_turn, args=work)
            process.start()
            theirs.close()
            self._running[ours] = turn[1], process

    def _pause(self) -> float | None:
        """How long nothing can happen but the end of a turn."""
        if not self._queue or len(self._running) == self._workers:
            return None
        return max(0.0, min(due for due, _ in self._queue) - time.monotonic())

    def _end(self, pipe: Connection) -> None:
        member, process = self._running.pop(pipe)
        try:
            turn: Turn = pipe.recv()
            process.join()
        except (EOFError, OSError):
            process.join()
            turn = Turn(why=f"its process was ended (code {process.exitcode}): run again to go on")
        pipe.close()
        status = self._status(member, turn)
        if status.state != "finished" and (status.state != "failed" or self._follows(member)):
            # To look at those that wait must leave most of the time to those that do not.
            pause = PAUSE * len(self._fleet.members) / self._workers
            later = {"failed": RETRY, "waiting": pause}.get(status.state, 0.0)
            self._queue.append((time.monotonic() + later, member))
        if status != self._statuses[member.name]:
            self._statuses[member.name] = status
            self._fleet.write(self._statuses)
        self._told(member, status, turn)

    def _status(self, member: Member, turn: Turn) -> MemberStatus:
        if turn.why is not None:
            return MemberStatus(state="failed", why=turn.why)
        if turn.more:
            return MemberStatus(state="running")
        return MemberStatus(state="waiting" if self._follows(member) else "finished")

    def _follows(self, member: Member) -> bool:
        return self._follow or member.config.follows


def _take_turn(
    member: Member, follow: bool, seconds: float, threads: int, pipe: Connection
) -> None:
    """Take a turn in this process, which ends with its parent and is not interrupted before."""
    end_with_parent()
    try:
        with threadpool_limits(threads):
            pipe.send(_turn(member, follow, seconds))
    except (InvalidValueError, StoreError) as error:
        pipe.send(Turn(why="; ".join(str(error).splitlines())))
    except OSError as error:
        pipe.send(Turn(why=f"{error.strerror or error}: {error.filename or member.folder}"))
    except Exception as error:  # the others go on
        pipe.send(Turn(why=f"this is a bug in tidegate ({type(error).__name__})"))


def _turn(member: Member, follow: bool, seconds: float) -> Turn:
    sources, until = member.config.sources(follow=follow, pause=None), time.monotonic() + seconds
    asked, more = 0, False

    def enough() -> bool:
        nonlocal asked, more
        asked += 1
        more = asked > 1 and time.monotonic() > until  # every turn gets on, however short
        return more

    with Gate.open(member.folder, member.config, sources=sources) as gate:
        for _ in gate.run(follow=follow, again=once, stop=enough):
            pass
        newest = gate.store.newest()
        return Turn(
            more=more,
            records=sum(map(gate.store.count, gate.streams)),
            releases=0 if newest is None else newest.number + 1,
        )
