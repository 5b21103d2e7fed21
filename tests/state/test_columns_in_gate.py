"""Tables in a gate: every source reads a value alike, and the store keeps a few numbers of it."""

import datetime
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cli.run import json_lines, tidegate
from tests.data.tables import texts
from tidegate import ApproxDP, SlidingWindowClassifier
from tidegate.checks import InvalidValueError
from tidegate.cli.proposed_columns import propose
from tidegate.gate import Gate
from tidegate.release.export_formats import export, load
from tidegate.run.config import Config
from tidegate.run.config.example import skeleton
from tidegate.run.config.keys import ConfigError
from tidegate.run.config.texts import tables_in, tables_of
from tidegate.schedule import Span
from tidegate.sources.arrow_records import ArrowRecords
from tidegate.sources.csv_file import Csv
from tidegate.sources.json_lines import JsonLines
from tidegate.sources.parquet import Parquet, arrow_bytes

COLUMNS = """
[[columns]]
name = "age"
kind = "number"
low = 0
high = 100
[[columns]]
name = "ward"
kind = "category"
values = ["A", "B", "é"]
[[columns]]
name = "code"
kind = "category"
hash = 8
[[columns]]
name = "smoker"
kind = "flag"
[[columns]]
name = "seen"
kind = "time"
parts = ["hour", "weekday", "month", "year"]
low = 2000
high = 2030
"""

CONFIG = """
[schedule]
kind = "sliding"
window = 300
step = 100
[budget]
epsilon = 1.0
delta = 1e-6
[records]
classes = ["well", "ill"]
label = "y"
{records}
{columns}
"""

NAMES = ["age", "ward", "code", "smoker", "seen"]


def config(records: str = "", columns: str = COLUMNS, more: str = "") -> Config:
    return Config.parse(CONFIG.format(records=records, columns=columns) + more)


def rows(n: int, seed: int = 0) -> list[dict[str, Any]]:
    rng = np.random.default_rng(seed)
    made = []
    for _ in range(n):
        age, gap = int(rng.integers(0, 100)), rng.random(5) < 0.1
        values = [
            str(age),
            "AB"[rng.integers(2)],
            f"x{rng.integers(50)}",
            "yes" if rng.random() < 0.3 else "no",
            f"20{rng.integers(10, 30)}-0{rng.integers(1, 10)}-17T0{rng.integers(10)}:30:00Z",
        ]
        row = {k: "" if g else v for k, v, g in zip(NAMES, values, gap, strict=True)}
        made.append({**row, "y": "ill" if age + 20 * rng.random() > 60 else "well"})
    return made


def write(path: Path, records: list[dict[str, Any]]) -> Path:
    if path.suffix == ".csv":
        lines = [",".join([*NAMES, "y"]), *(",".join(row.values()) for row in records)]
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    elif path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in records), encoding="utf-8")
    else:
        pq.write_table(pa.Table.from_pylist(records), path)
    return path


FORMATS = {".csv": Csv, ".jsonl": JsonLines, ".parquet": Parquet}


@pytest.mark.parametrize("suffix", FORMATS)
def test_every_format_reads_the_same_records(suffix: str, tmp_path: Path) -> None:
    records, used = rows(50), config()
    path = write(tmp_path / f"r{suffix}", records)
    (raw,) = FORMATS[suffix](name="r", path=path, columns=used.source_columns()).batches(None)
    columns = used.column_map()
    assert columns is not None
    assert columns.transform(raw.X).tobytes() == columns.transform(records).tobytes()
    assert list(raw.y) == [row["y"] for row in records]


