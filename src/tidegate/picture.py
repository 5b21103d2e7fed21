"""Pictures of a plan: the chain or the slot weights of each release, and what records paid."""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from fractions import Fraction
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.table import Table
from rich.text import Text

from tidegate.checks import InvalidValueError, not_installed
from tidegate.privacy.ledger import Ledger, Line
from tidegate.schedule import RecordFit, Span, Stream
from tidegate.schedule.fit import SlotWeight

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

BASE, RELEASE = "█", "◆"
SHADES = "░▒▓█"
"""For slot weights up to 1/4, 1/2, 3/4 and 1."""

LEVEL_COLORS = ("yellow", "magenta", "green", "red", "cyan")
PLOT_BASE, PLOT_LEVELS = "#31688e", ("#fde725", "#f6a75c", "#e3685c", "#b13f70", "#6f2c6f")
PALEST = 0.08
"""The opacity of records that count for almost nothing, so that they can still be seen."""

PLOT_KINDS = (".png", ".svg")


Chain = tuple[RecordFit, ...]
"""The fits behind one release, from its base to itself."""


def chain_of(fit: RecordFit, fits: Mapping[int, RecordFit]) -> Chain:
    """The chain that ends with a fit, given all earlier fits by number."""
    chain = [fit]
    while chain[-1].prior is not None:
        chain.append(fits[chain[-1].prior])
    return tuple(reversed(chain))


def chains(fits: Iterable[RecordFit], most: int) -> list[Chain]:
    """The chains of the first `most` releases (with two streams, of the target).

    >>> from tidegate.schedule import SlidingWindow, Steps, fits
    >>> made = map(Steps(10).fit, fits(SlidingWindow(window=70, step=10), until=9))
    >>> [chain[-1].number for chain in chains(made, most=3)]
    [2, 3, 5]
    """
    by_number: dict[int, RecordFit] = {}

    def released() -> Iterable[Chain]:
        for fit in fits:
            by_number[fit.number] = fit
            if fit.released and fit.stream != "source":
                yield chain_of(fit, by_number)

    return list(islice(released(), most))


