"""[person]: what is fixed, what is refused in one line, and what a plan makes of it."""

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.state.gate_files import TWO, config_text, source_table, write_csv
from tidegate.cli.config_check import check_file
from tidegate.gate import Gate
from tidegate.privacy import ApproxDP, PureDP
from tidegate.privacy.person import Person
from tidegate.run.config import Config, ConfigError, example
from tidegate.run.config.config import OPERATIONAL
from tidegate.sources import SourceError
from tidegate.sources.kafka_topic import KafkaTopic
from tidegate.sources.nats_stream import NatsStream

PERSON = '[person]\nid = "p"\ncontributions = 4\n'
KAFKA = '[source]\ntype = "kafka"\nservers = "host:9092"\ntopic = "t"\n'
NATS = '[source]\ntype = "nats"\nurl = "nats://host:4222"\nstream = "s"\n'


def parsed(*tables: str, **more: str) -> Config:
    return Config.parse(config_text(*tables, **more))


def mistakes(*tables: str, **more: str) -> tuple[str, ...]:
    with pytest.raises(ConfigError) as caught:
        parsed(*tables, **more)
    return caught.value.mistakes


def test_the_plan_is_about_persons() -> None:
    plan = parsed(PERSON, "typical = 2.5\nperiod = 30\n").plan()
    assert plan.person == Person(contributions=4, typical=Fraction(5, 2), period=30)
    assert plan.budget == PureDP(1.0, contributions=4)
    text = config_text(PERSON).replace("epsilon = 1.0", "epsilon = 1.0\ndelta = 1e-6")
    assert Config.parse(text).plan().budget == ApproxDP(1.0, 1e-6, contributions=4)
    two = parsed(PERSON, schedule=TWO).plan()
    assert two.person == Person(contributions=4)
    assert two.budget.contributions == 4


def test_without_person_nothing_is_different() -> None:
    config = parsed()
    assert "person" not in json.loads(config.to_json())
    assert config.plan().person is None
    assert config.plan().budget == PureDP(1.0)
    assert config.source_columns().person is None
    assert config.source_columns().read == config.source_columns().names


@given(
    st.integers(1, 2**20),
    st.fractions(1, 2**10, max_denominator=1000),
    st.none() | st.integers(1, 2**40),
    st.none() | st.just("PERSON_KEY"),
)
def test_json_says_all_of_it(
    k: int, typical: Fraction, period: int | None, key: str | None
) -> None:
    keys: dict[str, Any] = {"id": "p", "contributions": k, "typical": str(typical)}
    keys |= {} if period is None else {"period": period}
    keys |= {} if key is None else {"key": key}
    tables = {
        "schedule": {"kind": "independent", "step": 10},
        "budget": {"epsilon": 1.0},
        "records": {"classes": [0, 1], "norm": 1.0},
        "person": keys,
    }
    config = Config.of(tables)
    assert Config.from_json(config.to_json()) == config.settled()
    assert config.person is not None
    assert config.person.build() == Person(contributions=k, typical=typical, period=period)
    fixed = json.loads(config.privacy_json())["person"]
    assert fixed == {name: value for name, value in keys.items() if name != "key"}


