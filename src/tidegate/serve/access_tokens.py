"""Tokens and their scopes, and the audit log of what is done with them.

Only hashes of tokens are stored. A token is 256 random bits, so it cannot be guessed. A single
SHA-256 is therefore as safe as a slow password hash, and fast. `docs/threats.md` says what tokens
protect, and what they do not.
"""

import fcntl
import hashlib
import hmac
import json
import os
import re
import secrets
import threading
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

from tidegate.checks import InvalidValueError, json_of, refuse
from tidegate.whole_file import LARGEST_NOTE, read_whole, sync_folder, write_whole

SCOPES = ("ingest", "read", "admin", "erase")
"""To send records, to read what is public, to read the audit log, to erase records. None can read
records."""

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
TOKENS, AUDIT = "tokens.json", "audit.jsonl"
"""Their files in a state."""


# --- tokens


@dataclass(frozen=True, kw_only=True)
class Token:
    """The stored part of a token; times are in ISO 8601."""

    name: str  # used in the audit log, and to keep the idempotency keys of its batches
    scopes: tuple[str, ...]
    hash: str  # SHA-256 of the token, in hexadecimal
    created: str
    expires: str | None = None
    revoked: str | None = None

    def valid(self, at: datetime) -> bool:
        """Whether it is neither expired nor revoked at a time."""
        late = self.expires is not None and datetime.fromisoformat(self.expires) <= at
        return not late and self.revoked is None


class Tokens:
    """The tokens of a state, in a file that only its owner can read.

    The file is replaced as a whole, and read again after a change. So creating or revoking a token
    on the command line takes effect at once, even for a running server.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     tokens = Tokens(Path(folder))
    ...     secret = tokens.create("dashboard", ["read"])
    ...     tokens.find(secret).scopes, tokens.find("guess")
    ...     tokens.revoke("dashboard")
    ...     tokens.find(secret)
    (('read',), None)
    """

    def __init__(self, folder: Path) -> None:
        self._file = Path(folder) / TOKENS
        self._seen: tuple[int, int] | None = None
        self._tokens: tuple[Token, ...] = ()

    def create(self, name: str, scopes: Sequence[str], expires: timedelta | None = None) -> str:
        """Create a token and return its secret, which cannot be shown again.

        No other valid token may have the name. A token that replaces a revoked or expired one
        continues with the idempotency keys of its batches.
        """
        if not NAME.fullmatch(name):
            raise refuse("name", "letters, digits, _, . or -, at most 64", name)
        if not scopes or not set(scopes) <= set(SCOPES):
            raise refuse("scope", f"one or more of {', '.join(SCOPES)}", ", ".join(scopes))
        now, secret = datetime.now(UTC), f"tidegate_{secrets.token_urlsafe(32)}"
        token = Token(
            name=name,
            scopes=tuple(scope for scope in SCOPES if scope in scopes),
            hash=_hash(secret),
            created=_text(now),
            expires=None if expires is None else _text(now + expires),
        )
        with self._changed() as tokens:
            if any(each.name == name and each.valid(now) for each in tokens):
                exists = f"a token named {name} exists"
                raise InvalidValueError(f"{exists}: revoke it first, or choose another name")
            tokens[:] = [*(each for each in tokens if each.name != name), token]
        return secret

    def revoke(self, name: str) -> None:
        """Revoke a token."""
        with self._changed() as tokens:
            for index, each in enumerate(tokens):
                if each.name == name and each.revoked is None:
                    tokens[index] = replace(each, revoked=_text(datetime.now(UTC)))
                    return
        raise InvalidValueError(
            f"there is no token {name} to revoke: tidegate token list shows all"
        )

    def all(self) -> tuple[Token, ...]:
        """All tokens, including revoked and expired ones, but not those that were replaced."""
        try:
            now = os.stat(self._file)
        except FileNotFoundError:
            return ()
        seen = (now.st_ino, now.st_mtime_ns)
        if seen != self._seen:
            self._tokens, self._seen = _read(self._file), seen
        return self._tokens

    def find(self, secret: str) -> Token | None:
        """The valid token with this secret; None if there is none.

        It takes the same time for every secret: its hash is compared with the hash of every token
        in constant time, and the validity of every token is checked. `tests/serve/test_timing.py`
        measures this.
        """
        hashed, now, match = _hash(secret), datetime.now(UTC), None
        for token in self.all():
            good = hmac.compare_digest(token.hash, hashed) & token.valid(now)
            match = token if good else match
        return match

    @contextmanager
    def _changed(self) -> Iterator[list[Token]]:
        """The tokens as a list to change, which is then written back; one writer at a time."""
        lock = os.open(self._file.with_suffix(".lock"), os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            tokens = list(self.all())
            yield tokens
            _write(self._file, tokens)
        finally:
            os.close(lock)


def _hash(secret: str) -> str:
    return hashlib.sha256(secret.encode(errors="replace")).hexdigest()


def _text(time: datetime) -> str:
    return time.isoformat(timespec="seconds")


def _read(file: Path) -> tuple[Token, ...]:
    try:
        kept = json_of(read_whole(file, LARGEST_NOTE))
        rows = kept if isinstance(kept, list) else kept["tokens"]  # version 0.1.0 had a list
        if kept is not rows and kept["sha256"] != _digest(rows):
            raise ValueError("checksum mismatch")  # noqa: TRY301 (handled below, like all damage)
        tokens = tuple(Token(**{**row, "scopes": tuple(row["scopes"])}) for row in rows)
        for token in tokens:  # fail now rather than in a later check
            hmac.compare_digest(token.hash, "")
            token.valid(datetime.now(UTC))
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):  # fail closed
        raise InvalidValueError(f"{file} is damaged: delete it, then create new tokens") from None
    return tokens


