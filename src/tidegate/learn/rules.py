"""The number of the public rules that sized a release: what its noise and its settings follow from.

Every card states the number, and `tidegate verify` recomputes a card under the rules of its number
alone. A state changes over to `RULES` at its next step; what it published before keeps verifying.
The guarantee is the same under all of them.

| rules | what changed |
|---|---|
| 1 | cards without a number |
| 2 | less noise: the exact sensitivity of scores of three or more classes, a tighter one of surveys
      under a pure budget, and gradients at the minimiser in place of any in `OutputPerturbation`;
      rates of descents of at most 1 over the curvature, and steps to match |
| 3 | surveys sum products of two features, and transforms decorrelate them |
"""

from collections.abc import Mapping
from typing import Any

from tidegate.checks import whole

RULES = 3
"""The rules that new releases follow."""

UNNUMBERED = 1
"""The rules of cards without a number."""

WITH_PAIRS = 3
"""The first rules under which surveys sum products of features."""


def rules_of(card: Mapping[str, Any]) -> int:
    """The number of the rules that a card states; a higher one belongs to a later version.

    >>> rules_of({}), rules_of({"rules": 2})
    (1, 2)
    """
    return whole("rules", card.get("rules", UNNUMBERED), most=RULES)
