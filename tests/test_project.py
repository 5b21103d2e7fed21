"""What the project says about itself agrees: versions, Pythons and the check of a release."""

import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
VERSION = PROJECT["project"]["version"]
WORKFLOWS = ROOT / ".github" / "workflows"
RELEASE_NOTES = ROOT / ".ci" / "release_notes.py"


def text(name: str) -> str:
    return (ROOT / name).read_text()


def test_one_version() -> None:
    assert f"\nversion: {VERSION}\n" in text("CITATION.cff")
    newest = re.search(r"^## (\S+)", text("CHANGELOG.md"), re.MULTILINE)
    assert newest is not None
    assert newest[1] == VERSION.partition(".dev")[0]


def test_the_matrix_runs_every_python_that_is_claimed() -> None:
    claimed = {
        name.rpartition(" ")[2]
        for name in PROJECT["project"]["classifiers"]
        if re.search(r":: 3\.\d+$", name)
    }
    matrix = re.search(r"python: \[(.*)\]", (WORKFLOWS / "test.yml").read_text())
    assert matrix is not None
    assert claimed <= set(re.findall(r"[\d.]+", matrix[1]))
    oldest = PROJECT["project"]["requires-python"].removeprefix(">=")
    assert oldest in claimed
    for python in claimed:
        assert f"| Python {python}" in text("docs/support.md")


def test_actions_are_pinned_to_commits() -> None:
    used = [line for path in WORKFLOWS.iterdir() for line in path.read_text().splitlines()]
    used = [line for line in used if "uses:" in line]
    assert used
    for line in used:
        assert re.search(r"@[0-9a-f]{40} # v\d", line), line


def test_everything_in_the_source_package_is_there() -> None:
    for name in PROJECT["tool"]["hatch"]["build"]["targets"]["sdist"]["include"]:
        assert (ROOT / name).exists(), name


@pytest.fixture
def released(tmp_path: Path) -> Path:
    """A project that is ready to release 1.2.3."""
    shutil.copy(RELEASE_NOTES, tmp_path)
    (tmp_path / "pyproject.toml").write_text('[project]\nversion = "1.2.3"\n')
    sections = "## 1.2.3 (2026-01-31)\n\n### Added\n- Tides.\n\n## 1.2.2 (2026-01-01)\n\nOld.\n"
    (tmp_path / "CHANGELOG.md").write_text(f"# Changelog\n\n{sections}")
    (tmp_path / "CITATION.cff").write_text("cff: 1\nversion: 1.2.3\ndate-released: 2026-01-31\n")
    return tmp_path


def release_notes(project: Path, tag: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, RELEASE_NOTES.name, tag]
    return subprocess.run(command, cwd=project, capture_output=True, text=True, check=False)


def test_release_notes(released: Path) -> None:
    done = release_notes(released, "v1.2.3")
    assert (done.returncode, done.stdout) == (0, "### Added\n- Tides.\n")


@pytest.mark.parametrize(
    ("file", "before", "after", "named"),
    [
        ("pyproject.toml", "1.2.3", "1.2.3.dev0", "pyproject.toml: version is 1.2.3.dev0"),
        ("CHANGELOG.md", "2026-01-31", "unreleased", "CHANGELOG.md: 1.2.3 has no date"),
        ("CHANGELOG.md", " (2026-01-31)", "", "CHANGELOG.md: 1.2.3 has no date"),
        ("CHANGELOG.md", "## 1.2.3", "## 1.2.4", "CHANGELOG.md: the first section is about 1.2.4"),
        ("CHANGELOG.md", "## ", "", "CHANGELOG.md: no line"),
        ("CITATION.cff", "1.2.3", "1.2.2", "CITATION.cff: no line 'version: 1.2.3'"),
        ("CITATION.cff", "01-31", "01-30", "CITATION.cff: no line 'date-released: 2026-01-31'"),
    ],
)
def test_what_does_not_agree_is_not_released(
    released: Path, file: str, before: str, after: str, named: str
) -> None:
    changed = (released / file).read_text().replace(before, after)
    (released / file).write_text(changed)
    done = release_notes(released, "v1.2.3")
    assert done.returncode == 1
    assert named in done.stderr


@pytest.mark.parametrize("tag", ["1.2.3", "v1.2.3rc1", "v1.2.4"])
def test_another_tag_is_refused(released: Path, tag: str) -> None:
    assert release_notes(released, tag).returncode == 1