@pytest.mark.thorough
@given(st.lists(st.tuples(texts, texts, texts), min_size=1, max_size=12))
@settings(max_examples=60, deadline=None)
def test_a_csv_value_means_the_same_beside_any_others(cells: list[tuple[str, str, str]]) -> None:
    """Arrow types whole columns; a value that it refuses must not change how others are read."""
    plain = [
        [each.replace(",", "").replace("\n", "").replace("\r", "").replace('"', "") for each in row]
        for row in cells
    ]
    lines = [",".join(["5", *row, "yes", "2020-01-01", "ill"]) for row in plain]
    encoded = [line.encode(errors="surrogatepass") for line in lines]
    used = config(columns=COLUMNS.replace('"age"', '"n"', 1))
    used_columns = used.source_columns()
    columns = used.column_map()
    assert columns is not None
    names = ["extra", "n", "ward", "code", "smoker", "seen", "y"]
    reader, wanted = Csv(path="r.csv", columns=used_columns), used_columns.find(names, "r.csv")
    together = columns.transform(reader._batch(encoded, names, wanted).X)
    alone = [columns.transform(reader._batch([line], names, wanted).X) for line in encoded]
    assert together.tobytes() == np.concatenate(alone).tobytes()


@pytest.mark.parametrize("other", ["1,A,x,yes,2020-01-01,ill", '1,A,"x",yes,2020-01-01,ill'])
def test_a_mark_before_the_first_line_of_a_batch_stays(other: str) -> None:
    """Arrow drops a byte order mark there; a line cannot know that it is the first."""
    used = config()
    columns, reads = used.column_map(), used.source_columns()
    assert columns is not None
    names, marked = [*NAMES, "y"], "\ufeff5,A,x,yes,2020-01-01,ill".encode()
    for lines in ([marked, other.encode()], [other.encode(), marked]):
        raw = Csv(path="r.csv", columns=reads)._batch(lines, names, reads.find(names, "r.csv"))
        made = columns.transform(raw.X)
        assert np.isnan(made).any(axis=1).tolist() == [line == marked for line in lines]


def test_a_parquet_text_that_is_not_utf8_loses_its_own_record_only() -> None:
    data = [pa.py_buffer(np.array([0, 1, 2], np.int32).tobytes()), pa.py_buffer(b"\xff5")]
    broken = pa.Array.from_buffers(pa.string(), 2, [None, *data])
    used = config()
    columns, reads = used.column_map(), replace(used.source_columns(), person="who")
    assert columns is not None
    batch = pa.table({**dict.fromkeys([*NAMES, "who"], broken), "y": broken})
    raw = ArrowRecords(columns=reads).part(batch)
    assert list(raw.y) == raw.persons == [None, "5"]
    assert np.isnan(columns.transform(raw.X[:1])).all()
    assert '"age": "what Python cannot hold"' in raw.arrived(0)


@pytest.mark.parametrize("aliases", [{"who": "age"}, {"y": "age"}, {"who": "z", "age": "z"}])
def test_two_names_for_one_column_of_a_file_are_refused(aliases: dict[str, str]) -> None:
    """An id that is a number's column, too, would be 1.0 among numbers and "1" beside a quote."""
    reads = replace(config().source_columns(), person="who")
    with pytest.raises(InvalidValueError, match="another column of the file for each name"):
        reads.with_aliases(aliases)
    assert reads.with_aliases({"who": "id", "age": "years"}).called("age") == "years"


def run(state: Path, used: Config, path: Path) -> Gate:
    gate = Gate.open(state, used)
    list(gate.run({"records": used.source_of(path)}))
    return gate


@pytest.mark.parametrize("suffix", FORMATS)
def test_a_gate_learns_from_a_table(suffix: str, tmp_path: Path) -> None:
    path = write(tmp_path / f"r{suffix}", rows(500))
    seed = "[learner]\nloss = 'logistic'\n"
    with run(tmp_path / "s", config(more=seed), path) as gate:
        releases = list(gate.releases())
        stored = gate.store.read("records", Span(400, 500)).X
    assert [each.card["at"] for each in releases] == [300, 400, 500]
    assert stored.shape == (100, 8)  # packed: the features of a record are 26
    card = releases[-1].card
    assert card["columns"] == NAMES
    assert card["features"][0]["kind"] == "Columns"
    assert len(card["features"][0]["columns"]) == 5
    assert card["norm"] == pytest.approx(8**0.5, rel=1e-5)
    model = releases[-1].model()
    again = model.predict_proba([{"age": 90, "ward": None, "code": 3, "smoker": True}])
    assert again.shape == (1, 2)


