"""A configuration means one thing, says everything, and every mistake is named by its key."""

import json
import re
import tarfile
from contextlib import chdir
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.state.states.make import FIRST, HERE, STATE, grow
from tests.state.states.make import config as earlier
from tests.strategies import budgets, schedules
from tidegate.data.intake import clean
from tidegate.gate import Gate
from tidegate.kinds import kinds_with, parameters
from tidegate.learn import GradientPerturbation, Logistic, OutputPerturbation, Softmax
from tidegate.learn.learner import LEARNERS
from tidegate.privacy import ApproxDP, Budget, PureDP, Tapered
from tidegate.run.config import Config, ConfigError, differences, example
from tidegate.schedule import (
    Basic,
    Continual,
    Cumulative,
    Fading,
    Growing,
    Independent,
    MultiResolution,
    Schedule,
    SlidingWindow,
    TwoStream,
)
from tidegate.schedule.plan import Plan, TwoStreamPlan, default_survey

KINDS = {
    SlidingWindow: "sliding",
    Continual: "continual",
    Fading: "fading",
    Growing: "growing",
    MultiResolution: "multiresolution",
    Basic: "basic",
    Independent: "independent",
}


def minimal(**sections: Any) -> dict[str, Any]:
    return {
        "schedule": {"kind": "sliding", "window": 70, "step": 10},
        "budget": {"epsilon": 1.0},
        "records": {"classes": [0, 1], "norm": 1.0},
    } | sections


def mistakes(**sections: Any) -> tuple[str, ...]:
    with pytest.raises(ConfigError) as caught:
        Config.of(minimal(**sections))
    assert str(caught.value) == "\n".join(caught.value.mistakes)
    return caught.value.mistakes


@pytest.mark.parametrize("kind", [*KINDS.values(), "twostream"])
def test_the_example_of_every_kind_is_valid_and_survives_json(kind: str) -> None:
    config = Config.parse(example(kind))
    assert config.schedule.kind == kind
    assert Config.from_json(config.to_json()) == config.settled()
    assert isinstance(config.plan(), TwoStreamPlan if kind == "twostream" else Plan)
    assert max(map(len, example(kind).splitlines())) <= 100


def test_the_example_leaves_room_for_columns_of_any_scale() -> None:
    config = Config.parse(example("sliding"))
    assert config.plan().survey > 0
    assert config.norm >= 10


def test_a_key_that_is_left_out_is_taken_from_the_state(tmp_path: Path) -> None:
    budget = {"epsilon": 1.0, "delta": 1e-6}
    tenth = Config.of(minimal(budget=budget, survey={"share": "1/10"}))
    Gate.open(tmp_path / "state", tenth).close()
    left_out = Config.of(minimal(budget=budget))
    assert left_out.plan().survey == Fraction(1, 20)  # the default of a new state
    with Gate.open(tmp_path / "state", left_out) as gate:
        assert gate.plan.survey == gate.config.survey.share == Fraction(1, 10)
        assert gate.plan.reserve == Fraction(1, 20)
        assert gate.config.quality.scores
    other = Config.of(minimal(budget=budget, survey={"share": "1/20"}))
    with pytest.raises(ValueError, match=r"survey\.share"):
        Gate.open(tmp_path / "state", other)


def test_a_state_of_an_earlier_version_goes_on_without_what_it_did_not_have(
    tmp_path: Path,
) -> None:
    with tarfile.open(HERE / "4-sliding.tar.gz") as archive:
        archive.extractall(tmp_path, filter="data")
    grow(tmp_path, 0, FIRST)
    left_out = earlier("sliding")
    assert left_out.survey.share is None
    assert left_out.settled().quality.scores
    with chdir(tmp_path), Gate.open(STATE, left_out) as gate:
        assert gate.plan.survey == gate.config.survey.share == 0
        assert gate.config.quality.share == Fraction(1, 20)  # as the state had it
        assert gate.config.quality.scores is False


def test_an_example_of_no_kind_is_refused() -> None:
    with pytest.raises(ValueError, match=r"^kind must be one of basic, .*, got 'slide'$"):
        example("slide")


