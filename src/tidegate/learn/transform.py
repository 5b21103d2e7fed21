"""What happens to clipped rows before a model reads them: nothing, or a public transform.

The transform comes from surveys (`learn/preparation.py`) and belongs to a release. It is a function
of one record and public numbers: a row is centred, scaled, mixed, clipped, and gets a constant
column. Proof that it keeps the norm: docs/proofs/survey.md.
"""

from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import fsum
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from tidegate.checks import InvalidValueError, Later, refuse
from tidegate.data.records import Piece, PieceOf, Records, zeroed
from tidegate.data.rows import NO_MIX, Rows, centred_rows, mixes, on_mix_lattice
from tidegate.learn.exact import product, solved

if TYPE_CHECKING:
    from tidegate.data import maps
    from tidegate.data.maps import CenterScale
else:
    maps = Later("tidegate.data.maps")

Floats32 = NDArray[np.float32]
Weights = NDArray[np.float64]


class Prepared:
    """What happens to clipped rows before a model reads them, which is public: here, nothing.

    Attributes:
        added: How many columns it adds.
        needs_dense_rows: Whether it refuses sparse rows.

    >>> UNTRANSFORMED.rows(np.ones((1, 2))), UNTRANSFORMED.entries()
    (array([[1., 1.]]), {})
    """

    added: ClassVar[int] = 0

    @property
    def needs_dense_rows(self) -> bool:  # noqa: D102 - see above
        return False

    @property
    def stated(self) -> "Transform | None":
        """The transform that releases state; None if rows stay as they are."""
        return None

    def norm(self, before: float) -> float:
        """The bound on the norm of every prepared row, given that of rows before."""
        return before

    def task(self, task: Any) -> Any:
        """The same task on prepared rows."""
        return task

    def suits(self, features: int) -> bool:  # noqa: ARG002
        """Whether it can prepare rows of this many features."""
        return True

    def rows(self, X: Rows) -> Rows:
        """The prepared rows; each depends on its own row alone."""
        return X

    def records(self, part: Records) -> Records:
        """The records with prepared rows."""
        return part

    def pieces(self, pieces: Sequence[Piece]) -> Sequence[Piece]:
        """The pieces, whose rows are prepared when they are loaded."""
        return pieces

    def carried(self, weights: Weights, before: "Prepared") -> Weights:  # noqa: ARG002
        """The weights whose margins equal those that `weights` had on rows prepared as before."""
        return weights

    def scaled(self, weights: Weights) -> Weights:
        """The weights of the features as they are scaled, shape (d, K)."""
        return weights.reshape(len(weights), -1)

    def undone(self, weights: Weights) -> tuple[Weights, Weights]:
        """The weights of features before all this, shape (d, K), and the intercepts, shape (K,)."""
        columns = weights.reshape(len(weights), -1)
        return columns, np.zeros(columns.shape[1])

    def feature_maps(self) -> list["CenterScale"]:
        """The same as transformers of scikit-learn, to be applied in order."""
        return []

    def entries(self) -> dict[str, Any]:
        """What a card says about it."""
        return {}


