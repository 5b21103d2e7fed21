"""The flights of a benchmark: bounded records, by rules that read no other record and no delay."""

from datetime import date

import numpy as np
import pytest
from sklearn.metrics import log_loss

from tests.left_out import NO_FLIGHTS
from tidegate_lab.bench.data import Part
from tidegate_lab.bench.flight_data import (
    CODES,
    COLUMNS,
    ODD_NORM,
    ODD_UNITS,
    Column,
    Table,
    encoded,
    flights,
    in_odd_units,
    installed,
    joined,
    odd_units,
    rare,
)
from tidegate_lab.bench.flights import measured

N = 400
HOURS = 24 * 20
nan = float("nan")


def made_up() -> tuple[dict[str, Column], dict[str, Column]]:
    """Flights in no order, some cancelled or to places that are not listed; weather with gaps."""
    rng = np.random.default_rng(5)
    hour = rng.integers(HOURS, size=N)
    found = {
        "year": np.full(N, 2013),
        "month": np.full(N, 3),
        "day": 1 + hour // 24,
        "hour": hour % 24,
        "minute": rng.integers(60, size=N),
        "time_hour": times(hour),
        "carrier": rng.choice([*CODES["carrier"], "ZZ"], size=N),
        "origin": rng.choice(CODES["origin"], size=N),
        "dest": rng.choice([*CODES["dest"][:5], "ZZZ"], size=N),
        "flight": rng.permutation(N),
        "distance": rng.integers(50, 6000, size=N),
        "arr_delay": np.where(rng.random(N) < 0.1, nan, rng.normal(0, 40, size=N)),
        "dep_delay": rng.normal(0, 40, size=N),
    }
    at = np.tile(np.arange(0, HOURS, 2), 2)  # every other hour, at two of the three origins
    n = len(at)
    weather = {
        "origin": np.repeat(["EWR", "JFK"], n // 2),
        "time_hour": times(at),
        "temp": rng.normal(40, 30, size=n),
        "dewp": rng.normal(30, 30, size=n),
        "humid": rng.uniform(0, 100, size=n),
        "wind_dir": np.where(rng.random(n) < 0.2, nan, rng.uniform(0, 360, size=n)),
        "wind_speed": rng.choice([0.0, 12.0, 1048.0], size=n),
        "wind_gust": np.where(rng.random(n) < 0.7, nan, 30.0),
        "precip": rng.choice([0.0, 0.02, 2.0], size=n),
        "pressure": np.where(rng.random(n) < 0.1, nan, rng.normal(1013, 20, size=n)),
        "visib": rng.uniform(0, 10, size=n),
    }
    return found, weather


def times(hours: Column) -> Column:
    start = np.datetime64("2013-03-01T00", "h")
    return np.array([f"{start + hour}:00:00Z" for hour in hours])


def rows(table: Table, which: Column) -> dict[str, Column]:
    return {name: column[which] for name, column in table.items()}


def test_about_150_columns_all_named() -> None:
    assert len(COLUMNS) == len(set(COLUMNS)) == 150


def test_every_row_has_norm_one_and_as_many_columns() -> None:
    X = encoded(joined(*made_up()))
    assert X.dtype == np.float32
    assert X.shape[1] == len(COLUMNS)
    assert np.linalg.norm(X.astype(np.float64), axis=1) == pytest.approx(1, abs=1e-6)
    assert X.min() >= 0


def test_a_code_has_one_column_and_one_that_is_not_listed_has_none() -> None:
    table = joined(*made_up())
    X = encoded(table) > 0
    place = 0
    for name, values in CODES.items():
        block = X[:, place : place + len(values)]
        assert block.sum(axis=1).tolist() == np.isin(table[name], values).astype(int).tolist()
        place += len(values)


def test_a_row_depends_on_no_other_record() -> None:
    table = joined(*made_up())
    some = np.array([7, 3, 150])
    np.testing.assert_array_equal(encoded(table)[some], encoded(rows(table, some)))
    np.testing.assert_array_equal(in_odd_units(table)[some], in_odd_units(rows(table, some)))


def test_no_delay_is_a_feature() -> None:
    given, weather = made_up()
    other = given | {"arr_delay": given["arr_delay"] + 60, "dep_delay": given["dep_delay"] - 60}
    np.testing.assert_array_equal(encoded(joined(given, weather)), encoded(joined(other, weather)))


def test_flights_that_arrived_are_in_the_order_of_scheduled_departure() -> None:
    given, weather = made_up()
    table = joined(given, weather)
    assert len(table["flight"]) == np.isfinite(given["arr_delay"]).sum() < N
    planned = list(zip(table["time_hour"].tolist(), table["minute"].tolist(), strict=True))
    assert planned == sorted(planned)


def test_the_weather_is_that_of_the_origin_and_hour() -> None:
    given, weather = made_up()
    table = joined(given, weather)
    for row in range(len(table["flight"])):
        hour = (weather["origin"] == table["origin"][row]) & (
            weather["time_hour"] == table["time_hour"][row]
        )
        for name in ("temp", "precip", "pressure"):
            expected = weather[name][hour] if hour.any() else [nan]
            np.testing.assert_array_equal([table[name][row]], expected)
        if hour.any():  # where no gust is reported there was none
            assert table["wind_gust"][row] == np.nan_to_num(weather["wind_gust"][hour][0])
        else:
            assert np.isnan(table["wind_gust"][row])


def test_weekdays_are_those_of_the_calendar() -> None:
    table = joined(*made_up())
    days = zip(table["year"], table["month"], table["day"], strict=True)
    assert table["weekday"].tolist() == [date(*map(int, day)).weekday() for day in days]


def test_odd_units_are_seven_and_clipped() -> None:
    X = in_odd_units(joined(*made_up()))
    assert X.shape[1] == len(ODD_UNITS) == 7
    norms = np.linalg.norm(X.astype(np.float64), axis=1)
    assert norms.max() == pytest.approx(ODD_NORM, rel=1e-6)


def test_measures_beside_scikit_learn() -> None:
    rng = np.random.default_rng(1)
    y, late = rng.integers(2, size=100), rng.uniform(0.1, 0.9, size=100)
    P = np.column_stack([1 - late, late])
    found = measured(P, Part(np.zeros((100, 1), np.float32), y), np.array([0, 0, 0, 1]))
    assert found.log_loss == pytest.approx(log_loss(y, P))
    assert found.constant == pytest.approx(log_loss(y, np.full(100, 0.25)))
    assert found.bias == pytest.approx(late.mean() - y.mean())
    assert found.accuracy == np.mean((late > 0.5) == y)
    assert found.majority == max(y.mean(), 1 - y.mean())
    pairs = [(a, b) for a in late[y == 1] for b in late[y == 0]]
    assert found.auc == pytest.approx(np.mean([a > b for a, b in pairs]))


@pytest.mark.slow
@pytest.mark.skipif(not installed(), reason=NO_FLIGHTS)
def test_the_year_of_flights() -> None:
    X, y = flights()
    assert X.shape == (327_346, 150)
    assert y.mean() == pytest.approx(0.237, abs=0.001)
    assert X[:1000].astype(np.float64).max() <= 1
    for data, share in ((rare(), 0.03), (odd_units(), 0.237)):
        assert len(data.train.y) == 28_672
        assert data.train.y.mean() == pytest.approx(share, abs=0.005)