def test_exports_take_raw_columns(tmp_path: Path) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    path = write(tmp_path / "r.csv", rows(400))
    with run(tmp_path / "s", config(), path) as gate:
        release = list(gate.releases())[-1]
    tests = rows(200, seed=1)
    tests += [dict.fromkeys(NAMES, ""), {**tests[0], "ward": "other one", "age": "1e9"}]
    expected = release.model().predict_proba(tests)
    for suffix in ("npz", "safetensors"):
        export(release, tmp_path / f"m.{suffix}")
        assert np.array_equal(load(tmp_path / f"m.{suffix}").predict_proba(tests), expected)
    export(release, tmp_path / "m.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "m.onnx")
    assert [each.name for each in session.get_inputs()] == NAMES
    _, probabilities = session.run(None, onnx_inputs(tests))
    assert probabilities == pytest.approx(expected, abs=1e-6)


def onnx_inputs(tests: list[dict[str, Any]]) -> dict[str, Any]:
    def column(name: str, kind: Any, missing: Any, of: Any = float) -> Any:
        values = [missing if row.get(name, "") == "" else of(row[name]) for row in tests]
        return np.array(values, kind)[:, None]

    def seconds(text: str) -> int:
        return int(np.datetime64(text.removesuffix("Z"), "s").astype(np.int64))

    return {
        "age": column("age", np.float64, np.nan),
        "ward": column("ward", object, "", str),
        "code": column("code", object, "", str),
        "smoker": column("smoker", np.float64, np.nan, lambda text: float(text == "yes")),
        "seen": column("seen", np.int64, np.iinfo(np.int64).min, seconds),
    }


def test_labels_can_be_numbers_with_cuts(tmp_path: Path) -> None:
    used = config("cuts = [15]\n").records
    assert used.cuts == (15.0,)
    columns = COLUMNS.split("[[columns]]")[1]
    lines = [f"{i % 100},{['', 'NA', '15', '15.5', '-3'][i % 5]}" for i in range(200)]
    path = tmp_path / "r.csv"
    path.write_text("\n".join(["age,y", *lines]) + "\n")
    with run(tmp_path / "s", config("cuts = [15]\n", f"[[columns]]{columns}"), path) as gate:
        records = gate.store.read("records", Span(0, 200))
    assert records.usable[:5].tolist() == [False, False, True, True, True]
    assert records.y[:5].tolist() == [0, 0, 0, 1, 0]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("high = 100", "high = -1"), r"columns\[0\], column age: low must be below high"),
        (('kind = "flag"', 'kind = "money"'), r"columns\[3\]\.kind must be one of number, categ"),
        (('name = "code"', 'name = "age"'), "columns: column age is named 2 times"),
        (("hash = 8", "hsh = 8"), r"columns\[2\]\.hsh is not a known key: did you mean .*hash"),
        (("hash = 8", "low = 8"), r"columns\[2\]\.low is not a key of a category column"),
        (("low = 0", ""), r"columns\[0\]\.low is missing"),
        (('name = "age"', ""), r"columns\[0\]\.name is missing"),
        (('label = "y"', 'label = "age"'), "records.label must be a column that is not in"),
        (('label = "y"', 'label = "y"\ntext = "z"'), "records.text must not be given with"),
        (('label = "y"', 'label = "y"\ncuts = [1, 2]'), "records.cuts must be 1 numbers for 2"),
        (('label = "y"', 'label = "y"\ncuts = [2, 1]'), "records.cuts must be a list of one or"),
    ],
)
def test_a_mistake_in_columns_gets_one_clear_line(change: tuple[str, str], message: str) -> None:
    text = CONFIG.format(records="", columns=COLUMNS)
    assert change[0] in text
    with pytest.raises(ConfigError, match=message) as caught:
        Config.parse(text.replace(*change, 1))
    assert all(len(each) < 200 for each in caught.value.mistakes)


