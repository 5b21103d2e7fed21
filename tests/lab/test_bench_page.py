"""The page of benchmark results says what was measured, where, and which bars were missed."""

from pathlib import Path

import pytest

from tidegate_lab.bench import __main__ as bench
from tidegate_lab.bench import noise, page, table
from tidegate_lab.bench.page import Section
from tidegate_lab.bench.table import COLUMNS, Shown, faster

FACTS = {"date": "2026-01-02 03:04 UTC", "processor": "Abacus, 2 cores"}
ROWS = (
    tuple(faster("fit", "Abacus | Co", 0.001, 0.004, 3)),
    tuple(faster("fit", "Slide rule", 0.001, 0.002, 3)),
    ("published: Tally", "none"),
)
SECTIONS = (
    Section(
        "plan", "Steps.", 1.2, (Shown("A million", ("schedule", "planned"), (("basic", "1 s"),)),)
    ),
    Section("learn", "Fits.", 61.7, ("Not compared with Tally", Shown("Softmax", COLUMNS, ROWS))),
)


def test_page() -> None:
    text = page.page(FACTS, SECTIONS)
    assert text.startswith("<!-- Written by `make bench`.")
    assert "met 1 of 2 bars. Not met: learn: fit, Slide rule." in text
    assert "| date | 2026-01-02 03:04 UTC |" in text
    command = "python -m tidegate_lab.bench learn"
    assert f"## Learn\n\nFits. `{command}` took 62 s.\n\nNot compared with Tally\n" in text
    assert "| fit | Abacus \\| Co | 1.00 ms | 4.00 ms | 4.00 x faster | >= 3 | yes |" in text
    assert "| published: Tally | none |  |  |  |  |  |" in text
    assert ">>>" not in text  # docs/ is searched for examples to run


def test_a_page_without_bars_counts_none() -> None:
    assert "met 0 of 0 bars.\n" in page.page(FACTS, SECTIONS[:1])


def test_every_table_has_as_many_columns_in_each_line() -> None:
    text = page.page(FACTS, SECTIONS).replace("\\|", "")
    tables = [part.splitlines() for part in text.split("\n\n") if part.startswith("|")]
    assert len(tables) == 3
    for lines in tables:
        assert len({line.count("|") for line in lines}) == 1


def test_machine_names_versions_and_no_host() -> None:
    facts = page.machine()
    assert {"date", "Tidegate", "Python", "system", "processor", "memory", "peers"} <= set(facts)
    assert "numpy 2" in facts["packages"]
    assert str(Path.cwd()) not in str(facts)


def test_written_when_all_has_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "bench.md"
    monkeypatch.setattr(table, "results", ["said by an earlier benchmark"])
    monkeypatch.setattr(
        noise, "main", lambda: table.show("Noise", [("gaussian", "7 ms")], ("law", "time"))
    )
    bench.main(["noise", "--page", str(target)])
    text = target.read_text()
    assert "| gaussian | 7 ms |" in text
    assert "earlier" not in text

    def fail() -> None:
        raise OSError

    monkeypatch.setattr(noise, "main", fail)
    target.unlink()
    with pytest.raises(OSError):  # noqa: PT011
        bench.main(["noise", "--page", str(target)])
    assert not target.exists()


def test_unknown_names_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        bench.main(["noise", "nois"])
    assert "no benchmark is called nois" in capsys.readouterr().err
