"""No mechanism is without a law: a replay has seen the noise of each place that draws any."""

import ast
import sys
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from tests.laws import mechanisms
from tests.laws.gate_replay import GateScene, config_of, gate_transcript
from tests.laws.mechanisms import Reference, bindings, references, sources
from tests.laws.replay import NORMS, Call, Floats, Script, Slot, honest, transcript
from tests.laws.scenes import LEARNINGS, SCORED, SURVEYED, setup_of
from tests.laws.test_gate_replay import some_records
from tests.laws.test_replay import SURVEY, streams

DRAW = {"tidegate.privacy.noise", "tidegate.privacy.sampling"}
"""What may draw private random bits: noise, and samples, which `replay` replaces too."""

GENERATORS = {
    "tidegate.privacy.noise": "the source of all random bits",
    "tidegate.estimators.spending": "the key of hashes that never leave the process",
    "tidegate.data.maps.projection": "a feature map's fixed numbers, from its public seed",
    "tidegate.data.maps.fourier": "a feature map's fixed numbers, from its public seed",
}
"""What uses a generator of random numbers, and why it is no mechanism."""

RANDOM = {"random", "urandom", "default_rng"}


def noting(seen: set[Reference]) -> Script:
    """The noise itself; what is on the stack of each call is noted."""
    inner = honest(0)

    def script(number: int, call: Call) -> Floats:
        frame: FrameType | None = sys._getframe()
        while frame is not None:
            module = frame.f_globals.get("__name__", "")
            seen.add(Reference(module, frame.f_code.co_qualname, call.mechanism))
            frame = frame.f_back
        return inner(number, call)

    return script


def watched() -> set[Reference]:
    """What the scenes of the laws run: every learner, surveys, scores and accuracies."""
    seen: set[Reference] = set()
    for learning in LEARNINGS:
        shares = {"survey": SURVEY, "reserve": SCORED} if learning in SURVEYED else {}
        setup = setup_of("fading", learning, **shares)
        transcript(setup, streams("fading", 12), Slot(None, 10), noting(seen))
    for pure in (False, True):
        kinds: list[dict[str, Any]] = [{}, {"scores": False}, {"target": True}]
        for kind in kinds:
            data = some_records("fading", 12, 2)
            config = config_of("fading", pure=pure, **kind)
            scene = GateScene(config=config, data=data, slot=Slot(None, 10), script=noting(seen))
            gate_transcript(scene, data, scene.script)
    return seen


def test_every_mechanism_is_watched_by_a_law() -> None:
    """A place that draws noise and that no replay records would be under no law at all."""
    unwatched = references() - watched()
    assert not unwatched, f"no scene of the laws runs these, or replaces their noise: {unwatched}"


def test_every_mechanism_has_a_norm() -> None:
    """Laws measure the move of a center in it."""
    assert mechanisms.mechanisms() == NORMS.keys()


def test_what_names_a_mechanism_can_be_replaced() -> None:
    assert {module.__name__ for module, _ in bindings()} == {each.module for each in references()}


def test_nothing_else_draws_random_bits() -> None:
    """Noise that is made elsewhere would not be replaced, so no law would watch it."""
    drawing = {
        name
        for name, tree in sources(".words")
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "words"
    }
    assert drawing == DRAW


def test_every_generator_of_random_numbers_is_known() -> None:
    found = sources(*RANDOM)
    assert {name for name, tree in found if generates(tree)} == GENERATORS.keys()


def generates(tree: ast.Module) -> bool:
    """Whether a module uses a generator of random numbers, or the system's random bytes."""
    used = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    imported = {
        alias.name.split(".")[-1]
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
    }
    return not RANDOM.isdisjoint(used | imported)


MODULE = """
from tidegate.privacy import noise
from tidegate.privacy.noise import gaussian, laplace as spread

PLACE = spread

class Mechanism:
    def release(self, x, bits):
        return gaussian(x, 1.0, bits)

    def pure(self, x, bits):
        def inner():
            return noise.l2_laplace(x, 1.0, bits)
        return inner()
"""


def test_every_way_to_name_a_mechanism_is_found(tmp_path: Path) -> None:
    (tmp_path / "learn").mkdir()
    (tmp_path / "compare").mkdir()
    (tmp_path / "learn" / "new.py").write_text(MODULE)
    (tmp_path / "compare" / "method.py").write_text(MODULE)
    assert references(tmp_path) == {
        Reference("tidegate.learn.new", "", "laplace"),
        Reference("tidegate.learn.new", "Mechanism.release", "gaussian"),
        Reference("tidegate.learn.new", "Mechanism.pure.<locals>.inner", "l2_laplace"),
    }


@pytest.mark.thorough
def test_noise_that_is_not_replaced_is_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    """As when `private_accuracy` moved to a module that no list had."""
    left = [each for each in bindings() if not each[0].__name__.endswith("private_accuracy")]
    monkeypatch.setattr("tests.laws.replay.bindings", lambda: left)
    missed = {each.module for each in references() - watched()}
    assert missed == {"tidegate.learn.private_accuracy"}
