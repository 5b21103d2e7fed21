"""The commands of a gate: what they print, and how they refuse."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Generator, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from inspect import GEN_CLOSED, getgeneratorstate
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest

from tests.cli.run import json_lines, process, tidegate
from tests.state.commands import gate_text, make
from tests.state.gate_files import source_table, write_csv
from tests.state.gatelife import config, opened, stream
from tidegate.checks import StoreError
from tidegate.cli import run_command as runs
from tidegate.cli.main import COMMANDS
from tidegate.gate import Gate
from tidegate.release import Model
from tidegate.release.export_formats import load
from tidegate.run.config import Config
from tidegate.sources import RawBatch, Source
from tidegate.sources.csv_file import Csv
from tidegate.sources.json_lines import StandardInput
from tidegate.state.verification import verify


def written(folder: Path) -> str:
    """The configuration of a gate that reads records of a folder and publishes into it."""
    return gate_text(folder, source_table(folder / "records.csv"))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "gate.toml").write_text(written(tmp_path))
    write_csv(tmp_path / "records.csv", 650)
    return tmp_path


@pytest.fixture
def state(folder: Path) -> str:
    done = tidegate("run", str(folder / "gate.toml"), "--quiet")
    assert done == (0, "", "")
    return str(folder / "gate.state")


def test_a_run_says_whether_its_state_is_new(folder: Path) -> None:
    warning = "created a new state; if you expected an existing one, stop now and check the path"
    line = f"{folder / 'gate.state'}: {warning}\n"
    assert line in tidegate("run", str(folder / "gate.toml")).stderr
    assert line not in tidegate("run", str(folder / "gate.toml")).stderr


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_explains_itself_with_an_example(command: str) -> None:
    done = tidegate(command, "--help")
    assert done.returncode == 0
    assert f"  tidegate {command}" in done.stdout
    assert "Example" in done.stdout


def test_init_writes_a_configuration_that_is_valid_and_overwrites_nothing(tmp_path: Path) -> None:
    path = str(tmp_path / "new.toml")
    assert tidegate("init", "continual", "--output", path).returncode == 0
    again = tidegate("init", "--output", path)
    assert again.returncode == 2
    assert again.stderr.count("\n") == 1
    assert again.stderr.endswith("new.toml exists already; use --output NAME\n")
    assert "continual" in Path(path).read_text()
    other = str(tmp_path / "other.toml")
    assert json_lines("init", "basic", "--output", other) == [{"file": other, "kind": "basic"}]


@pytest.mark.parametrize("command", ["demo", "run", "ingest", "verify"])
def test_long_commands_can_keep_quiet(command: str) -> None:
    assert "--quiet" in tidegate(command, "--help").stdout


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_output_for_programs(command: str) -> None:
    groups = {"token": ["create", "list", "revoke"], "fleet": ["run", "status", "verify"]}
    for part in groups.get(command, [None]):
        words = [command] if part is None else [command, part]
        assert "--format [table|json]" in tidegate(*words, "--help").stdout


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_shells_get_a_script_that_completes_commands(shell: str) -> None:
    script = process(_TIDEGATE_COMPLETE=f"{shell}_source")
    assert (script.returncode, script.stderr) == (0, "")
    assert f"_TIDEGATE_COMPLETE={shell}_complete" in script.stdout


def test_a_shell_is_told_what_a_started_word_may_become() -> None:
    asked = process(_TIDEGATE_COMPLETE="zsh_complete", COMP_WORDS="tidegate re", COMP_CWORD="1")
    assert "releases" in asked.stdout
    assert "verify" not in asked.stdout


def test_run_goes_on_where_it_stopped(folder: Path) -> None:
    config = str(folder / "gate.toml")
    first = json_lines("run", config)
    assert [row["at"] for row in first] == [300, 400, 500, 600]
    assert json_lines("run", config) == []
    with (folder / "records.csv").open("a") as file:
        file.write("1.0,0.5,0.5,1\n" * 100)
    assert [row["release"] for row in json_lines("run", config)] == [4]
    assert "tidegate status" in tidegate("run", config).stdout
    told = json_lines("releases", str(folder / "gate.state"))
    assert [{k: v for k, v in row.items() if k != "tried"} for row in told[:4]] == first
    assert (folder / "out" / "latest").read_text() == "000004\n"


def test_status_says_how_many_complete_steps_wait(folder: Path) -> None:
    state = str(folder / "gate.state")
    config = Config.load(folder / "gate.toml")
    with Gate.open(state, config) as gate:
        gate.take(next(iter(config.sources(follow=False)["records"].batches(None))))
        count = gate.store.count("records")
    (row,) = json_lines("status", state)[0]["streams"]
    assert (row["steps_waiting"], row["behind"]) == (count // 100, True)
    assert f"{count // 100} complete steps of records wait to be trained" in said("status", state)
    with Gate.open(state, config) as gate:
        list(gate.advance())
    (row,) = json_lines("status", state)[0]["streams"]
    assert (row["steps_waiting"], row["behind"]) == (0, False)
    assert "wait to be trained" not in said("status", state)


def said(*words: str) -> str:
    """What a command prints, on one line."""
    return " ".join(tidegate(*words).stdout.split())


def test_status_ledger_and_releases(state: str) -> None:
    (status,) = json_lines("status", state)
    (row,) = status["streams"]
    assert (row["records"], row["in_open_step"], status["releases"]) == (650, 50, 4)
    assert row["unusable"] == sum(slot % 37 == 5 for slot in range(650))
    assert not status["private"]
    assert "NOT PRIVATE" in tidegate("status", state).stdout
    (total,) = json_lines("ledger", state)
    assert total["paid"] == row["worst_share"] <= 1
    assert total["evaluations"] == 3
    lines = json_lines("ledger", state, "--record", str(total["worst_record"]))
    assert sum(line["share"] for line in lines) == pytest.approx(total["paid"])
    lines = json_lines("ledger", state, "--record", "499")
    bought = [line for line in lines if line["kind"] == "quality"]
    assert [line["release"] for line in bought] == [1]
    assert bought[0]["share"] == pytest.approx(0.05)
    rows = json_lines("releases", state, "--start", "1")
    assert [row["release"] for row in rows] == [1, 2, 3]
    assert all("accuracy_before" in row for row in rows)  # null where it is too noisy to tell
    assert [[(each["start"], each["stop"]) for each in row["tried"]] for row in rows] == [
        [(400 + 100 * index, 500 + 100 * index)] for index in range(2)
    ] + [[]]
    assert rows[1]["accuracy_before"] == rows[0]["tried"][0]["accuracy"]
    for command in ("status", "ledger", "releases"):
        assert tidegate(command, state).returncode == 0
    assert rows[0]["hash"][:8] in tidegate("releases", state).stdout


def test_an_accuracy_comes_with_its_noise_or_not_at_all(folder: Path) -> None:
    config, state = folder / "gate.toml", folder / "gate.state"
    lines = tidegate("run", str(config)).stdout
    assert "the accuracy of release 1 on these newest 100 records is too noisy to tell" in lines
    assert "scored" not in lines
    assert "too noisy" in tidegate("releases", str(state)).stdout
    config.write_text(config.read_text().replace("epsilon = 1.0", "epsilon = 200.0"))
    state.rename(folder / "before")
    (folder / "out").rename(folder / "out before")
    lines = tidegate("run", str(config)).stdout
    noisy = r"-?\d+\.\d % ± \d+\.\d"
    assert re.search(rf"release 1 scored {noisy}( \(.*\))? on these newest 100 records", lines)
    assert re.search(noisy, tidegate("releases", str(state)).stdout)


def test_verify_says_what_is_wrong(state: str, folder: Path) -> None:
    assert "Sound" in tidegate("verify", state).stdout
    assert tidegate("verify", state, "--quiet") == (0, "", "")
    assert json_lines("verify", state) == [{"sound": True, "problems": [], "checked_as": "state"}]
    (folder / "out" / "000001.md").unlink()
    done = tidegate("verify", state)
    assert done.returncode == 1
    assert "000001.md is missing" in done.stdout
    assert json.loads(tidegate("verify", state, "--format", "json").stdout)["sound"] is False


@pytest.mark.parametrize("ending", ["npz", "safetensors", "onnx", "joblib", "json", "md"])
def test_export_in_every_form(state: str, folder: Path, ending: str) -> None:
    file = folder / f"model.{ending}"
    (told,) = json_lines("export", state, str(file), "--release", "2")
    assert told["release"] == 2
    assert file.stat().st_size > 100


def test_predict_reads_no_device(state: str, folder: Path) -> None:
    """One such as /dev/zero never ends."""
    device = folder / "device.csv"
    device.symlink_to("/dev/null")
    refused = tidegate("predict", state, str(device))
    assert (refused.returncode, refused.stderr.count("\n")) == (2, 1)
    assert "is a device, not a file" in refused.stderr


def test_predict_by_a_state_or_by_a_file_alone(state: str, folder: Path) -> None:
    new, model = folder / "new.csv", folder / "model.npz"
    write_csv(new, 5)
    tidegate("export", state, str(model))
    by_state = json_lines("predict", state, str(new))
    assert json_lines("predict", str(model), str(new)) == by_state
    renamed = folder / "renamed.csv"
    renamed.write_text(new.read_text().replace("a,b,c,y", "x,y,z,a"))
    columns = [f"--column={name}={other}" for name, other in zip("abc", "xyz", strict=True)]
    assert json_lines("predict", str(model), str(renamed), *columns) == by_state
    for wrong in (["--column=x=a"], ["--column=a"], [*columns, "--column=a=b"]):
        refused = tidegate("predict", str(model), str(new), *wrong)
        assert (refused.returncode, refused.stderr.count("\n")) == (2, 1)
        assert "--column must be NAME=NAME_IN_FILE" in refused.stderr
    tidegate("export", state, str(folder / "model.onnx"))
    assert json_lines("predict", str(folder / "model.onnx"), str(new)) == by_state
    expected = load(model).predict(stream(5)[0])
    assert np.array_equal([row["label"] for row in by_state], expected)
    assert all(0.5 <= row["probability"] <= 1 for row in by_state)
    assert all(sum(row["probabilities"].values()) == pytest.approx(1) for row in by_state)
    assert [row["probabilities"][str(row["label"])] for row in by_state] == [
        row["probability"] for row in by_state
    ]
    shown = tidegate("predict", state, str(new)).stdout
    assert all(f"P({name})" in shown for name in by_state[0]["probabilities"])


def test_ingest_takes_a_file_once_and_none_that_run_takes(state: str, folder: Path) -> None:
    write_csv(folder / "more.csv", 150, 650)
    words = ("ingest", state, str(folder / "more.csv"))
    assert [row["at"] for row in json_lines(*words)] == [700, 800]
    assert json_lines(*words) == []
    again = tidegate("ingest", state, str(folder / "records.csv"))
    assert again.returncode == 2
    assert "is in [source]: tidegate run reads" in again.stderr
    text = (folder / "gate.toml").read_text()
    for path in (folder, folder / "more.csv"):
        (folder / "gate.toml").write_text(text.replace(f"{folder}/records.csv", str(path)))
        again = tidegate("run", str(folder / "gate.toml"))
        assert again.returncode == 2
        assert "more.csv" in again.stderr


def test_ingest_reads_a_file_with_the_delimiter_of_the_source(folder: Path) -> None:
    for name, start, count in (("records.csv", 0, 250), ("more.csv", 250, 150)):
        write_csv(folder / name, count, start)
        (folder / name).write_text((folder / name).read_text().replace(",", ";"))
    (folder / "gate.toml").write_text(written(folder) + 'delimiter = ";"\n')
    assert tidegate("run", str(folder / "gate.toml")).returncode == 0
    done = tidegate("ingest", str(folder / "gate.state"), str(folder / "more.csv"))
    assert done.returncode == 0, done.stderr
    assert "Added 150 records" in done.stdout


def test_mistakes_end_with_one_line(state: str, folder: Path) -> None:
    other = folder / "other.toml"
    other.write_text(written(folder).replace("epsilon = 1.0", "epsilon = 3.0"))
    none, bad = folder / "none.csv", folder / "bad.csv"
    bad.write_text("a,b,y\n1,2,0\n")
    (folder / "empty.toml").write_text("")
    for words, expected in {
        ("status", str(folder)): "holds no state",
        ("run", str(other), "--state", state): "budget.epsilon: 1.0 before, now 3.0",
        ("run", str(folder / "empty.toml")): "schedule is missing",
        ("ingest", state, str(none)): "none.csv cannot be read",
        ("ingest", state, str(bad)): "column c is not in",
        ("ingest", state, "x.txt"): "a .csv, .jsonl or .parquet file",
        (
            "export",
            state,
            "model.pdf",
        ): "must be one that ends in .npz, ",
        ("export", state, "m.npz", "--release", "99"): "there is no release 99",
        ("predict", state, str(bad)): "column c is not in",
        ("predict", state, str(none)): "none.csv cannot be read: No such file",
    }.items():
        done = tidegate(*words)
        assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1), words
        assert expected in done.stderr


@pytest.mark.thorough
def test_records_come_through_a_pipe(tmp_path: Path) -> None:
    text = written(tmp_path).replace('"csv"', '"jsonl"')
    (tmp_path / "gate.toml").write_text(text.replace(f"{tmp_path}/records.csv", "-"))
    X, y = stream(350)
    rows = [
        dict(zip("abcy", [*row, int(label)], strict=True)) for row, label in zip(X, y, strict=True)
    ]
    done = subprocess.run(
        [sys.executable, "-m", "tidegate", "run", tmp_path / "gate.toml", "--format", "json"],
        input="".join(json.dumps(row) + "\n" for row in rows),
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert [json.loads(line)["at"] for line in done.stdout.splitlines()] == [300]
    (status,) = json_lines("status", str(tmp_path / "gate.state"))
    assert status["streams"][0]["records"] == 350


TWO = {"kind": "twostream", "step": 50, "source": {"kind": "cumulative", "block": 100}}
RECORDS = {"classes": [0, 1], "norm": 1.5, "columns": ["a", "b", "c"], "label": "y"}


def test_two_growing_files_are_followed_side_by_side(tmp_path: Path) -> None:
    paths = {name: tmp_path / f"{name}.csv" for name in ("source", "target")}
    known = config(
        TWO,
        records=RECORDS,
        source={k: {"type": "csv", "path": str(v), "follow": True} for k, v in paths.items()},
    )
    for path in paths.values():
        write_csv(path, 100)
    looks = []

    def again() -> bool:
        looks.append(gate.store.count("target"))
        for path in paths.values():
            with path.open("a") as file:
                file.write("1.0,0.5,0.5,1\n" * 50 + "1.0,0.5")  # the last line is not complete
        return len(looks) < 2

    with opened(tmp_path / "state", known) as gate:
        sources = known.sources(pause=None)
        found = [one.card["stream"] for one in gate.run(sources, again=again)]
    assert looks == [100, 150]
    assert found == ["source", "target", "target", "target"]


def test_two_streams_with_records_in_common_are_refused(tmp_path: Path) -> None:
    text = Path(make(tmp_path, two=True)).read_text()
    (tmp_path / "gate.toml").write_text(text.replace("/target.csv", "/./source.csv"))
    done = tidegate("run", str(tmp_path / "gate.toml"))
    told = f"source.target must not read {tmp_path}/source.csv, which source.source reads"
    assert done.returncode == 2
    assert done.stderr.startswith(f"tidegate: {told}: a record would pay in both")
    assert not (tmp_path / "gate.state").exists()


def test_a_run_without_a_release_says_what_is_missing(folder: Path) -> None:
    write_csv(folder / "records.csv", 250)
    gate, state = str(folder / "gate.toml"), str(folder / "gate.state")
    missing = "he first release needs 300 records: 250 have arrived, 50 are missing"
    assert missing in tidegate("run", gate).stdout
    assert missing in tidegate("status", state).stdout
    for words in (("export", state, "m.npz"), ("predict", state, str(folder / "records.csv"))):
        done = tidegate(*words)
        assert (done.returncode, done.stderr.count("\n")) == (2, 1)
        assert missing in done.stderr
        assert done.stderr.endswith("add records with tidegate run or tidegate ingest\n")


def test_the_operator_is_told_of_records_that_cannot_be_used(folder: Path) -> None:
    text = (folder / "gate.toml").read_text().replace("classes = [0, 1]", 'classes = ["0", "2"]')
    (folder / "other.toml").write_text(text.replace("/out", "/other"))
    done = tidegate("run", str(folder / "other.toml"))
    unusable = sum(y != 0 for y in stream(650)[1].tolist())
    assert done.returncode == 0
    new, told = done.stderr.splitlines()
    assert "created a new state" in new
    assert " of 650 records cannot be used; the first is " in told
    assert int(told.split()[1]) >= unusable
    assert told.endswith("check that [records] columns, label and classes match the records")
    write_csv(folder / "more.csv", 50, 650)
    done = tidegate("ingest", str(folder / "other.state"), str(folder / "more.csv"))
    assert " of 700 records cannot be used" in done.stderr
    assert done.stdout.endswith("other.state now has 700\n")


def test_what_is_no_state_is_told_from_one_that_is_lost(state: str, folder: Path) -> None:
    found = {
        "nowhere": "holds no state: is the disk mounted? is the path right? Only for a new gate: ",
        "gate.toml": "is a file: name a state folder",
    }
    for name, told in found.items():
        assert told in tidegate("status", str(folder / name)).stderr
    Path(state, "state.db").unlink()
    for command in ("status", "verify", "ledger"):
        done = tidegate(command, state)
        assert done.returncode == 2
        assert "state.db is missing: restore it from a copy" in done.stderr


def test_a_state_that_is_deleted_under_a_gate_is_not_called_intact(tmp_path: Path) -> None:
    with opened(tmp_path / "state", config()) as gate:
        shutil.rmtree(tmp_path / "state")
        with pytest.raises(StoreError, match=r"state is gone, .*: restore it from a copy"):
            gate.ingest(*stream(200))


def test_a_record_that_has_not_arrived_is_told_from_one_that_paid_nothing(state: str) -> None:
    assert "has paid nothing yet" in tidegate("ledger", state, "--record", "649").stdout
    assert "has not arrived yet" in tidegate("ledger", state, "--record", "650").stdout


def test_no_state_is_made_for_sources_that_cannot_be_read(folder: Path) -> None:
    gate, text = folder / "gate.toml", (folder / "gate.toml").read_text()
    for change, expected in {
        ("records.csv", "none.csv"): "none.csv cannot be read: No such file",
        ('"c"]', '"d"]'): "column d is not in",
    }.items():
        gate.write_text(text.replace(*change))
        done = tidegate("run", str(gate))
        assert done.returncode == 2
        assert expected in done.stderr
        assert not (folder / "gate.state").exists()
    gate.write_text(text)
    assert len(json_lines("run", str(gate))) == 4


def test_a_record_that_cannot_be_used_is_not_predicted(state: str, folder: Path) -> None:
    new = folder / "new.csv"
    new.write_text("b,a,c\n1,0.5,0.25\n,1,1\nmuch,1,1\n0.1,0.2,0.3\n")
    rows = json_lines("predict", state, str(new))
    assert [row["label"] is None for row in rows] == [False, True, True, False]
    said = tidegate("predict", state, str(new)).stderr
    why = "a value is missing or not a finite number"
    assert said.endswith(f"2 records cannot be used; the first is 1: {why}\n")
    (told,) = json_lines("export", state, str(folder / "m.npz"))
    X = np.array([[0.5, 1, 0.25], [0.2, 0.1, 0.3]], np.float32)  # as records are kept
    model = load(told["file"])
    assert isinstance(model, Model)
    chances = model.predict_proba(X).max(axis=1)
    assert [row["probability"] for row in rows if row["label"] is not None] == chances.tolist()


def test_a_model_in_a_file_knows_its_column_of_text(tmp_path: Path) -> None:
    schedule = {"kind": "sliding", "window": 20, "step": 10}
    table = {"classes": [0, 1], "norm": 1.0, "text": "note", "label": "y"}
    known = config(schedule, records=table, features=[{"map": "text"}])
    with opened(tmp_path / "state", known) as gate:
        gate.ingest(["a word", "another"] * 10, [0, 1] * 10)
    tidegate("export", str(tmp_path / "state"), str(tmp_path / "m.safetensors"))
    new = tmp_path / "new.jsonl"
    new.write_text('{"id": 1, "note": "a word"}\n{"id": 2, "note": null}\n')
    rows = json_lines("predict", str(tmp_path / "m.safetensors"), str(new))
    assert [row["label"] is None for row in rows] == [False, True]


def test_all_mistakes_of_a_configuration_are_told_apart(folder: Path) -> None:
    text = (folder / "gate.toml").read_text()
    (folder / "gate.toml").write_text(text.replace("window", "windw").replace("1.5", '"1.5"'))
    done = tidegate("run", str(folder / "gate.toml"))
    assert done.stderr.count("\n") == 1
    assert "did you mean schedule.window?; records.norm must be " in done.stderr
    assert done.stderr.endswith("got '1.5'\n")


def test_a_command_that_is_misspelt_is_guessed() -> None:
    assert tidegate("rnu").stderr == "tidegate: no command 'rnu': did you mean run?\n"


def test_tables_fit_into_80_columns(state: str) -> None:
    for words in (("--help",), ("status", state), ("ledger", state, "--record", "250")):
        shown = tidegate(*words, COLUMNS="80").stdout.splitlines()
        assert max(map(len, shown)) <= 80 or words[0] == "status"
    table, _, scores = tidegate("releases", state, COLUMNS="80").stdout.partition("\n\n")
    assert max(map(len, scores.splitlines())) <= 80
    rows = table.splitlines()
    assert len(rows) == 3 + 4  # a header of two lines, the rule and a line a release
    assert max(map(len, rows)) <= 80
    assert all(re.search(r"\d{4}-\d\d-\d\d \d\d:\d\d", row) for row in rows[3:])
    for words in (("status", state), ("ledger", state)):
        assert "The most-charged record has paid" in tidegate(*words).stdout


def test_a_release_is_described_by_all_it_knows(state: str) -> None:
    rows = json_lines("releases", state)
    told = [row["trained_on"] for row in rows]
    assert all(words.startswith("a model of records ") for words in told)
    assert json_lines("status", state)[0]["trained_on"] == told[-1]
    assert told[-1] in tidegate("status", state).stdout
    table = tidegate("releases", state).stdout
    knows = told[-1].removeprefix("a model of records ").partition(", ")[0]
    assert knows in table


@pytest.mark.parametrize("stop", range(1, 14, 3))
def test_where_a_run_of_two_files_was_stopped_does_not_change_the_order_of_steps(
    tmp_path: Path, stop: int
) -> None:
    paths = {name: tmp_path / f"{name}.csv" for name in ("source", "target")}
    known = config(
        TWO, records=RECORDS, source={k: {"type": "csv", "path": str(v)} for k, v in paths.items()}
    )
    for path, n in zip(paths.values(), (830, 560), strict=True):
        write_csv(path, n)

    def run(state: str, sizes: list[int]) -> list[tuple[str, int]]:
        """Batches of these sizes, with a stop after so many of them each time."""
        for size in sizes:
            with opened(tmp_path / state, known) as gate:
                sources = {
                    name: replace(files, count=size)
                    for name, files in known.sources().items()
                    if isinstance(files, Csv)
                }
                counted = Mock(side_effect=[None] * stop + [KeyboardInterrupt])
                with suppress(KeyboardInterrupt):
                    list(gate.run(sources, counted=int if size == SIZES[-1] else counted))
        with Gate.look(tmp_path / state) as gate:
            assert list(verify(gate)) == []
            return [(step.stream, step.span.stop) for step in gate.store.steps()]

    assert run("stopped", SIZES) == run("whole", SIZES[-1:])


SIZES = [7, 15, 40, 9, 2**16]


def test_a_file_does_not_wait_for_a_pipe(tmp_path: Path) -> None:
    write_csv(tmp_path / "source.csv", 100)
    read, write = os.pipe()
    table = {"type": "csv", "path": str(tmp_path / "source.csv"), "follow": True}
    known = config(
        TWO, records=RECORDS, source={"source": table, "target": {"type": "jsonl", "path": "-"}}
    )
    rows = "".join('{"a": 1.0, "b": 0.5, "c": 0.5, "y": 1}\n' for _ in range(50)).encode()
    looks = []

    def again() -> bool:
        looks.append(gate.store.count("source"))
        return False

    with open(read, "rb", buffering=0) as pipe, opened(tmp_path / "state", known) as gate:
        sources = dict(known.sources(pause=None))
        columns = known.records.build()
        sources["target"] = StandardInput(name="target", columns=columns, stream=pipe, step=50)
        found = gate.run(sources, again=again)
        os.write(write, rows[:5])
        assert next(found).card["stream"] == "source"  # while the pipe is in the middle of a line
        os.write(write, rows[5:])
        assert next(found).card["stream"] == "target"
        with (tmp_path / "source.csv").open("a") as file:
            file.write("1.0,0.5,0.5,1\n" * 100)
        assert next(found).card["at"] == 200
        os.write(write, rows)
        os.close(write)
        assert next(found).card["at"] == 100
        assert list(found) == []
    assert looks == [200]


@dataclass
class Held:
    """A source whose generators somebody holds on to, as a cycle of references does."""

    source: Source
    name: str = "records"
    held: list[Generator[RawBatch]] = field(default_factory=list)

    def batches(self, offset: str | None) -> Iterator[RawBatch]:
        batches = self.source.batches(offset)
        assert isinstance(batches, Generator)
        self.held.append(batches)
        return batches


@pytest.mark.parametrize("stop", ["by itself", "in the gate", "in what is told"])
def test_a_run_closes_its_sources_however_it_stops(
    folder: Path, stop: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = Config.load(folder / "gate.toml")
    held = Held(known.sources()["records"])
    broken = Mock(side_effect=[BrokenPipeError])
    with (
        suppress(BrokenPipeError),
        Gate.open(folder / "new", known, sources={"records": held}) as gate,
    ):
        if stop == "by itself":
            enough = Mock(side_effect=[False, True])
            list(gate.run(held, stop=enough))
        elif stop == "in the gate":
            monkeypatch.setattr(gate, "take", broken)
            list(gate.run(held))
        else:
            monkeypatch.setattr("click.echo", broken)
            runs._show(gate, partial(gate.run, held), form="json", quiet=False)
    assert [getgeneratorstate(each) for each in held.held] == [GEN_CLOSED] * 2  # tried, and run


@pytest.mark.parametrize(
    ("schedule", "header", "cost"),
    [
        (
            'kind = "fading"\nstep = 100',
            "Fading (step 100, forget 3/10, memory 7, first 1, linger 49/100)",
            "the newest records paid ",
        ),
        (
            'kind = "sliding"\nstep = 100\nwindow = 300\nrefit = true',
            "SlidingWindow (window 300, step 100, refit)",
            "these records paid ",
        ),
    ],
)
def test_a_model_that_remembers_more_than_it_reads_says_so(
    schedule: str, header: str, cost: str, folder: Path
) -> None:
    text = re.sub(r"\[schedule\][^\[]*", f"[schedule]\n{schedule}\n", written(folder))
    text = text.replace("[budget]", "[budget]\ndelta = 1e-6")  # a pure budget has no descent
    (folder / "gate.toml").write_text(text)
    write_csv(folder / "records.csv", 1000)
    *_, last = (
        line
        for line in tidegate("run", str(folder / "gate.toml")).stdout.splitlines()
        if line.startswith("release ")
    )
    assert f"remembering older ones through the release before; {cost}" in last
    state = str(folder / "gate.state")
    assert tidegate("status", state).stdout.startswith(header)
    assert tidegate("export", state, str(folder / "card.md")).returncode == 0
    card = (folder / "card.md").read_text()
    assert re.search(r"started from +\| the model of fit \d, so this model also remembers", card)
    one = "1 for all records" in card
    assert one == ("refit" in header)
    assert tidegate("verify", state).returncode == 0