@given(schedules.filter(lambda schedule: not isinstance(schedule, Cumulative)), budgets)
def test_the_plan_is_the_one_that_was_written_down(schedule: Schedule, budget: Budget) -> None:
    sizes: dict[str, Any] = {k: v for k, v in vars(schedule).items() if isinstance(v, int)}
    names = ("window", "block", "step", "sample", "memory", "first")
    table: dict[str, Any] = {name: sizes[name] for name in names if name in sizes}
    for name in ("growth", "forget", "linger"):
        if hasattr(schedule, name):
            table[name] = str(getattr(schedule, name))
    if getattr(schedule, "refit", None):
        table["refit"] = True
    amount = {"epsilon": budget.epsilon} | ({"delta": budget.delta} if budget.delta else {})
    config = Config.of(minimal(schedule={"kind": KINDS[type(schedule)]} | table, budget=amount))
    survey, scores = default_survey(budget), Fraction(1, 20)
    assert config.plan() == Plan(schedule=schedule, budget=budget, survey=survey, reserve=scores)
    assert Config.from_json(config.to_json()) == config.settled()


texts = st.text(st.characters(exclude_characters="\0"), min_size=1, max_size=8)
counts = st.integers(1, 64)
ratios = st.fractions(Fraction(51, 100), Fraction(99, 100), max_denominator=100)
tenths = st.fractions(0, Fraction(9, 10), max_denominator=10)
positives = st.floats(1e-3, 1e3)
maps = st.one_of(
    st.fixed_dictionaries({"map": st.just("intercept")}, optional={"value": positives}),
    st.fixed_dictionaries(
        {"map": st.just("projection")}, optional={"n_components": counts, "seed": counts}
    ),
    st.fixed_dictionaries(
        {"map": st.just("fourier")}, optional={"n_components": counts, "gamma": positives}
    ),
    st.fixed_dictionaries({"map": st.just("scattering")}, optional={"width": counts}),
)
grams = st.sampled_from([[], [1, 1], [2, 5]])
digest = st.text("0123456789abcdef", min_size=64, max_size=64)
hashed_map = st.fixed_dictionaries(
    {"map": st.just("text")}, optional={"n_features": counts, "words": grams, "characters": grams}
)
encoder_map = st.fixed_dictionaries(  # with a digest, the files are read when they are used
    {
        "map": st.just("encoder"),
        "encoder": st.sampled_from(["m.onnx", "t.safetensors"]),
        "tokenizer": st.just("t.json"),
        "digest": st.tuples(digest, digest).map("+".join),
    },
    optional={"length": st.integers(8, 512)},
)
text_map = hashed_map | encoder_map
files = st.fixed_dictionaries(
    {"type": st.sampled_from(["csv", "parquet", "jsonl"]), "path": texts.filter("-".__ne__)},
    optional={"follow": st.booleans()},
)


@st.composite
def valid(draw: st.DrawFn) -> dict[str, Any]:
    """Configurations with any of the sections and keys there are."""
    classes = draw(
        st.lists(st.integers(-9, 9), min_size=2, max_size=4, unique=True)
        | st.lists(texts, min_size=2, max_size=4, unique=True)
    )
    names = draw(st.lists(texts, min_size=2, max_size=5, unique=True))
    records: dict[str, Any] = {"classes": classes, "norm": draw(positives), "label": names[0]}
    if words := draw(st.booleans()):
        records["text"] = names[1]
    else:
        records["columns"] = names[1:]
    two = draw(st.booleans())
    window = {"kind": "sliding", "window": 70, "step": 10}
    optional: dict[str, st.SearchStrategy[Any]] = {
        "allocation": st.just({"name": "paper"})
        | st.fixed_dictionaries({"name": st.just("tapered")}, optional={"rate": ratios.map(str)}),
        "learner": st.fixed_dictionaries(
            {"kind": st.just("output")},
            optional={"regularization": st.floats(1, 1e3), "slack": ratios.map(float)},
        ),
        "quality": st.fixed_dictionaries({}, optional={"share": tenths.map(str)}),
        "source": st.fixed_dictionaries({"source": files, "target": files}) if two else files,
        "publish": st.fixed_dictionaries({"folder": texts}),
        "not_private_seed": counts,
    }
    return minimal(
        schedule={"kind": "twostream", "step": 5, "source": window} if two else window,
        records=records,
        features=[*([draw(text_map)] if words else []), *draw(st.lists(maps, max_size=3))],
        budget=draw(st.sampled_from([{"epsilon": 1.0}, {"epsilon": 2.0, "delta": 1e-6}])),
        **draw(st.fixed_dictionaries({}, optional=optional)),
    )


