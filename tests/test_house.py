"""The meter of the code counts what it says, and none of its numbers gets worse."""

import io
import json
import sys
import threading
import tokenize
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.house import calls, imports, ratchet, source
from tests.house.__main__ import main, table
from tests.house.calls import Calls, installed
from tests.house.numbers import (
    NUMBERS,
    PROJECT,
    RATCHET,
    SCENARIOS,
    SOURCE,
    Number,
    Sum,
    Values,
    by_module,
    of_scenario,
    of_source,
)
from tests.house.ratchet import RaiseError, Stored
from tests.house.source import ROOT, Module, modules_of

STORED_MODULES = ratchet.stored_modules  # tests put others in its place

pytestmark = pytest.mark.xdist_group("house")  # the source is parsed once


@pytest.fixture(scope="module", autouse=True)
def forgotten() -> Iterator[None]:
    """Forget the syntax trees of the package afterwards: they are large."""
    yield
    graphs = (imports.module_level, imports.everywhere)
    for each in (modules_of, of_source, STORED_MODULES, *graphs):
        each.cache_clear()


def module(text: str, name: str = "tidegate.one") -> Module:
    return Module(name, name.rpartition(".")[2], text)


# --- the ratchet holds


def test_no_number_of_the_source_is_worse_than_stored() -> None:
    worse = ratchet.complaints(ratchet.read(), of_source())
    assert not worse, "\n".join(worse)


@pytest.mark.thorough
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_no_number_of_a_scenario_is_worse_than_stored(scenario: str) -> None:
    worse = ratchet.complaints(ratchet.read(), of_scenario(scenario))
    assert not worse, "\n".join(worse)


def test_every_number_is_stored() -> None:
    assert ratchet.read().keys() == {each.name for each in RATCHET}


PLAIN = {
    "tidegate/__init__.py": "",
    "tidegate/first.py": "from tidegate.second import a\n",
    "tidegate/second.py": "a = 1\n",
    "tidegate/third.py": "from tidegate.first import b\nclass Place: ...\ndef canonical(): ...\n",
}

PLANTED = {
    "code_lines": {"tidegate/more.py": "b = 2\n"},
    "all_lines": {"tidegate/more.py": "# a comment\n"},
    "none_per_1000": {"tidegate/more.py": "b = 2 is not None\n"},
    "isinstance_calls": {"tidegate/more.py": "b = isinstance(1, int)\n"},
    "boolean_parameters": {"tidegate/more.py": "def f(*, flag: bool): ...\n"},
    "import_chain": {"tidegate/more.py": "import tidegate.third\n"},
    "deferred_imports": {"tidegate/more.py": "def f():\n    import tidegate.second\n"},
    "local_percent": {"tidegate/more.py": "import tidegate.second, tidegate.first\n"},
    "long_modules": {"tidegate/more.py": "\n" * 451},
    "repeated_modules": {"tidegate/more/first.py": ""},
    "place_classes": {"tidegate/more.py": "class Place: ...\n"},
    "canonical_functions": {"tidegate/more.py": "def canonical(): ...\n"},
}
"""For each number that is read off the source, a module that makes it worse."""


