"""Text as hashed n-grams, without a vocabulary to learn."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from scipy.sparse import csr_array
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.feature_extraction import FeatureHasher
from sklearn.feature_extraction.text import HashingVectorizer

from tidegate.checks import refuse, whole
from tidegate.data.columns.text import lengths
from tidegate.data.feature_map import register
from tidegate.kinds import parameter


@register
@dataclass(eq=False, repr=False)
class HashedText(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Count the words and character n-grams of a text, hashed into a fixed number of columns.

    The hash is MurmurHash3 with a fixed seed; one of its bits is a sign, so that collisions cancel
    on average. Words are lower-cased runs of two or more letters or digits; character n-grams stay
    within words. A record that is not a `str` becomes a row with a NaN.

    Args:
        n_features: the number of columns.
        words: lengths of the word n-grams, least and greatest; None for no words.
        characters: lengths of the character n-grams, least and greatest; None for none.

    >>> text = HashedText(n_features=8, words=(1, 1), characters=None)
    >>> text.transform(["high tide, low tide", None]).toarray()
    array([[ 0.,  0.,  2., -1.,  0.,  1.,  0.,  0.],
           [nan,  0.,  0.,  0.,  0.,  0.,  0.,  0.]])
    """

    kind: ClassVar[str] = "text"
    about: ClassVar[str] = "hashed words and character n-grams"
    takes_text: ClassVar[bool] = True
    takes_columns: ClassVar[bool] = False

    n_features: int = parameter("the number of columns", whole, default=2**18)
    words: Sequence[int] | None = parameter(
        "the least and greatest length of word n-grams; [] for none", lengths, default=(1, 2)
    )
    characters: Sequence[int] | None = parameter(
        "the least and greatest length of character n-grams; [] for none", lengths, default=(3, 5)
    )

    @property
    def _n_features_out(self) -> int:
        return self.n_features

    def fit(self, X: Sequence[object], y: object = None) -> Self:  # noqa: ARG002
        """Do nothing: no record is read."""
        return self

    def transform(self, X: Sequence[object]) -> csr_array:
        """The counts of each text, shape (records, n_features)."""
        if isinstance(X, str) or getattr(X, "ndim", 1) != 1:
            raise refuse("the records", "a sequence of texts", shown=type(X).__name__)
        texts = list(X)
        columns = whole("n_features", self.n_features, most=2**31 - 1)
        grams = self._grams()
        if not texts:  # scikit-learn's hasher takes one at least
            return csr_array((0, columns))
        hasher = FeatureHasher(columns, input_type="string", alternate_sign=True)
        # An unusable record gets one gram, which makes room for its NaN.
        hashed = hasher.transform(grams(t) if isinstance(t, str) else [""] for t in texts)
        unusable = np.array([not isinstance(text, str) for text in texts])
        hashed.data[hashed.indptr[:-1][unusable]] = np.nan
        return csr_array(hashed)

    def _grams(self) -> Callable[[str], Iterator[str]]:
        analyzers = {
            kind: HashingVectorizer(analyzer=kind, ngram_range=_lengths(kind, lengths))
            for kind, lengths in {"word": self.words, "char_wb": self.characters}.items()
            if lengths  # None or empty for none
        }
        split = {kind: analyzer.build_analyzer() for kind, analyzer in analyzers.items()}

        def grams(text: str) -> Iterator[str]:
            encodable = text.encode(errors="replace").decode()  # a lone surrogate is not
            return (f"{kind} {gram}" for kind in split for gram in split[kind](encodable))

        return grams

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.requires_fit = False
        tags.input_tags.string = True
        tags.input_tags.two_d_array = False
        return tags


def _lengths(kind: str, lengths: Sequence[int]) -> tuple[int, int]:
    least, greatest = lengths
    shortest = whole(f"the least length of {kind} n-grams", least)
    return shortest, whole(f"the greatest length of {kind} n-grams", greatest, least=shortest)