def _write(file: Path, tokens: Sequence[Token]) -> None:
    """Replace the file durably: a crash leaves the old one or, once this returns, the new one."""
    rows = [asdict(token) for token in tokens]
    text = json.dumps({"tokens": rows, "sha256": _digest(rows)}, indent=1)
    write_whole(file, text.encode(), point="tokens", mode=0o600)
    sync_folder(file.parent)


def _digest(rows: list[Any]) -> str:
    """A checksum against damage, not against attackers: whoever can write the file can fake it."""
    return hashlib.sha256(json.dumps(rows, sort_keys=True).encode()).hexdigest()


# --- the audit log: who did what and when, and the outcome; it never holds a record or a token


class UnnotedError(RuntimeError):
    """A line could not be written to the audit log."""


class Audit:
    """Writes one line of JSON per request with a token, to a file that only its owner can read.

    The file may be moved away at any time: the next line starts a new one.
    """

    def __init__(self, folder: Path) -> None:
        self._file = Path(folder) / AUDIT
        self._writing = threading.Lock()
        with suppress(OSError), self._file.open("r+b") as log:  # complete a line cut by a crash
            log.seek(-1, os.SEEK_END)
            if log.read(1) != b"\n":
                log.write(b"\n")

    def note(self, token: str | None, what: str, outcome: int, **more: Any) -> None:
        """Add a line: the name of a valid token, method and route, status, other public facts."""
        time = datetime.now(UTC).isoformat(timespec="milliseconds")
        row = {"time": time, "token": token, "what": what, "outcome": outcome, **more}
        line = f"{json.dumps(row)}\n".encode()
        try:
            owner_only = partial(os.open, mode=0o600)
            with self._writing, open(self._file, "ab", buffering=0, opener=owner_only) as log:
                log.write(line)
        except OSError as error:
            reason = f"cannot write to the audit log {self._file}: {error.strerror or error}"
            raise UnnotedError(f"{reason}; requests fail until it is writable") from error

    def last(self, most: int) -> list[dict[str, Any]]:
        """The newest lines, the oldest of them first."""
        try:
            with self._file.open(encoding="utf-8", errors="replace") as lines:
                newest = deque(lines, maxlen=most)
        except FileNotFoundError:
            return []
        rows = list[dict[str, Any]]()
        for line in newest:
            with suppress(ValueError):  # a line cut by a crash
                rows.append(json.loads(line))
        return rows
