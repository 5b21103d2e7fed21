"""What is predicted: one of some classes, a number in a public range (`Target`), or nothing.

All of it is public and fixed before the first record. Records store a *code* for each label.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tidegate.checks import refuse
from tidegate.data.labels import check_kind, codes_of, cut_codes, cut_words
from tidegate.data.target import NOTHING, Codes, Predicted, Target, Usable

__all__ = ["NOTHING", "Classes", "Predicted", "predicted_of", "predicted_on_card", "with_predicted"]


@dataclass(frozen=True)
class Classes(Predicted):
    """One of some classes.

    Args:
        labels: All labels, in the order of their codes.
        cuts: Where one class ends and the next begins, if labels are numbers; else empty.

    >>> Classes(["no", "yes"]).read(["yes", "?"], 2, 2)
    (array([ 1, -1]), array([ True, False]))
    >>> Classes(["few", "many"], cuts=[10.0]).read([3, 30], 2, 2)[0]
    array([0, 1])
    """

    labels: Sequence[Any]
    cuts: Sequence[float] = ()

    @property
    def missing(self) -> str:
        """See `Predicted`."""
        return "the label is missing or not a number" if self.cuts else super().missing

    def read_as(self, plain: str) -> str:
        """See `Predicted`."""
        return f"number, {cut_words(self.cuts, self.labels)}" if self.cuts else plain

    def check(self, y: Any, rule: int) -> None:
        """See `Predicted`: by rule 1, numbers are not read as text, nor text as numbers."""
        if rule == 1 and not self.cuts:
            check_kind(y, self.labels)

    def read(self, y: Any, slots: int, rule: int) -> tuple[Codes, Usable]:  # noqa: ARG002
        """See `Predicted`."""
        codes = cut_codes(y, self.cuts, rule) if self.cuts else codes_of(y, self.labels, rule)
        return codes, codes >= 0

    def entries(self) -> dict[str, Any]:
        """See `Predicted`."""
        stated: dict[str, Any] = {"classes": np.asarray(list(self.labels)).tolist()}
        return {**stated, "cuts": self.cuts} if self.cuts else stated


def predicted_of(
    classes: Sequence[Any] | None = None,
    target: Target | None = None,
    cuts: Sequence[float] | None = None,
) -> Predicted:
    """What is predicted, given at most one of classes and a target, with cuts for classes.

    >>> predicted_of([0, 1]), predicted_of(target=Target(0, 1))
    (Classes(labels=[0, 1], cuts=()), Target(low=0.0, high=1.0))
    """
    if target is None:
        return NOTHING if classes is None else Classes(classes, cuts or ())
    if classes is not None:
        raise refuse("classes", "None if there is a target", shown="both")
    return target


def predicted_on_card(card: Mapping[str, Any]) -> Predicted:
    """What the model of a card predicts: its target, or else its classes."""
    return Target.of_card(card) or predicted_of(card.get("classes"), cuts=card.get("cuts"))


def with_predicted(state: dict[str, Any]) -> dict[str, Any]:
    """The state of an object that an earlier version pickled, with `predicted` in place of parts.

    >>> with_predicted({"norm": 1.0, "classes": [0, 1], "target": None})
    {'norm': 1.0, 'predicted': Classes(labels=[0, 1], cuts=())}
    """
    parts = ("classes", "target", "cuts")
    if "predicted" in state:
        return state
    rest = {name: value for name, value in state.items() if name not in parts}
    return {**rest, "predicted": predicted_of(*(state.get(name) for name in parts))}
