"""Hashed text against counting by hand."""

from typing import Any

import numpy as np
import pytest
from sklearn.feature_extraction.text import HashingVectorizer

from tidegate.checks import InvalidValueError
from tidegate.features import HashedText


def test_words_and_characters_are_counted_together() -> None:
    """The norm's square counts every n-gram once where none collide and none repeat."""
    row = HashedText(n_features=2**20, words=(1, 2), characters=(3, 3)).transform(["low tide"])
    words = ["low", "tide", "low tide"]
    characters = [" lo", "low", "ow ", " ti", "tid", "ide", "de "]
    assert row.shape == (1, 2**20)
    assert np.abs(row.data).tolist() == [1.0] * len(words + characters)


def test_a_word_and_its_characters_are_different_features() -> None:
    word = HashedText(n_features=2**20, words=(1, 1), characters=None).transform(["low"])
    gram = HashedText(n_features=2**20, words=None, characters=(3, 3)).transform(["low"])
    assert not set(word.indices) & set(gram.indices)


def test_words_are_counted_as_scikit_learn_counts_them() -> None:
    texts = ["high tide, low tide", "The tide IS out", ""]
    ours = HashedText(n_features=2**20, words=(1, 1), characters=None).transform(texts)
    theirs = HashingVectorizer(n_features=2**20, norm=None).transform(texts)
    assert sorted(np.abs(ours.data)) == sorted(np.abs(theirs.data))


def test_half_a_surrogate_pair_does_not_raise() -> None:
    assert np.isfinite(HashedText(n_features=8).transform(["tide \ud800"]).data).all()


def test_the_features_of_a_text_are_those_of_earlier_releases() -> None:
    row = HashedText(n_features=2**16, words=(1, 1), characters=None).transform(["tide gate"])
    assert (row.indices.tolist(), row.data.tolist()) == ([11370, 37983], [1.0, 1.0])


@pytest.mark.parametrize("texts", ["one string", np.array([["a"], ["b"]])])
def test_what_is_not_a_sequence_of_texts_is_refused(texts: object) -> None:
    with pytest.raises(InvalidValueError, match="must be a sequence of texts"):
        HashedText().transform(texts)  # type: ignore[arg-type]


@pytest.mark.parametrize("none", [(), None])
def test_an_empty_list_of_lengths_counts_none(none: Any) -> None:
    words = HashedText(n_features=64, words=(1, 1), characters=none).transform(["low tide"])
    grams = HashedText(n_features=64, words=none, characters=(3, 3)).transform(["low tide"])
    assert abs(words).sum() == 2
    assert abs(grams).sum() == 7


@pytest.mark.parametrize("parameters", [{"words": (2, 1)}, {"characters": (0, 3)}])
def test_wrong_lengths_are_refused(parameters: dict[str, tuple[int, int]]) -> None:
    with pytest.raises(InvalidValueError, match="length of"):
        HashedText(
            words=parameters.get("words"), characters=parameters.get("characters")
        ).transform(["tide"])


def test_the_names_say_the_class_and_the_column() -> None:
    assert HashedText(n_features=2).get_feature_names_out().tolist() == [
        "hashedtext0",
        "hashedtext1",
    ]
