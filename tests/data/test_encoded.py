"""The feature maps of encoders: in pipelines and estimators, on cards, and built from them."""

import pickle
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import check_estimator

from tests.data.encoders import (
    WIDTH,
    write_image_model,
    write_table,
    write_text_model,
    write_tokenizer,
)
from tidegate import ApproxDP, FadingClassifier
from tidegate.checks import InvalidValueError
from tidegate.data.encoder import encoder as frozen_file
from tidegate.data.feature_map import built_map, described_map, takes_text
from tidegate.features import EncodedImage, EncodedText, NormClip

TEXTS = ["the tide is low", "gate", "", None]


WRITERS: list[Callable[[Path], str]] = [write_table, write_text_model]


@pytest.fixture(params=WRITERS)
def encoded(request: pytest.FixtureRequest, tmp_path: Path) -> EncodedText:
    return EncodedText(request.param(tmp_path), write_tokenizer(tmp_path), length=32)


@pytest.fixture
def image(tmp_path: Path) -> EncodedImage:
    return EncodedImage(write_image_model(tmp_path), height=5, width=6, channels=3)


def test_texts_become_rows_of_norm_1_or_nan(encoded: EncodedText) -> None:
    rows = encoded.transform(TEXTS)
    assert rows.shape == (4, WIDTH)
    assert np.isnan(rows).all(axis=1).tolist() == [False, False, False, True]
    assert np.allclose(np.linalg.norm(rows[:2], axis=1), 1)
    assert len(encoded.get_feature_names_out()) == WIDTH


def test_scikit_learn_may_clone_copy_and_pickle_it(encoded: EncodedText) -> None:
    rows = encoded.transform(TEXTS)
    for copy in (clone(encoded), deepcopy(encoded), pickle.loads(pickle.dumps(encoded))):
        assert np.array_equal(copy.fit(TEXTS).transform(TEXTS), rows, equal_nan=True)
        assert copy.get_params() == encoded.get_params()
    assert len(pickle.dumps(encoded)) < 2000


@pytest.mark.filterwarnings("ignore:Can't test estimator")
def test_scikit_learn_finds_nothing_wrong(encoded: EncodedText) -> None:
    check_estimator(encoded)


def test_a_map_that_was_used_refuses_changed_files_in_another_process(encoded: EncodedText) -> None:
    encoded.transform(TEXTS)
    packed = pickle.dumps(encoded)
    with Path(encoded.encoder).open("ab") as file:
        file.write(b" ")
    for loaded in ("loaded_table", "loaded_model"):  # as in a process that has read nothing yet
        module = "token_table" if loaded == "loaded_table" else "onnx_model"
        getattr(
            __import__(f"tidegate.data.encoder.{module}", fromlist=[loaded]), loaded
        ).cache_clear()
    with pytest.raises(InvalidValueError, match="changed since it was first used"):
        pickle.loads(packed).transform(TEXTS)


def test_a_card_names_the_files_and_a_release_can_be_rebuilt(
    encoded: EncodedText, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = encoded.transform(TEXTS[:3])
    steps = described_map(make_pipeline(encoded, NormClip(0.5)))
    assert str(tmp_path) not in str(steps)
    assert steps[0]["kind"] == "EncodedText"
    assert steps[0]["length"] == 32
    assert takes_text(steps)
    rebuilt: Any = built_map(steps)
    assert np.array_equal(rebuilt.transform(TEXTS[:3]), NormClip(0.5).transform(rows))
    monkeypatch.setattr(frozen_file, "PLACES", {})  # as in another process
    monkeypatch.chdir(tmp_path)
    rebuilt = built_map(steps)
    assert np.array_equal(rebuilt.transform(TEXTS[:3]), NormClip(0.5).transform(rows))


def test_a_release_is_not_rebuilt_with_other_files(
    encoded: EncodedText, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (step,) = described_map(encoded)
    monkeypatch.setattr(frozen_file, "PLACES", {})
    monkeypatch.chdir(tmp_path)
    forged = "0" * 64
    other: Any = built_map([{**step, "digest": f"{forged}+{forged}"}])
    with pytest.raises(InvalidValueError, match=f"restore the file with SHA-256 {forged}"):
        other.transform(TEXTS)


def test_an_estimator_takes_texts(encoded: EncodedText) -> None:
    texts = ["low tide is out", "the high gate"] * 64
    classifier = FadingClassifier(
        budget=ApproxDP(50.0, 1e-6), step=64, classes=[0, 1], norm=1.0, features=encoded
    ).fit(texts, [0, 1] * 64)
    assert classifier.score(texts, [0, 1] * 64) == 1.0
    again = pickle.loads(pickle.dumps(classifier))
    assert np.array_equal(again.predict_proba(texts), classifier.predict_proba(texts))


def test_what_is_not_a_sequence_of_texts_is_refused(encoded: EncodedText) -> None:
    for batch in ("one string", np.array([["a"], ["b"]])):
        with pytest.raises(InvalidValueError, match="must be a sequence of texts"):
            encoded.transform(batch)  # type: ignore[arg-type]


def test_images_go_through_a_pipeline(image: EncodedImage) -> None:
    batch = np.random.default_rng(0).uniform(0, 255, (7, 90))
    batch[3, 5] = np.nan
    rows = make_pipeline(image, NormClip(1.0)).fit(batch).transform(batch)
    assert rows.shape == (7, WIDTH)
    assert np.isnan(rows).any(axis=1).tolist() == [i == 3 for i in range(7)]
    assert image.fit(batch).n_features_in_ == 90
    assert len(image.get_feature_names_out()) == WIDTH
    (step,) = described_map(image)
    assert step["encoder"] == "image.onnx"
    rebuilt: Any = built_map([step])
    assert np.array_equal(rebuilt.transform(batch), rows, equal_nan=True)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"height": 0}, "height must be a whole number"),
        ({"channels": 1}, r"image\.onnx must have one input"),
        ({"mean": (1.0,)}, "mean must be a list with a number for each of 3 channels"),
        ({"deviation": (1.0, 0.0, 1.0)}, "deviation must be .*, none 0"),
        ({"encoder": 3}, "encoder must be the path of a file"),
    ],
)
def test_bad_settings_of_images_are_refused(
    image: EncodedImage, parameters: dict[str, Any], message: str
) -> None:
    with pytest.raises(InvalidValueError, match=message):
        image.set_params(**parameters).transform(np.zeros((1, 90)))


def test_images_of_another_size_are_refused_for_the_whole_batch(image: EncodedImage) -> None:
    with pytest.raises(InvalidValueError, match="each image must be 90 numbers: 5 x 6 x 3"):
        image.transform(np.zeros((2, 91)))
