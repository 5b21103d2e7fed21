"""What a Gate refuses before it is too late, and what must not depend on another record."""

import errno
import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.sparse import coo_array, csr_array

from tests.state.gatelife import TWO, config, opened, stream
from tidegate.checks import InvalidValueError, StoreError
from tidegate.gate import Gate
from tidegate.release import Card, export_formats
from tidegate.schedule import Span
from tidegate.state.damage import HISTORY
from tidegate.state.verification import verify


def usable(gate: Gate, n: int, name: str = "records") -> list[bool]:
    return [bool(each) for each in gate.store.read(name, Span(0, n)).usable]


@pytest.mark.parametrize(
    "bad",
    [
        ["x", b"2"],
        [None, 1.0],
        [10**5000, 1.0],
        [[1.0], 1.0],
        [object(), 1.0],
    ],
)
def test_what_one_record_is_changes_no_other(bad: list[Any], tmp_path: Path) -> None:
    others: list[list[Any]] = [[True, b"2"], [np.float32(0.1), 0.5]]
    with opened(tmp_path / "alone", config()) as gate:
        gate.ingest(others, [0, 1])
        expected = gate.store.read("records", Span(0, 2))
    with opened(tmp_path / "beside", config()) as gate:
        gate.ingest([*others, bad], [0, 1, 1])
        found = gate.store.read("records", Span(0, 2))
        assert usable(gate, 3) == [True, True, False]
    assert np.array_equal(found.X, expected.X)


LABELS = [10**5000, [[]], object(), float("nan"), None, b"\xff", "\udc80"]


@pytest.mark.parametrize("label", LABELS, ids=lambda label: type(label).__name__)
def test_any_label_can_be_set_aside(label: Any, tmp_path: Path) -> None:
    with opened(tmp_path, config()) as gate:
        gate.ingest([[1.0, 0.0], [0.0, 1.0]], [1, label])
        assert usable(gate, 2) == [True, False]


def test_a_sparse_record_of_any_layout_can_be_set_aside(tmp_path: Path) -> None:
    X = coo_array(([1.0, np.nan], ([0, 1], [0, 1])), shape=(2, 2))
    with opened(tmp_path, config()) as gate:
        gate.ingest(X, [1, 0])
        assert usable(gate, 2) == [True, False]
        (bad,) = gate.store.quarantine("records")
        assert bad.payload == '{"x": [0.0, NaN], "y": 0}'


def _settings(card: Card) -> Card:
    """The settings of a fit. With a prior, they depend on its norm: on what was noised."""
    settings = card["settings"]
    return {"settings": sorted(settings) if "prior_norm" in settings else settings}


BAD = [[np.nan, 1.0, 1.0], [1e300, 1e300, 1e300], ["x", None, object()], [0.0, 0.0, 0.0]]


@pytest.mark.parametrize("bad", BAD, ids=["nan", "long", "no number", "zero"])
@pytest.mark.parametrize("slot", [0, 299, 700])
def test_what_is_done_when_is_the_same_for_neighbouring_streams(
    bad: list[Any], slot: int, tmp_path: Path
) -> None:
    """All but weights, accuracies and the quarantine: those are noised, or for the operator.

    The digest of the history is one of what was noised.
    """

    def told(folder: Path, X: list[list[Any]], y: list[Any]) -> list[Any]:
        out = folder.with_suffix(".out")
        known = config(quality={"share": "1/10"}, publish={"folder": str(out)})
        seen: list[Any] = []
        for start in range(0, 1000, 250):  # each in a life of its own
            with opened(folder, known) as gate:
                gate.ingest(X[start : start + 250], y[start : start + 250])
                steps = list(gate.store.steps())
                held = [(each.span, each.size, each.file is None) for each in gate.store.held()]
                noised = {"evaluation": None, HISTORY: None}
                cards = [
                    {**release.card, **noised, **_settings(release.card)}
                    for release in gate.releases()
                ]
                paid = [step.evaluation and step.evaluation.release for step in steps]
                lines = list(gate.store.lines())
                seen.append((held, cards, [step.span for step in steps], paid, lines))
        return [*seen, sorted(os.listdir(out))]

    X, y = stream(1000)
    rows, labels = X.tolist(), y.tolist()
    expected = told(tmp_path / "one", rows, labels)
    found = told(
        tmp_path / "other",
        [*rows[:slot], bad, *rows[slot + 1 :]],
        [*labels[:slot], "what", *labels[slot + 1 :]],
    )
    assert found == expected


@pytest.mark.parametrize("X", [[[1.0, 2.0], [3.0]], [1.0, 2.0], 5, np.ones((2, 2, 2))])
def test_a_batch_without_rows_of_one_length_is_refused_whole(X: Any, tmp_path: Path) -> None:
    with opened(tmp_path, config()) as gate:
        with pytest.raises(InvalidValueError):
            gate.ingest(X, [0, 1])
        assert gate.store.count("records") == 0