def written(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder / "tidegate"


@pytest.mark.parametrize("mistake", PLANTED)
def test_a_worse_number_is_reported_in_one_line(
    mistake: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = written(tmp_path / "before", PLAIN)
    after = written(tmp_path / "after", PLAIN | PLANTED[mistake])
    record = ratchet.lowered({}, of_source(before), {})
    monkeypatch.setattr(ratchet, "stored_modules", lambda: modules_of(before))
    assert ratchet.complaints(record, of_source(before), before) == []
    found = ratchet.complaints(record, of_source(after), after)
    (line,) = (each for each in found if each.startswith(f"{mistake} "))
    old, new = record[mistake].value, of_source(after)[mistake]
    assert f"got worse, from {old:,} to {new:,}" in line
    assert "\n" not in line
    counted = by_module(mistake, modules_of(after))
    assert ("it grew in tidegate.more (+" in line) == bool(counted)


@pytest.mark.parametrize("number", RATCHET, ids=lambda number: number.name)
def test_one_worse_is_worse_and_one_better_is_not(
    number: Number, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ratchet, "stored_modules", tuple)
    record = {number.name: Stored(40)}
    for less, reported in ((-number.sign, False), (0, False), (number.sign, True)):
        found = ratchet.complaints(record, {number.name: 40 + less})
        assert bool(found) == reported
        assert len(found) <= 1


def test_every_number_of_the_source_has_a_planted_mistake() -> None:
    assert PLANTED.keys() == {each.name for each in SOURCE}


def test_a_clone_knows_what_the_modules_were_when_the_numbers_were_stored() -> None:
    names = {each.name for each in ratchet.stored_modules()}
    assert ("tidegate" in names) == (PROJECT / ".git").exists()


# --- what is stored


def test_only_better_numbers_are_stored_unless_a_reason_is_given() -> None:
    record = {"code_lines": Stored(10), "local_percent": Stored(30.0), "all_lines": Stored(7)}
    values: Values = {"code_lines": 12, "local_percent": 20.0, "all_lines": 6}
    kept = ratchet.lowered(record, values, {})
    assert kept == {**record, "all_lines": Stored(6)}
    raised = ratchet.lowered(record, values, {"local_percent": "a new part"})
    assert raised == {**kept, "local_percent": Stored(20.0, "a new part")}
    better = ratchet.lowered(raised, {"local_percent": 25.0}, {})
    assert better == {**kept, "local_percent": Stored(25.0)}


@pytest.mark.parametrize(
    ("name", "because", "said"),
    [
        ("code_line", "why", "code_line is no number that is stored"),
        ("largest_module", "why", "largest_module is no number that is stored"),
        ("release_queries", "why", "release_queries was not measured: leave out --fast"),
        ("code_lines", " ", "code_lines needs a reason: add --because"),
    ],
)
def test_a_number_is_raised_only_as_a_whole(name: str, because: str, said: str) -> None:
    with pytest.raises(RaiseError, match=said):
        ratchet.lowered({}, {"code_lines": 12, "largest_module": 3}, {name: because})


def test_of_two_merged_lines_the_better_counts(tmp_path: Path) -> None:
    record = {"code_lines": Stored(10, "why"), "local_percent": Stored(30.0)}
    path = tmp_path / "house.json"
    path.write_text(ratchet.text(record))
    assert ratchet.read(path) == record
    other = ratchet.text({"code_lines": Stored(9), "local_percent": Stored(29.0)})
    lines = path.read_text().splitlines()
    path.write_text("\n".join([*lines[:-2], *other.splitlines()[1:]]))
    assert ratchet.read(path) == {**record, "code_lines": Stored(9)}
    assert ratchet.read(tmp_path / "none.json") == {}


# --- what is counted


@pytest.mark.parametrize(
    ("count", "text", "found"),
    [
        (source.code_lines, '"""Doc."""\n\n# comment\na = 1  # more\n"""Of a."""\n', 1),
        (
            source.code_lines,
            'def f():\n    """Doc.\n\n    More.\n    """\n    return (\n    )\n',
            3,
        ),
        (source.code_lines, 'a = """\n# no comment\n\n"""\n', 3),
        (source.code_lines, 'a = (\n    "b"\n    # a comment\n    "c"\n)\n', 4),
        (source.code_lines, "a = 1; b = 2\n", 1),
        (source.none_comparisons, "a is None\nb is not None\nNone == c\nd != None\n", 4),
        (source.none_comparisons, "a is b is None\nc in {None}\nd = None\n[e for e in f if e]", 1),
        (source.none_comparisons, "match a:\n  case None: b\n  case 1 | None: c\n  case _: d", 2),
        (source.none_comparisons, "match a:\n  case True: b\n", 0),
        (source.isinstance_calls, "isinstance(a, b)\nself.isinstance(a)\nisinstance\n", 1),
        (source.boolean_parameters, "def f(a: bool, b=True, *, c=False, d: bool | None): ...", 4),
        (source.boolean_parameters, "def f(a: int, b=1, *, c=None, d: list[bool]): ...", 0),
        (source.boolean_parameters, "f = lambda a, b=False: a\nclass C:\n    a: bool = True\n", 1),
        (source.place_classes, "class Place: ...\nclass Places: ...\nPlace = 1\n", 1),
        (source.canonical_functions, "def canonical(): ...\ndef _canonical(): ...\n", 1),
        (imports.deferred_imports, "def f():\n  import tidegate.a\n  from tidegate import b", 2),
        (imports.deferred_imports, "import tidegate.a\ndef f():\n  import tidegates, json\n", 0),
    ],
)
def test_what_is_counted_in_a_module(count: source.Count, text: str, found: int) -> None:
    assert count(module(text)) == found


@pytest.mark.thorough
def test_lines_of_code_are_those_with_a_token() -> None:
    no_code = {
        *(tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.ENDMARKER),
        *(tokenize.INDENT, tokenize.DEDENT),
    }
    for each in modules_of(ROOT):
        lines, statement = set[int](), list[tokenize.TokenInfo]()
        for token in tokenize.generate_tokens(io.StringIO(each.text).readline):
            if token.type not in no_code:
                statement.append(token)
            elif token.type == tokenize.NEWLINE:
                if any(part.type != tokenize.STRING for part in statement):
                    spans = (range(part.start[0], part.end[0] + 1) for part in statement)
                    lines.update(number for span in spans for number in span)
                statement.clear()
        expected = sum(1 for number in lines if each.lines[number - 1].strip())
        assert source.code_lines(each) == expected, each.name


def test_modules_and_names(tmp_path: Path) -> None:
    files = {"tidegate/a/__init__.py": "", "tidegate/a/a.py": "", "tidegate/b/a.py": "\n\n"}
    modules = modules_of(written(tmp_path, {**files, "tidegate/b/__init__.py": ""}))
    assert [each.name for each in modules] == [
        *("tidegate.a", "tidegate.a.a", "tidegate.b", "tidegate.b.a")
    ]
    assert source.repeated_names(modules) == ["tidegate.b.a"]
    assert source.largest_module(modules) == 2


# --- imports


def test_what_an_import_is() -> None:
    one = """
from typing import TYPE_CHECKING
import tidegate.a
from tidegate.b import name
from tidegate import c
if TYPE_CHECKING:
    from tidegate.d import name
try:
    import tidegate.e
except ImportError:
    import json
class C:
    import tidegate.f
def f():
    import tidegate.g
"""
    others = [module("", f"tidegate.{name}") for name in "abcdefg"]
    modules = (module("", "tidegate"), module(one), *others)
    assert imports.module_level(modules)["tidegate.one"] == {f"tidegate.{name}" for name in "abcef"}
    assert imports.everywhere(modules)["tidegate.one"] == {f"tidegate.{name}" for name in "abcdefg"}
    assert imports.chain_length(modules) == 2
    assert len(imports.local_modules(modules)) == len(modules)
    with pytest.raises(ValueError, match=r"tidegate.one, line 1: import by the whole name"):
        imports.chain([module("from . import a\n")])


def importing(edges: Sequence[tuple[int, int]], size: int) -> list[Module]:
    return [
        module("".join(f"import tidegate.m{b}\n" for a, b in edges if a == one), f"tidegate.m{one}")
        for one in range(size)
    ]


def test_modules_in_a_circle_count_all() -> None:
    circle = importing([(0, 1), (1, 2), (2, 1), (2, 3)], 5)
    assert imports.chain(circle) == [f"tidegate.m{place}" for place in range(4)]


@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6))))
def test_the_longest_chain_is_that_of_a_search(pairs: list[tuple[int, int]]) -> None:
    edges = [(a, b) for a, b in pairs if a < b]

    def longest(place: int) -> int:
        return 1 + max((longest(b) for a, b in edges if a == place), default=0)

    modules = importing(edges, 7)
    chain = imports.chain(modules)
    assert len(chain) == max(map(longest, range(7)))
    graph = imports.module_level(tuple(modules))
    assert all(b in graph[a] for a, b in pairwise(chain))


