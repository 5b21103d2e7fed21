"""A fleet: many streams in one configuration, each with a Gate, a state and a ledger of its own."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

from tidegate.checks import StoreError
from tidegate.gate.config import Config, ConfigError
from tidegate.gate.config.config import tables_in
from tidegate.gate.config.source_identity import of_path, shared
from tidegate.gate.config.source_tables import STANDARD_INPUT
from tidegate.gate.gate import Gate
from tidegate.gate.lock import held
from tidegate.gate.status import status as status_of
from tidegate.gate.store import NoStateError
from tidegate.gate.taken import PUBLIC
from tidegate.gate.whole_file import delete_unfinished, write_whole

NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}")
PLACE = "{member}"
"""Stands for the name of the member in the texts of the configuration that all share."""

MEMBERS = "members"


@dataclass(frozen=True, kw_only=True)
class Member:
    """One stream of a fleet: what it is called, what its Gate does, and where its state is."""

    name: str
    config: Config
    folder: Path


@dataclass(frozen=True, kw_only=True)
class MemberStatus:
    """What has become of a member."""

    state: str  # "new", "running", "waiting" for more, "finished", "failed" or "stopped"
    why: str | None = None  # it has failed, in one line


@dataclass(frozen=True, kw_only=True)
class Fleet:
    """Members in the order of the configuration, and the folder that has a state for each."""

    root: Path
    members: tuple[Member, ...]

    @classmethod
    def load(cls, path: Path, root: Path | None = None) -> "Fleet":
        """From a TOML file: what all members share, and a table [members.NAME] for each."""
        shared, folder = tables_in(path), root or path.with_suffix(".state")
        tables = shared.pop(MEMBERS, None)
        if not isinstance(tables, Mapping) or not tables:
            raise ConfigError([f"{path} names no members: add a table [members.NAME] for each"])
        configs = dict(_configs(shared, tables))
        _check_apart(configs)
        return cls(
            root=folder,
            members=tuple(
                Member(name=name, config=config, folder=folder / name)
                for name, config in configs.items()
            ),
        )

    def write(self, statuses: Mapping[str, MemberStatus]) -> None:
        """Note what has become of the members, for whoever asks."""
        text = json.dumps({name: asdict(status) for name, status in statuses.items()})
        delete_unfinished(self.root, self._notes.name)
        write_whole(self._notes, text.encode(), point="members")

    def statuses(self) -> dict[str, MemberStatus]:
        """What has become of the members by the notes, "stopped" if nobody goes on with them."""
        known, goes_on = self._recorded(), held(self.root)
        statuses = {}
        for member in self.members:
            status = known.get(member.name)
            if status is None:
                status = MemberStatus(state="stopped" if member.folder.exists() else "new")
            elif status.state in {"running", "waiting"} and not goes_on:
                status = MemberStatus(state="stopped")
            statuses[member.name] = status
        return statuses

    def _recorded(self) -> dict[str, MemberStatus]:
        """The notes; none if a power failure has torn them, for nothing depends on them."""
        try:
            known = json.loads(self._notes.read_text())
            return {name: MemberStatus(**status) for name, status in known.items()}
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
        raise ConfigError(["the name must not be lock: a file of the fleet has it"])
    if not isinstance(own, Mapping):
        raise ConfigError([f"must be a table, headed [members.{name}]"])
    config = Config.of(_named(merged(shared, own), name))
    if config.source is None:
        raise ConfigError(["source is missing: a fleet takes its records from sources"])
    if Path(STANDARD_INPUT) in config.files():
        raise ConfigError(["source.path must not be standard input, of which there is but one"])
    return config


def merged(shared: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """What all members share, and in its place what one says of its own, key by key.

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


def _named(value: Any, name: str) -> Any:
    """A configuration with the member's name wherever a text has its place."""
    if isinstance(value, Mapping):
        return {key: _named(each, name) for key, each in value.items()}
    if isinstance(value, list):
        return [_named(each, name) for each in value]
    return value.replace(PLACE, name) if isinstance(value, str) else value


def _check_apart(configs: Mapping[str, Config]) -> None:
    """Refuse two members that have records in common, which would pay twice, or one folder."""
    identities = [
        (name, identity) for name, config in configs.items() for identity in config.identities
    ]
    for (one, theirs), (other, ours) in combinations(identities, 2):
        if (both := shared(theirs, ours)) is not None:
            raise _alike(other, "source", f"read {both}, which members.{one} reads")
    for name, config in configs.items():
        holdout = None if config.quality.holdout is None else of_path(Path(config.quality.holdout))
        for other, ours in identities:
            if holdout is not None and (both := shared(holdout, ours)) is not None:
                told = f"quality.holdout must not be {both}, which members.{other} reads"
                raise ConfigError([f"members.{name}: {told}: {PUBLIC}"])
    folders: dict[Path, str] = {}
    for name, config in configs.items():
        if config.publish is not None:
            place = Path(config.publish.folder).resolve()
            if (other := folders.setdefault(place, name)) != name:
                raise _alike(name, "publish.folder", f"be that of members.{other}")


def _alike(name: str, what: str, how: str) -> ConfigError:
    told = f"members.{name}: {what} must not {how}: write {PLACE} where they differ"
    return ConfigError([told])


def member_row(member: Member, status: MemberStatus) -> dict[str, Any]:
    """A member in one line. It counts unusable records: for the operator only."""
    budget = member.config.budget
    bound = {"epsilon": budget.epsilon, "delta": budget.delta}
    try:
        with Gate.look(member.folder) as gate:
            told = status_of(gate)
    except StoreError as error:  # one that cannot be read must not hide the others
        told = {"streams": [], "releases": 0, "newest": None}
        if not isinstance(error, NoStateError):
            status = MemberStatus(state="failed", why=str(error))
    streams = told["streams"]
    return {
        "member": member.name,
        "state": status.state,
        "records": sum(each["records"] for each in streams),
        "unusable": sum(each["unusable"] for each in streams),
        "releases": told["releases"],
        "newest": told["newest"],
        "worst_share": max((each["worst_share"] for each in streams), default=0.0),
        **bound,
        "held_records": sum(each["held_records"] for each in streams),
        "held_bytes": sum(each["held_bytes"] for each in streams),
        "why": status.why,
    }
