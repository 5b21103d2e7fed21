"""[survey] and [quality]: what is measured at each step, each for a share of the budget.

A key that is left out is taken from the state; a new state gets the default.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any, Self

from tidegate.checks import flag, fraction, refuse
from tidegate.gate.config.keys import given_keys, key, place
from tidegate.gate.config.tables import FILES
from tidegate.gate.sources import Files, SourceColumns
from tidegate.plan import default_survey
from tidegate.privacy import Budget

SCORES = Fraction(1, 20)
"""The default share of scores."""

EARLIER_DEFAULTS: Mapping[str, Mapping[str, Any]] = {
    "survey": {"share": "0"},
    "quality": {"share": "0", "scores": False},
    "records": {"spelling": 1},
}
"""The values of keys that an earlier version did not have, or left out."""


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
    )

    def settled(self, state: "SurveyTable | None", budget: Budget) -> Self:
        """With the share of a state, or the default, if it is left out."""
        other = default_survey(budget) if state is None else state.share
        return replace(self, share=other) if self.share is None else self


@dataclass(frozen=True, kw_only=True)
class QualityTable:
    """[quality]: how good the releases are, measured on the step after each."""

    share: Fraction | None = key(
        part,
        "the share of the budget for private scores; 0.05, or 0 with a holdout",
        default=None,
    )
    scores: bool | None = key(
        flag, "false measures nothing but the accuracy, with less noise", default=None
    )
    holdout: str | None = key(
        place,
        "a file of public records to test on; no record of a source may be in it",
        default=None,
    )

    def __post_init__(self) -> None:
        if self.holdout is not None and self._type() not in FILES:
            raise refuse("holdout", "a .csv, .parquet or .jsonl file", self.holdout)

    def _type(self) -> str:
        return Path(self.holdout or "").suffix.removeprefix(".").lower()

    def settled(self, state: "QualityTable | None") -> Self:
        """With the keys of a state, or the defaults, where they are left out."""
        if state is None:
            share = SCORES if self.holdout is None else Fraction(0)
            state = QualityTable(share=share, scores=True)
        kept = {name: value for name, value in given_keys(state).items() if name != "holdout"}
        return replace(self, **{**kept, **given_keys(self)})

    def build(self, columns: SourceColumns) -> Files:
        """The public records that releases are tested on; the table must name a holdout."""
        reader = FILES[self._type()](columns=columns)
        return Files(name="holdout", path=Path(self.holdout or ""), format=reader)


def with_earlier(given: Any) -> Any:
    """The tables of a state's JSON text, with the keys that its version did not write."""
    if not isinstance(given, dict):
        return given
    added = {name: {**keys, **_table(given.get(name))} for name, keys in EARLIER_DEFAULTS.items()}
    return {**given, **added}


def _table(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