UNTRANSFORMED = Prepared()
"""Rows as they are."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Transform(Prepared):
    """Maps a row x to (scale * (x - center) @ mix, clipped to norm 1) and a constant column.

    Attributes:
        center: Subtracted from each row; all zero for sparse rows.
        scale: Multiplies each feature.
        mix: The matrix that makes features uncorrelated, on its lattice; empty if there is none.
    """

    CONSTANT: ClassVar[float] = 0.14999999105930328
    """The constant column: the largest float32 that is not above 0.15."""

    NORM: ClassVar[float] = 1.0111874208078344
    """The bound on the norm of every transformed row: sqrt(1.0225), rounded up."""

    added: ClassVar[int] = 1
    """The constant column; see `Prepared`."""

    center: Floats32
    scale: Floats32
    mix: Floats32 = field(default_factory=NO_MIX.copy)

    def __post_init__(self) -> None:
        for name in ("center", "scale"):
            values = getattr(self, name)
            good = values.dtype == np.float32 and values.ndim == 1 and np.isfinite(values).all()
            if not good or values.shape != self.center.shape or not values.size:
                raise refuse(name, "one finite float32 per feature", shown="something else")
        if not (self.scale > 0).all():
            raise refuse("scale", "above 0 for every feature", shown="another number")
        if self.mix.dtype != np.float32 or not mixes(self.mix, self.features):
            raise refuse("mix", "a small float32 matrix on its lattice", shown="something else")

    @classmethod
    def of(cls, center: NDArray[Any], scale: NDArray[Any], mix: NDArray[Any] = NO_MIX) -> Self:
        """The transform of these numbers, rounded to float32, and the matrix to its lattice."""
        return cls(
            center=center.astype(np.float32),
            scale=scale.astype(np.float32),
            mix=on_mix_lattice(mix).astype(np.float32),
        )

    @property
    def features(self) -> int:
        """Number of features before the constant column."""
        return int(self.center.size)

    @property
    def needs_dense_rows(self) -> bool:
        """Whether it makes zeros other numbers, so that it refuses sparse rows."""
        return bool(self.center.any() or self.mix.size)

    @property
    def stated(self) -> Self:
        """See `Prepared`."""
        return self

    def norm(self, before: float) -> float:
        """See `Prepared`."""
        del before
        return self.NORM

    def task(self, task: Any) -> Any:
        """See `Prepared`."""
        return task.centred()

    def suits(self, features: int) -> bool:
        """See `Prepared`."""
        return features == self.features

    def rows(self, X: Rows) -> Rows:
        """The transformed rows; each depends on its own row alone.

        >>> same = Transform.of(np.zeros(2), np.ones(2))
        >>> same.rows(np.array([[3.0, 4.0], [0.25, 0.5]])).round(3)
        array([[0.6 , 0.8 , 0.15],
               [0.25, 0.5 , 0.15]])
        """
        return centred_rows(X, self.center, self.scale, self.CONSTANT, self.mix)

    def feature_maps(self) -> list["CenterScale"]:
        """The transform as one transformer of scikit-learn."""
        mix = self.mix if self.mix.size else None
        numbers = {"center": self.center, "scale": self.scale, "mix": mix}
        return [maps.CenterScale(**numbers, constant=self.CONSTANT)]

    def records(self, part: Records) -> Records:
        """The records with transformed rows; an unusable slot is all zeros, also its constant."""
        return replace(part, X=zeroed(self.rows(part.X), ~part.usable))

    def pieces(self, pieces: Sequence[Piece]) -> Sequence[Piece]:
        """The pieces with transformed rows; those in memory are transformed now."""
        return [
            self.records(piece) if isinstance(piece, Records) else TransformedPiece(piece, self)
            for piece in pieces
        ]

    def carried(self, weights: Weights, before: Prepared) -> Weights:
        """The weights whose margins equal those that `weights` had after `before`.

        Only clipping makes a difference: it depends on the transform.

        Args:
            weights: Shape (d + 1,) or (d + 1, K); the last row belongs to the constant column.
            before: The transform that the weights were trained with.
        """
        earlier = before.stated
        if earlier is None:
            raise LookupError("an earlier model has no transform")
        columns = weights.reshape(len(weights), -1)
        effects = earlier._effects(columns)
        moved = (self.center.astype(np.float64) - earlier.center.astype(np.float64))[:, None]
        shift = [fsum(column) for column in (effects * moved).T.tolist()]
        result = np.empty_like(columns)
        scaled = effects / self.scale.astype(np.float64)[:, None]
        result[:-1] = solved(self.mix.astype(np.float64), scaled) if self.mix.size else scaled
        result[-1] = columns[-1] + np.array(shift) / self.CONSTANT
        return result.reshape(weights.shape)

    def _effects(self, columns: Weights) -> Weights:
        """The weights of the features before the transform."""
        return self.scaled(columns) * self.scale.astype(np.float64)[:, None]

    def scaled(self, weights: Weights) -> Weights:
        """The weights of the features after scaling and before mixing, shape (d, K).

        Args:
            weights: Shape (d + 1,) or (d + 1, K).
        """
        mixed = weights.reshape(len(weights), -1)[:-1]
        return product(self.mix.astype(np.float64), mixed) if self.mix.size else mixed

    def undone(self, weights: Weights) -> tuple[Weights, Weights]:
        """Weights and intercepts that give the same margins without the transform.

        Only clipping makes a difference.

        Args:
            weights: Shape (d + 1,) or (d + 1, K); the last row belongs to the constant column.

        Returns:
            The weights of features before the transform, shape (d, K), and the intercepts, shape
            (K,); K is 1 for weights of shape (d + 1,).

        >>> doubled = Transform.of(np.ones(1), np.full(1, 2.0))  # 2 (x - 1), and a constant of 0.15
        >>> weights, intercepts = doubled.undone(np.array([3.0, 10.0]))
        >>> weights, intercepts.round(6)
        (array([[6.]]), array([-4.5]))
        """
        columns = weights.reshape(len(weights), -1)
        effects = self._effects(columns)
        moved = effects * self.center.astype(np.float64)[:, None]
        shift = np.array([fsum(column) for column in moved.T.tolist()])
        return effects, self.CONSTANT * columns[-1] - shift

    def on_card(self) -> dict[str, Any]:
        """The transform as a JSON object; arrays are base64 of little-endian float32.

        A center that is 0 everywhere is None: for wide sparse rows it would be a megabyte.
        """
        return {
            "constant": self.CONSTANT,
            "norm": self.NORM,
            "center": _text(self.center) if self.center.view(np.uint32).any() else None,
            "scale": _text(self.scale),
            **({"mix": _text(self.mix)} if self.mix.size else {}),
        }

    def entries(self) -> dict[str, Any]:
        """See `Prepared`."""
        return {"transform": self.on_card()}

    @classmethod
    def of_card(cls, stated: Mapping[str, Any]) -> Self:
        """The transform that a card states.

        >>> same = Transform.of(np.zeros(2), np.ones(2))
        >>> Transform.of_card(same.on_card()).scale
        array([1., 1.], dtype=float32)
        >>> Transform.of_card({})
        Traceback (most recent call last):
        tidegate.checks.InvalidValueError: transform must be one that a release states, got damage
        """
        try:
            known = stated["constant"] == cls.CONSTANT and stated["norm"] == cls.NORM
            if known and {*stated} - {"mix"} == {"constant", "norm", "center", "scale"}:
                scale, center = _array(stated["scale"]), stated["center"]
                zero = np.zeros(scale.shape, np.float32)
                shape = (scale.size, scale.size) if "mix" in stated else NO_MIX.shape
                return cls(
                    center=zero if center is None else _array(center),
                    scale=scale,
                    mix=_array(stated.get("mix", "")).reshape(shape),
                )
        except (InvalidValueError, KeyError, TypeError, ValueError):
            pass
        raise refuse("transform", "one that a release states", shown="damage")


@dataclass(frozen=True)
class TransformedPiece(PieceOf):
    """A piece whose rows are transformed when it is loaded."""

    transform: Transform

    def load(self) -> Records:
        """See `Piece`."""
        return self.transform.records(self.piece.load())


def prepared_by(transform: Transform | None) -> Prepared:
    """What a release does to rows, given the transform that it states."""
    return transform or UNTRANSFORMED


def prepared_on_card(card: Mapping[str, Any]) -> Prepared:
    """What a release does to rows, as its card says."""
    return Transform.of_card(card["transform"]) if "transform" in card else UNTRANSFORMED


def _text(values: Floats32) -> str:
    return b64encode(values.astype("<f4").tobytes()).decode("ascii")


def _array(text: str) -> Floats32:
    return np.frombuffer(b64decode(text, validate=True), "<f4").astype(np.float32)
