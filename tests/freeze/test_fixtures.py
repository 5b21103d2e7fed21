"""Exports and pickles that an earlier version wrote load, and predict what they predicted."""

import json
import warnings
from importlib.metadata import version

import numpy as np
import pytest

from tests.freeze.fixtures.make import EXPECTED, HERE, PINNED, load, predicted

MADE = json.loads(EXPECTED.read_text(encoding="utf-8"))


def other_versions() -> list[str]:
    """The packages whose major version is another than that of the pickles."""
    return [
        f"{name} {there}"
        for name, there in MADE["versions"].items()
        if version(name).split(".")[0] != there.split(".")[0]
    ]


@pytest.mark.skipif(
    bool(other_versions()),
    reason=f"needs {' and '.join(other_versions())} (pip install with constraints.txt)",
)
@pytest.mark.parametrize("frozen", sorted(MADE["files"]))
def test_a_file_of_an_earlier_version_predicts_the_same(frozen: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # scikit-learn warns about every other version of its own
        loaded = load(HERE / frozen)
    said, expected = predicted(frozen, loaded), MADE["files"][frozen]
    assert said.keys() == expected.keys()
    for name, values in expected.items():
        here, there = np.asarray(said[name]), np.asarray(values)
        if there.dtype.kind == "f":
            np.testing.assert_allclose(here, there, rtol=1e-9, atol=1e-10)
        else:
            assert here.tolist() == values


def test_there_is_a_file_of_each_kind() -> None:
    assert set(MADE["versions"]) == set(PINNED)
    there = {path.name for path in HERE.iterdir() if path.suffix in {".joblib", ".pickle"}}
    assert there == set(MADE["files"])
    assert {name.partition(".")[2] for name in there} == {
        "joblib",
        "estimator.pickle",
        "release.pickle",
    }