def test_the_norm_is_needed_without_columns_and_frozen_with_them() -> None:
    with pytest.raises(ConfigError, match=r"records\.norm is missing: add it, or describe"):
        config(columns="")
    used = config()
    assert used.norm == pytest.approx(8**0.5, rel=1e-5)
    assert json.loads(used.privacy_json())["records"]["norm"] == used.norm
    assert Config.from_json(used.to_json()) == used.settled()
    with pytest.raises(ConfigError, match=r"with \[\[features\]\] it does not follow"):
        config(more='[[features]]\nmap = "intercept"\n')


def test_a_parquet_column_of_another_type_affects_its_own_records(tmp_path: Path) -> None:
    """One record can make the column of a file one of lists; by rule 1 the file is refused."""
    table = pa.table({**{name: ["x"] for name in NAMES}, "y": ["ill"]})
    table = pa.concat_tables([table, table]).combine_chunks()
    path = tmp_path / "r.parquet"
    for odd in ([1.5], ["a"], {"a": 1}, [None] * 5, datetime.time(5), 3):
        mixed = table.set_column(4, "seen", pa.array([odd, None]))
        pq.write_table(mixed, path)
        columns = config().source_columns()
        (batch,) = Parquet(name="r", path=path, columns=columns).batches(None)
        assert columns.kinds is not None
        assert columns.kinds.bad(batch.X)["seen"].tolist() == [True, False]
        old = Parquet(name="r", path=path, columns=replace(columns, spelling=1))
        with pytest.raises(InvalidValueError, match=r"column seen of .* holds .*, which a time"):
            list(old.batches(None))


@pytest.mark.parametrize("engine", ["memory", "disk"])
def test_engines_read_packed_records(engine: str, tmp_path: Path) -> None:
    path = write(tmp_path / "r.csv", rows(400))
    more = f'not_private_seed = 7\n[compute]\nengine = "{engine}"\n'
    used = Config.parse(more.split("\n", 1)[0] + CONFIG.format(records="", columns=COLUMNS))
    used = replace(used, compute=replace(used.compute, engine=engine))
    with run(tmp_path / engine, used, path) as gate:
        weights = list(gate.releases())[-1].weights
    reference = rows(400)
    clf = SlidingWindowClassifier(
        budget=ApproxDP(1.0, 1e-6), window=300, step=100, classes=["well", "ill"],
        features=used.column_map(), survey=0, not_private_seed=7,
    )  # fmt: skip
    clf.fit([{k: row[k] for k in NAMES} for row in reference], [row["y"] for row in reference])
    assert weights.shape[0] == clf.releases_[-1].weights.shape[0] + 1  # a gate surveys


def test_the_quarantine_says_which_column_is_at_fault(tmp_path: Path) -> None:
    records = rows(20)
    records[3]["age"], records[5]["seen"], records[5]["smoker"] = "old", "yesterday", "maybe"
    records[7]["y"] = "dead"
    with run(tmp_path / "s", config(), write(tmp_path / "r.csv", records)) as gate:
        found = {bad.slot: bad.reason for bad in gate.store.quarantine("records")}
    assert found == {
        3: "not of its column's kind: age",
        5: "not of its column's kind: smoker, seen",
        7: "the label is not a class",
    }


