"""Each estimator's docstring describes all of its parameters and attributes, from one source."""

from dataclasses import dataclass
from inspect import signature

import pytest

from tidegate import estimators
from tidegate.estimators.documented import documented


@pytest.mark.parametrize("name", estimators.__all__)
def test_every_parameter_is_described_once_and_has_an_example(name: str) -> None:
    estimator = getattr(estimators, name)
    for parameter in signature(estimator).parameters:
        assert estimator.__doc__.count(f"\n        {parameter}: ") == 1
    for part in ("Args:", "Attributes:", "    releases_: ", ">>> "):
        assert estimator.__doc__.count(f"\n    {part}") >= 1


def test_the_nearest_description_counts() -> None:
    assert "either stream" in str(estimators.TwoStreamClassifier.__doc__)
    assert "either stream" not in str(estimators.FadingClassifier.__doc__)
    assert "must be GradientPerturbation" in str(estimators.GrowingRegressor.__doc__)


def test_a_parameter_without_a_description_is_refused() -> None:
    @dataclass(kw_only=True)
    class Forgetful:
        """Does nothing.

        >>> Forgetful(shape=1)
        """

        shape: int

    with pytest.raises(KeyError, match="shape"):
        documented(Forgetful)
