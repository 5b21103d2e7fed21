"""Folders that somebody has tampered with, and processes without a network that verify them."""

import copy
import hashlib
import json
import os
import random
import resource
import select
import shutil
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from tests.cli.run import tidegate
from tests.state.gatelife import config, opened, stream
from tidegate.release import FIRST, StoredRelease, export_formats
from tidegate.release.card import seal
from tidegate.state.publish_folder import manifest

ALONE = ("unshare", "--net") if shutil.which("unshare") else ("false",)
"""Runs a command without a network, where we may."""

MEMORY = 6 * 2**30
SECONDS = 5
"""Of its own time, a process that takes longer hangs; or of anybody's, twelve times as much."""

NASTY: list[Any] = [
    *("1e9999999", "1e-9999999", "9" * 5000, "1/0", "-1", "", "nan", "\x1b[2J\x1b[HSound", "a\nb"),
    *(0, -1, 1, 2**31, 2**53, 10**19, 10**30, 1e308, 5e-324, -0.0, True, None, [], {}, [[]]),
    *({"a": {"b": {}}}, ["1e9999999"] * 3, "../../etc/passwd", "/dev/zero", "\u202eevil", "NaN"),
]
SURE = {"settings", "share", "share_rounded_down", "mu", "epsilon", "shape", "neighbours"} | {
    *("private", "warning", "release")
}
"""Keys of a card whose change is found even if every hash is redone."""


class Mutation(NamedTuple):
    """What was done to a folder, and whether `verify` may still find it sound."""

    what: str
    harmless: bool


