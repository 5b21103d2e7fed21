"""`tidegate check`: what it prints, for people and for programs."""

import json
import re
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.cli.run import json_lines, tidegate
from tests.state.gate_files import HEADER, TWO, config_text, write_csv


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "gate.toml").write_text(config_text())
    write_csv(tmp_path / "records.csv", 650)
    return tmp_path


def check(folder: Path, *words: str) -> str:
    done = tidegate("check", str(folder / "gate.toml"), str(folder / "records.csv"), *words)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


@pytest.mark.parametrize("form", ["table", "json"])
def test_private_records_do_not_change_what_is_printed(folder: Path, form: str) -> None:
    before = check(folder, "--format", form)
    (folder / "records.csv").write_text(HEADER + "patient 4711\n" * 650)
    assert check(folder, "--format", form) == before
    assert "voids the guarantee" in before
    assert not any(word in before for word in ["Usable", "Classes:", "quantiles"])


def test_nothing_is_kept(folder: Path) -> None:
    before = sorted(folder.iterdir())
    check(folder, "--public")
    assert sorted(folder.iterdir()) == before


def test_public_records_are_described(folder: Path) -> None:
    text = check(folder, "--public")
    assert "If they are not, choose no setting by what follows" in text
    assert "Usable: " in text
    assert "Classes: 0 " in text
    assert "Norms (quantiles): 0% " in text
    assert "release 4 models; 50 wait" in text
    (row,) = json_lines("check", str(folder / "gate.toml"), str(folder / "records.csv"), "--public")
    assert f"Usable: {row['found']['usable']:,} of 650" in text
    assert row["why_not_found"] is None
    assert set(row) >= {"file", "type", "records", "columns", "unusable_if", "plan", "found"}


def test_unknown_labels_are_shown(folder: Path) -> None:
    (folder / "records.csv").write_text(HEADER + "1,2,3,9\n")
    assert "labels that are no class: 9.0 1." in check(folder, "--public")


def test_many_columns_take_few_lines(folder: Path) -> None:
    names = [f"p{number}" for number in range(784)]
    text = config_text().replace('["a", "b", "c"]', json.dumps(names))
    (folder / "gate.toml").write_text(text)
    (folder / "records.csv").write_text(",".join([*names, "y", "[red]"]) + "\n")
    told = check(folder)
    assert "p0 ... p783 (784 columns)" in told
    assert "[red]" in told
    assert len(told.splitlines()) < 30
    assert len(json.loads(check(folder, "--format", "json"))["columns"]) == 786


def test_two_streams_and_json_lines_are_described(folder: Path) -> None:
    (folder / "gate.toml").write_text(config_text(schedule=TWO))
    (folder / "records.jsonl").write_text("{}\n")
    done = tidegate("check", str(folder / "gate.toml"), str(folder / "records.jsonl"))
    assert "steps of 200 source records and 100 target records" in done.stdout
    assert "Which keys the lines have is not checked" in done.stdout


def test_refusals_are_one_line(folder: Path) -> None:
    done = tidegate("check", str(folder / "gate.toml"), str(folder / "none.csv"))
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1


LONG = {
    "age_at_first_admission_in_years": pa.array([30.0, None] * 100),
    "age_at_first_admission_in_months": pa.array([300.0, 400.0] * 100),
    "patient_reported_outcome_measure_of_pain_after_the_second_visit": pa.array([1.5, 3.0] * 100),
    "patient_reported_outcome_measure_of_pain_after_the_second_visiT": pa.array([1.5, 3.0] * 100),
    "ward [red]": pa.array(["A", "B"] * 100).dictionary_encode(),
    "when": pa.array([0, 1] * 100, pa.timestamp("us", "Europe/Berlin")),
    "y": pa.array([1.0, 40.0] * 100),
}
LONG_COLUMNS = """
[schedule]
kind = "fading"
step = 50
[budget]
epsilon = 1.0
delta = 1e-6
[records]
classes = ["discharged on the same day", "kept for one night or longer"]
cuts = [15]
label = "y"
[[columns]]
name = "ward [red]"
kind = "category"
values = ["A"]
others = false
[[columns]]
name = "when"
kind = "time"
gaps = false
"""


def test_every_name_is_whole_at_80_columns(tmp_path: Path) -> None:
    """Names that are too long for their column go on in the next line."""
    numbers = [name for name in LONG if name not in {"ward [red]", "when", "y"}]
    more = [f'[[columns]]\nname = "{n}"\nkind = "number"\nlow = 0\nhigh = 1e6\n' for n in numbers]
    (tmp_path / "gate.toml").write_text(LONG_COLUMNS + "".join(more))
    pq.write_table(pa.table(LONG), tmp_path / "r.parquet")
    for public in ([], ["--public"]):
        words = ["check", str(tmp_path / "gate.toml"), str(tmp_path / "r.parquet"), *public]
        text = tidegate(*words, COLUMNS="80").stdout
        table = text.split("\n\n")[1].splitlines()
        assert max(map(len, table)) <= 80
        names: list[str] = []
        for line in table[3:]:
            name = line[:32].rstrip()
            if re.search("feature|label", line[32:]):
                names.append(name)
            else:
                names[-1] += name
        assert sorted(names) == sorted(LONG)
        whole = " ".join(re.sub(r"^.{32}", "", line) for line in table)
        assert "indices=int32" in re.sub(r"\s", "", whole)


def test_public_records_tell_where_columns_contradict_what_they_say(tmp_path: Path) -> None:
    (tmp_path / "gate.toml").write_text(LONG_COLUMNS)
    pq.write_table(
        pa.table({**LONG, "when": [None] * 3 + ["2024-01-01"] * 197}), tmp_path / "r.parquet"
    )
    words = ("check", str(tmp_path / "gate.toml"), str(tmp_path / "r.parquet"))
    private, public = tidegate(*words).stdout, tidegate(*words, "--public").stdout
    assert "ward [red]: 100 values are not listed, but others = false" in public
    assert "when: 3 values are missing, but gaps = false: their records are unusable" in public
    assert "or is missing where gaps = false, or is not listed where others = false: 102" in public
    assert "No value is missing" not in public  # too few records are usable
    assert "but gaps = false" not in private
    (row,) = json_lines(*words, "--public")
    assert row["found"]["gaps"] == {"when": 3}
    assert row["found"]["others"] == {"ward [red]": 100}
    assert row["found"]["bad_values"] == {"ward [red]": 100, "when": 3}
    assert len(row["advice"]) == 2


def test_public_records_tell_which_columns_could_be_without_gaps(tmp_path: Path) -> None:
    """If the budget has no delta: only then do fewer features mean less noise in each."""
    usual = LONG_COLUMNS.replace("others = false", "").replace("gaps = false", "")
    when = ["2024-01-01"] * 199 + [None]
    pq.write_table(pa.table({**LONG, "when": when}), tmp_path / "r.parquet")
    words = ("check", str(tmp_path / "gate.toml"), str(tmp_path / "r.parquet"))
    said = "in ward [red]: if it stays so, add"
    for delta in ("delta = 1e-6\n", ""):
        text = usual.replace('["A"]', '["A", "B"]').replace("delta = 1e-6\n", delta)
        (tmp_path / "gate.toml").write_text(text)
        public = tidegate(*words, "--public").stdout
        assert (f"No value is missing {said} gaps = false there." in public) == (not delta)
        assert (f"All values are listed {said} others = false" in public) == (not delta)
        assert said not in tidegate(*words).stdout
