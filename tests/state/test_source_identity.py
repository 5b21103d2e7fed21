"""What sources have in common, however it is spelt."""

import re
from itertools import product
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.run.config.kind_tables import one_source
from tidegate.sources.configured import SourceIdentity, of_channel, of_path, shared, subjects_meet

PATTERNS = [
    ".".join([*words, last])
    for length in range(3)
    for words in product("ab*", repeat=length)
    for last in "ab*>"
]
SUBJECTS = [".".join(words) for length in range(1, 5) for words in product("abc", repeat=length)]

paths = st.lists(st.sampled_from(["a", "b", ".", ".."]), max_size=4).map(
    lambda words: of_path(Path("/nowhere", *words))
)
channels = st.builds(
    of_channel,
    st.sampled_from(["stream a", "topic a", "stream b"]),
    st.lists(st.sampled_from(["h", "H:1", "h:2", "localhost", "[::1]:1"]), min_size=1, max_size=3),
    st.just(1),
    st.sampled_from(PATTERNS),
)
identities = paths | channels


@given(identities, identities)
def test_sharing_is_symmetric_and_reflexive(one: SourceIdentity, other: SourceIdentity) -> None:
    assert shared(one, one) is not None
    assert shared(one, other) == shared(other, one)


def matched(pattern: str) -> set[str]:
    """The subjects of a few short words that a pattern takes: the naive reference."""
    form = re.escape(pattern).replace(r"\*", r"[^.]+").replace(">", ".+")
    return {subject for subject in SUBJECTS if re.fullmatch(form, subject)}


def test_subjects_meet_where_one_is_matched_by_both() -> None:
    taken = {pattern: matched(pattern) for pattern in PATTERNS}
    assert all(taken.values())
    for one, other in product(PATTERNS, PATTERNS):
        assert subjects_meet(one, other) == (not taken[one].isdisjoint(taken[other])), (one, other)


def nats(*urls: str, stream: str = "records", **more: str) -> dict[str, object]:
    return {"type": "nats", "url": list(urls), "stream": stream, **more}


def kafka(*servers: str, topic: str = "records") -> dict[str, object]:
    return {"type": "kafka", "servers": list(servers), "topic": topic}


def both(one: dict[str, object], other: dict[str, object]) -> str | None:
    return shared(
        one_source("source", one).build().identity, one_source("source", other).build().identity
    )


HOST = nats("nats://host")


@pytest.mark.parametrize(
    ("one", "other", "told"),
    [
        (HOST, nats("tls://Host.:4222/"), "stream records at host:4222"),
        (HOST, nats("nats://other", "nats://host"), "stream records at host:4222"),
        (HOST, nats("nats://host", subject="a.*"), "stream records at host:4222 (> and a.*)"),
        (nats("nats://localhost"), nats("nats://127.0.0.1"), "stream records at localhost:4222"),
        (HOST, nats("nats://host:4223"), None),
        (HOST, nats("nats://host", stream="Records"), None),
        (nats("nats://h", subject="a"), nats("nats://h", subject="b"), None),
        (kafka("a:1", "b:1"), kafka("b:1", "a:1"), "topic records at b:1"),
        (kafka("a:1", "b:1"), kafka("b:1", "c:1"), "topic records at b:1"),
        (kafka("a:1"), kafka("a:1", topic="others"), None),
        (kafka("host:4222"), HOST, None),
    ],
)
def test_channels(one: dict[str, object], other: dict[str, object], told: str | None) -> None:
    assert both(one, other) == told


def test_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("folder", "linked"):
        (tmp_path / name).mkdir()
    (tmp_path / "folder" / "a.csv").touch()
    (tmp_path / "link").symlink_to("folder")
    (tmp_path / "linked" / "b.csv").symlink_to(tmp_path / "folder" / "a.csv")

    def of(path: str) -> SourceIdentity:
        return one_source("source", {"type": "csv", "path": path}).build().identity

    file, spelt = of("folder/a.csv"), f"{tmp_path}/folder/../link/a.csv"
    for path in (f"{tmp_path}/folder/a.csv", "./link/a.csv", spelt, "linked/b.csv", "linked"):
        assert shared(file, of(path)) == f"{tmp_path}/folder/a.csv", path
    for path in ("folder", "link", str(tmp_path), "folder/inner/.."):
        assert shared(file, of(path)) is not None, path
    assert shared(of("folder"), of("folder/inner")) is not None
    for path in ("folder/b.csv", "folder/a.csv2", "fold", "elsewhere"):
        assert shared(file, of(path)) is None, path