@pytest.mark.parametrize(
    ("table", "mistake"),
    [
        ('id = "p"', "person.contributions is missing: add it"),
        ("contributions = 4", "person.id is missing: add it"),
        ('id = ""\ncontributions = 4', "person.id must be a text that is not empty"),
        ('id = "p"\ncontributions = 0', "person.contributions must be a whole number from 1"),
        ('id = "p"\ncontributions = 2.5', "person.contributions must be a whole number from 1"),
        ('id = "p"\ncontributions = 1048577', "person.contributions must be a whole number"),
        ('id = "p"\ncontributions = true', "person.contributions must be a whole number"),
        ('id = "p"\ncontributions = 4\nperiod = 0', "person.period must be a whole number"),
        ('id = "p"\ncontributions = 4\ntypical = 0.5', "person.typical must be a number from 1"),
        ('id = "p"\ncontributions = 4\ntypical = "1/0"', "person.typical must be a number from 1"),
        ('id = "p"\ncontributions = 4\ntypical = nan', "person.typical must be a number from 1"),
        ('id = "p"\ncontributions = 4\ntypical = 1e400', "person.typical must be a number from 1"),
        ('id = "p"\ncontributions = 4\ntypical = 1.00001', "person.typical must be a number"),
        ('id = "p"\ncontributions = 4\nkey = "a b"', "person.key must be the name of an environm"),
        ('id = "p"\ncontributions = 4\nsample = 4', "person.sample is not a known key"),
        ('id = "a"\ncontributions = 4', "person.id must be a column of its own, not that of a f"),
        ('id = "y"\ncontributions = 4', "person.id must be a column of its own, not that of the"),
    ],
)
def test_a_mistake_is_one_line(table: str, mistake: str) -> None:
    (found,) = mistakes(f"[person]\n{table}\n")
    assert found.startswith(mistake)


def test_a_key_that_is_written_down_is_not_shown() -> None:
    secret = "c0ffee-c0ffee-c0ffee"
    (found,) = mistakes(PERSON, f'key = "{secret}"\n')
    assert secret not in found


def test_samples_are_refused_in_one_line() -> None:
    sampled = 'kind = "sliding"\nwindow = 300\nstep = 100\nsample = 50'
    (found,) = mistakes(PERSON, schedule=sampled)
    assert found == "schedule.sample must not be given with [person]: remove one of the two"
    (found,) = mistakes(PERSON, schedule=TWO + "\nsample = 50")
    assert found.startswith("schedule.source.sample must not be given with [person]")


def test_two_streams_have_no_period() -> None:
    (found,) = mistakes(PERSON, "period = 30\n", schedule=TWO)
    assert found.startswith("person.period must be left out with two streams")


def test_an_id_that_is_a_text_is_refused_too() -> None:
    text = config_text('[[features]]\nmap = "text"\n', PERSON.replace('"p"', '"body"'))
    with pytest.raises(ConfigError, match="not that of a feature"):
        Config.parse(text.replace('columns = ["a", "b", "c"]', 'text = "body"'))


@pytest.mark.parametrize(
    ("change", "line"),
    [
        (("contributions = 4", "contributions = 8"), "person.contributions: 4 before, now 8"),
        (('id = "p"', 'id = "q"'), 'person.id: "p" before, now "q"'),
        (("= 4\n", "= 4\nperiod = 7\n"), "person.period: absent before, now 7"),
        (("= 4\n", "= 4\ntypical = 2\n"), 'person.typical: "1" before, now "2"'),
        ((PERSON, ""), 'person.id: "p" before, now absent'),
    ],
)
def test_a_later_change_is_refused_in_one_line(
    tmp_path: Path, change: tuple[str, str], line: str
) -> None:
    text = config_text(PERSON)
    Gate.open(tmp_path / "state", Config.parse(text)).close()
    with pytest.raises(ConfigError) as refused:
        Gate.open(tmp_path / "state", Config.parse(text.replace(*change)))
    assert line in str(refused.value)
    assert "\n" not in str(refused.value)
    Gate.open(tmp_path / "state", Config.parse(text)).close()


def test_a_state_of_records_does_not_begin_to_protect_persons(tmp_path: Path) -> None:
    Gate.open(tmp_path / "state", parsed()).close()
    with pytest.raises(ConfigError, match=r"person\.contributions: absent before, now 4"):
        Gate.open(tmp_path / "state", parsed(PERSON))


def test_where_the_key_is_may_change() -> None:
    assert "person" not in OPERATIONAL
    named, plain = parsed(PERSON, 'key = "PERSON_KEY"\n'), parsed(PERSON)
    assert named.privacy_json() == plain.privacy_json()
    assert named.to_json() != plain.to_json()