@settings(max_examples=40)
@given(valid())
def test_json_says_everything_and_says_it_in_one_way(tables: dict[str, Any]) -> None:
    config = Config.of(tables)
    again = Config.from_json(config.to_json())
    assert again == config.settled()
    assert again.to_json() == config.to_json()
    assert differences(config.to_json(), again.to_json()) == []
    backwards = Config.of(dict(reversed(tables.items())))
    assert backwards.to_json() == config.to_json()


@settings(max_examples=40)
@given(valid(), valid())
def test_configurations_differ_where_their_json_does(a: dict[str, Any], b: dict[str, Any]) -> None:
    old, new = Config.of(a).privacy_json(), Config.of(b).privacy_json()
    assert (differences(old, new) == []) == (old == new)


@settings(max_examples=40)
@given(valid())
def test_privacy_does_not_depend_on_where_records_come_from(tables: dict[str, Any]) -> None:
    elsewhere = {k: v for k, v in tables.items() if k not in {"source", "publish"}}
    assert Config.of(elsewhere).privacy_json() == Config.of(tables).privacy_json()


def test_what_was_left_open_is_said() -> None:
    said = json.loads(Config.of(minimal(allocation={"name": "tapered"})).to_json())
    assert said["learner"] == {"kind": "output", "loss": "logistic", "slack": 2.0**-10}
    assert said["allocation"] == {"name": "tapered", "rate": "7/10"}
    many = minimal(
        budget={"epsilon": 1.0, "delta": 1e-6}, records={"classes": ["a", "b", "c"], "norm": 1.0}
    )
    said = json.loads(Config.of(many).to_json())
    assert said["learner"] == {"kind": "gradient", "loss": "softmax", "regularization": 0.0}


def test_a_default_that_is_written_out_is_no_difference() -> None:
    plain = Config.of(minimal(features=[{"map": "projection"}]))
    said = Config.of(
        minimal(
            features=[{"map": "projection", "n_components": 256, "seed": 0}],
            learner={"slack": 2**-10, "kind": "output"},
        )
    )
    assert plain.privacy_json() == said.privacy_json()


def test_differing_keys_are_named_with_both_values() -> None:
    old = Config.of(minimal(features=[{"map": "intercept"}]))
    new = Config.of(minimal(budget={"epsilon": 2.0}, features=[{"map": "intercept", "value": 2.0}]))
    assert differences(old.privacy_json(), new.privacy_json()) == [
        "budget.epsilon: 1.0 before, now 2.0",
        "features[0].value: 1.0 before, now 2.0",
    ]


def test_a_column_that_differs_is_named_and_columns_in_another_order_differ() -> None:
    ages, sizes = (
        {"name": name, "kind": "number", "low": 0, "high": 9} for name in ("age", "size")
    )
    old, new, turned = (
        Config.of(minimal(columns=each, records={"classes": ["a", "b"], "label": "y"}))
        for each in ([ages, sizes], [ages, {**sizes, "high": 10}], [sizes, ages])
    )
    assert differences(old.privacy_json(), new.privacy_json()) == [
        'columns[1].high ("size"): 9.0 before, now 10.0'
    ]
    assert differences(old.privacy_json(), turned.privacy_json())