# --- calls


TOY = """
def counted():
    yield from [each for each in (lambda: range(2))()]

def twice():
    class Local:
        pass
    return sum(each for each in counted())
"""


def test_calls_are_recorded_on_all_threads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calls, "PACKAGE", tmp_path)
    toy: dict[str, Any] = {}
    exec(compile(TOY, tmp_path / "part" / "toy.py", "exec"), toy)
    found, before = Calls(), sys.getprofile()
    with installed(found):
        thread = threading.Thread(target=toy["twice"])
        toy["twice"]()
        with found.record():
            thread.start()
            thread.join()
            toy["twice"]()
    assert sys.getprofile() is before
    assert found.modules == ["part/toy.py"]
    assert found.functions == [
        *("part/toy.py:counted", "part/toy.py:counted.<locals>.<lambda>", "part/toy.py:twice")
    ]
    assert set(found.of.values()) == {2}


# --- the command


def test_the_table_has_80_columns() -> None:
    values = {each.name: 99_999.99 for each in NUMBERS}
    lines = list(table(values, {each.name: Stored(99_999.99) for each in RATCHET}))
    assert {len(line) for line in lines} == {80}
    assert len(lines) == len(NUMBERS) + 1


def test_programs_get_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--fast", "--format", "json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed["code_lines"]["value"] == Sum(source.code_lines)(modules_of(ROOT))
    assert printed["local_percent"]["better"] == "more"


def test_a_reason_is_needed_to_raise_a_number(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--fast", "--write", "--raise", "code_lines"]) == 2
    assert capsys.readouterr().err == "code_lines needs a reason: add --because\n"


def test_the_command_says_where(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--where", "import_chain"]) == 0
    assert capsys.readouterr().out.splitlines() == imports.chain(modules_of(ROOT))
