"""Matrix products without rounding, so that no record's features depend on other records."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, issparse

from tidegate.data.rows import Rows, entries_of, owners_of, row_exponents, with_entries


def exact_product(
    rows: Rows, whole: NDArray[np.float64] | csr_array, *, bits: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Multiply without rounding: rows @ whole as whole numbers and a power of two for each row.

    A BLAS chooses the order of additions by the shape of the batch, so the last bits of a row's
    product would depend on how many other rows there are. To prevent that, each row is first
    rounded to a lattice of its own, 2^-a of the power of two above its largest entry, with
    a = 53 - bits - log2(columns) rounded down. Every product and partial sum is then a whole number
    of lattice steps of size at most 2^53, which float64 adds exactly in any order: see
    docs/proofs/exact-products.md.

    Args:
        rows: shape (records, columns).
        whole: whole numbers of size at most 2^bits, shape (columns, features).
        bits: see `whole`.

    Returns:
        The product in lattice steps, shape (records, features), and the step of each row, shape
        (records, 1); the step of a row that is not finite is NaN.

    >>> steps, step = exact_product(np.array([[1.0, 0.25]]), np.array([[3.0], [-4.0]]), bits=2)
    >>> steps * step
    array([[2.]])
    """
    width = 53 - bits - (rows.shape[1] - 1).bit_length()
    exponents, finite = row_exponents(rows)
    grow = np.ldexp(1.0, width - exponents)
    owners = owners_of(rows)
    usable = np.where(finite[owners], entries_of(rows), 0.0)
    product: Any = with_entries(rows, np.rint(usable * grow[owners])) @ whole
    step = np.where(finite, np.ldexp(1.0, exponents - width), np.nan)
    steps = product.toarray() if issparse(product) else product
    return steps + 0.0, step[:, None]  # + 0.0: zeros may sum to -0.0 in some orders only
