"""Settings: everything that a run is told, resolved once and frozen."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from tidegate.data.feature_map import FeatureMap
from tidegate.data.predicted import Predicted
from tidegate.data.records import NOT_PACKED, NotPacked, Packing
from tidegate.learn.learner import Learner, Weights
from tidegate.learn.transform import Prepared
from tidegate.privacy.noise import Bits, bits_of
from tidegate.release import About
from tidegate.release.card import CONTENT, Content
from tidegate.run.engine import Engine, Memory
from tidegate.schedule.plan import AnyPlan
from tidegate.schedule.progress import (
    BY_COUNTS,
    WITH_RECORDS,
    ByCounts,
    Counts,
    Progress,
    WithRecords,
)


@dataclass(frozen=True)
class BitsByPlace:
    """Fresh random bits for every place; with a seed they depend on it and the place alone.

    A place is a fit by its number, or a survey or scores by their step.
    """

    seed: int | None = None

    def bits(self, *place: int) -> Bits:
        """The bits for a place."""
        return bits_of(self.seed, *place)


@dataclass(frozen=True, eq=False)
class OneSource:
    """One source of bits for all places, one after the other."""

    source: Bits

    def bits(self, *place: int) -> Bits:
        """The bits for a place."""
        del place
        return self.source


class Nowhere:
    """A first fit starts at no model."""

    def model(self, prepared: Prepared) -> Weights | None:
        """The public model that it starts at, for rows that are prepared so; None for none."""
        del prepared
        return None


@dataclass(frozen=True, kw_only=True, eq=False)
class Settings:
    """What a run is told, from a configuration or from the arguments of an estimator.

    All of it is public and fixed before the first record. Nothing that takes settings parses,
    completes or derives them again.

    Attributes:
        plan: What is released when, and what it costs.
        task: What is learnt.
        learner: How fits are made private.
        intake: How batches become records: an Intake or a CategoryIntake.
        packing: How the store packs records.
        features: The feature map that is applied to every record, or its description, for cards.
        dtype: The dtype of the features.
        columns: The names of the columns that features are made of, if they have names.
        label: The name of the column of labels, if it has one.
        scores: Whether the newest release is scored by more than its accuracy or error.
        noise: Where the random bits of noise come from.
        engine: Where fits are computed, if not in another process.
        hidden: What is hidden about a record.
        ends: How steps end.
        labels: When labels come.
        start: Where a first fit starts.
    """

    plan: AnyPlan
    task: Any
    learner: Learner[Any]
    intake: Any = None
    packing: Packing | NotPacked = NOT_PACKED
    features: FeatureMap | list[Any] | None = None
    dtype: str = "float64"
    columns: tuple[str, ...] | None = None
    label: str | None = None
    scores: bool = False
    noise: BitsByPlace | OneSource = BitsByPlace()
    engine: Engine = Memory()
    hidden: Content = CONTENT
    ends: ByCounts = BY_COUNTS
    labels: WithRecords = WITH_RECORDS
    start: Nowhere = Nowhere()

    @property
    def outcomes(self) -> tuple[Predicted, ...]:
        """What is predicted: one outcome."""
        return (self.intake.predicted,)

    def progress(self, counts: Counts) -> Progress:
        """How far the plan has been carried out, given what has arrived and what is done."""
        return Progress(self.plan, counts, self.ends, self.labels)

    @cached_property
    def about(self) -> About:
        """What the cards of the run say about it."""
        intake = self.intake
        return About(
            plan=self.plan,
            task=self.task,
            learner=self.learner,
            predicted=self.outcomes[0],
            hidden=self.hidden,
            features=self.features,
            dtype=self.dtype,
            columns=self.columns,
            label=self.label,
            spelling=intake.spelling,
        )

    @property
    def private(self) -> bool:
        """Whether nobody can repeat the noise."""
        return self.noise.bits(0).private
