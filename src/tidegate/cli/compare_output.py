"""What `tidegate compare` prints: tables, the recommended schedule, and the same as JSON."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import click
from rich.table import Table

from tidegate.cli.options import lean_table
from tidegate.cli.screen import Screen
from tidegate.privacy.meaning import amounts
from tidegate.study.compared import Result
from tidegate.study.comparison import Comparison
from tidegate.study.grid import CONSTANT
from tidegate.study.measured import rounded
from tidegate.study.recommend import Margin, Recommendation, retained, toml
from tidegate.study.wording import Wording

RULE = "95 % by Student's t, from the paired differences over the runs and over the times"


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

    def print_json(self) -> None:
        """Print one line for each result."""
        for recommendation in self.recommendations:
            for result in recommendation.results:
                row = self._row(result) | self._ranking(result, recommendation)
                click.echo(json.dumps(row))

    def _row(self, result: Result) -> dict[str, Any]:
        """What was measured."""
        curve, contender, yardstick = result.curve, result.contender, self.comparison.yardstick
        schedule, digits = contender.schedule, yardstick.digits
        measures = {name: result.measure(name, self.times) for name in yardstick.names}
        return {
            "method": contender.name,
            "configured": contender.configured,
            "private": curve.private,
            "epsilon": contender.budget.epsilon,
            "delta": contender.budget.delta or None,
            **self._persons(result),
            "runs": len(curve.runs),
            "measure": yardstick.ranks,
            "mean": round(float(result.at(self.times).mean()), digits),
            "mean_from": self.times[0],
            **curve.row(digits),
            "seconds": round(result.seconds, 4),
            "retained": None if schedule is None else retained(schedule)._asdict(),
            "schedule": contender.table,
            **rounded(measures, digits),
        }

    def _persons(self, result: Result) -> dict[str, Any]:
        """What there is to say only if persons are protected."""
        if self.comparison.config.person is None:
            return {}
        share = result.admitted
        admitted = None if share is None else round(share, 4)
        return {"contributions": result.contender.budget.contributions, "admitted": admitted}

    def _ranking(self, result: Result, recommendation: Recommendation) -> dict[str, Any]:
        """How it compares with the best schedule."""
        behind, digits = recommendation.behind(result), self.comparison.yardstick.digits
        best = result is recommendation.best and recommendation.next is not None
        return {
            self.comparison.yardstick.ranks: round(recommendation.score(result), digits),
            "behind": round(behind.size, digits),
            "noise": None if behind.noise is None else round(behind.noise, digits),
            "within_noise": behind.within_noise,
            "recommended": self._recommended(recommendation) if best else None,
        }

    def _recommended(self, recommendation: Recommendation) -> dict[str, Any]:
        """The recommendation, on the line of the best schedule."""
        own = recommendation.configured
        best = own is recommendation.best
        return {
            "toml": self._toml(recommendation.best),
            "next": self._compared(recommendation, recommendation.next),
            "configured": None if best else self._compared(recommendation, own),
            "within_noise": [each.contender.name for each in recommendation.ties],
            "remove_allocation": self._remove_allocation(recommendation.best),
            "left_out": dict(self.left_out),
        }

    def print_tables(self) -> None:
        """Print a table and a recommendation for each budget, then what the columns mean."""
        for recommendation in self.recommendations:
            self._print_table(recommendation)
            self._print_measures(recommendation)
            click.echo()
            if recommendation.next is not None:
                self._print_recommendation(recommendation)
        self._print_notes()

    def _compared(self, recommendation: Recommendation, result: Result | None) -> Any:
        """By how much the best schedule is ahead of another one."""
        if result is None:
            return None
        margin, digits = recommendation.behind(result), self.comparison.yardstick.digits
        return {
            "method": result.contender.name,
            "margin": round(margin.size, digits),
            "noise": None if margin.noise is None else round(margin.noise, digits),
            "within_noise": margin.within_noise,
        }

    def _print_table(self, recommendation: Recommendation) -> None:
        """Print the table of one budget: non-private methods first, then the best first."""
        budget, words = recommendation.best.contender.budget, self.wording
        table = lean_table(f"{amounts(budget.epsilon, budget.delta)}: {words.title}")
        shown = list(dict.fromkeys((self.times[0], self.times[-1])))
        times = [f"at\n{time:,}" for time in shown]
        headings = (*times, "mean", words.behind, words.beside.heading, "seconds", "kept")
        _add_columns(table, headings)
        for result in recommendation.ordered:
            scores = [*result.scores(shown).mean(axis=0), recommendation.score(result)]
            is_best = result is recommendation.best and recommendation.next is not None
            table.add_row(
                _name(result),
                *(words.ranks.cell(each) for each in scores),
                self._behind(result, recommendation),
                words.beside.cell(result.measure(words.beside.name, self.times)),
                f"{result.seconds:.2f}",
                _records_kept(result),
                style="bold" if is_best or result.contender.configured else None,
            )
        Screen().print(table)

    def _print_measures(self, recommendation: Recommendation) -> None:
        """Print what the ranking does not tell, below what a constant reaches."""
        table, words = lean_table("Measures"), self.wording
        every = (words.ranks, *words.measures)
        persons = self.comparison.config.person is not None
        _add_columns(table, [each.heading for each in every] + ["records\ncounted"] * persons)
        reached = (each.cell(recommendation.constant(each.constant)) for each in every)
        table.add_row(words.constant, *reached, *["-"] * persons)
        for result in recommendation.ordered:
            others = [each.cell(result.measure(each.name, self.times)) for each in words.measures]
            if persons:
                others.append("-" if result.admitted is None else f"{result.admitted:.1%}")
            table.add_row(_name(result), words.ranks.cell(recommendation.score(result)), *others)
        Screen().print(table)

    def _behind(self, result: Result, recommendation: Recommendation) -> str:
        if result is recommendation.best:
            return "-" if recommendation.next is None else "best"
        margin, shown = recommendation.behind(result), self.wording.difference
        size = shown(margin.size)
        return size if margin.noise is None else f"{size} ± {shown(margin.noise)}"

    def _margin(self, margin: Margin, other: str) -> str:
        more = 1 if self.wording.unit > 1 else 0
        above = self.wording.above.format(self.wording.difference(margin.size, more=more), other)
        if margin.noise is None:
            return above
        verdict = "within the noise of" if margin.within_noise else "more than the noise of"
        return f"{above}: {verdict} {self.wording.difference(margin.noise, more=more)}"

    def _print_recommendation(self, recommendation: Recommendation) -> None:
        console = Screen()
        for line in self._sentences(recommendation):
            console.print(line, markup=False)
        click.echo(f"\n{self._toml(recommendation.best)}\n")

    def _sentences(self, recommendation: Recommendation) -> Iterator[str]:
        best, second = recommendation.best, recommendation.next
        words = self.wording
        praise = words.praise.format(words.ranks.cell(recommendation.score(best)))
        yield f"Recommended: {_name(best)}, {praise}."
        if second is not None:
            yield f"{self._margin(recommendation.behind(second), f'{_name(second)}, the next')}."
        own = recommendation.configured
        if own not in (best, second):
            settings = f"{_name(own)}, the settings of {self.config}"
            yield f"{self._margin(recommendation.behind(own), settings)}."
        if best.contender.configured:
            yield f"It is what {self.config} says already."
        if self.runs == 1:
            yield "One run does not show the noise: use --runs 2 or more."
        elif ties := recommendation.ties:
            names = "; ".join(f"{_name(each)} (keeps {_records_kept(each)})" for each in ties)
            yield f"The runs cannot tell these from it: {names}. Choose by what they keep."
        for each in recommendation.baselines_ahead:
            size = words.difference(-recommendation.behind(each).size)
            yield f"{words.ahead.format(each.contender.name, size)}, but it is no schedule."
        over = recommendation.over_constant
        if self.runs > 1 and over is not None and (over.within_noise or over.size < 0):
            good = "as good, within the noise" if over.within_noise else "better"
            yield f"A constant is {good}: {words.doubt}."
        if self._remove_allocation(best):
            yield f"It sets its own shares: remove [allocation] from {self.config}."
        if other := self._other_sizes(best):
            yield f"It was measured with other sizes than {self.config}, which has {other}."

    def _print_notes(self) -> None:
        console = Screen()
        console.print(
            f"* marks the settings of {self.config}. All measures are means over the runs, on new "
            f"records, and over all times from {self.times[0]:,} on, when every method has a "
            f"model. Behind the best schedule, ± noise: {RULE}. Kept: records that stay stored "
            f"after a release, because a later fit reads them. {self.wording.notes}"
            + self._constant_note
            + self._person_note
            + "".join(f" {name} is shown with its {BEST_SETTING}." for name in self._tuned),
            markup=False,
        )
        for name, reason in self.left_out.items():
            console.print(f"Left out: {name} ({reason})", markup=False)

    @property
    def _constant_note(self) -> str:
        """What the baseline of that name is, if it was run."""
        if all(each.contender.name != CONSTANT for each in self.results):
            return ""
        return f" {CONSTANT}: the same, but of the records so far or in the window, without noise."

    @property
    def _person_note(self) -> str:
        """What the share of records that count means, and how baselines treat persons."""
        if self.comparison.config.person is None:
            return ""
        return (
            " Records counted: of all records with a person, those of persons who have not reached "
            "their limit. naive counts each person like one record in every release and leaves "
            "nobody out; methods without privacy learn from all records. Tests count every record."
        )

    @property
    def _tuned(self) -> list[str]:
        """The baselines that were run with several settings."""
        contenders = [each.contender for each in self.results]
        return list(dict.fromkeys(each.name for each in contenders if len(each.methods) > 1))

    def _toml(self, result: Result) -> str:
        return toml(result.contender.table or {})

    def _remove_allocation(self, result: Result) -> bool:
        """Whether [allocation] must go if this schedule is configured."""
        return self.comparison.without_allocation(result.contender.table or {})

    def _other_sizes(self, result: Result) -> str:
        """The configured sizes that differ from those of a result."""
        table = result.contender.table or {}
        configured = self.comparison.config.schedule.parameters
        names = [name for name in ("window", "block", "step") if name in self.comparison.sizes]
        return ", ".join(
            f"{name} = {configured[name]}"
            for name in names
            if name in configured and name in table and table[name] != configured[name]
        )


BEST_SETTING = "best setting, chosen by this same table"


def print_plot(path: Path) -> None:
    """Say where the plot is."""
    Screen().print(f"Plot: {path}", soft_wrap=True)


def _add_columns(table: Table, headings: Sequence[str]) -> None:
    """The column of methods, and one for each heading; all headings end in the same line."""
    above = "\n" if any("\n" in heading for heading in headings) else ""
    table.add_column(f"{above}method")
    for heading in headings:
        lined = heading if "\n" in heading else f"{above}{heading}"
        table.add_column(lined, justify="right", no_wrap=True)


def _name(result: Result) -> str:
    return result.contender.name + " *" * result.contender.configured


def _records_kept(result: Result) -> str:
    schedule = result.contender.schedule
    if schedule is None:
        return "-"
    records = retained(schedule).records
    return "all" if records is None else f"{records:,}"