def test_a_large_delta_has_to_be_said_twice() -> None:
    (said,) = mistakes(budget={"epsilon": 1.0, "delta": 0.01})
    assert said.startswith("budget.delta must be at most 0.001, or confirmed by weak_delta")
    assert mistakes(budget={"epsilon": 1.0, "weak_delta": True}) == (
        "budget.weak_delta must be left out where there is no delta, got True",
    )
    twice = Config.of(minimal(budget={"epsilon": 1.0, "delta": 0.01, "weak_delta": True}))
    assert twice.plan().budget.delta == 0.01


def test_a_state_keeps_no_confirmation_and_asks_for_none() -> None:
    """So one that was made before a large delta had to be confirmed opens as it did."""
    config = Config.of(minimal(budget={"epsilon": 1.0, "delta": 0.01, "weak_delta": True}))
    assert json.loads(config.to_json())["budget"] == {"epsilon": 1.0, "delta": 0.01}
    again = Config.from_json(config.to_json())
    assert again == config.settled()
    assert again.to_json() == config.to_json()
    assert again.privacy_json() == config.privacy_json()
    assert again.plan().budget.delta == 0.01


def test_a_gate_with_a_large_delta_goes_on(tmp_path: Path) -> None:
    sections = minimal(budget={"epsilon": 1.0, "delta": 0.01, "weak_delta": True})
    for config in (Config.of(sections), Config.of(sections), None):
        with Gate.open(tmp_path / "state", config) as gate:
            gate.ingest(np.ones((70, 2)), np.ones(70))
            assert gate.config.budget.delta == 0.01


TINY = {
    "budget": {"epsilon": 1.0},
    "records": {"classes": [0, 1], "norm": 30.0},
    "learner": {"regularization": 1e-6},
}


@pytest.mark.parametrize(
    "schedule",
    [
        {"kind": "independent", "step": 50},
        {"kind": "continual", "block": 80, "step": 10},
        {"kind": "twostream", "step": 10, "source": {"kind": "cumulative", "block": 10}},
    ],
)
def test_a_lambda_that_takes_too_many_passes_is_refused(schedule: dict[str, Any]) -> None:
    (said,) = mistakes(schedule=schedule, **TINY)
    assert said.startswith("learner.regularization must be at least ")
    assert said.endswith("passes over its records, got 1e-06")


def test_a_state_with_such_a_lambda_opens() -> None:
    """It was made before such settings were refused: its ledger and releases can still be read."""
    kept = json.loads(Config.of(minimal(**{**TINY, "learner": {"regularization": 1.0}})).to_json())
    kept["learner"]["regularization"] = 1e-6
    assert Config.from_json(json.dumps(kept)).task().regularization == 1e-6


def test_it_builds_the_real_objects() -> None:
    config = Config.of(
        minimal(
            budget={"epsilon": 1.0, "delta": 1e-6},
            allocation={"name": "tapered", "rate": 0.7},
            quality={"share": 0.05},
            records={"classes": ["a", "b", "c"], "norm": 2.0, "dtype": "float64"},
            learner={"kind": "gradient", "steps": 5, "clip": 0.5},
        )
    )
    plan = config.plan()
    assert plan.budget == ApproxDP(1.0, 1e-6)
    assert plan.allocation == Tapered(Fraction(7, 10))
    assert plan.reserve == Fraction(1, 20)
    assert config.learner.build() == GradientPerturbation(steps=5, clip=0.5)
    assert config.task().loss == Softmax(3)
    assert config.task().norm == 2.0
    pure = Config.of(minimal())
    assert pure.budget.build() == PureDP(1.0)
    assert pure.learner.build() == OutputPerturbation()
    assert pure.task().loss == Logistic()
    assert pure.sources() == {}
    assert pure.holdout() is None