def test_a_table_from_file_to_prediction_without_code(tmp_path: Path) -> None:
    """The commands that a new user types, on names and values of a file that nobody prepared."""
    write(tmp_path / "r.csv", rows(500))
    write(tmp_path / "new.csv", [*rows(5, seed=2), {**rows(1)[0], "age": "old"}])
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path)
        assert tidegate("init", "fading", "--from", "r.csv", "--label", "y").returncode == 0
        text = (tmp_path / "tidegate.toml").read_text()
        assert '{name = "age", kind = "?"},' in text
        assert "ill" not in text  # no record was read
        edits = {
            '{name = "age", kind = "?"},': '{name = "age", kind = "number", low = 0, high = 100},',
            '{name = "ward", kind = "?"},': '{name = "ward", kind = "category", hash = 64},',
            '{name = "code", kind = "?"},': "",
            '{name = "smoker", kind = "?"},': "",
            '{name = "seen", kind = "?"},': "",
            'classes = "?"': 'classes = ["well", "ill"]',
            "step = 1024": "step = 100",
        }  # fmt: skip
        for old, new in edits.items():
            assert old in text
            text = text.replace(old, new)
        (tmp_path / "tidegate.toml").write_text(text)
        assert "number from 0 to 100" in tidegate("check", "tidegate.toml", "r.csv").stdout
        assert len(json_lines("run", "tidegate.toml")) == 5
        assert json_lines("verify", "tidegate.state") == [
            {"sound": True, "problems": [], "checked_as": "state"}
        ]
        predicted = json_lines("predict", "tidegate.state", "new.csv")
        assert [row["label"] is None for row in predicted] == [False] * 5 + [True]
        renamed = (tmp_path / "new.csv").read_text().replace("age", "Alter", 1)
        (tmp_path / "new.csv").write_text(renamed)
        assert "column age is not in" in tidegate("predict", "tidegate.state", "new.csv").stderr
        words = ("predict", "tidegate.state", "new.csv", "--column", "age=Alter")
        assert json_lines(*words) == predicted


def test_public_records_suggest_kinds(tmp_path: Path) -> None:
    write(tmp_path / "r.csv", rows(500))
    source = propose(tmp_path / "r.csv", label="y", public=True)
    assert {each.name: each.kind for each in source.columns} == {
        "age": "number", "ward": "category", "code": "category", "smoker": "flag", "seen": "time",
    }  # fmt: skip
    assert source.outcome == ['classes = ["ill", "well"]  # all possible labels']
    parsed = Config.parse(skeleton("fading", source))
    assert parsed.read == tuple(NAMES)
    for suffix in (".parquet", ".jsonl"):
        path = write(tmp_path / f"r{suffix}", rows(50))
        assert [each.name for each in propose(path, label="y", public=True).columns] == NAMES
    with pytest.raises(InvalidValueError, match="only with --public"):
        propose(tmp_path / "r.jsonl")
    with pytest.raises(InvalidValueError, match="column z is not in"):
        propose(tmp_path / "r.csv", label="z")


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_digests_do_not_depend_on_how_rows_are_divided(data: st.DataObject) -> None:
    kinds: list[tuple[pa.DataType, st.SearchStrategy[Any]]] = [
        (pa.string(), st.text(max_size=3)),
        (pa.large_string(), st.text(max_size=3)),
        (pa.float32(), st.floats(width=32)),
        (pa.int8(), st.integers(-128, 127)),
        (pa.bool_(), st.booleans()),
        (pa.date32(), st.dates()),
        (pa.timestamp("us", "UTC"), st.datetimes()),
        (pa.decimal128(5, 2), st.decimals(-99, 99, places=2)),
        (pa.list_(pa.float64()), st.lists(st.floats(), max_size=3)),
        (pa.list_(pa.int8(), 2), st.lists(st.integers(-9, 9), min_size=2, max_size=2)),
    ]
    kind, some = data.draw(st.sampled_from(kinds))
    array = pa.array(data.draw(st.lists(some | st.none(), max_size=8)), kind)
    cut = data.draw(st.integers(0, len(array)))
    whole = [bytes(each) for each in arrow_bytes(array)]
    halves = [arrow_bytes(part) for part in (array.slice(0, cut), array.slice(cut))]
    assert whole == [bytes(one) + bytes(other) for one, other in zip(*halves, strict=True)]
    assert len(whole) == len(arrow_bytes(pa.array([], kind)))
    if len(array) and array[-1].is_valid:  # NaN does not equal itself, so arrays are not compared
        other = pa.array([*array.to_pylist()[:-1], None], kind)
        assert whole != [bytes(each) for each in arrow_bytes(other)]


