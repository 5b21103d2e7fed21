"""[survey] and [quality]: what is measured at each step, each for a share of the budget.

A key that is left out is taken from the state; a new state gets the default.
"""

from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path

from tidegate.checks import flag, fraction, place, refuse
from tidegate.run.config.keys import key
from tidegate.schedule.plan import default_survey
from tidegate.sources import SourceColumns
from tidegate.sources.files import Files, kind_of_file, one_file

SCORES = Fraction(1, 20)
"""The default share of scores."""


def part(name: str, value: object) -> Fraction:
    """Check that a value is a share from 0 to below 1."""
    share = fraction(name, value)
    if share == 1:
        raise refuse(name, "a share from 0 to below 1, such as 0.05", value)
    return share


@dataclass(frozen=True, kw_only=True)
class SurveyTable:
    """[survey]: what the records of each step look like, measured privately."""

    share: Fraction | None = key(
        part,
        "the budget share for means and scales of features; 0.05 with a delta, else 0",
        default=None,
        new=lambda config: default_survey(config.budget.build()),
        earlier="0",
    )


@dataclass(frozen=True, kw_only=True)
class QualityTable:
    """[quality]: how good the releases are, measured on the step after each."""

    share: Fraction | None = key(
        part,
        "the share of the budget for private scores; 0.05, or 0 with a holdout",
        default=None,
        new=lambda config: SCORES if config.quality.holdout is None else Fraction(0),
        earlier="0",
    )
    scores: bool | None = key(
        flag,
        "false measures nothing but the accuracy, with less noise",
        default=None,
        new=lambda _: True,
        earlier=False,
    )
    holdout: str | None = key(
        place,
        "a file of public records to test on; no record of a source may be in it",
        default=None,
    )

    def __post_init__(self) -> None:
        if self.holdout is not None:
            kind_of_file(Path(self.holdout), "holdout")

    def build(self, columns: SourceColumns) -> Files:
        """The public records that releases are tested on; the table must name a holdout."""
        return replace(one_file(Path(self.holdout or "")), name="holdout", columns=columns)
