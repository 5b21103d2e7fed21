"""The base classes of classifiers and regressors."""

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, NamedTuple, Self

from tidegate.checks import fraction, refuse
from tidegate.data.columns import TableColumns
from tidegate.data.feature_map import FeatureMap
from tidegate.data.intake import Intake
from tidegate.data.maps.composed import plain_copy
from tidegate.data.predicted import Predicted
from tidegate.estimators.base_estimator import Begun, Learning, StreamEstimator
from tidegate.learn.learner import LEARNERS, Learner, Task, automatic_learner
from tidegate.learn.loss import Loss
from tidegate.privacy import Budget
from tidegate.schedule import Schedule
from tidegate.schedule.plan import default_survey


class Goal(NamedTuple):
    """What a model learns to predict.

    Attributes:
        loss: The loss of one record.
        predicted: What is predicted.
        attributes: The fitted attributes that show it.
    """

    loss: Loss
    predicted: Predicted
    attributes: Mapping[str, Any]


@dataclass(kw_only=True, eq=False, repr=False)
class LinearEstimator(StreamEstimator):
    """A linear model whose releases are all private; subclasses choose what it predicts, and when.

    All settings are parameters, because reading them off the records would leak. A record that
    cannot be used keeps its slot and counts as nothing; `quarantined_` counts such records, for the
    operator only.

    Args:
        norm: The largest norm of a record; longer records are clipped to it. Public. With a survey
            a generous bound will do. It may be left out if `features` is
            `tidegate.features.Columns`.
        regularization: Lambda, the weight of the squared distance to the prior, or to 0 without
            one; by default the learner chooses it from public numbers or needs none.
        learner: How a fit is made private; by default OutputPerturbation for a pure budget,
            GradientPerturbation for a Gaussian one.
        features: A feature map that is applied to every record first.
        survey: The share of the budget for a private survey of each step, by which features are
            centred and scaled and a constant is added; by default 1/20 for a budget with a delta,
            else 0: no survey, so add `tidegate.features.AppendIntercept()` to `features`.
    """

    budget: Budget
    norm: float | None = None
    regularization: float | None = None
    loss: str = "auto"
    learner: Learner[Task] | None = None
    features: FeatureMap | None = None
    survey: Any = None
    contributions: int | None = None
    period: int | None = None
    typical: Any = 1
    not_private_seed: int | None = None

    @abstractmethod
    def _goal(self) -> Goal:
        """What to predict; refuse bad parameters."""

    def _begin_with(self, schedule: Schedule) -> Begun:
        """Make a new stream; refuse bad parameters before any record is read."""
        learning, attributes = self._parts()
        return self._begin(schedule, learning, self._survey(), **attributes)

    def _parts(self) -> tuple[Learning, Mapping[str, Any]]:
        """What a new stream learns, and the attributes that show it."""
        goal, learner = self._goal(), self._learner()
        task = Task(loss=goal.loss, norm=self._norm(), regularization=self.regularization)
        if self.features is not None and not hasattr(self.features, "transform"):
            raise refuse("features", "None or an object with a transform method", self.features)
        intake = Intake(
            norm=task.norm, features=plain_copy(self.features), predicted=goal.predicted
        )
        return Learning(task, learner, intake), goal.attributes

    def _norm(self) -> float:
        """The largest norm of a record: as given, or as it follows from columns with kinds."""
        if self.norm is None and isinstance(self.features, TableColumns):
            return self.features.norm
        if self.norm is None:
            allowed = "a number, unless features is Columns"
            raise refuse("norm", allowed, self.norm)
        return self.norm

    def _survey(self) -> Fraction:
        """The share of each record's budget that its step's survey costs."""
        if self.survey is None:
            return default_survey(self._budget())
        share = fraction("survey", self.survey)
        if share == 1:
            raise refuse("survey", "a share from 0 to below 1, such as 0.05", self.survey)
        return share

    def _learner(self) -> Learner[Task]:
        if self.learner is None:
            return LEARNERS[automatic_learner(self._budget().unit)]()
        parts = (getattr(self.learner, name, None) for name in ("fit", "check"))
        if isinstance(self.learner, type) or not all(map(callable, parts)):
            names = [f"{each.__name__}()" for each in LEARNERS.values()]
            allowed = f"None or one of tidegate.learn: {' or '.join(names)}"
            raise refuse("learner", allowed, self.learner)
        return self.learner

    def _of_model_for(self, X: Any) -> dict[str, Any]:
        """What the model of the newest release is made of, if X has the columns of the stream."""
        common = self._of_model()  # first: it refuses if nothing is fitted
        self._check_columns(X, reset=False)
        return common

    def _of_model(self) -> dict[str, Any]:
        """What the model of the newest release is made of."""
        weights, intake = self._newest(), self._begun.intake
        return {
            "weights": weights,
            "transform": self.releases_[-1].transform,
            "norm": intake.norm,
            "features": intake.features,
            "spelling": intake.spelling,
            "form": intake.form,
        }

    def _of_named_model(self) -> dict[str, Any]:
        """What the model of the newest release is made of, with the names of the columns."""
        names = getattr(self, "feature_names_in_", None)
        return {**self._of_model(), "columns": None if names is None else tuple(names)}

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


class LinearStream(LinearEstimator):
    """A linear model of one stream; subclasses choose the schedule.

    Attributes:
        ledger_: What each record has paid.
        certificate_: The plan's worst-case charge before shares are divided by it.
    """

    @abstractmethod
    def _schedule(self) -> Schedule:
        """The schedule of the stream."""

    def fit(self, X: Any, y: Any, *, persons: Any = None) -> Self:
        """Start a new stream with X and y, and forget any earlier one.

        Args:
            X: Records, shape (n, d): array, CSR matrix or table; the input of `features`, if given.
            y: A label or target for each, shape (n,).
            persons: The id of each record's person, text or whole numbers, shape (n,); needed if
                `contributions` is set.
        """
        return self._take(self._begin_with(self._schedule()), X, y, persons=persons)

    def partial_fit(self, X: Any, y: Any, *, persons: Any = None) -> Self:
        """Take in any number of records; each step they complete makes its releases.

        The split into batches makes no difference. The first batch fixes the form of the stored
        records: float32 or float64, dense or sparse. A refused batch changes nothing. If a fit is
        interrupted, its batch has been taken in, and the next batch completes the step.

        Args:
            X: Records, shape (n, d): array, CSR matrix or table; the input of `features`, if given.
            y: A label or target for each, shape (n,).
            persons: The id of each record's person, text or whole numbers, shape (n,); needed if
                `contributions` is set.
        """
        if hasattr(self, "_begun"):
            return self._take(self._begun, X, y, persons=persons)
        return self.fit(X, y, persons=persons)