def test_a_parquet_file_of_any_kind_is_resumed_and_known_again(tmp_path: Path) -> None:
    path, public = tmp_path / "r.parquet", tmp_path / "public.parquet"
    table = pa.Table.from_pylist(rows(250))
    pq.write_table(table, path, row_group_size=70)
    pq.write_table(pa.Table.from_pylist(rows(60, seed=9)), public)
    used = config(more=f'[quality]\nholdout = "{public}"\n')
    with run(tmp_path / "s", used, path) as gate:
        assert gate.store.count("records") == 250
        assert list(gate.run({"records": used.source_of(path)})) == []
    longer = pa.concat_tables([table, pa.Table.from_pylist(rows(9, seed=8))])
    pq.write_table(longer, public, row_group_size=33)  # now it is the source, divided otherwise
    with pytest.raises(InvalidValueError, match="it starts with records that were taken"):
        Gate.open(tmp_path / "s")
    pq.write_table(pa.Table.from_pylist(rows(60, seed=9)), public)
    pq.write_table(table.set_column(0, "age", pa.array(["1"] * 250)), path)
    with (
        Gate.open(tmp_path / "s") as gate,
        pytest.raises(InvalidValueError, match="does not start with"),
    ):
        list(gate.run({"records": used.source_of(path)}))


@pytest.mark.parametrize(
    ("column", "mistake"),
    [
        ({"kind": ["number"], "low": 0}, "columns[0].kind must be one of number, category, "),
        ({"kind": "numbr", "low": 0}, "columns[0].kind must be one of number, category, "),
        ({"low": 0, "high": 1}, "columns[0].kind is missing"),
        ({"kind": "time", "parts": [["hour"]]}, "columns[0].parts must be a list of some of"),
        (
            {"kind": "category", "values": [10**400]},
            "columns[0].values must be a list of different",
        ),
        (
            {"kind": "category", "values": ["a", "b"], "gaps": ["b"]},
            "columns[0], column c: 'b' must be in values or in gaps, not in both",
        ),
    ],
)
def test_a_mistake_in_a_column_is_one_line(column: dict[str, Any], mistake: str) -> None:
    with pytest.raises(ConfigError) as refused:
        Config.of(
            {
                "schedule": {"kind": "independent", "step": 100},
                "budget": {"epsilon": 1.0},
                "records": {"classes": [0, 1], "label": "y"},
                "columns": [{"name": "c", **column}],
            }
        )
    assert len(refused.value.mistakes) == 1
    assert refused.value.mistakes[0].startswith(mistake)


def test_a_file_that_starts_with_a_byte_order_mark_is_read(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text("\ufeff[records]\n", encoding="utf-8")
    assert tables_in(tmp_path / "a.toml") == {"records": {}}


def test_lists_that_are_nested_too_deep_are_refused() -> None:
    with pytest.raises(ConfigError, match="nested too deep"):
        tables_of("a = " + "[" * 5000 + "]" * 5000)


def test_a_public_parquet_file_of_any_types_is_proposed(tmp_path: Path) -> None:
    late = pa.array([0, 2**60], pa.timestamp("us"))
    table = {"scan": [[3.0, 4.0], [0.0, 1.0]], "late": late, "age": [1, 2], "y": ["a", "b"]}
    pq.write_table(pa.table(table), tmp_path / "a.parquet")
    found = propose(tmp_path / "a.parquet", label="y", public=True).columns
    assert [each.kind for each in found] == ["vector", "category", "number"]
    assert found[0].keys == {"size": 2, "norm": 5.0}