def test_two_streams() -> None:
    window = {"kind": "sliding", "window": 70, "step": 10}
    file = {"type": "parquet", "path": "a"}
    config = Config.of(
        minimal(
            schedule={"kind": "twostream", "step": 5, "source": window},
            records={"classes": [0, 1], "norm": 1.0, "columns": ["a"], "label": "y"},
            source={"source": file, "target": file},
        )
    )
    schedule = TwoStream(source=SlidingWindow(window=70, step=10), step=5)
    scores = Fraction(1, 20)
    assert config.plan() == TwoStreamPlan(schedule=schedule, budget=PureDP(1.0), reserve=scores)
    assert {name: source.name for name, source in config.sources().items()} == {
        "source": "source",
        "target": "target",
    }


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_records_are_kept_in_the_dtype_whatever_the_maps_do(dtype: str) -> None:
    for features in ([], [{"map": "intercept"}], [{"map": "projection"}, {"map": "fourier"}]):
        records = {"classes": [0, 1], "norm": 1.0, "dtype": dtype}
        chain = Config.of(minimal(records=records, features=features)).feature_map()
        made = clean(np.ones((3, 4)), [0, 1, 5], classes=[0, 1], norm=1.0, features=chain)
        assert made.X.dtype == dtype
        assert made.usable.tolist() == [True, True, False]


def test_a_number_too_large_for_the_dtype_cannot_be_used() -> None:
    chain = Config.of(minimal()).feature_map()
    X = np.array([[1e300], [1.0]])
    assert clean(X, [0, 0], classes=[0, 1], norm=1.0, features=chain).usable.tolist() == [
        False,
        True,
    ]


@pytest.mark.parametrize("features", [[], [{"map": "intercept"}]])
def test_text_where_a_number_belongs_cannot_be_used(features: list[dict[str, Any]]) -> None:
    chain = Config.of(minimal(features=features)).feature_map()
    X = [[1, "2"], ["x", 3], [None, 4], [5, 6]]
    made = clean(np.array(X, object), [0] * 4, classes=[0, 1], norm=1.0, features=chain)
    assert made.usable.tolist() == [True, False, False, True]
    assert np.isnan(chain.transform(np.array([[1.0], [1j]]))[:, 0]).tolist() == [False, True]


def test_text_goes_through_hashed_features() -> None:
    records = {"classes": [0, 1], "norm": 1.0, "text": "body", "label": "y"}
    features = [{"map": "text", "n_features": 16, "characters": []}, {"map": "intercept"}]
    chain = Config.of(minimal(records=records, features=features)).feature_map()
    made = clean(np.array(["a b", None], object), [0, 1], classes=[0, 1], norm=1.0, features=chain)
    assert made.X.shape == (2, 17)
    assert made.usable.tolist() == [True, False]


def test_all_mistakes_are_found_at_once() -> None:
    with pytest.raises(ConfigError) as caught:
        Config.parse('[schedule]\nkind = "sliding"\nwindw = 7\nstep = 0\n[budjet]\nepsilon = 1')
    assert caught.value.mistakes == (
        "budjet is not a known key: did you mean budget?",
        "schedule.windw is not a known key: did you mean schedule.window?",
        "schedule.step must be a whole number from 1 to 9007199254740992, got 0",
        "budget is missing: add it, see docs/reference/configuration.md",
        "records is missing: add it, see docs/reference/configuration.md",
    )


RECORDS = {"classes": [0, 1], "norm": 1.0}
FILE = {"type": "csv", "path": "a.csv"}
COLUMNS = RECORDS | {"columns": ["a"], "label": "y"}


