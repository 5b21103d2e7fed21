"""Prints the numbers of the meter, and stores them; see `tests.house`."""

import argparse
import json
import sys
from collections.abc import Callable, Iterator, Sequence

from tests.house import imports, ratchet, source
from tests.house.numbers import (
    NUMBERS,
    RATCHET,
    SCENARIOS,
    Found,
    Number,
    Values,
    by_module,
    of_commands,
    of_scenario,
    of_source,
    recorded,
)
from tests.house.ratchet import FILE, RaiseError, Record


def table(values: Values, record: Record) -> Iterator[str]:
    """The numbers, lined up at 80 columns: now, stored, and the bar."""
    yield f"{'':48}{'now':>10}{'stored':>11}{'bar':>11}"
    for number in NUMBERS:
        if number.name in values:
            stored = record.get(number.name)
            cells = (
                f"{values[number.name]:,}",
                "-" if stored is None else f"{stored.value:,}",
                bar(number),
            )
            yield f"{number.words:48}{cells[0]:>10}{cells[1]:>11}{cells[2]:>11}"


def bar(number: Number) -> str:
    """What a number shall become.

    >>> bar(Number(name="a", words="a", bar=50, sign=-1))
    '>= 50'
    """
    if number.bar is None:
        return "no more"
    return f"{'<=' if number.sign > 0 else '>='} {number.bar:,}"


def parts(name: str) -> Iterator[str]:
    """What a number is made of."""
    modules = source.modules_of(source.ROOT)
    recordings: dict[str, Callable[[Found], list[str]]] = {
        "release_modules": lambda found: sorted({*found["opening"], *found["running"]}),
        "running_modules": lambda found: found["running"],
        "release_queries": lambda found: _counted(found["queries"]),
        "opening_queries": lambda found: _counted(found["opening_queries"]),
    }
    lists = {
        "import_chain": imports.chain,
        "local_percent": imports.local_modules,
        "repeated_modules": source.repeated_names,
    }
    if name in lists:
        yield from lists[name](modules)
    elif name in recordings:
        yield from recordings[name](recorded("release"))
    elif name.startswith("prediction_"):
        what = "modules" if name == "prediction_modules" else "functions"
        yield from recorded("prediction")[what]
    else:
        yield from _counted(+by_module(name, modules))


def _counted(counts: dict[str, int]) -> list[str]:
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return [f"{count:>7,}  {what}" for what, count in ordered]


def arguments(given: Sequence[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser("python -m tests.house", description="A meter of the code.")
    parser.add_argument("--format", choices=["table", "json"], default="table")
    parser.add_argument("--fast", action="store_true", help="only what is read off the source")
    parser.add_argument("--slow", action="store_true", help="CPU seconds of two commands as well")
    names = [number.name for number in RATCHET]
    parser.add_argument("--where", choices=names, metavar="NAME", help="what a number is made of")
    parser.add_argument("--write", action="store_true", help="store the numbers that got better")
    raised = "store this number even if it got worse"
    parser.add_argument("--raise", dest="raised", action="append", metavar="NAME", help=raised)
    parser.add_argument("--because", default="", metavar="REASON", help="why; it is stored too")
    return parser.parse_args(given)


def main(given: Sequence[str] | None = None) -> int:
    """Print the numbers, store them if asked; 1 if one is worse than stored."""
    asked = arguments(given)
    if asked.where:
        print(*parts(asked.where), sep="\n")
        return 0
    values = dict(of_source())
    for scenario in [] if asked.fast else SCENARIOS:
        values.update(of_scenario(scenario))
    if asked.slow:
        values.update(of_commands())
    record: Record = ratchet.read()
    if asked.write:
        try:
            record = ratchet.lowered(
                record, values, dict.fromkeys(asked.raised or [], asked.because)
            )
        except RaiseError as error:
            print(error, file=sys.stderr)
            return 2
        FILE.write_text(ratchet.text(record))
    if asked.format == "json":
        print(json.dumps(_as_json(values, record)))
    else:
        print(*table(values, record), sep="\n")
    worse = ratchet.complaints(record, values)
    print(*worse, sep="\n", end="\n" * bool(worse), file=sys.stderr)
    return int(bool(worse))


def _as_json(values: Values, record: Record) -> dict[str, dict[str, float | str | None]]:
    """For each number its value, what is stored, why that was raised, its bar, which is better."""
    return {
        each.name: {
            "value": values[each.name],
            "stored": record[each.name].value if each.name in record else None,
            "because": record[each.name].because if each.name in record else None,
            "bar": each.bar,
            "better": "less" if each.sign > 0 else "more",
        }
        for each in NUMBERS
        if each.name in values
    }


if __name__ == "__main__":
    sys.exit(main())
