import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure

from tidegate import Plan, PureDP
from tidegate.compare.contenders import Linear, Scheduled
from tidegate.compare.labelled import Labelled, LabelledStream
from tidegate.learn import OutputPerturbation
from tidegate.schedule import Basic, Continual, SlidingWindow
from tidegate_lab.paper.contest import contests
from tidegate_lab.paper.experiment import RUNS, Experiment, Notebook, in_processes
from tidegate_lab.paper.panels import PUBLISHED, Column, Line, Panel, panels
from tidegate_lab.paper.paper_method import AsPublished
from tidegate_lab.paper.plots import overview, plot
from tidegate_lab.paper.results import curves, majority_rows, markdown, rows
from tidegate_lab.paper.theorems import least_bound, least_loss, note

ALL = {panel.name: panel for panel in [*panels(None), *contests(None)]}


@dataclass(frozen=True)
class Flat:
    """Records of two classes that are told apart by their sign."""

    records = 40
    shape = (1, 2)

    def stream(self, seed: int) -> LabelledStream:
        y = np.random.default_rng(seed).integers(2, size=self.records)
        labelled = Labelled(X=2.0 * y[:, None] - 1, y=y)
        return LabelledStream(records=labelled, classes=2, norm=1, test=lambda _: labelled)


@dataclass(frozen=True)
class Sure:
    """Right or wrong, always."""

    right: bool
    seldom: bool = False
    name = "sure"
    private = True
    probabilities = True

    def models(self, stream: LabelledStream, seed: int) -> Iterator[tuple[int, Linear]]:
        del seed
        for at in (stream.n // 2, stream.n)[self.seldom :]:
            yield at, Linear(np.array([[-1.0, 1.0]]) * (1 if self.right else -1))


RIGHT = Experiment(source=Flat(), method=Sure(True))
WRONG = Experiment(source=Flat(), method=Sure(False))
SMALL = Panel(
    name="small",
    title="Two curves",
    claim="",
    columns=(
        Column(
            title="both",
            lines=(
                Line(label="not private", kind="not private", experiment=RIGHT),
                Line(label="ours", kind="gradient", experiment=WRONG, others=(RIGHT,)),
                Line(label="theirs", kind="baseline", experiment=WRONG),
            ),
        ),
    ),
)


def test_every_panel_of_the_paper_is_there() -> None:
    paper = [*"abcdefghi", "basic-a", "basic-b"]
    assert list(ALL) == [*paper, "accuracy", "window", "still", "drift", "forget"]


@pytest.mark.parametrize(
    ("name", "schedule", "epsilon", "regularization"),
    [
        ("a", Continual(block=8192, step=1024), None, 1.0),
        ("b", None, 0.1, 1.0),
        ("c", Continual(block=8192, step=1024), 0.1, None),
        ("d", None, 0.1, 1.0),
        ("e", Continual(block=2048, step=512), None, 10.0),
        ("f", Continual(block=2048, step=512), 1.0, None),
        ("g", SlidingWindow(window=7168, step=1024), None, 1.0),
        ("h", SlidingWindow(window=1792, step=256), None, 10.0),
        ("i", None, 1.0, 1.0),
        ("basic-a", Basic(block=8000, step=1000), None, 10.0),
        ("basic-b", Basic(block=8000, step=1000), 1.0, None),
    ],
)
def test_the_settings_are_those_of_the_paper(
    name: str, schedule: object, epsilon: float | None, regularization: float | None
) -> None:
    """None is what the panel varies."""
    theirs = [line.experiment.method for line in ALL[name].columns[0].lines[1:]]
    assert len(theirs) >= 2
    for method in theirs:
        assert isinstance(method, AsPublished)
        assert (method.steps, method.batch, method.gamma) == (500, 256, 10.0)
        assert schedule in {None, method.schedule}
        assert epsilon in {None, method.epsilon}
        assert regularization in {None, method.regularization}


@pytest.mark.parametrize("name", [*"abcdefghi", "basic-a", "basic-b"])
def test_one_column_says_that_it_is_not_private_and_the_other_is(name: str) -> None:
    published, private = ALL[name].columns
    assert "NOT PRIVATE" in published.title == PUBLISHED
    assert not any(line.experiment.method.private for line in published.lines)
    for line in private.lines:
        assert line.experiment.method.private == (line.kind != "not private")
    assert published.lines[0] == private.lines[0]  # the same non-private curve in both


def test_a_key_spells_out_the_settings_and_nothing_of_the_machine() -> None:
    here = [e.key for panel in panels(Path("here")) for e in panel.experiments]
    there = [e.key for panel in panels(Path("there")) for e in panel.experiments]
    assert here == there
    quick = [e.key for panel in panels(None, quick=True) for e in panel.experiments]
    assert not set(quick) & set(here)
    # (a) and (c) share the curve of epsilon = 0.1, lambda = 1, and others do alike.
    assert len(set(here)) < len(here)


def test_the_theorems_promise_little_and_the_panels_say_so() -> None:
    for name in [*"abcdefghi", "basic-a", "basic-b"]:
        assert note(ALL[name]).startswith(("No bound is drawn", "At best, Theorems"))
    assert note(ALL["accuracy"]) == ""


def test_a_bound_shrinks_with_epsilon_down_to_what_no_model_can_avoid() -> None:
    bounds = []
    for epsilon in (1.0, 10.0, 1e9):
        plan = Plan(schedule=Continual(block=8192, step=1024), budget=PureDP(epsilon))
        ours = Scheduled(name="", plan=plan, learner=OutputPerturbation(), regularization=0.01)
        bounds.append(least_bound(ours, 8192, d=784, classes=10))
    assert bounds[0] > bounds[1] > bounds[2]
    assert bounds[2] == pytest.approx(least_loss(0.01, 10), abs=0.01)
    assert bounds[2] < math.log(10)


@pytest.mark.slow
def test_a_notebook_runs_what_it_does_not_hold(tmp_path: Path) -> None:
    wanted = [(RIGHT, 2), (WRONG, 1), (RIGHT, 1)]
    notebook = Notebook(tmp_path / "new")
    jobs = notebook.missing(wanted)
    assert [(job.method, seed) for job, seed in jobs] == [
        (Sure(True), 0),
        (Sure(False), 0),
        (Sure(True), 1),
    ]
    assert len(list(notebook.keep(in_processes(jobs, workers=1)))) == 3
    assert notebook.missing(wanted) == []
    path = tmp_path / "new" / RUNS
    path.write_text(path.read_text()[:-9])  # the last run is cut off in the middle
    again = Notebook(tmp_path / "new")
    jobs = again.missing(wanted)
    assert len(jobs) == 1
    list(again.keep(in_processes(jobs, workers=1)))
    curve = Notebook(tmp_path / "new").curve(RIGHT, 2)
    assert (curve.at, curve.runs.tolist()) == ((20, 40), [[1, 1], [1, 1]])


@dataclass(frozen=True)
class Learning(Sure):
    """Wrong at first, and right at the end."""

    def models(self, stream: LabelledStream, seed: int) -> Iterator[tuple[int, Linear]]:
        for at, model in super().models(stream, seed):
            yield at, model if at == stream.n else Linear(-model.weights)


def test_means_leave_what_is_seldom_aside(tmp_path: Path) -> None:
    learning = Experiment(source=Flat(), method=Learning(True))
    late = Experiment(source=Flat(), method=Sure(True, seldom=True))
    lines = (
        Line(label="not private", kind="not private", experiment=late),
        Line(label="ours", kind="gradient", experiment=learning),
        Line(label="late", kind="baseline", experiment=late, seldom=True),
    )
    near = Column(title="both", lines=lines, near=True)
    panel = Panel(name="late", title="", claim="", columns=(near, replace(near, near=False)))
    notebook = Notebook(tmp_path)
    list(notebook.keep(e.run(0) for e in (learning, late)))
    found = curves(panel, notebook, 1)
    means = {row["curve"]: row["mean"] for row in rows(panel, found)}
    assert means == {"not private": 1, "ours": 0.5, "late": 1}
    plot(tmp_path / "late.png", panel, found)
    assert (tmp_path / "late.png").stat().st_size > 1000


@pytest.mark.slow
def test_of_several_settings_the_best_is_shown(tmp_path: Path) -> None:
    notebook = Notebook(tmp_path)
    jobs = notebook.missing((e, 1) for e in SMALL.experiments)
    list(notebook.keep(in_processes(jobs, workers=1)))
    found = curves(SMALL, notebook, 1)
    table = {row["curve"]: row for row in rows(SMALL, found)}
    assert table["ours"]["mean"] == 1
    assert table["theirs"]["beyond_not_private"] == -1
    plot(tmp_path / "small.png", SMALL, found, "a note")
    overview(tmp_path / "all.svg", [SMALL, SMALL, SMALL], {"small": found})
    for name in ("small.png", "all.svg"):
        assert (tmp_path / name).stat().st_size > 1000


def test_drifting_streams_are_compared_on_the_same_terms() -> None:
    """DP-FTRL forgets at the rates of Fading, for the same budget and at the same releases."""
    for column in ALL["drift"].columns:
        lines = {line.label: line for line in column.lines}
        fading = [lines["fading, the best of five"].experiment.method]
        fading += [each.method for each in lines["fading, the best of five"].others]
        ftrl = [lines["DP-FTRL that forgets"].experiment.method]
        ftrl += [each.method for each in lines["DP-FTRL that forgets"].others]
        rates = {float(m.plan.schedule.forget) for m in fading}  # type: ignore[attr-defined]
        assert len(fading) == len(rates) == 5
        assert {m.forget for m in ftrl} == rates  # type: ignore[attr-defined]
        assert {m.budget for m in ftrl} == {m.plan.budget for m in fading}  # type: ignore[attr-defined]
        assert column.since == 8192


def test_forget_shows_the_settings_that_drift_chooses_from() -> None:
    for drift, forget in zip(ALL["drift"].columns, ALL["forget"].columns, strict=True):
        best = next(line for line in drift.lines if line.label == "fading, the best of five")
        shown = {line.experiment.key for line in forget.lines if line.kind == "gradient"}
        assert {e.key for e in (best.experiment, *best.others)} == shown


def test_means_begin_where_the_column_says_and_the_best_is_chosen_by_them(tmp_path: Path) -> None:
    learning = Experiment(source=Flat(), method=Learning(True))  # wrong, then right
    fading = Experiment(source=Flat(), method=Learning(False))  # right, then wrong
    lines = (
        Line(label="not private", kind="not private", experiment=RIGHT),
        Line(label="ours", kind="gradient", experiment=fading, others=(learning,)),
    )
    notebook = Notebook(tmp_path)
    list(notebook.keep(e.run(0) for e in (RIGHT, learning, fading)))
    for since, expected in ((0, 0.5), (40, 1.0)):
        column = Column(title="both", lines=lines, since=since)
        panel = Panel(name="since", title="", claim="", columns=(column,))
        table = {row["curve"]: row for row in rows(panel, curves(panel, notebook, 1))}
        assert table["ours"]["mean"] == expected


# --- measures besides accuracy


def answered(right: bool) -> Line:
    experiment = RIGHT if right else WRONG
    return Line(label=str(right), kind="gradient", experiment=experiment)


PAIR = Panel(
    name="pair",
    title="",
    claim="",
    columns=(
        Column(
            title="both",
            lines=(
                Line(label="not private", kind="not private", experiment=RIGHT),
                answered(True),
                answered(False),
            ),
        ),
    ),
)


def test_each_point_of_a_curve_is_measured_exactly(tmp_path: Path) -> None:
    runs = 3
    notebook = Notebook(tmp_path)
    list(notebook.keep(e.run(seed) for e in (RIGHT, WRONG) for seed in range(runs)))
    notebook = Notebook(tmp_path)  # as saved
    found = curves(PAIR, notebook, runs)
    table = {row["curve"]: row for row in rows(PAIR, found)}
    ones = [Flat().stream(seed).records.y.mean() for seed in range(runs)]
    most = np.median([max(share, 1 - share) for share in ones])
    # The margins of the two classes are 2 apart for every record.
    for label, gap in (("True", 2.0), ("False", -2.0)):
        row, sure = table[label], 1 / (1 + math.exp(-gap))
        bias = np.median([(1 - sure) * (1 - 2 * share) for share in ones])
        assert row["log_loss"] == pytest.approx(-math.log(sure), abs=1e-4)
        assert row["bias"] == pytest.approx(bias, abs=1e-4)
        assert row["auc"] == row["balanced_accuracy"] == float(label == "True")
        assert row["majority"] == pytest.approx(most, abs=1e-4)
        assert row["measures"]["auc"] == [row["auc"]] * 2
    (constant,) = majority_rows(PAIR, found)
    assert constant["mean"] == table["True"]["majority"]
    assert constant["log_loss"] == table["True"]["constant_log_loss"]
    assert "| log-loss | AUC | bias |" in markdown(PAIR, found)


@dataclass(frozen=True)
class Mute(Sure):
    """Margins that have no probabilities."""

    probabilities = False


def test_without_probabilities_there_is_no_log_loss(tmp_path: Path) -> None:
    mute = Experiment(source=Flat(), method=Mute(True))
    run = mute.run(0)
    assert run.measures is not None
    assert run.measures["log_loss"] == run.measures["bias"] == [None, None]
    assert run.measures["auc"] == [1.0, 1.0]
    notebook = Notebook(tmp_path)
    list(notebook.keep([run]))
    assert "NaN" not in (tmp_path / RUNS).read_text()  # which is no JSON
    lines = (
        Line(label="not private", kind="not private", experiment=mute),
        Line(label="mute", kind="baseline", experiment=mute),
    )
    panel = replace(PAIR, columns=(Column(title="both", lines=lines),))
    _, row = rows(panel, curves(panel, notebook, 1))
    assert row["log_loss"] is row["bias"] is None
    assert "log_loss" not in row["measures"]


def test_what_only_some_runs_measured_is_not_shown(tmp_path: Path) -> None:
    """Runs that were saved before there were measures are not run again."""
    notebook = Notebook(tmp_path)
    old = [e.run(0)._replace(measures=None) for e in (RIGHT, WRONG)]
    list(notebook.keep([*old, *(e.run(1) for e in (RIGHT, WRONG))]))
    assert notebook.missing([(RIGHT, 2), (WRONG, 2)]) == []
    found = curves(PAIR, notebook, 2)
    assert all(row["log_loss"] is None and row["measures"] == {} for row in rows(PAIR, found))
    assert list(majority_rows(PAIR, found)) == []
    assert markdown(PAIR, found).splitlines()[2] == "| | curve | kind | first | last | mean |"


@pytest.mark.parametrize("near", [False, True])
def test_the_majority_class_is_in_every_panel(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, near: bool
) -> None:
    figure = Figure(layout="constrained")
    monkeypatch.setattr("tidegate_lab.paper.plots.new_figure", lambda *_: figure)
    notebook = Notebook(tmp_path)
    list(notebook.keep([RIGHT.run(0)]))
    column = replace(PAIR.columns[0], lines=PAIR.columns[0].lines[:2], near=near)
    panel = replace(PAIR, columns=(column,))  # all right, so a near scale begins at 95 %
    found = curves(panel, notebook, 1)
    plot(tmp_path / "pair.png", panel, found)
    (axes,) = figure.axes
    legend = axes.get_legend()
    assert legend is not None
    words = [text.get_text() for text in legend.get_texts()]
    y = Flat().stream(0).records.y
    share = max(y.mean(), 1 - y.mean())
    if near:
        assert f"majority class: {share:.1%}, below this scale" in words
        return
    (line,) = [each for each in axes.lines if each.get_label() == "majority class"]
    assert np.asarray(line.get_ydata()).tolist() == [share, share]
    assert axes.get_ylim()[0] < share
    assert words[-1] == "majority class"
