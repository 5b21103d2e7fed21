"""scikit-learn's own checks of an estimator, on every map."""

from collections.abc import Callable

import pytest
from sklearn.base import BaseEstimator
from sklearn.utils.estimator_checks import check_estimator, parametrize_with_checks

from tests.data.maps import NUMBER_MAPS
from tidegate.features import HashedText

EXCLUDED = {
    "check_complex_data": "one complex entry makes an array complex: its record is unusable, and "
    "no other",
    "check_dtype_object": "an entry that is no number makes its own record unusable: raising would "
    "refuse a batch for what one record holds, and scikit-learn's message quotes it",
}


def excluded(_: BaseEstimator) -> dict[str, str]:
    return EXCLUDED


@parametrize_with_checks(  # type: ignore[untyped-decorator]
    NUMBER_MAPS, expected_failed_checks=excluded
)
def test_number_maps(estimator: BaseEstimator, check: Callable[[BaseEstimator], None]) -> None:
    check(estimator)


@pytest.mark.filterwarnings("ignore:Can't test estimator")
def test_text_map() -> None:
    """The few checks that do not want an array of numbers; the laws are in test_every_map."""
    check_estimator(HashedText(n_features=64))
