"""Runs the members of a fleet in turns, on a few processes; a turn is a run of limited time."""

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from typing import Any

from threadpoolctl import threadpool_limits

from tidegate.checks import InvalidValueError, StoreError
from tidegate.cli.fleet_members import Fleet, Member, MemberStatus
from tidegate.cli.memory import explain_os_error
from tidegate.gate import Gate
from tidegate.serve.child_process import end_with_parent
from tidegate.sources import once
from tidegate.state.lock import Lock
from tidegate.state.source_loop import PAUSE
from tidegate.whole_file import make_folder

SLICE = 5.0
"""Seconds after which a member with more to do gives its process to another."""

RETRY = 60.0
"""Seconds before a failed member that follows its sources is retried."""

processes = get_context("forkserver")  # starts a turn fast, and copies no threads
processes.set_forkserver_preload([__name__])


@dataclass(frozen=True, kw_only=True)
class Turn:
    """The result of one turn of a member.

    Attributes:
        more: Whether there is more to do right away.
        why: Why it failed; None if it did not.
        records: How many records the member has.
        releases: How many releases the member has.
    """

    more: bool = False
    why: str | None = None
    records: int = 0
    releases: int = 0


OnTurn = Callable[[Member, MemberStatus, Turn], object]
"""Called after each turn, with the member, its status and the result of the turn."""


def run_fleet(
    fleet: Fleet, *, workers: int, follow: bool, on_turn: OnTurn
) -> dict[str, MemberStatus]:
    """Run all members, up to `workers` at a time, and return the status of each.

    With `follow`, all of them keep running as their sources grow.
    """
    make_folder(fleet.root, 0o700)
    lock = Lock(fleet.root)
    try:
        return _Scheduler(fleet, workers, follow, on_turn).run()
    finally:
        lock.close()


class _Scheduler:
    """Hands out turns: first come, first served."""

    def __init__(self, fleet: Fleet, workers: int, follow: bool, on_turn: OnTurn) -> None:
        self._fleet, self._workers, self._follow, self._on_turn = fleet, workers, follow, on_turn
        self._queue = [(0.0, member) for member in fleet.members]  # earliest start, member
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
                process.kill()  # the next run repeats the turn from the durable state
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
        """Seconds until another turn can start; None if that takes the end of a turn."""
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
            died = f"its process died (exit code {process.exitcode})"
            turn = Turn(why=f"{died}; run the command again to continue")
        pipe.close()
        status = self._status(member, turn)
        if status.state != "finished" and (status.state != "failed" or self._follows(member)):
            # Polling waiting members must leave most of the time to the others.
            pause = PAUSE * len(self._fleet.members) / self._workers
            later = {"failed": RETRY, "waiting": pause}.get(status.state, 0.0)
            self._queue.append((time.monotonic() + later, member))
        if status != self._statuses[member.name]:
            self._statuses[member.name] = status
            self._fleet.write(self._statuses)
        self._on_turn(member, status, turn)

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
    """Take a turn in this process, which ignores Ctrl-C and ends with its parent."""
    end_with_parent()
    try:
        with threadpool_limits(threads):
            pipe.send(_turn(member, follow, seconds))
    except (InvalidValueError, StoreError) as error:
        pipe.send(Turn(why="; ".join(str(error).splitlines())))
    except OSError as error:
        pipe.send(Turn(why=explain_os_error(error, str(member.folder))))
    except Exception as error:  # the other members continue
        pipe.send(Turn(why=f"this is a bug in tidegate ({type(error).__name__}); please report it"))


def _turn(member: Member, follow: bool, seconds: float) -> Turn:
    sources, until = member.config.sources(follow=follow, pause=None), time.monotonic() + seconds
    calls, more = 0, False

    def enough() -> bool:
        nonlocal calls, more
        calls += 1
        more = calls > 1 and time.monotonic() > until  # even a short turn makes progress
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