def strip(chain: Chain, column: int, stream: Stream | None = None) -> Text:
    """One row of the picture: the base, the updates and the release of a chain.

    >>> from tidegate.schedule import SlidingWindow, Steps, fits
    >>> made = map(Steps(10).fit, fits(SlidingWindow(window=70, step=10), until=11))
    >>> for chain in chains(made, most=5):
    ...     print(strip(chain, column=10).plain)
    ◆11████
     11████◆
      ◆████11
       ████11◆
        ◆11████

    Where slots have weights, paler characters are records that count less:

    >>> from tidegate.schedule import Fading
    >>> made = map(Steps(10).fit, fits(Fading(step=10), until=8))
    >>> for chain in chains(made, most=8)[-3:]:
    ...     print(strip(chain, column=10).plain)
    ░░▒▒▓◆
    ░░░▒▒▓◆
     ░░░▒▒▓◆
    """
    fits = [fit for fit in chain if fit.stream == stream]
    cells = [(" ", "")] * max((fit.span.stop // column for fit in fits), default=0)
    for fit in fits:
        for span, part in fit.slot_weights or [SlotWeight(fit.span, Fraction(1))]:
            first = span.start // column
            last = max(first + 1, span.stop // column)
            cells[first:last] = [_cell(fit, part, released=fit is chain[-1])] * (last - first)
        if fit is chain[-1]:
            cells[last - 1] = (RELEASE, "bold white")
    return Text.assemble(*cells)


def _cell(fit: RecordFit, part: Fraction, *, released: bool) -> tuple[str, str]:
    if fit.role == "base":
        shade = SHADES[max(0, math.ceil(4 * part) - 1)]
        return shade, "bold white" if released else "blue"
    if released:
        return RELEASE, "bold white"
    return format(min(fit.level, 15), "x"), level_style(fit.level)


def level_style(level: int) -> str:
    """The terminal colour of a level."""
    return LEVEL_COLORS[level % len(LEVEL_COLORS)]


def terminal_picture(rows: list[Chain], steps: Mapping[Stream | None, int], width: int) -> Table:
    """Draw chains, one per row: time runs down, the stream runs to the right.

    One character stands for 1, 2, 4, ... steps, as many as it takes to fit `width`.
    """
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("at", justify="right", style="dim", no_wrap=True)
    streams = _streams(rows)
    room = (width - len(f"{rows[-1][-1].at:,}") - 2) // len(streams) - 2
    columns = {}
    for stream in streams:
        columns[stream] = steps[stream]
        reach = max(fit.span.stop for chain in rows for fit in chain if fit.stream == stream)
        while reach > columns[stream] * max(room, 1):
            columns[stream] *= 2
        title = f"{stream or 'stream'}, {columns[stream]:,} records a column"
        table.add_column(Text(title[: max(room, 6)]), no_wrap=True)
    for chain in rows:
        strips = [strip(chain, column, stream) for stream, column in columns.items()]
        table.add_row(f"{chain[-1].at:,}", *strips)
    return table


def _streams(rows: list[Chain]) -> list[Stream | None]:
    return list(dict.fromkeys(fit.stream for chain in rows for fit in chain))


def legend(rows: list[Chain]) -> Text:
    """What the characters in the picture of these chains mean."""
    if any(len(chain) > 1 for chain in rows):
        return Text.assemble(
            (BASE, "blue"),
            " base, trained first · ",
            *((f"{level} ", level_style(level)) for level in (2, 1, 0)),
            "updates of it (digit = level) · ",
            (RELEASE, "bold white"),
            " the last fit, whose model is released",
        )
    if any(map(is_weighted, rows)):
        shades, meaning = " ".join(reversed(SHADES)), "slot weight above 3/4, 1/2, 1/4, or less"
    else:
        shades, meaning = BASE, "records of the fit"
    return Text.assemble(
        (shades, "bold white"),
        f" {meaning};  ",
        (RELEASE, "bold white"),
        " its newest step: each release is one fit",
        _memory(rows),
    )


def is_weighted(chain: Chain) -> bool:
    """Whether some records of the release count less than others."""
    return any(part < 1 for fit in chain for _, part in fit.slot_weights)


def _memory(rows: list[Chain]) -> str:
    """Say that releases remember records that their fits do not read, where they do."""
    # Learners of pure budgets do not descend: they start nowhere.
    if any(
        fit.start is not None and fit.span.start > 0 and fit.power > 1
        for chain in rows
        for fit in chain
    ):
        return ". It starts from the release before, so it also remembers older records"
    return ""


def new_figure(width: float, height: float) -> "Figure":
    """An empty figure; width and height are in inches."""
    try:
        from matplotlib.figure import Figure  # noqa: PLC0415 (an extra, and slow to load)
    except ModuleNotFoundError:
        raise InvalidValueError(not_installed("matplotlib", "plot")) from None
    return Figure(figsize=(width, height), layout="constrained")


def plot(lines: Iterable[Line], path: Path, *, most: int, title: str) -> None:
    """Plot the chains of the first `most` releases, and the ledger below them, to a file."""
    ledgers: dict[Stream | None, Ledger] = defaultdict(Ledger)

    def charged() -> Iterable[RecordFit]:
        for line in lines:
            ledgers[line.fit.stream].post(line)
            yield line.fit

    rows = chains(charged(), most)
    if not rows:
        raise InvalidValueError("nothing to plot: no model is released before `until`; raise it")
    streams = _streams(rows)
    height = 0.24 * max(len(rows), 12)
    figure = new_figure(6 + 4 * len(streams), 2.6 + height)
    axes = figure.subplots(
        2, len(streams), sharex="col", squeeze=False, height_ratios=[height, 1.6]
    )
    figure.suptitle(title)
    for index, stream in enumerate(streams):
        _plot_chains(axes[0, index], rows, stream, named=index == 0)
        _plot_ledger(axes[1, index], ledgers[stream], stream)
    figure.savefig(path, dpi=150)


def _plot_chains(axes: "Axes", rows: list[Chain], stream: Stream | None, *, named: bool) -> None:
    labelled: set[str] = set()
    weighted = any(map(is_weighted, rows))
    for row, chain in enumerate(rows):
        for fit in chain:
            if fit.stream != stream:
                continue
            label = "base" if fit.role == "base" else f"update, level {fit.level}"
            _plot_fit(axes, row, fit, label="_" if label in labelled else label)
            labelled.add(label)
            if fit is chain[-1]:
                _plot_bar(axes, row, fit.span, fill=False, edgecolor="black", linewidth=1.8)
    axes.set_yticks(range(len(rows)), [f"{chain[-1].at:,}" for chain in rows])
    axes.invert_yaxis()
    edge = "black edge: the release"
    paler = "paler: records that count less" if weighted else ""
    axes.legend(loc="best", fontsize="small", title="\n".join(filter(None, (edge, paler))))
    if named:
        axes.set_ylabel(f"{'target ' if stream else ''}records arrived (one row per release)")
    axes.spines[["top", "right"]].set_visible(False)


def _plot_fit(axes: "Axes", row: int, fit: RecordFit, label: str) -> None:
    """Draw a bar for each part of a fit, the newest first: it is the one in the legend."""
    colour = PLOT_BASE if fit.role == "base" else PLOT_LEVELS[fit.level % len(PLOT_LEVELS)]
    for span, part in reversed(fit.slot_weights or (SlotWeight(fit.span, Fraction(1)),)):
        _plot_bar(
            axes,
            row,
            span,
            color=(colour, PALEST + (1 - PALEST) * float(part)),
            edgecolor="white",
            linewidth=0.6,
            label=label,
        )
        label = "_"


def _plot_bar(axes: "Axes", row: int, span: Span, **look: Any) -> None:
    axes.barh(row, span.size, left=span.start, height=0.78, zorder=2 + ("fill" in look), **look)


def _plot_ledger(axes: "Axes", ledger: Ledger, stream: Stream | None) -> None:
    for span, share in ledger.runs():
        axes.fill_between(list(span), float(share), color=PLOT_BASE, alpha=0.55, linewidth=0)
    axes.axhline(1, color=PLOT_LEVELS[3], linewidth=1.2)
    axes.text(
        0.005,
        1.03,
        "never exceeded",
        transform=axes.get_yaxis_transform(),
        fontsize="small",
        color=PLOT_LEVELS[3],
    )
    axes.set_ylim(0, 1.2)
    axes.set_ylabel("budget paid")
    axes.set_xlabel(f"record of the {stream or 'stream'}")
    axes.xaxis.set_major_formatter("{x:,.0f}")
    axes.spines[["top", "right"]].set_visible(False)