@pytest.mark.parametrize(
    ("section", "value", "mistake"),
    [
        ("schedule", 3, "schedule must be a table, headed [schedule], got 3"),
        ("schedule", {"step": 3}, "schedule.kind is missing"),
        ("schedule", {"kind": "slidin"}, "schedule.kind must be one of basic, "),
        (
            "schedule",
            {"kind": "sliding", "step": 3},
            "schedule.window is missing: sliding needs it",
        ),
        (
            "schedule",
            {"kind": "sliding", "step": 3, "window": 7},
            "schedule.window must be two or more whole steps of 3, got 7",
        ),
        (
            "schedule",
            {"kind": "independent", "step": 3, "window": 6},
            "schedule.window is not a key of independent: it has step",
        ),
        (
            "schedule",
            {"kind": "continual", "step": 3, "block": 9},
            "schedule.block must be a power-of-two multiple of the step (3), got 9",
        ),
        ("schedule", {"kind": "multiresolution", "block": True}, "schedule.block must be a whole"),
        ("schedule", {"kind": "multiresolution", "block": 1.5}, "schedule.block must be a whole"),
        ("schedule", {"kind": "multiresolution", "block": "9"}, "schedule.block must be a whole"),
        ("schedule", {"kind": "twostream", "step": 3}, "schedule.source is missing: twostream"),
        (
            "schedule",
            {"kind": "twostream", "step": 3, "source": {"kind": "basic"}},
            "schedule.source.kind must be one of cumulative, sliding, got 'basic'",
        ),
        (
            "schedule",
            {"kind": "twostream", "step": 3, "source": {"kind": "cumulative", "step": 2}},
            "schedule.source.step is not a key of cumulative: it has block, sample",
        ),
        ("budget", {"epsilon": 0}, "budget.epsilon must be a finite number above 0, got 0"),
        ("budget", {"epsilon": "1"}, "budget.epsilon must be a finite number above 0, got '1'"),
        ("budget", {"epsilon": float("inf")}, "budget.epsilon must be a finite number above 0"),
        ("budget", {"epsilon": 1e-200}, "budget.epsilon must be at least"),
        ("budget", {"delta": 1e-6}, "budget.epsilon is missing"),
        (
            "budget",
            {"epsilon": 1.0, "delta": 1},
            "budget.delta must be a number above 0 and below 1",
        ),
        (
            "allocation",
            {"name": "even"},
            "allocation.name must be one of paper, tapered, got 'even'",
        ),
        ("allocation", {"rate": 0.7}, "allocation.rate is not a key of paper: it has none"),
        ("allocation", {"name": "tapered", "rate": 1.5}, "allocation.rate must be a ratio above 0"),
        ("allocation", {"name": "tapered", "rate": "1/0"}, "allocation.rate must be a ratio above"),
        ("allocation", {"name": "tapered", "rate": True}, "allocation.rate must be a ratio above"),
        ("allocation", {"name": "tapered", "rate": 0.3}, "allocation.rate must be above 1/2 and"),
        ("records", {"norm": 1.0}, "records.classes is missing"),
        ("records", {"classes": [0, 1]}, "records.norm is missing"),
        ("records", RECORDS | {"classes": [0]}, "records.classes must be a list of two or more"),
        ("records", RECORDS | {"classes": [0, 0]}, "records.classes must be a list of two or more"),
        ("records", RECORDS | {"classes": [0, "1"]}, "records.classes must be a list of two or"),
        ("records", RECORDS | {"classes": [False, True]}, "records.classes must be a list of two"),
        ("records", RECORDS | {"classes": [0.5, 1.5]}, "records.classes must be a list of two or"),
        ("records", RECORDS | {"classes": [[0], [1]]}, "records.classes must be a list of two or"),
        ("records", RECORDS | {"classes": "ab"}, "records.classes must be a list of two or more"),
        ("records", RECORDS | {"classes": [0, 2**60]}, "records.classes must be a whole number"),
        ("records", RECORDS | {"norm": -1}, "records.norm must be a number above"),
        (
            "records",
            RECORDS | {"dtype": "float16"},
            "records.dtype must be one of float32, float64",
        ),
        ("records", RECORDS | {"columns": []}, "records.columns must be a list of one or more"),
        ("records", RECORDS | {"columns": "a"}, "records.columns must be a list of one or more"),
        ("records", RECORDS | {"columns": ["a", "a"]}, "records.columns must be a list without"),
        (
            "records",
            COLUMNS | {"label": "a"},
            "records.label must be a column that is not a feature, got 'a'",
        ),
        (
            "records",
            RECORDS | {"label": ""},
            "records.label must be a text that is not empty, got ''",
        ),
        (
            "records",
            COLUMNS | {"text": "b"},
            "records.text must not be given with records.columns: ",
        ),
        (
            "records",
            COLUMNS | {"colums": ["b"]},
            "records.colums is not a known key: did you mean r",
        ),
        (
            "records",
            RECORDS | {"text": "b"},
            "features[0].map must be text or encoder if records.text is",
        ),
        ("features", {"map": "intercept"}, "features must be a list of tables, each headed [[feat"),
        ("features", [{}], "features[0].map is missing"),
        (
            "features",
            [{"map": "pca"}],
            "features[0].map must be one of text, intercept, projection",
        ),
        (
            "features",
            [{"map": "intercept"}, {"map": "intercept", "seed": 1}],
            "features[1].seed is not a key of intercept: it has value",
        ),
        (
            "features",
            [{"map": "projection", "seed": -1}],
            "features[0].seed must be a whole number",
        ),
        (
            "features",
            [{"map": "projection", "n_components": 2**40}],
            "features[0].n_components must",
        ),
        (
            "features",
            [{"map": "intercept", "value": 2.0**70}],
            "features[0].value must be a number",
        ),
        (
            "features",
            [{"map": "text", "words": [2, 1]}],
            "features[0].words must be a whole number",
        ),
        ("features", [{"map": "text", "words": 2}], "features[0].words must be [least, greatest]"),
        ("features", [{"map": "intercept"}, {"map": "text"}], "features[1].map must not be text"),
        (
            "learner",
            {"kind": "best"},
            "learner.kind must be one of auto, output, gradient, got 'best'",
        ),
        (
            "learner",
            {"loss": "hinge"},
            "learner.loss must be one of auto, logistic, softmax, huber",
        ),
        ("learner", {"slack": 0.1}, 'learner.slack needs kind = "output" in [learner]'),
        (
            "learner",
            {"steps": 8},
            'learner.steps needs kind = "gradient" in [learner], and a budget with a delta',
        ),
        (
            "learner",
            {"kind": "output", "steps": 3},
            "learner.steps is not a key of output: it has slack; steps is a key of gradient",
        ),
        (
            "learner",
            {"kind": "output", "slack": 1},
            "learner.slack must be a number above 0 and be",
        ),
        ("learner", {"kind": "gradient", "steps": 2**30}, "learner.steps must be a whole number"),
        (
            "learner",
            {"kind": "gradient"},
            "learner.kind must be output for a budget without a delta, got",
        ),
        ("learner", {"regularization": 0}, "learner.regularization must be above 0 for OutputPert"),
        ("learner", {"regularization": -1}, "learner.regularization must be a finite number, 0"),
        ("learner", {"regularization": False}, "learner.regularization must be a finite number"),
        ("quality", {"share": -0.1}, "quality.share must be a fraction from 0 to 1"),
        ("quality", {"share": 1.0}, "quality.share must be a share from 0 to below 1"),
        (
            "quality",
            {"holdout": "a.txt"},
            "quality.holdout must be a .csv, .jsonl or .parquet file",
        ),
        (
            "quality",
            {"holdout": "a.csv"},
            "records.columns is missing: describe the columns in ",
        ),
        ("source", {"path": "a"}, "source.type is missing"),
        ("source", {"type": "csv"}, "source.path is missing"),
        (
            "source",
            {"type": "xml", "path": "a"},
            "source.type must be one of csv, jsonl, kafka, nats, parquet",
        ),
        ("source", {"type": "csv", "path": "-"}, 'source.type must be jsonl if the path is "-"'),
        ("source", FILE | {"follow": 1}, "source.follow must be true or false, got 1"),
        ("source", FILE | {"delimiter": ";;"}, "source.delimiter must be one ASCII character"),
        (
            "source",
            {"type": "jsonl", "path": "a", "delimiter": ";"},
            "source.delimiter is a key of csv, not of jsonl: remove it",
        ),
        ("source", FILE, "records.columns is missing: describe the columns in "),
        ("source", {"source": FILE}, "source.target is missing"),
        (
            "source",
            {"source": FILE, "target": FILE},
            "source must be one table, [source], for a sliding",
        ),
        ("publish", {}, "publish.folder is missing"),
        ("publish", {"folder": 3}, "publish.folder must be a text that is not empty, got 3"),
        ("not_private_seed", -1, "not_private_seed must be a whole number from 0 to"),
        ("recrods", {}, "recrods is not a known key: did you mean records?"),
        ("x", {}, "x is not a known key: allowed are schedule, budget, records, "),
    ],
)
def test_a_bad_value_is_named_in_one_line(section: str, value: object, mistake: str) -> None:
    found = mistakes(**{section: value})
    assert any(line.startswith(mistake) for line in found), found
    assert all("\n" not in line for line in found)


