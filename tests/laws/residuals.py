"""All that a fit, a refit or a score computes of single rows, on made-up rows; see the law."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, partial
from hashlib import sha256

import numpy as np

from tidegate.data.predicted import RESOLUTION
from tidegate.data.records import Records
from tidegate.learn import refit
from tidegate.learn.exact import Floats, exact_bits, exact_weights, lattice_bits
from tidegate.learn.gradient import clipped_residuals
from tidegate.learn.loss import Huber, HuberError, Logistic, Loss, Softmax, SquaredError
from tidegate.learn.private_accuracy import margins_of
from tidegate.learn.refit import Exact, Fold
from tidegate.learn.score_cells import Cells
from tidegate.learn.target_scores import exact_sums
from tidegate.privacy.budget import Allowance

D, NORM, CLIP = 23, 1.0, 0.3

LOSSES: list[Loss] = [
    Logistic(),
    Softmax(2),
    Softmax(3),
    Softmax(10),
    Huber(),
    SquaredError(),
    HuberError(),
]


def records_of(classes: int, n: int, *, target: bool = False) -> Records:
    """Rows of norm at most 1, from uniform numbers, which are the same on every machine."""
    rng = np.random.default_rng(classes)
    rows = rng.uniform(-1, 1, (n, D)) / 5
    usable = rng.random(n) < 0.9
    rows[~usable] = 0
    y = rng.integers(-(2**24), 2**24, n) if target else rng.integers(classes, size=n)
    return Records(rows, y, usable)


def part_of(loss: Loss, n: int) -> Exact:
    target = isinstance(loss, SquaredError | HuberError)
    records = records_of(max(loss.outputs, 2), n, target=target)
    return Exact.of(records, bits=lattice_bits(n, NORM, CLIP)[0])


def weights_of(loss: Loss, scale: float) -> Floats:
    return scale * np.random.default_rng(7).uniform(-1, 1, loss.shape(D))


@dataclass(frozen=True)
class Sums:
    """The clipped residuals of a part, at weights with exact margins."""

    loss: Loss
    weights: Floats

    def __call__(self, part: Exact) -> Floats:
        x_bits, e_bits = lattice_bits(100, NORM, CLIP)
        kept = exact_weights(self.weights, norm=NORM, bits=x_bits)
        found = clipped_residuals(part, w=kept, loss=self.loss, clip=CLIP, bits=e_bits)
        return np.ascontiguousarray(found)


@cache
def _refit_part(classes: int) -> Exact:
    rows = records_of(classes, 90)
    rows.X[:, -1] = np.where(rows.usable, 0.15, 0.0)
    return Exact.of(rows, bits=20)


def refit_sum(chosen: slice, *, classes: int, matrix: bool) -> Floats:
    """The exact sum of a refit over some rows."""
    rows, lengths, y, _, _ = _refit_part(classes)
    few = Exact(np.ascontiguousarray(rows[chosen]), lengths[chosen], y[chosen], None)
    loss: Loss = Softmax(classes) if matrix else Logistic()
    weights, box = exact_weights(weights_of(loss, 4.0), norm=1.1, bits=20), refit.Box(classes)
    bits = exact_bits(90, box.longest)
    return refit.summed(few, weights=weights, fold=Fold(0.3, -0.2), box=box, bits=bits)


def score_counts(chosen: slice, *, classes: int) -> Floats:
    """The counts and cells of scores over some rows."""
    records = records_of(classes, 90).take(chosen)
    shape = (D,) if classes == 2 else (D, classes)
    weights = 9 * np.random.default_rng(8).uniform(-1, 1, shape)
    margins = margins_of(weights, records, norm=NORM)
    layout = Cells.of(classes, 4096, Allowance("mu", 0.05))
    return np.concatenate(layout.count(margins, records.y, records.usable))


def target_sums(chosen: slice) -> Floats:
    """The sums and cells of a regression's scores over some rows, on the lattice of 90."""
    records = records_of(2, 90, target=True)
    margins = margins_of(np.random.default_rng(8).uniform(-2, 2, D), records, norm=NORM)
    truths = np.multiply(records.y, RESOLUTION, dtype=np.float64)
    usable = np.zeros(90, bool)
    usable[chosen] = records.usable[chosen]
    sums, cells = exact_sums(margins, truths, usable, parts=4)
    return np.concatenate([sums[:-1], cells])


WHOLE: dict[str, Callable[[slice], Floats]] = {
    "refit of two classes": partial(refit_sum, classes=2, matrix=False),
    "refit of two columns": partial(refit_sum, classes=2, matrix=True),
    "refit of five classes": partial(refit_sum, classes=5, matrix=True),
    "scores of two classes": partial(score_counts, classes=2),
    "scores of four classes": partial(score_counts, classes=4),
    "scores of a target": target_sums,
}


def everything() -> Iterator[tuple[str, Floats]]:
    """The name of everything that is computed, and its bits."""
    for loss in LOSSES:
        both = [Sums(loss, weights_of(loss, scale))(part_of(loss, 100)) for scale in (1.0, 60.0)]
        yield repr(loss), np.concatenate(both)
    for name, whole in WHOLE.items():
        yield name, whole(slice(0, 90))


def digest() -> str:
    """A digest of the bits of everything."""
    found = sha256()
    for name, values in everything():
        found.update(name.encode() + values.tobytes())
    return found.hexdigest()
