"""Fleets: many streams in one configuration, each with its own state, which run in turns."""

import json
import os
import re
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from itertools import combinations, product
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

from threadpoolctl import threadpool_limits

from tidegate.checks import InvalidValueError, StoreError
from tidegate.cli.memory import explain_os_error
from tidegate.gate import Gate
from tidegate.run.config import Config, ConfigError
from tidegate.run.config.texts import tables_in
from tidegate.serve.process import end_with_parent
from tidegate.sources import once
from tidegate.sources.configured import of_path, shared
from tidegate.state.lock import Lock, is_locked
from tidegate.state.source_loop import PAUSE, PUBLIC
from tidegate.state.status import status as status_of
from tidegate.state.store import NoStateError
from tidegate.whole_file import delete_unfinished, make_folder, write_whole

NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}")
PLACE = "{member}"
"""Replaced by the member's name in the shared settings."""

MEMBERS = "members"


SLICE = 5.0
"""Seconds after which a member with more to do gives its process to another."""

RETRY = 60.0
"""Seconds before a failed member that follows its sources is retried."""

processes = get_context("forkserver")  # starts a turn fast, and copies no threads


# --- members


@dataclass(frozen=True, kw_only=True)
class Member:
    """One stream of a fleet: its name, its configuration and the folder of its state."""

    name: str
    config: Config
    folder: Path


@dataclass(frozen=True, kw_only=True)
class MemberStatus:
    """How a member is doing."""

    state: str  # "new", "running", "waiting" for more, "finished", "failed" or "stopped"
    why: str | None = None  # the reason for a failure, in one line


@dataclass(frozen=True, kw_only=True)
class Fleet:
    """The members in the order of the configuration, and the folder with their states."""

    root: Path
    members: tuple[Member, ...]

    @classmethod
    def load(cls, path: Path, root: Path | None = None) -> "Fleet":
        """Load a TOML file with shared settings and a table [members.NAME] for each member."""
        shared, folder = tables_in(path), root or path.with_suffix(".state")
        tables = shared.pop(MEMBERS, None)
        if not isinstance(tables, Mapping) or not tables:
            raise ConfigError([f"{path} names no members: add a table [members.NAME] for each"])
        configs = dict(_configs(shared, tables))
        _check_separate(configs)
        return cls(
            root=folder,
            members=tuple(
                Member(name=name, config=config, folder=folder / name)
                for name, config in configs.items()
            ),
        )

    def write(self, statuses: Mapping[str, MemberStatus]) -> None:
        """Write the status of each member to members.json."""
        text = json.dumps({name: asdict(status) for name, status in statuses.items()})
        delete_unfinished(self.root, self._notes.name)
        write_whole(self._notes, text.encode(), point="members")

    def statuses(self) -> dict[str, MemberStatus]:
        """The status of each member; "stopped" instead of "running" if no run is active."""
        recorded, active = self._recorded(), is_locked(self.root)
        statuses = {}
        for member in self.members:
            status = recorded.get(member.name)
            if not status:
                status = MemberStatus(state="stopped" if member.folder.exists() else "new")
            elif status.state in {"running", "waiting"} and not active:
                status = MemberStatus(state="stopped")
            statuses[member.name] = status
        return statuses

    def _recorded(self) -> dict[str, MemberStatus]:
        """The statuses in members.json; none if it is missing or damaged, which is harmless."""
        try:
            recorded = json.loads(self._notes.read_text())
            return {name: MemberStatus(**status) for name, status in recorded.items()}
        except (FileNotFoundError, AttributeError, TypeError, ValueError):
            return {}

    @property
    def _notes(self) -> Path:
        return self.root / "members.json"


def _configs(shared: Mapping[str, Any], tables: Mapping[str, Any]) -> Iterator[tuple[str, Config]]:
    mistakes: list[str] = []
    for name, own in tables.items():
        try:
            yield name, _config(shared, name, own)
        except ConfigError as error:
            mistakes += [f"members.{name}: {each}" for each in error.mistakes]
    if mistakes:
        raise ConfigError(mistakes)


