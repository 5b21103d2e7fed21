"""What the losses of two classes share: one margin, class 1 as sign +1 and class 0 as -1."""

from typing import ClassVar, Self

from tidegate.learn.loss.margins import Floats, Indices


class Binary:
    """A loss of one margin."""

    most_classes: ClassVar[int] = 2
    outputs = 1

    @classmethod
    def of(cls, classes: int) -> Self:
        """The loss for two classes."""
        del classes
        return cls()

    def lipschitz(self, norm: float) -> float:
        """The slope by the margin is at most 1."""
        return norm

    def shape(self, features: int) -> tuple[int, ...]:
        """One weight per feature."""
        return (features,)


def signs(margins: Floats, y: Indices) -> Floats:
    """The sign of each record's class."""
    return (2 * y - 1).astype(margins.dtype)
