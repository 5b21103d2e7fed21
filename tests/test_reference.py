"""The pages in docs/reference/ are current, complete, and the same on every machine."""

from pathlib import Path

import pytest

from reference.__main__ import FOLDER, main
from reference.docstring import to_markdown
from reference.interface import MODULES, signature
from reference.pages import ABOUT, pages, stale
from reference.settings import allowed
from tidegate.gate import Config
from tidegate.kinds import parameters
from tidegate.run.config.sections import keys_of, sections


@pytest.fixture(scope="module")
def texts() -> dict[str, str]:
    return pages()


def test_pages_are_current(texts: dict[str, str]) -> None:
    assert stale(FOLDER, texts) == [], "run `make reference` and commit docs/reference/"


def test_pages_do_not_depend_on_the_terminal(
    texts: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setenv("TERM", "dumb")
    assert pages() == texts


def test_pages_name_no_object_and_have_no_examples_to_run(texts: dict[str, str]) -> None:
    for text in texts.values():
        assert " at 0x" not in text
        assert ">>>" not in text  # docs/ is searched for examples; these run in their docstrings


def test_every_section_and_key_says_what_it_is() -> None:
    found = sections()
    top = {each.name for each in parameters(Config)}
    assert {name.partition(".")[0] for name in found} | {"not_private_seed"} == top
    for each in (key for tables in found.values() for key in keys_of(tables)):
        assert each.help
        assert allowed(each), each.name
        assert each.help == each.help.strip(" .")


def test_every_public_module_is_described(texts: dict[str, str]) -> None:
    support = (FOLDER.parent / "support.md").read_text(encoding="utf-8")
    assert [name for name in MODULES if f"`{name}`" not in support] == []
    assert list(ABOUT) == list(MODULES)
    assert {f"api/{name}.md" for name in MODULES} < set(texts)


@pytest.mark.thorough
def test_old_pages_are_found_written_and_deleted(
    tmp_path: Path, texts: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(tmp_path, check=True) == 1
    assert "cli.md is outdated: run `make reference`" in capsys.readouterr().out
    (tmp_path / "left.md").write_text("of a command that is gone")
    assert main(tmp_path, check=False) == 0
    assert stale(tmp_path, texts) == []
    assert main(tmp_path, check=True) == 0


def test_examples_become_code_and_lists_stay_lists() -> None:
    text = to_markdown(
        "Add.\n\nMore.\n\nArgs:\n    x: One\n        number.\n    y: Another.\n\n"
        "Raises:\n    ValueError: Never.\n\n>>> for x in range(2):\n...     x\n0\n1\n"
    )
    assert text == (
        "Add.\n\nMore.\n\nParameters:\n\n- `x`: One number.\n- `y`: Another.\n\n"
        "Raises:\n\n- `ValueError`: Never.\n\n"
        "```python\nfor x in range(2):\n    x\n# 0\n# 1\n```"
    )


def called(one: int, *more: str, kept: "float | None" = None, **rest: bool) -> None: ...


def test_signatures_have_types_as_they_are_written() -> None:
    shown = "(one: int, *more: str, kept: float | None = None, **rest: bool) -> None"
    assert signature("called", called) == f"called{shown}"
