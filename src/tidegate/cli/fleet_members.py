"""Fleets: many streams in one configuration, each with its own gate, state and ledger."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

from tidegate.checks import StoreError
from tidegate.gate import Gate
from tidegate.run.config import Config, ConfigError
from tidegate.run.config.texts import tables_in
from tidegate.sources.configured import of_path, shared
from tidegate.state.lock import is_locked
from tidegate.state.source_loop import PUBLIC
from tidegate.state.status import status as status_of
from tidegate.state.store import NoStateError
from tidegate.whole_file import delete_unfinished, write_whole

NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}")
PLACE = "{member}"
"""Replaced by the member's name in the shared settings."""

MEMBERS = "members"


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
            if status is None:
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
    if config.source is None:
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
    if isinstance(value, Mapping):
        return {key: _with_member(each, name) for key, each in value.items()}
    if isinstance(value, list):
        return [_with_member(each, name) for each in value]
    return value.replace(PLACE, name) if isinstance(value, str) else value


def _check_separate(configs: Mapping[str, Config]) -> None:
    """Refuse members that share records, which would pay twice, or a publish folder."""
    identities = [
        (name, identity) for name, config in configs.items() for identity in config.identities
    ]
    for (one, theirs), (other, ours) in combinations(identities, 2):
        if (both := shared(theirs, ours)) is not None:
            raise _overlap(other, "source", f"read {both}, which members.{one} reads")
    for name, config in configs.items():
        holdout = None if config.quality.holdout is None else of_path(Path(config.quality.holdout))
        for other, ours in identities:
            if holdout is not None and (both := shared(holdout, ours)) is not None:
                private = f"quality.holdout must not be {both}, which members.{other} reads"
                raise ConfigError([f"members.{name}: {private}: {PUBLIC}"])
    folders: dict[Path, str] = {}
    for name, config in configs.items():
        if config.publish is not None:
            place = Path(config.publish.folder).resolve()
            if (other := folders.setdefault(place, name)) != name:
                raise _overlap(name, "publish.folder", f"be that of members.{other}")


def _overlap(name: str, key: str, conflict: str) -> ConfigError:
    advice = f"write {PLACE} where they differ"
    return ConfigError([f"members.{name}: {key} must not {conflict}: {advice}"])


def member_row(member: Member, status: MemberStatus) -> dict[str, Any]:
    """The row of a member for `fleet status`. It counts unusable records: for the operator only."""
    budget = member.config.budget
    bound = {"epsilon": budget.epsilon, "delta": budget.delta}
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
        **bound,
        "held_records": sum(each["held_records"] for each in streams),
        "held_bytes": sum(each["held_bytes"] for each in streams),
        "why": status.why,
    }
