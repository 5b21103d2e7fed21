"""How `tidegate plan` prints a plan: as JSON lines, or as a picture and a table."""

import json
import sys
from collections.abc import Iterable, Iterator
from fractions import Fraction
from typing import Any

from rich.progress import Progress
from rich.table import Table

from tidegate import picture
from tidegate.cli import options, plan_persons
from tidegate.cli.planned import Planned
from tidegate.cli.screen import Screen
from tidegate.privacy import Budget, Line, epsilon_for_sample
from tidegate.privacy.budget import down
from tidegate.schedule import RecordFit
from tidegate.schedule.plan import MeanPaid

MEASURED = {
    "survey": "the survey of its step",
    "scores": "scores of the release before its step; the total below leaves that out",
}


def _summary(planned: Planned, fits: int, releases: int) -> dict[str, Any]:
    """The last line: counts, the most-charged record so far, and the most any record ever pays."""
    paid: dict[str, Any] = {}
    for stream, ledger in planned.ledgers.items():
        record, share = ledger.worst()
        forever = {"share": down(planned.forever[stream])}
        own = {"worst": {"record": record, "share": down(share)}, "forever": forever}
        paid |= own if stream is None else {stream: own}
    measured = {
        name: {"share": float(share)} for name, share in planned.measured._asdict().items() if share
    }
    counted = {"fits": fits, "releases": releases} | paid | measured
    if (mean := planned.mean()) is not None:
        counted["mean"] = {"share": down(mean.share), "final": mean.final}
    if planned.person is not None and planned.admission is not None:
        counted["person"] = plan_persons.summary(planned.budget, planned.person, planned.admission)
    return counted


def print_json(planned: Planned) -> None:
    """Print a JSON line for each fit, and a summary."""
    fits = releases = 0
    terms: dict[tuple[object, ...], str] = {}  # second halves of lines: there are few different
    for fit, share in _with_progress(planned, hidden=sys.stdout.isatty()):
        key = (fit.span.size, *fit[4:])
        half = terms.get(key) or terms.setdefault(key, _terms(planned.budget, fit, share))
        prior = "null" if fit.prior is None else fit.prior
        start, stop = fit.span
        sys.stdout.write(
            f'{{"fit": {fit.number}, "at": {fit.at}, "start": {start}, "stop": {stop}, '
            f'"prior": {prior}, {half}\n'
        )
        fits += 1
        releases += fit.released
    print(json.dumps({"summary": _summary(planned, fits, releases)}))


def _terms(budget: Budget, fit: RecordFit, share: Fraction) -> str:
    """The level, cost and role of a fit, as the second half of its line."""
    amount = budget.of_share(share)
    terms: dict[str, Any] = {
        "level": fit.level,
        "share": down(share),
        budget.unit: amount,
        "released": fit.released,
        "role": fit.role,
    }
    if fit.slot_weights:
        terms["emphasis"] = [[*span, str(part)] for span, part in fit.slot_weights]
    if fit.stream is not None:
        terms["stream"] = fit.stream
    if fit.sample is not None:
        terms["sample"] = fit.sample
        if budget.unit == "epsilon":
            terms["sample_epsilon"] = epsilon_for_sample(amount, fit.sample, fit.span.size)
    return json.dumps(terms)[1:]


def print_table(planned: Planned, rows: int) -> None:
    """Print a picture, a table of the first fits and what the most-charged record pays."""
    console = Screen(markup=True)
    first: list[Line] = []
    fits = releases = 0
    for line in _with_progress(planned):
        if len(first) < rows:
            first.append(line)
        fits += 1
        releases += line.fit.released
    console.print(f"[bold]{planned.title}[/]\n")
    if fits:
        chains = picture.chains((line.fit for line in planned.lines()), rows)
        console.print(picture.terminal_picture(chains, planned.steps, console.width))
        console.print(picture.legend(chains), end="\n\n")
        console.print(_fits_table(planned.budget, first))
        if fits > len(first):
            console.print(f"[dim]... and {fits - len(first):,} more[/]")
        if any(map(picture.is_weighted, chains)):
            note = "The newest records pay the share. Older ones have less weight and pay less."
            console.print(f"[dim]{note}[/]")
        console.print(f"\n{fits:,} fits, {releases:,} releases.")
        _print_paid(console, planned)
    else:
        console.print(f"{planned.no_release.capitalize()}.")
    if planned.person is not None and planned.admission is not None:
        plan_persons.show(console, planned.budget, planned.person, planned.admission)
        if (left_out := plan_persons.not_included(planned.budget, *planned.measured)) is not None:
            console.print(left_out)


def _print_paid(console: Screen, planned: Planned) -> None:
    """Print what records pay."""
    for name, share in planned.measured._asdict().items():
        if share:
            console.print(f"Each record also pays {100 * float(share):g} % for {MEASURED[name]}.")
    for stream, ledger in planned.ledgers.items():
        record, share = ledger.worst()
        whose = f"{stream} record" if stream else "record"
        spent, most = 100 * down(share), 100 * float(planned.forever[stream])
        console.print(
            f"The most-charged {whose} so far is no. {record:,}: it has spent {spent:.6g} % of its "
            f"budget. No record ever spends more than {most:g} %."
        )
    if (mean := planned.mean()) is not None:
        console.print(mean_line(mean, planned.title.split(",")[0]))


ALL_OF_IT = 0.995
"""A mean share from which on `plan` says that records spend all of their budget."""


def mean_line(mean: MeanPaid, kind: str) -> str:
    """What records pay on average, and which schedules leave nothing unspent."""
    spent = f"{100 * float(mean.share):.3g} % of its budget"
    if not mean.final:
        return f"So far a record has spent {spent} on average; later fits can add to that."
    if mean.share >= ALL_OF_IT:
        return "Every record spends all of its budget: none is left unused."
    line = f"Over its life a record spends {spent} on average; the rest is never used."
    if kind == "sliding":
        line += " A window of 3, 7, 15, 31 or 63 steps, --refit, or fading leaves nothing unused."
    return line


def _with_progress(planned: Planned, *, hidden: bool = False) -> Iterator[Line]:
    """The charged lines, with a progress bar on the terminal."""
    console = Screen(stderr=True)
    hidden = hidden or not console.is_terminal
    with Progress(console=console, transient=True, disable=hidden) as progress:
        task = progress.add_task("planning", total=planned.reach)
        for index, line in enumerate(planned.charge()):
            if index % 1000 == 0 and line.fit.stream != "target":
                progress.update(task, completed=line.fit.at)
            yield line


def _fits_table(budget: Budget, lines: Iterable[Line]) -> Table:
    table = options.lean_table()
    for name in ("fit", "at", "records", "prior", "level", "share", budget.unit):
        table.add_column(name, justify="right")
    table.add_column("")
    for fit, share in lines:
        table.add_row(
            str(fit.number),
            f"{fit.at:,}",
            f"[{fit.span.start:,}, {fit.span.stop:,})",
            "-" if fit.prior is None else str(fit.prior),
            "base" if fit.role == "base" else str(fit.level),
            f"{float(share):.4g}",
            f"{budget.of_share(share):.4g}",
            f"{picture.RELEASE if fit.released else ' '} {fit.stream or ''}".rstrip(),
        )
    return table