def bases(folder: Path) -> dict[str, Path]:
    """Folders to tamper with: published releases, and states."""
    budget = {"epsilon": 4.0, "delta": 1e-6}
    sliding = config(
        {"kind": "sliding", "window": 300, "step": 100},
        budget=budget,
        learner={},
        quality={"share": "1/20"},
        survey={"share": "1/20"},
        publish={"folder": str(folder / "published")},
    )
    with opened(folder / "state", sliding) as gate:
        gate.ingest(*stream(520))
    persons = config(
        {"kind": "fading", "step": 100},
        budget=budget,
        learner={},
        person={"id": "p", "contributions": 4},
    )
    with opened(folder / "persons", persons) as gate:
        gate.ingest(*stream(320), persons=[slot // 2 for slot in range(320)])
    return {name: folder / name for name in ("published", "state", "persons")}


def content(folder: Path) -> dict[str, Any]:
    """All that can be seen of a folder without opening what is no file."""
    found: dict[str, Any] = {}
    for path in sorted(folder.rglob("*")):
        status = path.lstat()
        seen: tuple[Any, ...] = (status.st_mode, status.st_ino, status.st_size, status.st_mtime_ns)
        if path.is_file() and not path.is_symlink() and status.st_size < 2**24:
            seen = (*seen, hashlib.sha256(path.read_bytes()).hexdigest())
        found[str(path.relative_to(folder))] = seen
    return found


# --- what can be done to files


def a_file(folder: Path, rng: random.Random) -> Path:
    files = sorted(path for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
    return rng.choice(files)


def damaged(path: Path, rng: random.Random) -> str:
    """Change some bytes of a file, or its length."""
    data = bytearray(path.read_bytes())
    how = rng.choice(["flip", "flip", "cut", "grow", "zeros", "empty"])
    if how == "flip" and data:
        for _ in range(rng.choice([1, 1, 4, 64])):
            data[rng.randrange(len(data))] ^= rng.randrange(1, 256)
    elif how == "cut":
        data = data[: rng.randrange(len(data) + 1)]
    elif how == "grow":
        data += rng.randbytes(rng.choice([1, 100]))
    elif how == "zeros" and data:
        start = rng.randrange(len(data))
        data[start : start + 512] = bytes(len(data[start : start + 512]))
    else:
        data = bytearray()
    path.write_bytes(bytes(data))
    return how


def replaced(path: Path, rng: random.Random) -> str:
    """Put something that is no file in the place of one, or of one that is not there."""
    how = rng.choice(["gone", "fifo", "zero", "tty", "self", "folder", "holes", "shadow"])
    path.unlink(missing_ok=True)
    if how == "fifo":
        os.mkfifo(path)
    elif how in {"zero", "tty", "self", "shadow"}:
        targets = {
            "zero": "/dev/zero",
            "tty": "/dev/tty",
            "self": path.name,
            "shadow": "/etc/shadow",
        }
        path.symlink_to(targets[how])
    elif how == "folder":
        path.mkdir()
    elif how == "holes":
        path.touch()
        os.truncate(path, 2**36)
    return how


EXTRA = ("elsewhere.json", "lock", "tokens.json", "person.key", "state.db-wal", "state.db-journal")


def on_server(folder: Path, rng: random.Random) -> Mutation:
    """Name a server that waits for a password."""
    place: dict[str, Any] = rng.choice(
        [
            {"database": "postgresql://127.0.0.1:1/x", "segments": None},
            {"database": "postgresql:///x?host=127.0.0.1&port=1", "segments": None},
            {"database": None, "segments": "s3://bucket/x?endpoint_override=127.0.0.1:1"},
            {"database": None, "segments": "fsspec+memory://x"},
            {"database": 5, "segments": []},
        ]
    )
    text = json.dumps({"name": rng.choice(["tidegate_1", "x; DROP TABLE fits", "é"]), **place})
    (folder / "elsewhere.json").write_text(text)
    return Mutation(f"elsewhere {text}", harmless=False)


def file_mutation(folder: Path, rng: random.Random) -> Mutation:
    """Tamper with one file."""
    before = meaning(folder)
    if rng.random() < 0.3:
        path = folder / rng.choice(EXTRA) if rng.random() < 0.5 else a_file(folder, rng)
        what = f"{path.name} {replaced(path, rng)}"
    else:
        path = a_file(folder, rng)
        what = f"{path.name} {damaged(path, rng)}"
    return Mutation(what, harmless=meaning(folder) == before)


def meaning(folder: Path) -> Any:
    """What `verify` is to guard: the rows of a database, and the bytes of other files."""
    found: dict[str, Any] = {}
    published = (folder / "000000.md").exists() or (folder / "000001.md").exists()
    for path in sorted(folder.rglob("*")):
        if published and path.name in EXTRA and path.name != "elsewhere.json":
            continue  # of no meaning there
        if path.is_symlink() or (path.exists() and not path.is_file() and path.name != "segments"):
            found[path.name] = "something else"
        elif path.name == "state.db":
            found[path.name] = rows(path)
        elif path.is_file() and path.name != "state.db-shm":
            small = path.stat().st_size < 2**24
            found[path.name] = path.read_bytes() if small else b"huge"
    return found


def rows(path: Path) -> Any:
    uri = f"{path.absolute().as_uri()}?immutable=1"
    try:
        with closing(sqlite3.connect(uri, uri=True)) as connection:
            return [*connection.iterdump(), *connection.execute("PRAGMA user_version")]
    except (sqlite3.Error, UnicodeDecodeError) as error:  # its message may quote what is damaged
        return str(error)


# --- what can be done to cards, if every hash is redone


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The paths of all values within a JSON value."""
    if path:
        yield path
    if isinstance(value, dict):
        for key in value:
            yield from places(value[key], (*path, key))
    elif isinstance(value, list):
        for index in range(min(len(value), 5)):
            yield from places(value[index], (*path, index))


def card_mutation(folder: Path, rng: random.Random) -> Mutation:
    """Change a value of a card, or add one, then redo the hashes of all releases after it."""
    files = sorted(folder.glob("*.safetensors"))
    releases = [export_formats.load_release(path) for path in files]
    chosen, card = rng.randrange(len(releases)), {}
    card = copy.deepcopy(releases[chosen].card)
    path = rng.choice(list(places(card)))
    table = card
    for name in path[:-1]:
        table = table[name]
    how = rng.choice(["set", "set", "set", "delete", "add"])
    value = rng.choice(NASTY)
    if how == "add" and isinstance(table, dict):
        path = (*path[:-1], rng.choice(["noise_scale.really", "x", "\x1b[2J", "settings"]))
        table[path[-1]] = value
    elif how == "delete":
        del table[path[-1]]
    else:
        table[path[-1]] = value
    same = json.dumps(card) == json.dumps(releases[chosen].card)
    redo(folder, [*releases[:chosen], releases[chosen], *releases[chosen + 1 :]], chosen, card)
    return Mutation(
        f"card {chosen} {how} {path} {value!r:.40}", harmless=same or path[0] not in SURE
    )


def redo(folder: Path, releases: list[StoredRelease], chosen: int, card: Any) -> None:
    """Write all files again, with hashes that are right."""
    previous = FIRST
    for number, release in enumerate(releases):
        text = card if number == chosen else release.card
        try:
            made = seal(text, release.weights, previous)
        except ValueError:  # no JSON
            return
        previous, files = made.hash, {}
        for kind in ("safetensors", "json"):
            files[f"{number:06}.{kind}"] = export_formats.KINDS[kind](made)
        files[f"{number:06}.md"] = (folder / f"{number:06}.md").read_bytes()
        files = {name: files[name] for name in sorted(files, key=_order)}
        for name, data in files.items():
            (folder / name).write_bytes(data)
        digests = {name: hashlib.sha256(data).hexdigest() for name, data in files.items()}
        (folder / f"{number:06}.sha256").write_bytes(manifest(digests))


def _order(name: str) -> int:
    return ["safetensors", "md", "json"].index(name.rpartition(".")[2])


# --- what can be done to a database


STATEMENTS = (
    "DROP TABLE {table}",
    "DELETE FROM {table}",
    "ALTER TABLE {table} RENAME TO old_{table}; CREATE VIEW {table} AS SELECT * FROM old_{table}",
    "CREATE VIEW more AS WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x FROM c) "
    "SELECT x FROM c",
    "CREATE TRIGGER t AFTER UPDATE ON state BEGIN DELETE FROM fits; END",
    "PRAGMA user_version={number}",
    "INSERT INTO {table} SELECT * FROM {table} LIMIT 1",
    "CREATE TABLE more (x)",
    "ALTER TABLE {table} ADD COLUMN more TEXT",
)


def row_mutation(folder: Path, rng: random.Random) -> Mutation:
    """Change the database, and sometimes what guards its rows."""
    path = folder / "state.db"
    before = rows(path)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA journal_mode=DELETE")
        names = "SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name"
        table = rng.choice([name for (name,) in connection.execute(names)])
        if rng.random() < 0.2:
            statement = rng.choice(STATEMENTS)
            what = statement.format(table=table, number=rng.choice([0, 1, 2, 5, 7, 2**31 - 1]))
            try:
                connection.executescript(what)
            except sqlite3.Error:
                connection.rollback()
        else:
            columns = [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
            what = changed_row(connection, table, rng.choice(columns), rng)
        connection.commit()
        connection.execute("PRAGMA journal_mode=WAL")
    redone = rng.random() < 0.5
    if redone:
        with_sums_redone(folder)
    return Mutation(f"{what} {'redone' * redone}", harmless=redone or rows(path) == before)


def changed_row(connection: sqlite3.Connection, table: str, column: str, rng: random.Random) -> str:
    """Change a value of a table; within JSON, a value of that."""
    key = "rowid" if "WITHOUT ROWID" not in str(_sql(connection, table)) else column
    found = connection.execute(f"SELECT {key}, {column} FROM {table} ORDER BY random()").fetchone()
    if found is None:
        return f"{table} is empty"
    place, old = found
    value: Any = rng.choice([*NASTY, b"", b"\0" * 9, rng.randbytes(20)])
    try:
        inside = json.loads(old)
        path = rng.choice(list(places(inside)))
        part = inside
        for name in path[:-1]:
            part = part[name]
        part[path[-1]] = value if not isinstance(value, bytes) else None
        value = json.dumps(inside, sort_keys=True, separators=(",", ":"))
    except (TypeError, ValueError, IndexError):
        value = json.dumps(value) if isinstance(value, list | dict) else value
        value = float(value) if isinstance(value, int) and abs(value) >= 2**63 else value
    try:
        connection.execute(f"UPDATE {table} SET {column} = ? WHERE {key} = ?", (value, place))
    except sqlite3.Error:
        connection.rollback()
    return f"{table}.{column} {value!r:.60}"


def _sql(connection: sqlite3.Connection, table: str) -> object:
    return connection.execute("SELECT sql FROM sqlite_master WHERE name = ?", (table,)).fetchone()


def with_sums_redone(folder: Path) -> None:
    """Redo the sums of the tables and the seal, as an insider would."""
    from tests.state.test_forgery import forge  # noqa: PLC0415 (it imports much)

    with suppress(Exception):  # what is broken stays broken
        forge(folder)
    for ending in ("-wal", "-shm"):
        if not (folder / f"state.db{ending}").exists():
            continue
        with closing(sqlite3.connect(folder / "state.db")):
            pass


Mutate = Callable[[Path, random.Random], Mutation]


def mutate(folder: Path, seed: int) -> Mutation:
    """Tamper with a folder in one of many ways."""
    rng = random.Random(seed)
    ways: list[Mutate] = [file_mutation, file_mutation, on_server]
    ways += [card_mutation] * 5 if (folder / "latest").exists() else [row_mutation] * 6
    return rng.choice(ways)(folder, rng)


# --- processes that verify


class Verdict(NamedTuple):
    """How a check ended."""

    code: int | None  # None if it was killed
    said: str
    connected: list[str]


class Worker:
    """A process that verifies one folder after the other, without a network."""

    def __init__(self, scratch: Path) -> None:
        self._scratch = scratch
        self._process: subprocess.Popen[str] | None = None

    def verify(self, folder: Path) -> Verdict:
        """Verify a folder; a process that takes too long is killed."""
        process = self._started()
        if process.stdin is None or process.stdout is None:
            raise RuntimeError("no pipes")
        process.stdin.write(f"{json.dumps(str(folder))}\n")
        process.stdin.flush()
        began, before = time.monotonic(), cpu(process.pid)
        while not select.select([process.stdout], [], [], 0.5)[0]:
            late = time.monotonic() - began > 12 * SECONDS
            if late or cpu(process.pid) - before > SECONDS:
                self.close()
                return Verdict(None, "killed", [])
        line = process.stdout.readline()
        if not line:
            self.close()
            return Verdict(None, "died", [])
        return Verdict(**json.loads(line))

    def _started(self) -> "subprocess.Popen[str]":
        if self._process is None:
            words = [sys.executable, "-m", "tests.state.hostile"]
            if not subprocess.run([*ALONE, "true"], capture_output=True, check=False).returncode:
                words = [*ALONE, *words]
            variables = {**os.environ, "TMPDIR": str(self._scratch), "PGPASSWORD": "secret"}
            self._process = subprocess.Popen(
                words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=variables
            )
            if self._process.stdout is not None:
                self._process.stdout.readline()  # it has started
        return self._process

    def close(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None


def cpu(process: int) -> float:
    """The seconds that a process has computed."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextmanager
def unplugged() -> Iterator[list[str]]:
    """A context in which every attempt to connect is noted and fails."""
    import psycopg  # noqa: PLC0415

    from tidegate.state import segments  # noqa: PLC0415

    connected: list[str] = []

    def refuse(*given: Any, **more: Any) -> Any:
        connected.append(f"{given} {more}")
        raise OSError("no network")

    real = psycopg.connect, segments._filesystem
    psycopg.connect, segments._filesystem = refuse, refuse  # type: ignore[assignment]
    try:
        yield connected
    finally:
        psycopg.connect, segments._filesystem = real


def work() -> None:
    """Verify the folders that standard input names."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    import_module("tidegate.cli.verify_command")
    with unplugged():
        print("ready", flush=True)
    for line in sys.stdin:
        with unplugged() as connected:
            done = tidegate("verify", json.loads(line))
        said = f"{done.stdout}\0{done.stderr}"
        print(json.dumps(Verdict(done.returncode, said, connected)._asdict()), flush=True)


def wrong(folder: Path, verdict: Verdict, mutation: Mutation) -> str | None:  # noqa: PLR0911
    """What is wrong with a verdict; None if nothing is."""
    if verdict.code is None:
        return verdict.said
    out, _, err = verdict.said.partition("\0")
    if verdict.connected:
        return f"connected to {verdict.connected}"
    if verdict.code not in {0, 1, 2} or "bug in tidegate" in err:
        return f"ended with {verdict.code}: {err}"
    if any(not each.isprintable() for each in (out + err).replace("\n", "")):
        return "control characters"
    if not out.startswith(f"Checking {folder} as a ") and "holds a state (" not in err:
        return f"did not say what it took it for: {out:.80} {err:.80}"
    if (verdict.code == 2) != (err.count("\n") == 1) or (verdict.code < 2 and err):
        return f"not one line: {err}"
    if verdict.code == 0 and not mutation.harmless:
        return "was found sound"
    return None


def fuzz(folder: Path, seeds: range, check: Callable[[Path], Verdict] | None = None) -> list[str]:
    """Verify one tampered folder for each seed; what went wrong."""
    scratch = folder / "scratch"
    scratch.mkdir()
    made, found = bases(folder), []
    worker = Worker(scratch)
    try:
        for seed in seeds:
            name = list(made)[seed % len(made)]
            copy_ = folder / "tampered"
            shutil.copytree(made[name], copy_, symlinks=True)
            mutation = mutate(copy_, seed)
            before = content(copy_)
            verdict = (check or worker.verify)(copy_)
            problem = wrong(copy_, verdict, mutation)
            if problem is None and content(copy_) != before:
                problem = "wrote to the folder"
            if problem is None and list(scratch.iterdir()):
                problem = f"left {list(scratch.iterdir())}"
            if problem is not None:
                found.append(f"{seed} {name} ({mutation.what}): {problem}")
                print(found[-1], file=sys.stderr, flush=True)
            shutil.rmtree(copy_)
    finally:
        worker.close()
    return found


if __name__ == "__main__":
    work()
