import re
import subprocess
import sys
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from tests.cli.run import json_lines, process, tidegate
from tidegate.cli import main
from tidegate.privacy import gaussian_mu

SIZES = ["--window", "7168", "--step", "1024"]
SLIDING = ["plan", "sliding", *SIZES, "--epsilon", "1", "--until", "20480"]
KINDS: dict[str, list[str]] = {
    "multiresolution": ["--block", "1000"],
    "continual": ["--block", "4000", "--step", "1000"],
    "sliding": ["--window", "5000", "--step", "1000"],
    "basic": ["--block", "4000", "--step", "1000"],
    "independent": ["--step", "1000"],
}
FADING = ["plan", "fading", "--step", "1024", "--epsilon", "1", "--delta", "1e-6"]


def worst_by_hand(lines: list[dict[str, Any]]) -> Fraction:
    """What the record that pays most pays, added up from the printed floats."""
    edges = sorted({line["start"] for line in lines})
    return max(
        sum(
            (Fraction(line["share"]) for line in lines if line["start"] <= edge < line["stop"]),
            Fraction(0),
        )
        for edge in edges
    )


def test_the_contract() -> None:
    *lines, last = json_lines(*SLIDING)
    assert lines[0] == {
        "fit": 0,
        "at": 7168,
        "start": 3072,
        "stop": 7168,
        "prior": None,
        "level": 2,
        "share": 4 / 7,
        "epsilon": 4 / 7,
        "released": False,
        "role": "base",
    }
    spans = [(line["start"] // 1024, line["stop"] // 1024) for line in lines]
    assert spans[:7] == [(3, 7), (1, 3), (0, 1), (7, 8), (7, 9), (2, 3), (9, 10)]
    assert last == {
        "summary": {
            "fits": 25,
            "releases": 14,
            "worst": {"record": 6144, "share": 1.0},
            "forever": {"share": 1.0},
            "mean": {"share": 1.0, "final": True},
        }
    }


@pytest.mark.parametrize(
    ("schedule", "line"),
    [
        ("sliding --window 31 --step 1", "Every record spends all of its budget"),
        ("sliding --window 36 --step 1 --refit", "Every record spends all of its budget"),
        ("fading --step 1", "Every record spends all of its budget"),
        ("sliding --window 36 --step 1", "a record spends 62"),
        ("sliding --window 12 --step 1", "a record spends 59.8 % of its budget on average"),
        ("continual --block 8 --step 1", "So far a record has spent 59"),
    ],
)
def test_a_plan_says_which_part_of_the_budget_is_never_used(schedule: str, line: str) -> None:
    options = ["--epsilon", "1", "--delta", "1e-6", "--until", "1100"]
    shown = " ".join(tidegate("plan", *schedule.split(), *options).stdout.split())
    assert line in shown
    assert ("--refit, or fading leaves nothing unused" in shown) == ("a record spends" in line)


def test_what_records_count_for_is_printed_where_they_do_not_pay_the_same() -> None:
    *lines, last = json_lines(
        "plan", "growing", "--block", "4000", "--step", "1000", "--growth", "1/2",
        "--epsilon", "1", "--delta", "1e-6", "--until", "40000",
    )  # fmt: skip
    paid = dict.fromkeys(range(0, 40000, 1000), Fraction(0))
    for line in lines:
        for start, stop, part in line.get("emphasis", [[line["start"], line["stop"], "1"]]):
            for record in range(start, stop, 1000):
                paid[record] += Fraction(line["share"]) * Fraction(part) ** 2
    assert max(paid.values()) <= 1
    assert float(max(paid.values())) == pytest.approx(last["summary"]["worst"]["share"], rel=1e-12)


def test_a_schedule_with_shares_of_its_own_names_no_allocation() -> None:
    words = ("--block", "4000", "--step", "1000", "--epsilon", "1", "--delta", "1e-6")
    done = tidegate("plan", "growing", *words, "--until", "5000")
    assert (
        done.stdout.splitlines()[0]
        == "growing, epsilon = 1, delta = 1e-06, shares set by the schedule"
    )


def test_a_refitted_window_has_its_own_allocation() -> None:
    done = tidegate(*SLIDING, "--refit")
    assert done.stdout.splitlines()[0].endswith(", shares set by the schedule")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("allocation", ["paper", "tapered"])
@pytest.mark.parametrize("delta", [[], ["--delta", "1e-6"]])
def test_printed_shares_add_up_to_no_more_than_one(
    kind: str, allocation: str, delta: list[str]
) -> None:
    *lines, last = json_lines(
        "plan", kind, *KINDS[kind], "--epsilon", "1", "--until", "40000",
        "--allocation", allocation, *delta,
    )  # fmt: skip
    summary = last["summary"]
    assert summary["fits"] == len(lines)
    assert summary["releases"] == sum(line["released"] for line in lines)
    assert summary["forever"]["share"] == 1
    by_hand = worst_by_hand(lines)
    assert by_hand <= 1
    assert float(by_hand) == pytest.approx(summary["worst"]["share"], rel=1e-12)
    mu = gaussian_mu(1.0, 1e-6)
    for line in lines:
        if delta:
            assert line["mu"] == pytest.approx(mu * line["share"] ** 0.5, rel=1e-14)
        else:
            assert line["epsilon"] == pytest.approx(line["share"], rel=1e-14)


def test_a_sampled_plan_says_what_the_sample_may_cost() -> None:
    lines = json_lines(
        "plan", "multiresolution", "--block", "1000", "--sample", "1000", "--epsilon", "1",
        "--until", "4000",
    )[:-1]  # fmt: skip
    sampled = [line for line in lines if "sample" in line]
    assert [line["stop"] - line["start"] for line in sampled] == [2000, 2000, 4000]
    assert all(line["sample_epsilon"] > line["epsilon"] for line in sampled)


def test_a_plan_for_persons_says_how_often_one_may_come() -> None:
    given = (*FADING, "--forget", "1/5", "--until", "4096", "--contributions", "4")
    shown = tidegate(*given).stdout
    assert "epsilon = 1, delta = 1e-06 about any one person, shares set by the schedule" in shown
    assert "together cost at most 4 times what one record may cost, for life." in shown
    assert "mu = 0.1184 (epsilon = 0.4752), at delta = 1e-06" in shown
    assert re.search(r"at every step +0.363 +9\n", shown)  # 1 + floor(3 / 0.363)
    assert re.search(r"in any steps +at most 1 +4 or more\n", shown)
    assert "is kept for ever" in shown
    period = tidegate(*given, "--period", "5", "--typical", "5/2").stdout
    assert "within any 5 consecutive steps." in " ".join(period.split())
    assert re.search(r"at every step +0.363 +5\n", period)
    assert "is kept for 10 steps" in period
    assert "suit persons with 2.5 records in each fit" in " ".join(period.split())
    assert re.search(r"in any 4 steps of a period +at most 1 +4\n", period)
    assert "give --survey 0.05 --scores 0.05" in " ".join(period.split())
    assert "Not included" not in tidegate(*given, "--survey", "0.05", "--scores", "0.05").stdout
    alone = tidegate(*FADING, "--until", "4096", "--contributions", "1").stdout
    assert "cost at most what one record may cost" in alone
    early = tidegate("plan", "growing", "--block", "8192", "--step", "1024", "--epsilon", "1",
                     "--contributions", "4", "--period", "9", "--until", "1024").stdout  # fmt: skip
    assert "A person has epsilon = 1, a record epsilon = 0.25." in early
    assert "A period does not shorten that here" in early


def test_a_plan_for_persons_in_json() -> None:
    *lines, last = json_lines(*FADING, "--until", "4096", "--contributions", "4", "--period", "9")
    mu = gaussian_mu(1.0, 1e-6)
    assert lines[0]["mu"] == pytest.approx(mu * (lines[0]["share"] / 4) ** 0.5)
    person = last["summary"]["person"]
    assert person["record"].keys() == {"mu", "epsilon", "delta"}
    assert person["record"]["mu"] == pytest.approx(mu / 2)
    assert person["record"]["mu"] <= mu / 2
    assert (person["contributions"], person["period"], person["typical"]) == (4, 9, "1")
    assert person["kept_steps"] == 8
    assert person["visits"][0] == {
        "every": 1,
        "further": pytest.approx(0.51348, rel=1e-4),
        "admitted": 6,
    }
    assert person["visits"][-1] == {"every": None, "further": 1.0, "admitted": 4}
    plain = json_lines(*FADING, "--until", "4096")
    assert "person" not in plain[-1]["summary"]
    pure = json_lines(*SLIDING, "--contributions", "2")[-1]["summary"]["person"]
    assert pure["record"] == {"epsilon": 0.5}


def test_two_streams_have_a_ledger_each() -> None:
    *lines, last = json_lines(
        "plan", "twostream", "--window", "700", "--step", "100", "--target-step", "10",
        "--source-steps", "2", "--epsilon", "1", "--until", "2000",
    )  # fmt: skip
    assert {line["stream"] for line in lines} == {"source", "target"}
    assert last["summary"]["source"]["worst"]["share"] == 1
    assert last["summary"]["target"]["forever"]["share"] == 1


def test_nothing_is_planned_before_the_first_block() -> None:
    (only,) = json_lines("plan", "sliding", "--window", "4", "--step", "2", "--epsilon", "1",
                         "--until", "3")  # fmt: skip
    assert only["summary"]["fits"] == 0
    assert only["summary"]["worst"]["share"] == 0


def test_the_command_runs_in_a_process_of_its_own() -> None:
    assert process(*SLIDING).stdout == tidegate(*SLIDING).stdout
    bad = process("plan", "independent", "--step", "0", "--epsilon", "1", "--until", "9")
    assert bad == (
        2,
        "",
        "tidegate: step must be a whole number from 1 to 9007199254740992, got 0\n",
    )


def test_the_picture_shows_window_base_chain_and_release() -> None:
    done = tidegate(*SLIDING)
    assert done.returncode == 0
    assert "  7,168  ◆11████" in done.stdout.replace(" 7,168", "  7,168", 1)
    assert " 11████◆" in done.stdout
    assert "[3,072, 7,168)" in done.stdout
    words = " ".join(done.stdout.split())
    assert "whose model is released" in words
    assert "No record ever spends more than 100 %" in words


def test_a_plan_without_updates_has_none_in_its_legend() -> None:
    sizes = ("--block", "8192", "--step", "1024", "--until", "10000")
    words = tidegate("plan", "growing", *sizes, "--epsilon", "1", "--delta", "1e-6").stdout
    assert "each release is one fit" in words
    assert "updates" not in words


def test_a_fading_plan_shows_how_much_records_count() -> None:
    shown = tidegate(*FADING, "--until", "8192", "--rows", "8").stdout
    assert "  7,168  ░░░▒▒▓◆" in shown.replace("7,168", "  7,168", 1)  # 7/10 to the power of age
    assert " ░░░▒▒▓◆" in shown
    words = " ".join(shown.split())
    assert "█ ▓ ▒ ░ slot weight above 3/4, 1/2, 1/4, or less; ◆ its newest step" in words
    assert "starts from the release before, so it also remembers older records" in words
    assert "Older ones have less weight and pay less" in words


def test_a_wide_column_shows_the_weight_of_its_newest_step() -> None:
    narrow = process(*FADING, "--forget", "1/4", "--until", "40960", "--rows", "40", COLUMNS="40")
    row = next(line for line in narrow.stdout.splitlines() if line.startswith("40,960"))
    assert row.split() == ["40,960", "░░▒▓◆"]  # 9 steps of 1,024 in columns of 2,048


def test_a_refitted_window_counts_fully_and_remembers_more() -> None:
    sizes = ("sliding", *SIZES, "--refit", "--epsilon", "1", "--delta", "1e-6")
    words = " ".join(tidegate("plan", *sizes, "--until", "9000").stdout.split())
    assert words.startswith("sliding, epsilon = 1, delta = 1e-06, shares set by the schedule")
    assert "██████◆" in words
    assert "so it also remembers older records" in words
    assert "less weight" not in words


def test_a_long_plan_shows_its_first_rows() -> None:
    done = tidegate("plan", "independent", "--step", "1", "--epsilon", "1", "--until", "5000")
    assert "... and 4,976 more" in done.stdout


PLOTTED = KINDS | {
    "fading": ["--step", "1000", "--delta", "1e-6"],
    "twostream": ["--block", "2000", "--target-step", "100", "--target-steps", "3"],
}


@pytest.mark.parametrize("kind", PLOTTED)
@pytest.mark.parametrize("suffix", ["svg", "png"])
def test_plots(kind: str, suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"plan.{suffix}"
    sizes = PLOTTED[kind]
    done = tidegate("plan", kind, *sizes, "--epsilon", "1", "--until", "12000", "--plot", str(path))
    assert done.returncode == 0, done.stderr
    assert path.read_bytes()[:5] in {b"<?xml", b"\x89PNG\r"}


def test_a_plot_of_weights_has_a_shade_for_each(tmp_path: Path) -> None:
    path = tmp_path / "plan.svg"
    tidegate(*FADING, "--until", "10240", "--plot", str(path))
    opacities = set(re.findall(r"opacity: (0\.\d+)", path.read_text()))
    shades = {f"{0.08 + 0.92 * 0.7**age:.3f}" for age in range(1, 7)}
    assert shades <= {f"{float(opacity):.3f}" for opacity in opacities}


def test_a_reader_that_has_seen_enough_is_no_error() -> None:
    command = f"{sys.executable} -m tidegate plan independent --step 1 --epsilon 1 --until 50000"
    done = subprocess.run(
        ["bash", "-c", f"{command} --format json | head -n 1; echo ${{PIPESTATUS[0]}}"],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert done.stdout.count("\n") == 2
    assert done.stdout.endswith("\n0\n")
    assert done.stderr == ""


def test_a_full_disk_is_told_in_one_line() -> None:
    command = f"{sys.executable} -m tidegate plan independent --step 1 --epsilon 1 --until 9"
    done = subprocess.run(
        ["bash", "-c", f"{command} --format json > /dev/full"],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 2
    next_step = "free some space and run the command again"
    assert done.stderr == f"tidegate: No space left on device: the output; {next_step}\n"


def test_alone_it_shows_its_help() -> None:
    done = tidegate()
    assert done.returncode == 0
    assert done.stdout.startswith("Train a fresh private model at every step of a stream")


def test_a_terminal_without_our_characters_gets_others() -> None:
    done = process(*SLIDING, PYTHONIOENCODING="ascii")
    assert done.returncode == 0
    assert "?11????" in done.stdout


GOOD = {"--window": "8", "--step": "2", "--epsilon": "1", "--until": "100"}
BAD = [
    ("sliding", {"--epsilon": "0"}, "epsilon must be a finite number above 0, got 0"),
    ("sliding", {"--epsilon": "-1"}, "epsilon must be a finite number above 0, got -1"),
    ("sliding", {"--epsilon": "nan"}, "epsilon must be a finite number above 0, got nan"),
    ("sliding", {"--epsilon": "inf"}, "epsilon must be a finite number above 0, got inf"),
    ("sliding", {"--epsilon": "one"}, "epsilon must be a finite number above 0, got 'one'"),
    ("sliding", {"--delta": "0"}, "delta must be a number above 0 and below 1, got 0"),
    ("sliding", {"--delta": "1"}, "delta must be a number above 0 and below 1, got 1"),
    ("sliding", {"--delta": "nan"}, "delta must be a number above 0 and below 1, got nan"),
    ("sliding", {"--delta": "0.01"}, "delta must be at most 0.001, or confirmed by weak_delta"),
    ("sliding", {"--window": "7"}, "window must be two or more whole steps of 2, got 7"),
    ("sliding", {"--window": "2"}, "window must be two or more whole steps of 2, got 2"),
    ("sliding", {"--step": "-2"}, "step must be a whole number from 1 to 9007199254740992, got -2"),
    ("sliding", {"--step": "0"}, "step must be a whole number from 1 to 9007199254740992, got 0"),
    ("sliding", {"--step": "1.5"}, "step must be a whole number from 1 to"),
    ("sliding", {"--until": "-1"}, "until must be a whole number from 1 to"),
    ("sliding", {"--until": "1" + "0" * 30}, "until must be a whole number from 1 to"),
    ("sliding", {"--until": "9007199254740992"}, "until must be at most 1,000,000,000 steps of 2"),
    ("sliding", {"--block": "8"}, "sliding has no --block, got 8; it has --window, --step, --sam"),
    ("sliding", {"--sample": "0"}, "sample must be a whole number from 1"),
    ("sliding", {"--rate": "0.6"}, "--rate 3/5 needs --allocation tapered: add it, or omit --rate"),
    ("sliding", {"--allocation": "tapered", "--rate": "1/3"}, "rate must be above 1/2 and below 1"),
    ("sliding", {"--allocation": "tapered", "--rate": "2"}, "rate must be a Fraction above 0"),
    ("sliding", {"--allocation": "tapered", "--rate": "1/0"}, "rate must be a ratio such as 7/10"),
    ("sliding", {"--allocation": "evenly"}, "'evenly' is not one of 'paper', 'tapered'"),
    ("sliding", {"--plot": "plan.pdf"}, "plot must be a file that ends in .png or .svg"),
    ("sliding", {"--plot": "no/such/folder/plan.svg"}, "plot must be a file in a writable folder"),
    ("continual", {"--window": None, "--block": "6"}, "block must be a power-of-two multiple"),
    ("continual", {"--window": None}, "continual needs --block"),
    ("independent", {}, "independent has no --window, got 8"),
    ("multiresolution", {"--window": None, "--block": "4"}, "multiresolution has no --step"),
    ("twostream", {}, "twostream needs --target-step"),
    ("twostream", {"--target-step": "2", "--block": "4"}, "has no --block, got 4"),
    ("sliding", {"--target-step": "2"}, "sliding has no --target-step, got 2"),
    ("sliding", {"--contributions": "0"}, "contributions must be a whole number from 1 to 1048576"),
    ("sliding", {"--period": "5"}, "--period 5 needs --contributions: add it, or omit --period"),
    ("sliding", {"--typical": "2"}, "--typical 2 needs --contributions: add it, or omit"),
    ("sliding", {"--contributions": "2", "--period": "0"}, "period must be a whole number from 1"),
    ("sliding", {"--contributions": "2", "--typical": "1/2"}, "typical must be a number from 1"),
    ("sliding", {"--contributions": "2", "--sample": "3"}, "sample must be left out where persons"),
    (
        "twostream",
        {"--target-step": "2", "--contributions": "2", "--period": "3"},
        "period must be left out with two streams",
    ),
    ("sliding", {"--epsilon": ""}, "epsilon must be a finite number above 0, got ''"),
    ("sliding", {"--epsilon": "1e400"}, "epsilon must be a finite number above 0, got 1e400"),
    ("sliding", {"--epsilon": "1e-320"}, "epsilon must be at least 1e-100"),
    ("sliding", {"--rate": "1e-9999999999"}, "rate must be a ratio such as 7/10"),
    ("sliding", {"--rows": "100000"}, "rows must be a whole number from 1 to 1000, got 100000"),
    ("sliding", {"--until": "4", "--plot": "plan.svg"}, "nothing to plot: the first model is rele"),
    ("tidal", {}, "'tidal' is not one of"),
    ("sliding", {"--epsilon": None}, "Missing option '--epsilon'"),
    ("sliding", {"--nonsense": "1"}, "No such option"),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "change", "message"), BAD)
@pytest.mark.parametrize("form", ["table", "json"])
def test_bad_input_gets_one_line_and_no_plan(
    kind: str, change: dict[str, str | None], message: str, form: str
) -> None:
    options = {**GOOD, **change, "--format": form}
    words = [word for name, value in options.items() if value is not None for word in (name, value)]
    done = tidegate("plan", kind, *words)
    assert done.returncode == 2
    assert done.stdout == ""
    assert message in done.stderr
    assert done.stderr.count("\n") == 1
    assert "Traceback" not in done.stderr


def test_a_large_delta_can_be_confirmed() -> None:
    words = [word for option in GOOD.items() for word in option]
    done = tidegate("plan", "sliding", *words, "--delta", "0.01", "--weak-delta")
    assert done.returncode == 0
    assert "epsilon = 1, delta = 0.01" in done.stdout


def test_help_has_examples_that_run() -> None:
    text = tidegate("plan", "--help").stdout.split("Examples:")[1].replace("\\\n", " ")
    examples = [line.split() for line in text.splitlines() if "tidegate plan" in line]
    assert len(examples) == 5
    for words in examples:
        wanted = [word for word in words[1:] if word not in {"--plot", "plan.svg"}]
        assert tidegate(*wanted).returncode == 0


def test_our_own_mistakes_end_with_1(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("a value that must not be shown")

    monkeypatch.setattr("tidegate.cli.plan_command.planned", broken)
    monkeypatch.setattr("sys.argv", ["tidegate", *SLIDING])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 1
    told = capsys.readouterr().err
    assert told.count("\n") == 1
    assert "must not be shown" not in told
    assert "--traceback" in told


def test_a_traceback_is_shown_when_asked_for() -> None:
    done = tidegate("--traceback", "plan", "sliding", "--window", "3", "--step", "2",
                    "--epsilon", "1", "--until", "9")  # fmt: skip
    assert "Traceback" in done.stderr
    assert done.returncode == 2


@pytest.mark.parametrize(
    ("words", "whose"),
    [
        (("sliding", "--window", "7168", "--step", "1024"), ""),
        (("twostream", "--window", "7168", "--step", "1024", "--target-step", "9"), "source "),
    ],
)
def test_a_plan_that_ends_early_says_when_the_first_model_comes(
    words: tuple[str, ...], whose: str
) -> None:
    done = tidegate("plan", *words, "--epsilon", "1", "--until", "7167")
    assert done.returncode == 0
    said = f"The first model is released after 7,168 {whose}records, but --until is 7,167: raise it"
    assert said in " ".join(done.stdout.split())
    enough = tidegate("plan", *words, "--epsilon", "1", "--until", "7168").stdout
    assert "The first model" not in enough


@pytest.mark.parametrize("source", [("sliding",), ("twostream", "--target-step", "100")])
def test_no_row_of_a_plan_wraps_at_80_columns(source: tuple[str, ...]) -> None:
    words = (*source, "--window", "7168000", "--step", "1024000", "--until", "20480000")
    shown = process("plan", *words, "--epsilon", "1", "--rows", "9", COLUMNS="80").stdout
    table = shown.split("─\n")[1].split("...")[0]
    assert len(table.splitlines()) == 9
