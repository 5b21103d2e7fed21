"""What `tidegate compare` prints: tables, the recommended schedule, and the same as JSON."""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from tidegate.cli.options import lean_table
from tidegate.privacy.meaning import amounts
from tidegate.study.comparison import Comparison, Result
from tidegate.study.measured import MEASURES
from tidegate.study.recommend import Margin, Recommendation, retained, toml

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
    times: range
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

    def print_json(self) -> None:
        """Print one line for each result."""
        for recommendation in self.recommendations:
            for result in recommendation.results:
                row = self._row(result) | self._ranking(result, recommendation)
                click.echo(json.dumps(row))

    def _row(self, result: Result) -> dict[str, Any]:
        """What was measured."""
        curve, contender = result.curve, result.contender
        schedule = contender.schedule
        return {
            "method": contender.name,
            "configured": contender.configured,
            "private": curve.private,
            "epsilon": contender.budget.epsilon,
            "delta": contender.budget.delta or None,
            "runs": len(curve.runs),
            "mean": round(float(result.at(self.times).mean()), 4),
            "mean_from": self.times[0],
            **curve.row,
            "log_loss": _rounded(result.log_loss(self.times)),
            "seconds": round(result.seconds, 4),
            "retained": None if schedule is None else retained(schedule)._asdict(),
            "schedule": contender.table,
            **{name: _rounded(result.measure(name, self.times)) for name in MEASURES},
        }

    def _ranking(self, result: Result, recommendation: Recommendation) -> dict[str, Any]:
        """How it compares with the best schedule."""
        behind = recommendation.behind(result)
        best = result is recommendation.best and recommendation.next is not None
        return {
            "accuracy": round(recommendation.accuracy(result), 4),
            "behind": round(behind.size, 4),
            "noise": None if behind.noise is None else round(behind.noise, 4),
            "within_noise": behind.within_noise,
            "recommended": self._recommended(recommendation) if best else None,
        }

    def _recommended(self, recommendation: Recommendation) -> dict[str, Any]:
        """The recommendation, on the line of the best schedule."""
        own = recommendation.configured
        return {
            "toml": self._toml(recommendation.best),
            "next": _compared(recommendation, recommendation.next),
            "configured": None if own is recommendation.best else _compared(recommendation, own),
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

    def _print_table(self, recommendation: Recommendation) -> None:
        """Print the table of one budget: non-private methods first, then by mean accuracy."""
        budget = recommendation.best.contender.budget
        table = lean_table(amounts(budget.epsilon, budget.delta))
        shown = list(dict.fromkeys((self.times[0], self.times[-1])))
        times = [f"at\n{time:,}" for time in shown]
        table.add_column("\nmethod")
        for heading in (*times, "\nmean", "points\nbehind", "log-\nloss", "\nseconds", "\nkept"):
            table.add_column(heading, justify="right", no_wrap=True)
        for result in self._ordered(recommendation):
            accuracies = [*result.accuracies(shown).mean(axis=0), recommendation.accuracy(result)]
            is_best = result is recommendation.best and recommendation.next is not None
            table.add_row(
                _name(result),
                *(f"{each:.1%}" for each in accuracies),
                _behind(result, recommendation),
                f"{result.log_loss(self.times):.3f}",
                f"{result.seconds:.2f}",
                _kept(result),
                style="bold" if is_best or result.contender.configured else None,
            )
        Console(highlight=False).print(table)

    def _print_measures(self, recommendation: Recommendation) -> None:
        """Print what accuracy does not tell, below what a constant reaches."""
        table = lean_table("Measures")
        table.add_column("\nmethod")
        for heading in ("\naccuracy", "balanced\naccuracy", "\nAUC", "log-\nloss", "\nbias"):
            table.add_column(heading, justify="right", no_wrap=True)
        table.add_row(
            "majority class",
            _shown(recommendation.constant("majority"), ".1%"),
            f"{1 / self.comparison.config.task().groups:.1%}",
            "0.500" if self.comparison.config.task().groups == 2 else "-",
            _shown(recommendation.constant("constant_log_loss"), ".3f"),
            "-",
        )
        for result in self._ordered(recommendation):
            table.add_row(
                _name(result),
                f"{recommendation.accuracy(result):.1%}",
                _shown(result.measure("balanced_accuracy", self.times), ".1%"),
                _shown(result.measure("auc", self.times), ".3f"),
                _shown(result.log_loss(self.times), ".3f"),
                _shown(result.measure("bias", self.times), "+.3f"),
            )
        Console(highlight=False).print(table)

    def _ordered(self, recommendation: Recommendation) -> list[Result]:
        """Non-private methods first, then by mean accuracy."""
        return sorted(
            recommendation.results, key=lambda r: (r.curve.private, -recommendation.accuracy(r))
        )

    def _print_recommendation(self, recommendation: Recommendation) -> None:
        console = Console(highlight=False)
        for line in self._sentences(recommendation):
            console.print(line, markup=False)
        click.echo(f"\n{self._toml(recommendation.best)}\n")

    def _sentences(self, recommendation: Recommendation) -> Iterator[str]:
        best, second = recommendation.best, recommendation.next
        right = f"{recommendation.accuracy(best):.1%} of new records right"
        yield f"Recommended: {_name(best)}, with {right}."
        if second is not None:
            yield f"It is {_margin(recommendation.behind(second), f'{_name(second)}, the next')}."
        own = recommendation.configured
        if own not in (best, second):
            settings = f"{_name(own)}, the settings of {self.config}"
            yield f"It is {_margin(recommendation.behind(own), settings)}."
        if best.contender.configured:
            yield f"It is what {self.config} says already."
        if self.runs == 1:
            yield "One run does not show the noise: use --runs 2 or more."
        elif ties := recommendation.ties:
            names = "; ".join(f"{_name(each)} (keeps {_kept(each)})" for each in ties)
            yield f"The runs cannot tell these from it: {names}. Choose by what they keep."
        for each in recommendation.baselines_ahead:
            ahead = f"{-100 * recommendation.behind(each).size:.2f} points"
            yield f"{each.contender.name} is {ahead} ahead of it, but it is no schedule."
        if self._remove_allocation(best):
            yield f"It sets its own shares: remove [allocation] from {self.config}."
        if other := self._other_sizes(best):
            yield f"It was measured with other sizes than {self.config}, which has {other}."

    def _print_notes(self) -> None:
        console = Console(highlight=False)
        console.print(
            f"* marks the settings of {self.config}. Accuracies and log-losses are means over the "
            f"runs, on new records. Means cover all times from {self.times[0]:,} on, when every "
            f"method has a model. Points behind the best schedule, ± their noise: {RULE}. "
            "Kept: records that stay stored after a release, because a later fit reads them. "
            "The majority class: a constant that answers the most frequent class or, for the "
            "log-loss, the shares of the classes. Bias (two classes): mean predicted share of the "
            "second class minus its share."
            + "".join(f" {name} is shown with its {BEST_SETTING}." for name in self._tuned),
            markup=False,
        )
        for name, reason in self.left_out.items():
            console.print(f"Left out: {name} ({reason})", markup=False)

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


BEST_SETTING = "best setting, chosen by these same accuracies"


def print_plot(path: Path) -> None:
    """Say where the plot is."""
    Console(highlight=False).print(f"Plot: {path}", soft_wrap=True)


def _compared(recommendation: Recommendation, result: Result | None) -> dict[str, Any] | None:
    if result is None:
        return None
    size, noise = recommendation.behind(result)
    return {
        "method": result.contender.name,
        "margin": round(size, 4),
        "noise": None if noise is None else round(noise, 4),
        "within_noise": recommendation.behind(result).within_noise,
    }


def _rounded(value: float) -> float | None:
    return None if math.isnan(value) else round(value, 4)


def _shown(value: float, form: str) -> str:
    return "-" if math.isnan(value) else format(value, form)


def _name(result: Result) -> str:
    return result.contender.name + " *" * result.contender.configured


def _behind(result: Result, recommendation: Recommendation) -> str:
    if result is recommendation.best:
        return "-" if recommendation.next is None else "best"
    margin = recommendation.behind(result)
    size = f"{round(100 * margin.size, 1) + 0.0:.1f}"  # not -0.0
    return size if margin.noise is None else f"{size} ± {100 * margin.noise:.1f}"


def _margin(margin: Margin, other: str) -> str:
    above = f"{100 * margin.size:.2f} points above {other}"
    if margin.noise is None:
        return above
    verdict = "within the noise of" if margin.within_noise else "more than the noise of"
    return f"{above}: {verdict} {100 * margin.noise:.2f}"


def _kept(result: Result) -> str:
    schedule = result.contender.schedule
    if schedule is None:
        return "-"
    records = retained(schedule).records
    return "all" if records is None else f"{records:,}"