def test_two_streams_need_two_sources() -> None:
    schedule = {"kind": "twostream", "step": 3, "source": {"kind": "cumulative", "block": 2}}
    found = mistakes(schedule=schedule, records=COLUMNS, source=FILE)
    assert found == ("source must be [source.source] and [source.target] for a twostream schedule",)
    pipe = {"type": "jsonl", "path": "-"}
    found = mistakes(schedule=schedule, records=COLUMNS, source={"source": pipe, "target": pipe})
    assert found == (
        'source.target.path must not be "-" too: use a file or folder for one of the two',
    )
    assert mistakes(records=RECORDS | {"columns": ["a"]}, source=FILE) == (
        "records.label is missing: add it to use a source",
    )


def test_more_classes_need_softmax() -> None:
    records = {"classes": [0, 1, 2], "norm": 1.0}
    assert mistakes(records=records, learner={"loss": "huber"}) == (
        "learner.loss must be softmax for 3 classes, got 'huber'",
    )


LEARNER_KEYS = {"steps": 8, "rate": 2.0, "clip": 0.5, "spread": 0.1, "lead": 0.5, "slack": 0.1}


@pytest.mark.parametrize("kind", [None, "output", "gradient"])
@pytest.mark.parametrize(
    "name", [each.name for kind in LEARNERS.values() for each in parameters(kind)]
)
def test_the_hint_for_a_key_of_a_learner_leads_to_a_configuration(
    name: str, kind: str | None
) -> None:
    """What the error says to write is accepted."""
    given = {name: LEARNER_KEYS[name]} | ({} if kind is None else {"kind": kind})
    budget = {"epsilon": 1.0, "delta": 1e-6}
    if kind not in kinds_with(LEARNERS, name):
        (told,) = mistakes(budget=budget, learner=given)
        hint = re.search(r'needs kind = "(\w+)" in \[learner\]|is a key of (\w+)$', told)
        assert hint, told
        given["kind"] = hint[1] or hint[2]
    made = Config.of(minimal(budget=budget, learner=given))
    assert made.learner.parameters[name] == LEARNER_KEYS[name]


