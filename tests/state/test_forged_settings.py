"""An insider who edits the settings on a card, and redoes every checksum and hash."""

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.data.encoders import write_table, write_tokenizer
from tests.state.gatelife import opened
from tests.state.test_forgery import problems
from tests.state.test_noise_on_cards import fits_of, rewrite
from tidegate.gate import Config
from tidegate.release import Card

OTHER = "0" * 64


def made(folder: Path) -> Path:
    """A state of a regression on columns, one of which is encoded."""
    table, tokenizer = write_table(folder), write_tokenizer(folder)
    settings = Config.of(
        {
            "schedule": {"kind": "fading", "step": 100},
            "budget": {"epsilon": 8.0, "delta": 1e-6},
            "records": {"target": [-10, 10], "label": "y"},
            "columns": [
                {"name": "a", "kind": "number", "low": 0, "high": 10},
                {"name": "b", "kind": "category", "values": ["x", "z"]},
                {"name": "t", "kind": "text", "encoder": table, "tokenizer": tokenizer},
            ],
            "quality": {"share": "1/20"},
            "publish": {"folder": str(folder / "out")},
        }
    )
    rows = [{"a": a, "b": "xz"[int(a) % 2], "t": "tide"} for a in np.linspace(0, 10, 300).tolist()]
    with opened(folder / "state", settings) as gate:
        gate.ingest(rows, [row["a"] - 5 for row in rows])
    return folder / "state"


CHANGES: dict[str, tuple[Sequence[Any], Any]] = {
    "the range of the target": (["target"], [-10.0, 100.0]),
    "classes": (["classes"], [0, 1]),
    "cuts": (["cuts"], [0.5]),
    "the norm": (["norm"], 0.5),
    "the range of a column": (["features", 0, "columns", 0, "high"], 99.0),
    "the values of a column": (["features", 0, "columns", 1, "values"], ["x", "y"]),
    "a column without gaps": (["features", 0, "columns", 0, "gaps"], False),
    "a column without others": (["features", 0, "columns", 1, "others"], False),
    "the digest of an encoder": (["features", 0, "columns", 2, "digest"], f"{OTHER}+{OTHER}"),
    "the names of columns": (["columns"], ["a", "b", "c"]),
    "the label": (["label"], "salary"),
    "the rule of spelling": (["spelling"], 1),
    "the rule of spelling of columns": (["features", 0, "spelling"], 1),
    "the loss": (["loss"], {"kind": "HuberError", "h": 0.5}),
    "the learner": (["learner", "clip"], 1.0),
    "the schedule": (["schedule", "memory"], 2),
    "the neighbours": (["neighbours"], "streams that differ in all records"),
    "a refit of a target": (["refit"], {"temperature": 0.1, "shift": 0.0}),
    "a score of a target": (["evaluation", "step_before", "mae"], 0.001),
    "the target of scores": (["evaluation", "step_before", "noisy_counts", "target"], [0.0, 1.0]),
}


@pytest.mark.thorough
def test_other_settings_are_found_though_every_sum_was_redone(tmp_path: Path) -> None:
    state = made(tmp_path)
    assert problems(state) == []
    kept, last = tmp_path / "kept", len(fits_of(state)) - 1
    shutil.copytree(state, kept)
    for what, (path, value) in CHANGES.items():
        shutil.rmtree(state)
        shutil.copytree(kept, state)

        def edit(card: Card, path: Sequence[Any] = path, value: Any = value) -> None:
            place: Any = card
            for key in path[:-1]:
                place = place[key]
            assert not isinstance(place, dict) or place.get(path[-1]) != value
            place[path[-1]] = value

        rewrite(state, edit, last)
        told = problems(state)
        assert len(told) == 1, what
        assert told[0].startswith(f"fit {last}: its card says {path[0]}"), what


@pytest.mark.parametrize("key", ["gaps", "log"])
def test_a_key_that_the_settings_do_not_have_is_found(key: str, tmp_path: Path) -> None:
    state = made(tmp_path)

    def edit(card: Card) -> None:
        card["features"][0]["columns"][0][key] = ["0"] if key == "gaps" else True

    rewrite(state, edit, 0)
    assert problems(state)[0].startswith("fit 0: its card says features")
