"""lab/ uses only public names of Tidegate; benchmarks may also import the parts they measure."""

import ast
import tomllib
from collections.abc import Iterator
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path

import pytest

from reference.interface import MODULES

ROOT = Path(__file__).parents[2]
LAB = ROOT / "lab" / "tidegate_lab"
MODULE_NAMES = sorted(str(path.relative_to(LAB)) for path in LAB.rglob("*.py"))

MEASURED = {
    "bench/encoders.py": {"tidegate.data.encoder"},
    "bench/fading.py": {
        "tidegate.learn.learner",
        "tidegate.data.records",
        "tidegate.run.memory_run",
        "tidegate.privacy.noise",
        "tidegate.privacy.budget",
        "tidegate.run.settings",
    },
    "bench/gate.py": {"tidegate.learn.learner"},
    "bench/learn.py": {
        "tidegate.learn.learner",
        "tidegate.learn.objective",
        "tidegate.data.records",
    },
    "bench/noise.py": {"tidegate.privacy.noise"},
    "bench/persons.py": {
        "tidegate.learn.slot_weights",
        "tidegate.state.folder_store",
        "tidegate.state",
        "tidegate.state.person_log",
        "tidegate.sources",
        "tidegate.learn.learner",
    },
    "bench/ring.py": {"tidegate.demo.demo_state"},
    "bench/scale.py": {
        "tidegate.run.cluster",
        "tidegate.run.engine",
        "tidegate.state.segments",
        "tidegate.learn.objective",
        "tidegate.data.records",
        "tidegate.learn.solver",
    },
    "bench/serve.py": {
        "tidegate.sources",
        "tidegate.serve.limits",
        "tidegate.serve.server",
        "tidegate.serve.access_tokens",
        "tidegate.serve.training_process",
    },
    "bench/small_tables.py": {
        "tidegate.learn.descent",
        "tidegate.learn.rules",
        "tidegate.learn.survey",
    },
}
"""The private modules that benchmarks import, because they measure what is inside: no others."""


def private_imports(text: str) -> Iterator[str]:
    """The modules of Tidegate that a source imports and that are not public, or have such names."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            yield from (each.name for each in node.names if each.name.startswith("tidegate."))
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "tidegate":
            module = str(node.module)
            public = import_module(module).__all__ if module in MODULES else ()
            for name in (each.name for each in node.names if each.name not in public):
                yield f"{module}.{name}" if module in MODULES else module


@pytest.mark.parametrize("name", MODULE_NAMES)
def test_lab_imports_only_public_names(name: str) -> None:
    found = set(private_imports((LAB / name).read_text(encoding="utf-8")))
    assert found == MEASURED.get(name, set())


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("from tidegate import ApproxDP, Plan", []),
        ("from tidegate.compare import Method", []),
        ("from tidegate.privacy import noise", ["tidegate.privacy.noise"]),
        ("from tidegate.checks import refuse", ["tidegate.checks"]),
        ("import tidegate.gate", ["tidegate.gate"]),
        ("def f():\n    from tidegate.schedule.plan import Plan", ["tidegate.schedule.plan"]),
        ("from tidegate_lab.checks import refuse", []),
    ],
)
def test_private_names_are_found_wherever_they_are_imported(text: str, found: list[str]) -> None:
    assert list(private_imports(text)) == found


def test_both_packages_have_one_version() -> None:
    one, two = (
        tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
        for folder in (ROOT, ROOT / "lab")
    )
    assert one == two


@pytest.mark.parametrize("group", ["tidegate.commands", "tidegate.methods"])
def test_entry_points_are_those_of_the_project_and_can_be_loaded(group: str) -> None:
    project = tomllib.loads((ROOT / "lab" / "pyproject.toml").read_text(encoding="utf-8"))
    installed = {each.name: each for each in entry_points(group=group)}
    assert {name: each.value for name, each in installed.items()} == (
        project["project"]["entry-points"][group]
    )
    for entry in installed.values():
        assert entry.load().name in {entry.name, "paper"}
