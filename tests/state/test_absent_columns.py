"""A column that no record has is refused where records are JSON objects, before any is taken."""

import io
import json
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cli.run import tidegate
from tidegate.checks import InvalidValueError
from tidegate.gate import Config, Gate
from tidegate.sources import Batches, SourceColumns, json_records
from tidegate.sources.broker import raw_batch_of
from tidegate.sources.json_lines import StandardInput
from tidegate.sources.json_records import Unseen, json_batch, near

STEP = 100
SECRET = "Ada-Lovelace-1815"


def written(folder: Path, name: str = "pressure", *, rows: int = 2 * STEP, **more: Any) -> Path:
    """A configuration with columns of kinds, and JSON lines in which one may have another name."""
    lines = []
    for slot in range(rows):
        ill = slot % 2
        record = {"age": 40 + 20 * ill, name: 120 + 20 * ill, "out": ("home", "ward")[ill]}
        if slot == 3:
            record |= {SECRET: 1}
        lines.append(json.dumps({**record, **more}))
    (folder / "in.jsonl").write_text("\n".join(lines) + "\n")
    columns = "".join(
        f"[[columns]]\nname = '{column}'\nkind = 'number'\nlow = 0\nhigh = 220\n"
        for column in ("age", "pressure")
    )
    (folder / "gate.toml").write_text(
        f"[schedule]\nkind = 'fading'\nstep = {STEP}\n[budget]\nepsilon = 8.0\ndelta = 1e-6\n"
        f"[records]\nclasses = ['home', 'ward']\nlabel = 'out'\n{columns}"
        f"[source]\ntype = 'jsonl'\npath = '{folder / 'in.jsonl'}'\n"
    )
    return folder / "gate.toml"


@pytest.mark.parametrize(
    ("name", "hint"),
    [("presure", " (did you mean presure?)"), ("PRESSURE", " (did you mean PRESSURE?)"), ("x", "")],
)
def test_a_file_without_a_column_is_refused_before_a_state_is_made(
    tmp_path: Path, name: str, hint: str
) -> None:
    config = written(tmp_path, name)
    done = tidegate("run", str(config))
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert f"in.jsonl has column pressure{hint}: correct the name" in line
    assert "write null where a value is missing" in line
    assert SECRET not in line
    assert not (tmp_path / "gate.state").exists()


def test_later_batches_and_null_are_gaps_as_before(tmp_path: Path) -> None:
    config = written(tmp_path, "other", pressure=None)
    assert tidegate("run", str(config), "--quiet").returncode == 0
    with (tmp_path / "in.jsonl").open("a") as file:
        file.writelines(json.dumps({"age": 50, "out": "home"}) + "\n" for _ in range(STEP))
    done = tidegate("run", str(config), "--quiet")
    assert (done.returncode, done.stderr) == (0, "")
    with closing(Gate.look(tmp_path / "gate.state")) as gate:
        assert gate.store.count("records") == 3 * STEP
        assert gate.store.quarantined("records") == 0


def test_standard_input_is_refused_before_a_record_is_taken(tmp_path: Path) -> None:
    config = Config.load(written(tmp_path, "presure"))
    with (
        io.FileIO(tmp_path / "in.jsonl") as piped,
        closing(Gate.open(tmp_path / "state", config)) as gate,
    ):
        source = StandardInput(name="-", columns=config.source_columns(), stream=piped)
        with pytest.raises(InvalidValueError, match=r"of standard input .*mean presure\?"):
            list(gate.run(source))
        assert gate.store.count("records") == 0
        assert gate.store.offset("-") is None


def test_public_records_without_a_column_are_refused_too(tmp_path: Path) -> None:
    config = written(tmp_path, "presure")
    public = tmp_path / "public.jsonl"
    (tmp_path / "in.jsonl").rename(public)
    written(tmp_path)
    for words in (["compare", str(config), str(public)], ["run", str(config)]):
        done = tidegate(*words)
        assert done.returncode == 2
        said = done.stderr.splitlines()[-1]
        assert "public.jsonl has column pressure (did you mean presure?)" in said
        with config.open("a") as file:
            file.write(f"[quality]\nholdout = '{public}'\n")


def test_records_to_predict_without_a_column_are_refused(tmp_path: Path) -> None:
    config = written(tmp_path)
    assert tidegate("run", str(config), "--quiet").returncode == 0
    written(tmp_path, "presure")
    done = tidegate("predict", str(tmp_path / "gate.state"), str(tmp_path / "in.jsonl"))
    assert done.returncode == 2
    assert "in.jsonl has column pressure (did you mean presure?)" in done.stderr


def test_messages_of_a_broker_and_python_batches_are_not_refused(tmp_path: Path) -> None:
    """A message cannot be corrected, and a first batch may hold only one."""
    columns = SourceColumns(label="y", features=("a", "b"))
    bodies = [b'{"a": 1, "y": 0}']
    assert json_batch(bodies, columns).absent is not None
    assert raw_batch_of(bodies, columns, "1").absent is None
    config = Config.load(written(tmp_path))
    with closing(Gate.open(tmp_path / "state", config)) as gate:
        table = {"age": [40.0], "pressure": [None]}
        list(gate.run(Batches(name="mine", pairs=[(table, ["home"])])))
        assert gate.store.count("records") == 1


OBJECTS = st.lists(st.dictionaries(st.sampled_from("abcd"), st.none() | st.integers()), max_size=6)


@given(OBJECTS, st.lists(st.integers(0, 6), max_size=3))
def test_it_is_found_by_all_records_however_they_are_cut(objs: list[Any], cuts: list[int]) -> None:
    unseen, wanted = Unseen("abc"), [n for n in "abc" if not any(n in each for each in objs)]
    for start, stop in pairwise([0, *sorted(cuts), len(objs)]):
        unseen.look(objs[start:stop])
    found = unseen.found()
    assert (found is not None) == (bool(wanted) and bool(objs))
    if found is not None:
        assert list(found.names) == wanted
        assert found.near is None or all(found.near in each for each in objs)


def test_unreadable_lines_say_nothing_about_columns() -> None:
    columns = SourceColumns(label="y", features=("a",))
    assert json_batch([b"nonsense", b"[1]"], columns).absent is None
    assert json_batch([], columns).absent is None
    found = json_batch([b"nonsense", b'{"A": 1, "y": 0}'], columns).absent
    assert found is not None
    assert found == (("a",), "A")


def test_a_long_name_is_not_proposed() -> None:
    assert near("age", ["age" * 1000, "aged"]) == "aged"
    assert near("age", ["age" * 1000]) is None


def test_many_columns_are_compared_with_many_names_only_for_those_that_are_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each comparison looks at all names of a record, of which a body can hold a million."""
    compared: list[str] = []
    monkeypatch.setattr(json_records, "near", lambda name, _: compared.append(name))
    unseen = Unseen([f"column {i}" for i in range(1000)])
    unseen.look([{f"k{i}": 0 for i in range(1000)}])
    found = unseen.found()
    assert found is not None
    assert len(found.names) == 1000
    assert len(compared) == json_records.MAX_NAMES
