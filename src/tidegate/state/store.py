"""The interface of the store, where a gate keeps everything, and the types it uses."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tidegate.checks import StoreError, refuse
from tidegate.data.records import Records
from tidegate.learn.preparation import Moments
from tidegate.learn.rules import RULES
from tidegate.learn.survey import NO_PAIRS, Survey
from tidegate.privacy import Budget, Line
from tidegate.privacy.budget import allowance_of
from tidegate.schedule import Span

if TYPE_CHECKING:
    from tidegate.state.folder_store import FolderStore


class NoStateError(StoreError):
    """The folder to open holds no state."""


class ErasedError(StoreError):
    """Records were erased while a step was trained; nothing of it is charged."""


@dataclass(frozen=True, kw_only=True)
class Quarantined:
    """A record that cannot be used. Private: only for operators who may see records."""

    slot: int  # counted from the start of the Batch; in a Store, of the stream
    reason: str
    payload: str | None  # what arrived, as JSON text; None if deleted or if nobody owns the slot


@dataclass(frozen=True, kw_only=True)
class Batch:
    """Cleaned records to be added to a store.

    A `key` names a batch that its sender may send twice; the second one is ignored.
    """

    stream: str
    records: Records  # every batch of a stream has the same kind of rows
    quarantine: tuple[Quarantined, ...] = ()  # records that cannot be used
    source: str | None = None  # the name of their source, if it has offsets
    offset: str | None = None  # the source's offset after this batch
    key: str | None = None
    cut: int | None = None  # `forget` may cut the stream off at multiples of this many slots

    def __post_init__(self) -> None:
        if (self.source is None) != (self.offset is None):
            raise refuse("offset", "given together with source, or neither", self.offset)
        slots = [bad.slot for bad in self.quarantine]
        if len(set(slots)) < len(slots) or not all(0 <= slot < self.records.n for slot in slots):
            raise refuse("quarantine", f"distinct slots from 0 to {self.records.n - 1}", slots)


@dataclass(frozen=True, kw_only=True, eq=False)
class FitToStore:
    """A fit to be stored; the store adds the release number to its card."""

    line: Line
    weights: NDArray[np.float64]
    card: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """The test of a release on the step after it, which is charged to that step's records."""

    release: int
    share: Fraction  # paid by each record of the step
    value: float  # the accuracy, or the mean absolute error of a target, plus noise
    deviation: float  # the standard deviation of that noise
    scores: Mapping[str, Any] | None = None  # noisy counts, as `Scores.as_json` gives them


@dataclass(frozen=True, kw_only=True, eq=False)
class StoredSurvey:
    """The survey of a step, which is charged to that step's records."""

    share: Fraction  # paid by each record of the step
    cells: NDArray[np.float64]  # the noisy sums
    moments: NDArray[np.float64]  # the forgetting means after the step
    rules: int = RULES  # the public rules that sized its noise
    pairs: NDArray[np.float64] = field(default_factory=NO_PAIRS.copy)  # noisy sums of products
    mean_pairs: NDArray[np.float64] = field(default_factory=NO_PAIRS.copy)  # means of those

    @classmethod
    def of(cls, survey: Survey, moments: Moments, share: Fraction) -> Self:
        """A survey, and the means after it."""
        return cls(
            share=share,
            cells=survey.cells,
            moments=moments.cells,
            rules=survey.rules,
            pairs=survey.pairs,
            mean_pairs=moments.pairs,
        )

    def opened(self, *, slots: int, classes: int, budget: Budget, persons: bool) -> Survey:
        """The survey, given what the settings say about it."""
        return Survey(
            slots=slots,
            classes=classes,
            allowance=allowance_of(budget, self.share),
            cells=self.cells,
            persons=persons,
            rules=self.rules,
            pairs=self.pairs,
        )

    def means(self, classes: int) -> Moments:
        """The forgetting means after the step."""
        return Moments(classes=classes, cells=self.moments, pairs=self.mean_pairs)


@dataclass(frozen=True, kw_only=True)
class Step:
    """A step that has been carried out, with its evaluation and survey, if it has them."""

    stream: str
    span: Span
    evaluation: Evaluation | None
    survey_share: Fraction | None = None  # what each of its records paid for its survey

    @property
    def measured(self) -> list[Fraction]:
        """What each of its records paid for its survey and for the evaluation of a release."""
        evaluated = [] if self.evaluation is None else [self.evaluation.share]
        return evaluated if self.survey_share is None else [self.survey_share, *evaluated]


@dataclass(frozen=True, kw_only=True, eq=False)
class StoppedStep:
    """A step that stopped the state, before its settings were corrected."""

    settings: str  # the settings that affect privacy then, as JSON
    stream: str
    span: Span  # of records that are gone, and are not counted in the stream now
    survey: StoredSurvey


@dataclass(frozen=True, kw_only=True)
class Segment:
    """Consecutive raw records that are still held."""

    stream: str
    span: Span
    size: int  # in bytes
    file: str | None  # None if they are in the database


Store: TypeAlias = "FolderStore"
"""Where the Gate keeps everything."""