@pytest.mark.parametrize("first", ["dense", "sparse"])
def test_the_first_batch_fixes_the_form_of_all_also_across_a_restart(
    first: str, tmp_path: Path
) -> None:
    X, y = stream(900)
    X = np.nan_to_num(X) * (np.arange(3) != 1)
    known = config({"kind": "sliding", "window": 300, "step": 100})
    with opened(tmp_path / "alike", known) as gate:
        gate.ingest(X if first == "dense" else csr_array(X), y)
        expected = [release.hash for release in gate.releases()]
    parts = [X[:250], csr_array(X[250:500]), X[500:700].tolist(), csr_array(X[700:])]
    if first == "sparse":
        parts[0] = csr_array(parts[0])
    at = 0
    for part in parts:
        with opened(tmp_path / "mixed", known) as gate:
            n = len(part) if isinstance(part, list) else part.shape[0]
            gate.ingest(part, y[at : at + n])
            at += n
            assert [release.hash for release in gate.releases()] == expected[
                : max(0, at // 100 - 2)
            ]
            with pytest.raises(InvalidValueError, match="4 features, but 3 were expected"):
                gate.ingest(np.ones((1, 4)), [0])
    assert len(expected) == 7


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_records_are_kept_in_the_dtype_of_the_config(dtype: str, tmp_path: Path) -> None:
    table = {"classes": [0, 1], "norm": 1.5, "dtype": dtype}
    for given in ("float32", "float64", "int8"):
        with opened(tmp_path, config(records=table)) as gate:
            gate.ingest(np.ones((2, 3), given), [0, 1])
    with opened(tmp_path, config(records=table)) as gate:
        assert gate.store.read("records", Span(0, 6)).X.dtype == dtype
        gate.ingest([[1e300, 0.0, 0.0]], [0])  # no number of 32 bits
        assert usable(gate, 7)[-1] == (dtype == "float64")


def test_two_streams_have_records_of_one_width(tmp_path: Path) -> None:
    with opened(tmp_path, config(TWO)) as gate:
        gate.ingest(np.ones((10, 3)), np.ones(10), stream="source")
        with pytest.raises(InvalidValueError, match="4 features, but 3 were expected"):
            gate.ingest(np.ones((10, 4)), np.ones(10), stream="target")
        assert gate.store.count("target") == 0
        gate.ingest(csr_array(np.ones((10, 3))), np.ones(10), stream="target")


def test_a_state_whose_database_is_gone_is_not_begun_anew(tmp_path: Path) -> None:
    with opened(tmp_path / "state", config()) as gate:
        gate.ingest(*stream(800))
    files = sorted(os.listdir(tmp_path / "state" / "segments"))
    (tmp_path / "state" / "state.db").unlink()
    for _ in range(3):
        with pytest.raises(StoreError, match=r"has lost|restore"):
            opened(tmp_path / "state", config())
    assert sorted(os.listdir(tmp_path / "state" / "segments")) == files


def test_a_state_is_not_made_among_other_files(tmp_path: Path) -> None:
    (tmp_path / "segments").mkdir()
    (tmp_path / "segments" / "mine.txt").write_text("keep")
    mode = tmp_path.stat().st_mode
    with pytest.raises(StoreError, match="holds other files"):
        opened(tmp_path, config())
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "mine.txt").write_text("keep")
    with pytest.raises(StoreError, match="holds other files"):
        opened(tmp_path / "other", config())
    assert (tmp_path / "segments" / "mine.txt").read_text() == "keep"
    assert tmp_path.stat().st_mode == mode


@pytest.mark.parametrize("inside", ["", "segments", "out"])
def test_releases_are_not_published_among_raw_data(inside: str, tmp_path: Path) -> None:
    folder = str(tmp_path / "state" / inside)
    with pytest.raises(InvalidValueError, match="separate from the state"):
        opened(tmp_path / "state", config(publish={"folder": folder}))
    with pytest.raises(InvalidValueError, match="separate from the state"):
        opened(tmp_path / "state", config(publish={"folder": str(tmp_path)}))


def test_a_state_that_is_older_than_what_is_published_is_refused(tmp_path: Path) -> None:
    known = config(publish={"folder": str(tmp_path / "out")})
    with opened(tmp_path / "state", known) as gate:
        gate.ingest(*stream(800))
    shutil.copytree(tmp_path / "state", tmp_path / "copy")
    with opened(tmp_path / "state", known) as gate:
        gate.ingest(*stream(100, 800))
    with pytest.raises(StoreError, match="release 2, which the state has not made"):
        opened(tmp_path / "copy", known)


def test_the_folder_has_no_gap_after_a_full_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = config(publish={"folder": str(tmp_path / "out")})
    with opened(tmp_path / "state", known) as gate:
        gate.ingest(*stream(700))
        with monkeypatch.context() as patch:

            def full(*_: Any) -> None:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

            patch.setattr(export_formats, "write", full)
            with pytest.raises(StoreError, match="No space left") as caught:
                gate.ingest(*stream(100, 700))
        assert "\n" not in str(caught.value)
        gate.ingest(*stream(200, 800))
        assert list(verify(gate)) == []
        assert (tmp_path / "out" / "latest").read_text() == "000003\n"
        assert len(list((tmp_path / "out").iterdir())) == 4 * 4 + 1


def test_what_may_change_is_remembered(tmp_path: Path) -> None:
    opened(tmp_path / "state", config()).close()
    moved = config(publish={"folder": str(tmp_path / "out")})
    opened(tmp_path / "state", moved).close()
    with Gate.open(tmp_path / "state") as gate:
        assert gate.config == moved.settled()
        gate.ingest(*stream(700))
    assert (tmp_path / "out" / "latest").read_text() == "000000\n"