def test_numbers_do_not_become_text() -> None:
    records = COLUMNS | {"columns": ["a"]}
    found = mistakes(records=records, features=[{"map": "text"}])
    assert found == ("features[0].map must not be text if records.columns is given",)


def test_what_is_no_toml_is_refused(tmp_path: Any) -> None:
    with pytest.raises(ConfigError, match=r"^the configuration is not valid TOML: "):
        Config.parse("[schedule")
    (tmp_path / "fleet.toml").write_text("[members.north]")
    with pytest.raises(ConfigError, match=r"fleet\.toml configures a fleet .*: use tidegate fleet"):
        Config.load(tmp_path / "fleet.toml")
    (tmp_path / "cut.toml").write_text("[schedule")
    with pytest.raises(ConfigError, match=r"cut\.toml is not valid TOML: "):
        Config.load(tmp_path / "cut.toml")
    with pytest.raises(ConfigError, match=r"none\.toml cannot be read: No such file"):
        Config.load(tmp_path / "none.toml")
    (tmp_path / "latin.toml").write_bytes(b"\xe9")
    with pytest.raises(ConfigError, match=r"latin\.toml cannot be read: it is not UTF-8"):
        Config.load(tmp_path / "latin.toml")
    (tmp_path / "good.toml").write_text(example("basic"))
    assert Config.load(tmp_path / "good.toml") == Config.parse(example("basic"))


def test_survey_and_scores_leave_something_for_models() -> None:
    budget = {"epsilon": 1.0, "delta": 1e-6}
    with pytest.raises(
        ConfigError, match=r"leave some of the budget for models, got 1/20 and 19/20$"
    ):
        Config.of(minimal(budget=budget, quality={"share": 0.95}))
