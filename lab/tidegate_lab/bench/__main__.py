"""`python -m tidegate_lab.bench [NAME ...] [--page FILE]` runs all benchmarks, or some."""

import sys
from argparse import ArgumentParser
from importlib import import_module
from pathlib import Path
from time import perf_counter

from tidegate_lab.bench import page, table

ALL = (
    "plan",
    "noise",
    "learn",
    "fading",
    "accuracy",
    "ring",
    "flights",
    "tables",
    "small_tables",
    "encoders",
    "people",
    "visits",
    "gate",
    "persons",
    "serve",
    "brokers",
    "scale",
)


def section(name: str) -> page.Section:
    """Run one benchmark."""
    module = import_module(f"tidegate_lab.bench.{name}")
    before, start = len(table.results), perf_counter()
    module.main()
    about = (module.__doc__ or "").partition("\n")[0]
    return page.Section(name, about, perf_counter() - start, table.results[before:])


def main(arguments: list[str]) -> None:
    """Run what is asked for; the page is written when all of it has ended well."""
    parser = ArgumentParser(
        prog="python -m tidegate_lab.bench", description="Measure Tidegate beside its peers."
    )
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help=f"one of {', '.join(ALL)}; all if left out"
    )
    parser.add_argument(
        "--page", type=Path, metavar="FILE", help="write the results there, as Markdown"
    )
    given = parser.parse_args(arguments)
    if unknown := set(given.names) - set(ALL):
        parser.error(f"no benchmark is called {', '.join(sorted(unknown))}")
    facts = page.machine()
    for name, fact in facts.items():
        print(f"{name}: {fact}")
    sections = [section(name) for name in given.names or ALL]
    if given.page is not None:
        given.page.write_text(page.page(facts, sections))
        print(f"Wrote {given.page}")


if __name__ == "__main__":
    main(sys.argv[1:])
