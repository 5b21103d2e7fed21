"""What `tidegate compare` prints: tables, the recommended schedule, and the same as JSON."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import click
from rich.table import Table

from tidegate.cli.options import answer, lean_table
from tidegate.cli.screen import Screen
from tidegate.compare.comparison import Comparison
from tidegate.compare.contenders import kept
from tidegate.compare.results import Margin, Recommendation, Result, toml
from tidegate.compare.yardstick import Wording, rounded
from tidegate.privacy.meaning import amounts

RULE = "95 % by Student's t, from the paired differences over the runs and over the times"

BEST_SETTING = "best setting, chosen by this same table"

COUNTED = (
    "Records counted: of all records with a person, those of persons who have not reached their "
    "limit. Tests count every record."
)


@dataclass(frozen=True, kw_only=True)
class Report:
    """Everything that a comparison found.

    Args:
        comparison: What was compared.
        results: What was measured.
        times: The times that means cover.
        runs: The runs of each method.
        config: The name of the configuration.
        left_out: Why some methods were left out.
    """

    comparison: Comparison
    results: Sequence[Result]
    times: Sequence[int]
    runs: int
    config: str
    left_out: Mapping[str, str]

    @cached_property
    def recommendations(self) -> list[Recommendation]:
        """One for each budget."""
        budgets = dict.fromkeys(result.contender.budget for result in self.results)
        return [
            Recommendation(
                results=[each for each in self.results if each.contender.budget == budget],
                times=self.times,
            )
            for budget in budgets
        ]

    @property
    def wording(self) -> Wording:
        """How measures are shown."""
        return self.comparison.wording

    @cached_property
    def protects_persons(self) -> bool:
        """Whether persons are protected, not records."""
        return self.comparison.config.person is not None

    # --- JSON

    def print_json(self) -> None:
        """Print one line for each result."""
        for recommendation in self.recommendations:
            for result in recommendation.results:
                row = self._row(result) | self._ranking(result, recommendation)
                answer(row, "json")

    def _row(self, result: Result) -> dict[str, Any]:
        """What was measured."""
        curve, contender, yardstick = result.curve, result.contender, self.comparison.yardstick
        persons = {
            "contributions": contender.budget.contributions,
            "admitted": rounded(result.admitted, 4),
        }
        return {
            "method": contender.name,
            "configured": contender.configured,
            "private": curve.private,
            "epsilon": contender.budget.epsilon,
            "delta": contender.budget.delta or None,
            **(persons if self.protects_persons else {}),
            "runs": len(curve.runs),
            "measure": yardstick.ranks,
            "mean": self._rounded(float(result.at(self.times).mean())),
            "mean_from": self.times[0],
            **curve.row(yardstick.digits),
            "seconds": round(result.seconds, 4),
            "retained": contender.retained,
            "schedule": contender.table or None,
            **{name: self._rounded(result.measure(name, self.times)) for name in yardstick.names},
        }

    def _ranking(self, result: Result, recommendation: Recommendation) -> dict[str, Any]:
        """How it compares with the best schedule."""
        best, behind = recommendation.recommends(result), recommendation.behind(result)
        return {
            self.comparison.yardstick.ranks: self._rounded(recommendation.score(result)),
            "behind": self._rounded(behind.size),
            "noise": self._rounded(behind.noise),
            "within_noise": behind.within_noise,
            "recommended": self._recommended(recommendation) if best else None,
        }

    def _recommended(self, recommendation: Recommendation) -> dict[str, Any]:
        """The recommendation, on the line of the best schedule."""
        own, best = recommendation.configured, recommendation.best
        return {
            "toml": toml(best.contender.table),
            "next": self._compared(recommendation, recommendation.others[0]),
            "configured": None if own is best else self._compared(recommendation, own),
            "within_noise": [each.contender.name for each in recommendation.ties],
            "remove_allocation": self.comparison.without_allocation(best.contender.table),
            "left_out": dict(self.left_out),
        }

    def _compared(self, recommendation: Recommendation, result: Result) -> dict[str, Any]:
        """By how much the best schedule is ahead of another one."""
        margin = recommendation.behind(result)
        return {
            "method": result.contender.name,
            "margin": self._rounded(margin.size),
            "noise": self._rounded(margin.noise),
            "within_noise": margin.within_noise,
        }

    def _rounded(self, value: float) -> float | None:
        return rounded(value, self.comparison.yardstick.digits)

    # --- tables

    def print_tables(self) -> None:
        """Print a table and a recommendation for each budget, then what the columns mean."""
        console = Screen()
        for recommendation in self.recommendations:
            console.print(self._table(recommendation))
            console.print(self._measures(recommendation))
            click.echo()
            if recommendation.others:
                for line in self._sentences(recommendation):
                    console.print(line, markup=False)
                click.echo(f"\n{toml(recommendation.best.contender.table)}\n")
        console.print(" ".join(self._notes()), markup=False)
        for name, reason in self.left_out.items():
            console.print(f"Left out: {name} ({reason})", markup=False)

    def _table(self, recommendation: Recommendation) -> Table:
        """The table of one budget: non-private methods first, then the best first."""
        budget, words = recommendation.best.contender.budget, self.wording
        shown = list(dict.fromkeys((self.times[0], self.times[-1])))
        times = [f"at\n{time:,}" for time in shown]
        headings = (*times, "mean", words.behind, words.beside.heading, "seconds", "kept")
        table = _table(f"{amounts(budget.epsilon, budget.delta)}: {words.title}", headings)
        for result in recommendation.ordered:
            scores = [*result.scores(shown).mean(axis=0), recommendation.score(result)]
            bold = recommendation.recommends(result) or result.contender.configured
            table.add_row(
                result.contender.title,
                *(words.ranks.cell(each) for each in scores),
                self._behind(result, recommendation),
                words.beside.cell(result.measure(words.beside.name, self.times)),
                f"{result.seconds:.2f}",
                kept(result.contender),
                style="bold" if bold else None,
            )
        return table

    def _measures(self, recommendation: Recommendation) -> Table:
        """What the ranking does not tell, below what a constant reaches."""
        words = self.wording
        every = (words.ranks, *words.measures)
        headings = [each.heading for each in every]
        table = _table("Measures", headings + self._counted("records\ncounted"))
        reached = (each.cell(recommendation.constant(each)) for each in every)
        table.add_row(words.constant, *reached, *self._counted("-"))
        for result in recommendation.ordered:
            table.add_row(
                result.contender.title,
                words.ranks.cell(recommendation.score(result)),
                *(each.cell(result.measure(each.name, self.times)) for each in words.measures),
                *self._counted("-" if math.isnan(result.admitted) else f"{result.admitted:.1%}"),
            )
        return table

    def _counted(self, cell: str) -> list[str]:
        """A cell of the column that there is only if persons are protected."""
        return [cell] if self.protects_persons else []

    def _behind(self, result: Result, recommendation: Recommendation) -> str:
        if result is recommendation.best:
            return "best" if recommendation.others else "-"
        margin, shown = recommendation.behind(result), self.wording.difference
        size = shown(margin.size)
        return f"{size} ± {shown(margin.noise)}" if math.isfinite(margin.noise) else size

    def _margin(self, margin: Margin, other: str) -> str:
        more = 1 if self.wording.unit > 1 else 0
        above = self.wording.above.format(self.wording.difference(margin.size, more=more), other)
        if math.isinf(margin.noise):
            return f"{above}."
        verdict = "within the noise of" if margin.within_noise else "more than the noise of"
        return f"{above}: {verdict} {self.wording.difference(margin.noise, more=more)}."

    def _sentences(self, recommendation: Recommendation) -> Iterator[str]:
        """The recommendation, and what speaks for and against it."""
        best, second = recommendation.best, recommendation.others[0]
        own, words = recommendation.configured, self.wording
        praise = words.praise.format(words.ranks.cell(recommendation.score(best)))
        yield f"Recommended: {best.contender.title}, {praise}."
        yield self._margin(recommendation.behind(second), f"{second.contender.title}, the next")
        if own is best:
            yield f"It is what {self.config} says already."
        elif own is not second:
            settings = f"{own.contender.title}, the settings of {self.config}"
            yield self._margin(recommendation.behind(own), settings)
        if self.runs == 1:
            yield "One run does not show the noise: use --runs 2 or more."
        else:
            yield from self._doubts(recommendation)
        if self.comparison.without_allocation(best.contender.table):
            yield f"It sets its own shares: remove [allocation] from {self.config}."
        if other := self._other_sizes(best.contender.table):
            yield f"It was measured with other sizes than {self.config}, which has {other}."

    def _doubts(self, recommendation: Recommendation) -> Iterator[str]:
        """What the noise of the runs leaves undecided, and what other methods reach."""
        ties = [each.contender for each in recommendation.ties]
        if ties:
            names = "; ".join(f"{each.title} (keeps {kept(each)})" for each in ties)
            yield f"The runs cannot tell these from it: {names}. Choose by what they keep."
        for each in recommendation.baselines_ahead:
            size = self.wording.difference(-recommendation.behind(each).size)
            yield f"{self.wording.ahead.format(each.contender.name, size)}, but it is no schedule."
        for over in recommendation.over_constant:
            if over.within_noise or over.size < 0:
                good = "as good, within the noise" if over.within_noise else "better"
                yield f"A constant is {good}: {self.wording.doubt}."

    def _other_sizes(self, table: Mapping[str, Any]) -> str:
        """The configured sizes that differ from those of a [schedule] table."""
        configured = self.comparison.config.schedule.parameters
        names = [name for name in ("window", "block", "step") if name in self.comparison.sizes]
        return ", ".join(
            f"{name} = {configured[name]}"
            for name in names
            if name in configured and name in table and table[name] != configured[name]
        )

    def _notes(self) -> Iterator[str]:
        """What the columns mean, and how methods were compared."""
        yield (
            f"* marks the settings of {self.config}. All measures are means over the runs, on new "
            f"records, and over all times from {self.times[0]:,} on, when every method has a "
            f"model. Behind the best schedule, ± noise: {RULE}. Kept: records that stay stored "
            f"after a release, because a later fit reads them. {self.wording.notes}"
        )
        if self.protects_persons:
            yield COUNTED
        contenders = {each.contender.name: each.contender for each in self.results}.values()
        yield from (each.note for each in contenders if each.note)
        tuned = (each.name for each in contenders if len(each.methods) > 1)
        yield from (f"{name} is shown with its {BEST_SETTING}." for name in tuned)


def _table(title: str, headings: Sequence[str]) -> Table:
    """A table with a column of methods and one for each heading; all end in the same line."""
    table = lean_table(title)
    above = "\n" if any("\n" in heading for heading in headings) else ""
    table.add_column(f"{above}method")
    for heading in headings:
        lined = heading if "\n" in heading else f"{above}{heading}"
        table.add_column(lined, justify="right", no_wrap=True)
    return table