def _config(shared: Mapping[str, Any], name: str, own: object) -> Config:
    if not NAME.fullmatch(name):
        allowed = "up to 63 of a-z, 0-9, - and _"
        raise ConfigError([f"the name must be a letter or digit, then {allowed}"])
    if name == "lock":
        raise ConfigError(["the name must not be lock, which the fleet uses: choose another"])
    if not isinstance(own, Mapping):
        raise ConfigError([f"must be a table, headed [members.{name}]"])
    config = Config.of(_with_member(merged(shared, own), name))
    if not config.source:
        raise ConfigError(["source is missing: add a [source] section"])
    if any(each.piped for each in config.configured().values()):
        raise ConfigError(["source.path must not be standard input: name a file or folder"])
    return config


def merged(shared: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """The shared settings, overridden key by key by a member's own.

    >>> merged({"source": {"type": "csv", "path": "a"}, "x": 1}, {"source": {"path": "b"}})
    {'source': {'type': 'csv', 'path': 'b'}, 'x': 1}
    """
    both = dict(shared)
    for key, value in own.items():
        old = both.get(key)
        if isinstance(old, Mapping) and isinstance(value, Mapping):
            both[key] = merged(old, value)
        else:
            both[key] = value
    return both


def _with_member(value: Any, name: str) -> Any:
    """A configuration with {member} replaced by the member's name in every text."""
    match value:
        case str():
            return value.replace(PLACE, name)
        case list():
            return [_with_member(each, name) for each in value]
        case Mapping():
            return {key: _with_member(each, name) for key, each in value.items()}
    return value


def _check_separate(configs: Mapping[str, Config]) -> None:
    """Refuse members that share records, which would pay twice, or a publish folder."""
    identities = [
        (name, identity) for name, config in configs.items() for identity in config.identities
    ]
    for (one, theirs), (other, ours) in combinations(identities, 2):
        if both := shared(theirs, ours):
            raise _overlap(other, "source", f"read {both}, which members.{one} reads")
    for name, config in configs.items():
        held_out = config.quality.holdout
        public = [] if held_out is None else [of_path(Path(held_out))]
        for each, (other, ours) in product(public, identities):
            if both := shared(each, ours):
                private = f"quality.holdout must not be {both}, which members.{other} reads"
                raise ConfigError([f"members.{name}: {private}: {PUBLIC}"])
    folders: dict[Path, str] = {}
    for name, config in configs.items():
        if config.publish:
            place = Path(config.publish.folder).resolve()
            if (other := folders.setdefault(place, name)) != name:
                raise _overlap(name, "publish.folder", f"be that of members.{other}")


def _overlap(name: str, key: str, conflict: str) -> ConfigError:
    advice = f"write {PLACE} where they differ"
    return ConfigError([f"members.{name}: {key} must not {conflict}: {advice}"])


def member_row(member: Member, status: MemberStatus) -> dict[str, Any]:
    """The row of a member for `fleet status`. It counts unusable records: for the operator only."""
    budget = member.config.budget
    try:
        with Gate.look(member.folder) as gate:
            summary = status_of(gate, with_measures=False)
    except StoreError as error:  # show the other members anyway
        summary = {"streams": [], "releases": 0, "newest": None}
        if not isinstance(error, NoStateError):
            status = MemberStatus(state="failed", why=str(error))
    streams = summary["streams"]
    shares = [each.get("admitted") for each in streams]
    return {
        "member": member.name,
        "state": status.state,
        "records": sum(each["records"] for each in streams),
        "unusable": sum(each["unusable"] for each in streams),
        "admitted": min((each for each in shares if each is not None), default=None),
        "releases": summary["releases"],
        "newest": summary["newest"],
        "steps_waiting": sum(each["steps_waiting"] for each in streams),
        "worst_share": max((each["worst_share"] for each in streams), default=0.0),
        "epsilon": budget.epsilon,
        "delta": budget.delta,
        "held_records": sum(each["held_records"] for each in streams),
        "held_bytes": sum(each["held_bytes"] for each in streams),
        "why": status.why,
    }


processes.set_forkserver_preload([__name__])


# --- turns


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
        if turn.why:
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
            releases=newest.number + 1 if newest else 0,
        )