def test_no_state_is_made_for_a_file_without_the_column(tmp_path: Path) -> None:
    write_csv(tmp_path / "r.csv", 120)
    config = parsed(PERSON, source_table(tmp_path / "r.csv"))
    with pytest.raises(SourceError, match=r"column p is not in .*: check the column names"):
        Gate.open(tmp_path / "state", config, sources=config.sources())
    assert not (tmp_path / "state").exists()


def test_a_header_of_a_message_is_said_in_source() -> None:
    for table, kind in ((KAFKA, KafkaTopic), (NATS, NatsStream)):
        (source,) = parsed(PERSON, table, 'id_from = "header"\n').sources().values()
        assert isinstance(source, kind)
        assert (source.id_header, source.columns.person) == ("p", "p")
        for more in ("", 'id_from = "field"\n'):
            (source,) = parsed(PERSON, table, more).sources().values()
            assert isinstance(source, kind)
            assert (source.id_header, source.columns.person) == (None, "p")
        (found,) = mistakes(table, 'id_from = "header"\n')
        assert found == "source.id_from needs [person]: add that section, or remove source.id_from"
        (found,) = mistakes(PERSON, table, 'id_from = "column"\n')
        assert found.startswith("source.id_from must be one of field, header")
    (found,) = mistakes(PERSON, source_table("r.csv"), 'id_from = "header"\n')
    assert found == "source.id_from is a key of kafka, nats, not of csv: remove it"


def test_a_holdout_needs_no_ids(tmp_path: Path) -> None:
    write_csv(tmp_path / "public.csv", 120)
    holdout = parsed(PERSON, f'[quality]\nholdout = "{tmp_path / "public.csv"}"\n').holdout()
    assert holdout is not None
    (batch,) = holdout.batches(None)
    assert (batch.n, batch.persons) == (120, None)


@pytest.mark.parametrize("kind", ["sliding", "fading", "growing", "twostream"])
def test_init_writes_the_keys_as_comments(kind: str) -> None:
    text = example(kind)
    assert Config.parse(text).person is None
    lines = text.splitlines()
    start = lines.index("# [person]")
    keys = [line.removeprefix("# ") for line in lines[start : start + 6]]
    assert [line.partition(" ")[0] for line in keys[1:]] == [
        "id",
        "contributions",
        "typical",
        "period",
        "key",
    ]
    lines[start : start + 6] = [
        line for line in keys if kind != "twostream" or "period" not in line
    ]
    person = Config.parse("\n".join(lines)).person
    assert person is not None
    assert person.id == "patient"


# -- check


def checked(tmp_path: Path, ids: list[str], **how: Any) -> Any:
    path = tmp_path / "r.csv"
    path.write_text("a,b,c,y,p,q\n" + "".join(f"1,1,1,0,{each},7\n" for each in ids))
    return check_file(parsed(PERSON), path, **how)


def test_check_says_what_the_id_column_is_and_nothing_about_ids(tmp_path: Path) -> None:
    one = checked(tmp_path, ["ada", "", "x" * 2000])
    roles = {each.name: (each.role, each.read_as) for each in one.columns}
    assert roles["p"] == ("person", "id")
    assert roles["q"] == ("ignored", None)
    assert "person's id is missing" in one.unusable_if["person"]
    assert checked(tmp_path, ["eve", "bob", "ann"]) == one
    assert one.found is None


def test_check_counts_missing_ids_of_public_records_only(tmp_path: Path) -> None:
    found = checked(tmp_path, ["ada", "", "x" * 2000], public=True).found
    assert found.usable == 1
    assert found.unusable == {"person": 2}
    assert found.bad_values == {"p": 2}


def test_check_names_a_missing_id_column(tmp_path: Path) -> None:
    write_csv(tmp_path / "r.csv", 3)
    with pytest.raises(SourceError, match=r"column p is not in .*text, label, person\.id"):
        check_file(parsed(PERSON), tmp_path / "r.csv")
