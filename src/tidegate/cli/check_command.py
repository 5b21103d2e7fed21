"""`tidegate check`: how a file would be read, without a state and without a charge."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from itertools import groupby
from pathlib import Path
from typing import Any

import click

from tidegate.cli import options
from tidegate.cli.config_check import Check, ColumnCheck, Released, check_file
from tidegate.cli.options import PATH
from tidegate.cli.screen import Screen
from tidegate.run.config import Config
from tidegate.sources.public_records import Findings

EPILOG = """\b
Examples:
  tidegate check tidegate.toml records.csv
  tidegate check tidegate.toml old-public.csv --public   count unusable records, too
  tidegate check tidegate.toml records.csv --format json
"""

NOT_SHOWN = (
    "Not shown: how many records cannot be used, the labels and the norms. Choosing settings by "
    "private records voids the guarantee. For public records add --public."
)

SHOWN_BECAUSE = (
    "The records themselves were read, because --public says that they are public. If they are "
    "not, choose no setting by what follows: that would void the guarantee."
)

CHANGED = (
    "may be spelled otherwise by a library that infers types (leading zeros, exponents, dates, "
    "more than 15 digits, NA): read the column as text before you send it. "
    "See docs/how-to/describe-columns.md#types-that-readers-infer"
)

MANY = 24
"""With more columns than this, neighbouring columns that are read alike share a line."""


@click.command(epilog=EPILOG)
@click.argument("config", type=PATH)
@click.argument("file", type=PATH)
@click.option(
    "--public",
    is_flag=True,
    help="The records are public: also read them, and show how many cannot be used, their "
    "classes and their norms.",
)
@options.form
def check(config: Path, file: Path, public: bool, form: str) -> None:
    """Show how FILE (.csv, .parquet or .jsonl) would be read, and what CONFIG would release.

    It needs no state, and charges and stores nothing. Without --public it only counts the records:
    nothing that it prints, nor its exit code, depends on what they hold.
    """
    found = check_file(Config.load(config), file, public=public)
    if form == "json":
        options.answer({**asdict(found), "why_not_found": None if public else NOT_SHOWN}, form)
        return
    console = Screen(soft_wrap=True)
    for line in _about_file(found):
        console.print(line)
    console.print()
    options.show(_rows(found), form, folded="column")
    console.print()
    for line in [*_about_records(found), "", *_about_plan(found.plan, found.records)]:
        console.print(line)
    console.print()
    if not found.found:
        console.print(NOT_SHOWN)
        return
    console.print(SHOWN_BECAUSE)
    for line in [*_about_findings(found, found.found), *found.advice]:
        console.print(line)


def _about_file(found: Check) -> Iterator[str]:
    by = f", separated by {found.delimiter!r}" if found.delimiter else ""
    yield f"{found.file}: {found.type}{by}, {found.records:,} records (their number is public)"
    if not any(each.type for each in found.columns):
        yield "Which keys the lines have is not checked: that belongs to the records."


def _rows(found: Check) -> Iterator[dict[str, Any]]:
    """A row for each column, or for neighbours that are read alike if there are many."""
    shown = found.found
    bad, gaps = (shown.bad_values, shown.gaps) if shown else ({}, {})
    many = len(found.columns) > MANY

    def alike(each: ColumnCheck) -> tuple[Any, ...]:
        counts = bad.get(each.name, 0), gaps.get(each.name, 0)
        known = (each.role, each.type, each.read_as, *counts)
        return known if many else (each.name, *known)

    for _, group in groupby(found.columns, alike):
        columns = list(group)
        first = columns[0]
        row: dict[str, Any] = {
            "column": _names([each.name for each in columns]),
            "role": first.role,
            "type": first.type,
            "read_as": first.read_as,
        }
        if shown:
            row["bad_values"] = bad.get(first.name, 0) if first.read_as else None
            row["gaps"] = gaps.get(first.name, 0) if first.role == "feature" else None
        yield row


def _names(names: Sequence[str]) -> str:
    if len(names) <= 2:
        return ", ".join(names)
    return f"{names[0]} ... {names[-1]} ({len(names):,} columns)"


def _about_records(found: Check) -> Iterator[str]:
    made = f"A record becomes {found.features:,} numbers"
    if found.scaled_down:
        yield f"{made}. One longer than records.norm ({found.norm:g}) is scaled down to it."
    else:
        yield f"{made}, of norm at most {found.norm:.4g}: that follows from the columns."
    yield "A record keeps its slot but is not learnt from if"
    for rule, meaning in found.unusable_if.items():
        count = f": {found.found.unusable.get(rule, 0):,}" if found.found else ""
        yield f"  - {meaning}{count}"


def _about_plan(plan: Released, records: int) -> Iterator[str]:
    if plan.releases is None:
        steps = " and ".join(f"{size:,} {stream} records" for stream, size in plan.step.items())
        yield f"{plan.schedule}: steps of {steps}."
        yield f"The first model is released after {plan.first:,} source records."
        return
    (step,) = plan.step.values()
    yield f"{plan.schedule}: steps of {step:,} records."
    yield f"The first model is released after {plan.first:,} records."
    models = "model" if plan.releases == 1 else "models"
    yield (
        f"The {records:,} records of this file alone release {plan.releases:,} {models}; "
        f"{plan.left or 0:,} wait for their step."
    )


def _about_findings(found: Check, shown: Findings) -> Iterator[str]:
    yield f"Usable: {shown.usable:,} of {found.records:,} records."
    if shown.classes:
        classes = ", ".join(f"{label} {count:,}" for label, count in shown.classes)
        yield f"Classes: {classes}."
    if shown.targets:
        at = ", ".join(f"{quantile:.0%} {value:.4g}" for quantile, value in shown.targets)
        yield f"Targets (quantiles): {at}."
        yield f"{shown.clipped:,} of them are outside of records.target and are clipped into it."
    if shown.unknown_labels:
        labels = ", ".join(f"{label} {count:,}" for label, count in shown.unknown_labels)
        what = "no class" if shown.classes else "no number"
        yield f"Most frequent labels that are {what}: {labels}."
    for name, count in shown.changed.items():
        yield f"{name}: {count:,} values {CHANGED}"
    if shown.norms:
        at = ", ".join(f"{quantile:.0%} {norm:.3g}" for quantile, norm in shown.norms)
        yield f"Norms (quantiles): {at}."
    if found.scaled_down:
        yield f"{shown.longer:,} usable records are longer than records.norm ({found.norm:g})."
